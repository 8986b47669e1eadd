//! `sluicegate keys`, `inspect` and `reset`: which counters there are, and one of them by its limit and the parts of its key.

use clap::Args;
use serde_json::Value;

use crate::admin_args::{AdminArgs, ChangeArgs, micros, number, text};
use crate::admin_client::{encoded, path_of};

#[derive(Args)]
pub struct Keys {
    /// Counters of this limit; of all of them if nothing is said.
    limit: Option<String>,
    /// Only those with this text anywhere in their key.
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// At most so many.
    #[arg(short, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    n: u16,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Keys {
    pub fn run(&self) -> u8 {
        self.admin.ask(|remote| remote.get(&self.question()), found)
    }

    fn question(&self) -> String {
        let filters = [("limit", &self.limit), ("contains", &self.contains)];
        let filters = filters
            .into_iter()
            .filter_map(|(name, value)| Some(format!("&{name}={}", encoded(value.as_deref()?))));
        format!("/v1/keys?n={}{}", self.n, filters.collect::<String>())
    }
}

/// A key a line, as they are; what else there is to know goes beside it.
fn found(answer: &Value) -> String {
    let keys = answer["keys"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if answer["from"] == "sketch" {
        eprintln!(
            "sluicegate: the store is in that process and keeps no names; these are the busiest callers"
        );
    } else if answer["all"] != true {
        eprintln!(
            "sluicegate: {} names were looked at, and there may be more keys",
            number(&answer["looked_at"])
        );
    }
    keys.iter()
        .map(|key| format!("{}\n", text(&key["text"])))
        .collect()
}

/// Which counter.
#[derive(Args)]
pub struct Key {
    /// The name of the limit.
    limit: String,
    /// Each part of the key, in the limit's order.
    #[arg(value_name = "PART")]
    parts: Vec<String>,
}

impl Key {
    fn path(&self) -> String {
        path_of(
            "/v1/keys",
            std::iter::once(&self.limit)
                .chain(&self.parts)
                .map(String::as_str),
        )
    }
}

#[derive(Args)]
pub struct Inspect {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Inspect {
    pub fn run(&self) -> u8 {
        self.admin
            .ask(|remote| remote.get(&self.key.path()), counter)
    }
}

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
    pub fn run(&self) -> u8 {
        let in_words = |answer: &Value| {
            format!(
                "{}: forgotten; the next request meets a full one\n",
                text(&answer["text"])
            )
        };
        self.admin.ask(
            |remote| remote.delete(&self.key.path(), Some(&self.change.signed())),
            in_words,
        )
    }
}

/// The state of a counter, a fact a line.
fn counter(state: &Value) -> String {
    let full = match number(&state["reset_after_us"]) {
        0 => "now".to_owned(),
        wait => format!("in {}", micros(wait)),
    };
    let order = &state["override"];
    let replaced = if order.is_object() {
        let grants = if order["unlimited"] == true {
            "unlimited".to_owned()
        } else {
            text(&order["quota"])
        };
        format!(
            "{grants} until {} by {}: {}",
            text(&order["until"]),
            text(&order["by"]),
            text(&order["reason"])
        )
    } else {
        "none".to_owned()
    };
    let mut said = format!("{}\n", text(&state["text"]));
    let left = format!(
        "{} of {}",
        number(&state["remaining"]),
        number(&state["capacity"])
    );
    let facts = if state["capacity"].is_null() {
        vec![("quota", "unlimited".to_owned()), ("override", replaced)]
    } else {
        vec![
            ("quota", text(&state["quota"])),
            ("left", left),
            ("full again", full),
            ("override", replaced),
        ]
    };
    for (name, value) in facts {
        said.push_str(&format!("  {name:<11} {value}\n"));
    }
    if state["is_degraded"] == true {
        said.push_str("  the store is away: this is what that replica knows\n");
    }
    said
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_counter_is_told_a_fact_a_line() {
        let state = json!({ "text": "per-client:203.0.113.7", "quota": "10 per 1 s, at most 20 at once", "capacity": 20,
            "remaining": 3, "reset_after_us": 1_700_000, "is_degraded": false, "override": null });
        let words = "per-client:203.0.113.7\n  quota       10 per 1 s, at most 20 at once\n  left        3 of 20\n  \
                     full again  in 1.7 s\n  override    none\n";
        assert_eq!(counter(&state), words);
    }

    #[test]
    fn an_override_and_a_store_that_is_away_are_told_too() {
        let order = json!({ "unlimited": true, "quota": null, "until": "2026-01-01T00:00:00Z", "by": "ann", "reason": "a\u{7}b" });
        let words = counter(&json!({ "text": "x", "override": order, "is_degraded": true }));
        assert!(
            words.contains("unlimited until 2026-01-01T00:00:00Z by ann: a\\u{7}b"),
            "{words}"
        );
        assert!(
            words.contains("the store is away") && words.contains("quota       unlimited"),
            "{words}"
        );
    }

    #[derive(Parser)]
    struct KeysLine {
        #[command(flatten)]
        keys: Keys,
    }

    #[test]
    fn a_search_says_what_is_wanted() {
        let question = |words: &[&str]| {
            let line = KeysLine::try_parse_from(std::iter::once(&"x").chain(words))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(line.keys.question())
        };
        assert_eq!(question(&[]).unwrap(), "/v1/keys?n=100");
        assert_eq!(
            question(&["a", "--contains", "x&y", "-n", "5"]).unwrap(),
            "/v1/keys?n=5&limit=a&contains=x%26y"
        );
        assert!(question(&["-n", "0"]).is_err() && question(&["-n", "1001"]).is_err());
        let answer = json!({ "keys": [{ "text": "a:\u{1b}x" }, { "text": "a:b" }], "from": "store", "looked_at": 2, "all": true });
        assert_eq!(found(&answer), "a:\\u{1b}x\na:b\n");
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
