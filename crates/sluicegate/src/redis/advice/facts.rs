//! Facts of a server: its replies to `INFO` and `CONFIG GET`.
//!
//! `rules` judges them. A user may be forbidden either command, so each group may be missing.

use std::collections::HashMap;

use crate::redis::dial::{Dialer, NodeConnection, dial};
use crate::redis::endpoint::Endpoint;
use crate::redis::probe;
use crate::redis::wire::Reply;

/// The facts of one server.
#[derive(Debug, Default)]
pub(super) struct ServerFacts {
    /// The fields of `INFO`; `None` when the user may not run it.
    info: Option<HashMap<String, String>>,
    /// The settings in [`SETTINGS`]; `None` when the user may not run `CONFIG GET`.
    settings: Option<HashMap<String, String>>,
}

/// Every setting that a rule looks at. Never `*`, which would include passwords.
const SETTINGS: [&str; 7] = [
    "maxmemory",
    "maxmemory-policy",
    "save",
    "appendonly",
    "min-replicas-to-write",
    "cluster-require-full-coverage",
    "timeout",
];

impl ServerFacts {
    /// Asks over a new connection. An error means that the node could not be reached.
    pub(super) async fn ask(node: &Endpoint, dialer: &Dialer) -> Result<Self, String> {
        let mut connection = dial(node, dialer)
            .await
            .map_err(|error| error.to_string())?;
        let at_node = |why: String| format!("{node}: {why}");
        let info = match probe::query(&mut connection, &[b"INFO"])
            .await
            .map_err(at_node)?
        {
            Reply::Bulk(text) => Some(fields(&String::from_utf8_lossy(&text))),
            _ => None,
        };
        Ok(Self {
            info,
            settings: settings(&mut connection).await.map_err(at_node)?,
        })
    }

    /// The value of a field of `INFO`.
    pub(super) fn info(&self, field: &str) -> Option<&str> {
        self.info.as_ref()?.get(field).map(String::as_str)
    }

    /// The value of a setting.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref()?.get(name).map(String::as_str)
    }

    /// Returns true when `INFO` was answered.
    pub(super) fn has_info(&self) -> bool {
        self.info.is_some()
    }

    /// Returns true when `CONFIG GET` was answered.
    pub(super) fn has_settings(&self) -> bool {
        self.settings.is_some()
    }
}

/// Asks for one setting at a time: servers before 7.0 accept no more in one command.
async fn settings(
    connection: &mut NodeConnection,
) -> Result<Option<HashMap<String, String>>, String> {
    let mut settings = HashMap::new();
    for name in SETTINGS {
        let Reply::Array(pair) =
            probe::query(connection, &[b"CONFIG", b"GET", name.as_bytes()]).await?
        else {
            // Forbidden, renamed, or removed by a hosting provider.
            return Ok(None);
        };
        if let [Reply::Bulk(_), Reply::Bulk(value)] = pair.as_slice() {
            settings.insert(name.to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
    Ok(Some(settings))
}

/// The `name:value` lines of `INFO`.
fn fields(info: &str) -> HashMap<String, String> {
    let fields = info
        .lines()
        .filter_map(|line| line.trim_end().split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
impl ServerFacts {
    /// Facts of a test: the text of `INFO`, and settings if they may be seen.
    pub(super) fn of(info: Option<&str>, settings: Option<&[(&str, &str)]>) -> Self {
        let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        Self {
            info: info.map(fields),
            settings: settings.map(|pairs| pairs.iter().map(owned).collect()),
        }
    }
}
