//! `sluicegate keys`, `inspect` and `reset`: list the counters, show one, delete one. A counter is named by
//! its limit and the parts of its key.

use clap::Args;
use serde_json::Value;

use crate::admin_args::{AdminArgs, ChangeArgs, micros, number, text};
use crate::admin_client::{encoded, path_of};

/// Arguments of `sluicegate keys`.
#[derive(Args)]
pub struct Keys {
    /// Name of a limit [default: all limits]
    limit: Option<String>,
    /// Only keys that contain this text
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Largest number of keys to print
    #[arg(short, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    n: u16,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Keys {
    pub fn run(&self) -> u8 {
        self.admin
            .run(|client| client.get(&self.query_path()), key_lines)
    }

    /// Path and query of the request.
    fn query_path(&self) -> String {
        let filters = [("limit", &self.limit), ("contains", &self.contains)];
        let filters = filters
            .into_iter()
            .filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_deref()?))));
        format!("/v1/keys?n={}{}", self.n, filters.collect::<String>())
    }
}

/// One key per line. Notes go to standard error, so that a script reads keys only.
fn key_lines(response: &Value) -> String {
    let keys = response["keys"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if response["from"] == "sketch" {
        eprintln!(
            "sluicegate: the local store does not keep the names of its keys; these are the busiest ones"
        );
    } else if response["all"] != true {
        eprintln!(
            "sluicegate: stopped after {} names; there may be more keys",
            number(&response["looked_at"])
        );
    }
    keys.iter()
        .map(|key| format!("{}\n", text(&key["text"])))
        .collect()
}

/// Name of one counter.
#[derive(Args)]
pub struct Key {
    /// Name of the limit
    limit: String,
    /// Parts of the key, in the order of the limit's `key`
    #[arg(value_name = "PART")]
    parts: Vec<String>,
}

impl Key {
    /// Path of the counter in the admin API.
    fn path(&self) -> String {
        path_of(
            "/v1/keys",
            std::iter::once(&self.limit)
                .chain(&self.parts)
                .map(String::as_str),
        )
    }
}

/// Arguments of `sluicegate inspect`.
#[derive(Args)]
pub struct Inspect {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Inspect {
    /// Reads the counter. Nothing is charged.
    pub fn run(&self) -> u8 {
        self.admin
            .run(|client| client.get(&self.key.path()), counter_lines)
    }
}

/// Arguments of `sluicegate reset`.
#[derive(Args)]
pub struct Reset {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Reset {
    /// Deletes the counter on all replicas.
    pub fn run(&self) -> u8 {
        let as_text = |response: &Value| {
            format!(
                "{}: reset; the next request starts with a full quota\n",
                text(&response["text"])
            )
        };
        self.admin.run(
            |client| client.delete(&self.key.path(), Some(&self.change.to_json())),
            as_text,
        )
    }
}

/// The state of a counter, one fact per line.
fn counter_lines(state: &Value) -> String {
    let full = match number(&state["reset_after_us"]) {
        0 => "now".to_owned(),
        wait => format!("in {}", micros(wait)),
    };
    let active = &state["override"];
    let override_text = if active.is_object() {
        let quota = if active["unlimited"] == true {
            "unlimited".to_owned()
        } else {
            text(&active["quota"])
        };
        format!(
            "{quota} until {} by {}: {}",
            text(&active["until"]),
            text(&active["by"]),
            text(&active["reason"])
        )
    } else {
        "none".to_owned()
    };
    let mut lines = format!("{}\n", text(&state["text"]));
    // An unlimited counter has no capacity, and so nothing is left or refilled.
    let left = format!(
        "{} of {}",
        number(&state["remaining"]),
        number(&state["capacity"])
    );
    let facts = if state["capacity"].is_null() {
        vec![
            ("quota", "unlimited".to_owned()),
            ("override", override_text),
        ]
    } else {
        vec![
            ("quota", text(&state["quota"])),
            ("left", left),
            ("full again", full),
            ("override", override_text),
        ]
    };
    for (name, value) in facts {
        lines.push_str(&format!("  {name:<11} {value}\n"));
    }
    if state["is_degraded"] == true {
        lines.push_str("  the store is unavailable: these numbers are this replica's own\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_counter_is_printed_one_fact_per_line() {
        let state = json!({ "text": "per-client:203.0.113.7", "quota": "10 per 1 s, at most 20 at once", "capacity": 20,
            "remaining": 3, "reset_after_us": 1_700_000, "is_degraded": false, "override": null });
        let words = "per-client:203.0.113.7\n  quota       10 per 1 s, at most 20 at once\n  left        3 of 20\n  \
                     full again  in 1.7 s\n  override    none\n";
        assert_eq!(counter_lines(&state), words);
    }

    #[test]
    fn an_override_and_an_unavailable_store_are_printed_too() {
        let order = json!({ "unlimited": true, "quota": null, "until": "2026-01-01T00:00:00Z", "by": "ann", "reason": "a\u{7}b" });
        let words = counter_lines(&json!({ "text": "x", "override": order, "is_degraded": true }));
        assert!(
            words.contains("unlimited until 2026-01-01T00:00:00Z by ann: a\\u{7}b"),
            "{words}"
        );
        assert!(
            words.contains("the store is unavailable") && words.contains("quota       unlimited"),
            "{words}"
        );
    }

    #[derive(Parser)]
    struct KeysLine {
        #[command(flatten)]
        keys: Keys,
    }

    #[test]
    fn a_search_has_its_filters_in_the_query() {
        let query = |words: &[&str]| {
            let line = KeysLine::try_parse_from(std::iter::once(&"x").chain(words))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(line.keys.query_path())
        };
        assert_eq!(query(&[]).unwrap(), "/v1/keys?n=100");
        assert_eq!(
            query(&["a", "--contains", "x&y", "-n", "5"]).unwrap(),
            "/v1/keys?n=5&limit=a&contains=x%26y"
        );
        assert!(query(&["-n", "0"]).is_err() && query(&["-n", "1001"]).is_err());
        let response = json!({ "keys": [{ "text": "a:\u{1b}x" }, { "text": "a:b" }], "from": "store", "looked_at": 2, "all": true });
        assert_eq!(key_lines(&response), "a:\\u{1b}x\na:b\n");
    }

    #[test]
    fn the_parts_of_a_key_stay_apart_in_its_path() {
        let key = Key {
            limit: "tenant".to_owned(),
            parts: vec!["a/b".to_owned(), "..".to_owned()],
        };
        assert_eq!(key.path(), "/v1/keys/tenant/a%2Fb/%2E%2E");
    }
}
