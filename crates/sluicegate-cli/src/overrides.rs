//! `sluicegate ban` and `sluicegate override`: changes that hold on all replicas for a limited time.
//!
//! Both create, list (`--list`) and end (`--end ID`); the admin API calls them orders.

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::admin_args::{AdminArgs, AuthorArg, text};
use crate::admin_client::path_of;

/// Options of both commands.
#[derive(Args)]
struct OrderArgs {
    /// How long it lasts, such as 30m, 1h30m or 7d
    #[arg(long = "for", value_name = "TIME", required_unless_present_any = ["list", "end"])]
    duration: Option<String>,
    /// Reason, shown in the list and written to the audit log
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["list", "end"])]
    reason: Option<String>,
    #[command(flatten)]
    author: AuthorArg,
    /// List those in force instead
    #[arg(long)]
    list: bool,
    /// End the one with this id, as shown by --list
    #[arg(long, value_name = "ID")]
    end: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

impl OrderArgs {
    /// Lists, ends, or creates one by a POST to this path.
    fn run(&self, kind: &str, path: &str, order: Value) -> u8 {
        if self.list {
            let of_this_kind = |response: Value| {
                let orders = response["orders"].as_array().cloned().unwrap_or_default();
                Value::from(
                    orders
                        .into_iter()
                        .filter(|order| order["kind"] == kind)
                        .collect::<Vec<_>>(),
                )
            };
            let as_text = |orders: &Value| list(orders, kind);
            return self
                .admin
                .run(|client| client.get("/v1/orders").map(of_this_kind), as_text);
        }
        // An id is unique among bans and overrides, so one path ends both.
        if let Some(id) = &self.end {
            let path = path_of("/v1/orders", [id.as_str()]);
            let body = self.body(json!({}));
            let as_text = |_: &Value| format!("{}: ended\n", crate::sanitize::sanitize(id));
            return self
                .admin
                .run(|client| client.delete(&path, Some(&body)), as_text);
        }
        let body = self.body(order);
        self.admin.run(
            |client| client.post(path, &body),
            |order| format!("in force: {}", line(order)),
        )
    }

    /// Adds the author, and the reason and the duration if given.
    fn body(&self, mut body: Value) -> Value {
        body["by"] = Value::from(self.author.by.as_str());
        for (name, value) in [("reason", &self.reason), ("for", &self.duration)] {
            if let Some(value) = value {
                body[name] = Value::from(value.as_str());
            }
        }
        body
    }
}

/// Arguments of `sluicegate ban`.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["address", "principal", "list", "end"])))]
pub struct Ban {
    /// Client address or network to ban
    #[arg(value_name = "ADDRESS[/PREFIX]")]
    address: Option<String>,
    /// Principal to ban instead of an address
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    #[command(flatten)]
    options: OrderArgs,
}

impl Ban {
    /// Creates, lists or ends bans.
    pub fn run(&self) -> u8 {
        let target = match (&self.address, &self.principal) {
            (Some(address), _) => json!({ "client_ip": address }),
            (None, Some(principal)) => json!({ "principal": principal }),
            (None, None) => json!({}),
        };
        self.options.run("ban", "/v1/bans", target)
    }
}

/// Arguments of `sluicegate override`.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["limit", "list", "end"])))]
#[command(group(ArgGroup::new("quota").args(["rate", "unlimited"])))]
pub struct Override {
    /// Name of the limit
    #[arg(requires = "quota")]
    limit: Option<String>,
    /// Parts of the key, in the order of the limit's `key` [default: all keys of the limit]
    #[arg(value_name = "PART")]
    parts: Vec<String>,
    /// Rate to allow instead, such as 100/s
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Burst to allow [default: the number in --rate]
    #[arg(
        long,
        value_name = "N",
        requires = "rate",
        conflicts_with = "unlimited"
    )]
    burst: Option<u32>,
    /// Allow everything
    #[arg(long)]
    unlimited: bool,
    #[command(flatten)]
    options: OrderArgs,
}

impl Override {
    /// Creates, lists or ends overrides.
    pub fn run(&self) -> u8 {
        self.options.run("override", "/v1/overrides", self.order())
    }

    /// The limit, the key and the quota, as the admin API expects them.
    fn order(&self) -> Value {
        let mut order = json!({});
        if let Some(limit) = &self.limit {
            order["limit"] = Value::from(limit.as_str());
        }
        if !self.parts.is_empty() {
            order["key"] = json!(self.parts);
        }
        if self.unlimited {
            order["unlimited"] = Value::Bool(true);
        }
        if let Some(rate) = &self.rate {
            order["rate"] = Value::from(rate.as_str());
        }
        if let Some(burst) = self.burst {
            order["burst"] = Value::from(burst);
        }
        order
    }
}

/// One line each, or a sentence when there are none.
fn list(orders: &Value, kind: &str) -> String {
    match orders.as_array() {
        Some(orders) if !orders.is_empty() => orders.iter().map(line).collect(),
        _ => format!("no {kind} is in force\n"),
    }
}

/// One ban or override: its id, target, quota, end, author and reason.
pub fn line(order: &Value) -> String {
    let effect = match order["kind"].as_str() {
        Some("ban") => "refused".to_owned(),
        _ if order["unlimited"] == true => "unlimited".to_owned(),
        _ => text(&order["quota"]),
    };
    let [id, what, until, by, reason] =
        ["id", "what", "until", "by", "reason"].map(|name| text(&order[name]));
    format!("{id}  {what}: {effect} until {until}, by {by}: {reason}\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct BanLine {
        #[command(flatten)]
        ban: Ban,
    }

    #[derive(Parser)]
    struct OverrideLine {
        #[command(flatten)]
        order: Override,
    }

    fn overrides(line: &str) -> Result<Value, String> {
        let words = std::iter::once("x").chain(line.split(' '));
        let parsed = OverrideLine::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(parsed.order.options.body(parsed.order.order()))
    }

    #[test]
    fn an_override_is_sent_as_it_was_written() {
        let sent = overrides(
            "per-client 203.0.113.7 --rate 100/s --burst 200 --for 1h --reason move --by ann",
        )
        .unwrap();
        let wanted = json!({ "limit": "per-client", "key": ["203.0.113.7"], "rate": "100/s", "burst": 200,
            "for": "1h", "reason": "move", "by": "ann" });
        assert_eq!(sent, wanted);
        let sent = overrides("per-client --unlimited --for 1h --reason move --by ann").unwrap();
        assert_eq!(
            sent,
            json!({ "limit": "per-client", "unlimited": true, "for": "1h", "reason": "move", "by": "ann" })
        );
    }

    #[test]
    fn an_incomplete_ban_or_override_is_a_usage_error() {
        for wrong in [
            "per-client --for 1h --reason x",
            "per-client --rate 1/s --reason x",
            "per-client --rate 1/s --for 1h",
            "per-client --rate 1/s --unlimited --for 1h --reason x",
            "per-client --unlimited --burst 2 --for 1h --reason x",
            "--rate 1/s --for 1h --reason x",
            "per-client --list",
        ] {
            assert!(overrides(wrong).is_err(), "{wrong}");
        }
        let ban = |line: &str| {
            BanLine::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))
        };
        for wrong in [
            "",
            "203.0.113.7",
            "203.0.113.7 --for 1h",
            "203.0.113.7 --principal ann --for 1h --reason x",
            "--for 1h --reason x",
        ] {
            assert!(ban(wrong).is_err(), "{wrong}");
        }
        for good in [
            "203.0.113.0/24 --for 1h --reason x",
            "--principal ann --for 1h --reason x",
            "--list",
            "--end b-1",
        ] {
            assert!(ban(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn bans_are_listed_with_author_and_reason_and_without_control_characters() {
        let order = json!({ "id": "b-1", "kind": "ban", "what": "client_ip 203.0.113.0/24", "until": "2026-01-01T00:00:00Z",
            "by": "ann", "reason": "scraping\u{1b}[2J" });
        let wanted = "b-1  client_ip 203.0.113.0/24: refused until 2026-01-01T00:00:00Z, by ann: scraping\\u{1b}[2J\n";
        assert_eq!(list(&json!([order]), "ban"), wanted);
        assert_eq!(list(&json!([]), "override"), "no override is in force\n");
    }
}
