//! Finds the mistakes in options before anything is dialled.
//!
//! All mistakes are reported at once, each with the name that its field has in the configuration
//! file, so that an operator corrects them in one go. Files are not read here; `dial/tls.rs` does.

use std::collections::HashSet;

use rustls::pki_types::ServerName;
use sluicegate_core::{KeyLayout, Nanos};

use super::options::{RedisMode, RedisOptions};
use super::options_error::{MistakeList, OptionsError};
use super::recovery::Recovery;
use super::secret::Credentials;

impl RedisOptions {
    /// Checks the options. The error names every mistake, not only the first.
    ///
    /// ```
    /// use sluicegate::{Nanos, RedisOptions};
    ///
    /// let mut options = RedisOptions::standalone("rl-0".parse().unwrap());
    /// options.deadline = Nanos::from_secs(61);
    /// let error = options.validate().unwrap_err();
    /// assert_eq!(error.to_string(), "store.deadline: must be from 1ms to 60s (got 61s)");
    /// ```
    pub fn validate(&self) -> Result<(), OptionsError> {
        validate(self)
    }
}

fn validate(options: &RedisOptions) -> Result<(), OptionsError> {
    let mut mistakes = MistakeList::default();
    check_endpoints(options, &mut mistakes);
    check_mode(options, &mut mistakes);
    check_credentials("store.redis", &options.credentials, &mut mistakes);
    check_span("store.deadline", options.deadline, &mut mistakes);
    check_span(
        "store.redis.connect_timeout",
        options.connect_timeout,
        &mut mistakes,
    );
    check_recovery(options.recovery, &mut mistakes);
    check_prefix(&options.key_prefix, &mut mistakes);
    let server_name = options
        .tls
        .as_ref()
        .and_then(|tls| tls.server_name.as_deref());
    if server_name.is_some_and(|name| ServerName::try_from(name).is_err()) {
        mistakes.push(
            "store.redis.tls.server_name",
            "must be a DNS name or an address",
        );
    }
    mistakes.into_result()
}

/// There is a server, none is named twice, and a standalone server is one.
fn check_endpoints(options: &RedisOptions, mistakes: &mut MistakeList) {
    const FIELD: &str = "store.redis.endpoints";
    let endpoints = &options.endpoints;
    if endpoints.is_empty() {
        mistakes.push(FIELD, "must name at least one host:port");
    }
    if matches!(options.mode, RedisMode::Standalone) && endpoints.len() > 1 {
        let what = format!(
            "must name one server in mode standalone (got {})",
            endpoints.len()
        );
        mistakes.push(FIELD, what);
    }
    let mut seen = HashSet::new();
    for endpoint in endpoints.iter().filter(|endpoint| !seen.insert(*endpoint)) {
        mistakes.push(FIELD, format!("{endpoint} is named twice"));
    }
}

/// Options that fit one mode only.
fn check_mode(options: &RedisOptions, mistakes: &mut MistakeList) {
    match &options.mode {
        RedisMode::Standalone | RedisMode::Replication => {}
        RedisMode::Cluster if options.database == 0 => {}
        RedisMode::Cluster => {
            let what = format!("a cluster has only database 0 (got {})", options.database);
            mistakes.push("store.redis.database", what);
        }
        RedisMode::Sentinel {
            master,
            credentials,
        } => {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if master.is_empty() || !master.bytes().all(is_name) {
                let what = "must be the name the sentinels know: letters, digits, '.', '-' and '_'";
                mistakes.push("store.redis.master", what);
            }
            check_credentials("store.redis.sentinel", credentials, mistakes);
        }
    }
}

/// A user needs a password, and empty text means a forgotten value.
fn check_credentials(section: &str, credentials: &Credentials, mistakes: &mut MistakeList) {
    match (&credentials.username, &credentials.password) {
        (Some(name), _) if name.is_empty() => mistakes.push(
            &format!("{section}.username"),
            "must not be empty (leave it out)",
        ),
        (Some(_), None) => mistakes.push(&format!("{section}.username"), "needs a password"),
        _ => {}
    }
    if credentials
        .password
        .as_ref()
        .is_some_and(|password| password.is_empty())
    {
        mistakes.push(
            &format!("{section}.password"),
            "must not be empty (leave it out)",
        );
    }
}

/// Checks the range of a timeout.
fn check_span(field: &str, span: Nanos, mistakes: &mut MistakeList) {
    if !(Nanos::MILLISECOND..=Nanos::MINUTE).contains(&span) {
        mistakes.push(field, format!("must be from 1ms to 60s (got {span})"));
    }
}

/// The delays grow from base to cap, and the cap stays within an hour.
fn check_recovery(recovery: Recovery, mistakes: &mut MistakeList) {
    let Recovery { base, cap } = recovery;
    if base < Nanos::MILLISECOND {
        mistakes.push(
            "store.recovery.base",
            format!("must be at least 1ms (got {base})"),
        );
    }
    if base > cap {
        mistakes.push(
            "store.recovery.base",
            format!("must be at most the cap of {cap} (got {base})"),
        );
    }
    if cap > Nanos::HOUR {
        mistakes.push(
            "store.recovery.cap",
            format!("must be at most 1h (got {cap})"),
        );
    }
}

/// The prefix is short, visible, and does not interfere with cluster slots.
fn check_prefix(prefix: &str, mistakes: &mut MistakeList) {
    const FIELD: &str = "store.key_prefix";
    if prefix.is_empty() {
        mistakes.push(FIELD, "must not be empty");
    }
    if prefix.len() > KeyLayout::PREFIX_MAX {
        let what = format!(
            "must have at most {} bytes (got {})",
            KeyLayout::PREFIX_MAX,
            prefix.len()
        );
        mistakes.push(FIELD, what);
    }
    // Braces would be a hash tag and put every key into the same slot.
    let is_plain = |letter: char| letter.is_ascii_graphic() && !"{}".contains(letter);
    if let Some(odd) = prefix.chars().find(|letter| !is_plain(*letter)) {
        mistakes.push(
            FIELD,
            format!("must be visible ASCII without braces (got {odd:?})"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Endpoint, Secret, TlsOptions};
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    fn only_mistake(options: &RedisOptions) -> String {
        let error = options.validate().unwrap_err();
        assert_eq!(error.mistakes().len(), 1, "{error}");
        error.to_string()
    }

    fn changed(change: impl FnOnce(&mut RedisOptions)) -> String {
        let mut options = RedisOptions::standalone(endpoint("rl-0"));
        options.validate().unwrap();
        change(&mut options);
        only_mistake(&options)
    }

    /// Each message begins with the text beside it.
    fn assert_each<const N: usize>(messages: [(String, &str); N]) {
        for (message, begins) in messages {
            assert!(message.starts_with(begins), "{message}");
        }
    }

    #[test]
    fn each_mistake_is_named_by_its_field() {
        assert_each([
            (
                changed(|o| o.endpoints.clear()),
                "store.redis.endpoints: must name at least one host:port",
            ),
            (
                changed(|o| o.endpoints.push(endpoint("b"))),
                "store.redis.endpoints: must name one server",
            ),
            (
                changed(|o| o.deadline = Nanos::new(999_999)),
                "store.deadline: must be from 1ms to 60s (got 999999ns)",
            ),
            (
                changed(|o| o.deadline = Nanos::from_secs(61)),
                "store.deadline: must be from 1ms to 60s (got 61s)",
            ),
            (
                changed(|o| o.connect_timeout = Nanos::ZERO),
                "store.redis.connect_timeout: must be from 1ms",
            ),
            (
                changed(|o| o.recovery.base = Nanos::ZERO),
                "store.recovery.base: must be at least 1ms (got 0s)",
            ),
            (
                changed(|o| o.recovery.base = Nanos::from_secs(2)),
                "store.recovery.base: must be at most the cap of 1s",
            ),
            (
                changed(|o| o.recovery.cap = Nanos::DAY),
                "store.recovery.cap: must be at most 1h (got 1d)",
            ),
        ]);
    }

    #[test]
    fn mistakes_in_prefix_credentials_and_tls_are_named_by_their_field() {
        assert_each([
            (
                changed(|o| o.key_prefix.clear()),
                "store.key_prefix: must not be empty",
            ),
            (
                changed(|o| o.key_prefix = "p".repeat(65)),
                "store.key_prefix: must have at most 64 bytes (got 65)",
            ),
            (
                changed(|o| o.credentials.username = Some("ann".into())),
                "store.redis.username: needs a password",
            ),
            (
                changed(|o| o.credentials.password = Some(Secret::new(""))),
                "store.redis.password: must not be empty",
            ),
            (
                changed(|o| {
                    o.tls = Some(TlsOptions {
                        server_name: Some("a b".into()),
                        ..TlsOptions::default()
                    })
                }),
                "store.redis.tls.server_name: must be a DNS name or an address",
            ),
        ]);
        for odd in ["a{b", "a}b", "a b", "a\nb", "é", "\u{7f}"] {
            let message = changed(|o| o.key_prefix = odd.to_owned());
            assert!(
                message.starts_with("store.key_prefix: must be visible ASCII without braces"),
                "{message}"
            );
        }
    }

    #[test]
    fn modes_have_rules_of_their_own() {
        let mut cluster = RedisOptions::cluster([endpoint("a"), endpoint("b")]);
        cluster.validate().unwrap();
        cluster.database = 1;
        assert_eq!(
            only_mistake(&cluster),
            "store.redis.database: a cluster has only database 0 (got 1)"
        );
        for master in ["", "my master", "a@b"] {
            let message = only_mistake(&RedisOptions::sentinel([endpoint("a")], master));
            assert!(message.starts_with("store.redis.master: "), "{message}");
        }
        let twice = RedisOptions::replication([endpoint("a"), endpoint("a:6379")]);
        assert_eq!(
            only_mistake(&twice),
            "store.redis.endpoints: a:6379 is named twice"
        );
        assert_eq!(
            RedisOptions::sentinel([endpoint("a")], "m").endpoints,
            [Endpoint::new("a", 26_379)]
        );
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let mut options = RedisOptions::cluster([]);
        options.database = 3;
        options.deadline = Nanos::ZERO;
        options.key_prefix = "{}".into();
        assert_eq!(options.validate().unwrap_err().mistakes().len(), 4);
    }
}
