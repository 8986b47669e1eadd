//! `sluicegate ban` and `sluicegate override`: orders that hold on all replicas for a time.

use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::admin_args::{AdminArgs, AuthorArg, text};
use crate::admin_client::path_of;

/// What both kinds of order have in common.
#[derive(Args)]
struct Terms {
    /// How long it holds: 30m, 1h, 7d.
    #[arg(long = "for", value_name = "TIME", required_unless_present_any = ["list", "end"])]
    duration: Option<String>,
    /// Why; shown with the order and written to the audit log.
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["list", "end"])]
    reason: Option<String>,
    #[command(flatten)]
    by: AuthorArg,
    /// Show the orders of this kind that are in force.
    #[arg(long)]
    list: bool,
    /// End an order before its time.
    #[arg(long, value_name = "ID")]
    end: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Terms {
    /// Lists, ends, or sends a new order to this path.
    fn run(&self, kind: &str, path: &str, order: Value) -> u8 {
        if self.list {
            let only = |answer: Value| {
                let orders = answer["orders"].as_array().cloned().unwrap_or_default();
                Value::from(
                    orders
                        .into_iter()
                        .filter(|order| order["kind"] == kind)
                        .collect::<Vec<_>>(),
                )
            };
            let in_words = |orders: &Value| list(orders, kind);
            return self
                .admin
                .ask(|remote| remote.get("/v1/orders").map(only), in_words);
        }
        if let Some(id) = &self.end {
            let path = path_of("/v1/orders", [id.as_str()]);
            let body = self.signed(json!({}));
            let in_words = |_: &Value| format!("{}: ended\n", crate::sanitize::sanitize(id));
            return self
                .admin
                .ask(|remote| remote.delete(&path, Some(&body)), in_words);
        }
        let body = self.signed(order);
        self.admin.ask(
            |remote| remote.post(path, &body),
            |order| format!("in force: {}", line(order)),
        )
    }

    /// With who, why and for how long, as far as that was said.
    fn signed(&self, mut body: Value) -> Value {
        body["by"] = Value::from(self.by.by.as_str());
        for (name, value) in [("reason", &self.reason), ("for", &self.duration)] {
            if let Some(value) = value {
                body[name] = Value::from(value.as_str());
            }
        }
        body
    }
}

/// `sluicegate ban`.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["address", "principal", "list", "end"])))]
pub struct Ban {
    /// A client address, or a network.
    #[arg(value_name = "ADDRESS[/PREFIX]")]
    address: Option<String>,
    /// A principal, instead of an address.
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    #[command(flatten)]
    terms: Terms,
}

impl Ban {
    pub fn run(&self) -> u8 {
        let whom = match (&self.address, &self.principal) {
            (Some(address), _) => json!({ "client_ip": address }),
            (None, Some(principal)) => json!({ "principal": principal }),
            (None, None) => json!({}),
        };
        self.terms.run("ban", "/v1/bans", whom)
    }
}

/// `sluicegate override`.
#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["limit", "list", "end"])))]
#[command(group(ArgGroup::new("quota").args(["rate", "unlimited"])))]
pub struct Override {
    /// The name of the limit.
    #[arg(requires = "quota")]
    limit: Option<String>,
    /// Each part of the key, in the limit's order; none for the whole limit.
    #[arg(value_name = "PART")]
    parts: Vec<String>,
    /// What is allowed instead, such as 100/s.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// How many at once; without it, as many as the rate names.
    #[arg(
        long,
        value_name = "N",
        requires = "rate",
        conflicts_with = "unlimited"
    )]
    burst: Option<u32>,
    /// No limit at all.
    #[arg(long)]
    unlimited: bool,
    #[command(flatten)]
    terms: Terms,
}

impl Override {
    pub fn run(&self) -> u8 {
        self.terms.run("override", "/v1/overrides", self.order())
    }

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

/// An order a line; a sentence when there is none.
fn list(orders: &Value, kind: &str) -> String {
    match orders.as_array() {
        Some(orders) if !orders.is_empty() => orders.iter().map(line).collect(),
        _ => format!("no {kind} is in force\n"),
    }
}

/// What, until when, by whom and why.
pub fn line(order: &Value) -> String {
    let grants = match order["kind"].as_str() {
        Some("ban") => "refused".to_owned(),
        _ if order["unlimited"] == true => "unlimited".to_owned(),
        _ => text(&order["quota"]),
    };
    let [id, what, until, by, reason] =
        ["id", "what", "until", "by", "reason"].map(|name| text(&order[name]));
    format!("{id}  {what}: {grants} until {until}, by {by}: {reason}\n")
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
        Ok(parsed.order.terms.signed(parsed.order.order()))
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
    fn an_order_without_what_it_needs_is_usage() {
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
    fn orders_are_listed_with_who_and_why_and_without_control_characters() {
        let order = json!({ "id": "b-1", "kind": "ban", "what": "client_ip 203.0.113.0/24", "until": "2026-01-01T00:00:00Z",
            "by": "ann", "reason": "scraping\u{1b}[2J" });
        let wanted = "b-1  client_ip 203.0.113.0/24: refused until 2026-01-01T00:00:00Z, by ann: scraping\\u{1b}[2J\n";
        assert_eq!(list(&json!([order]), "ban"), wanted);
        assert_eq!(list(&json!([]), "override"), "no override is in force\n");
    }
}
