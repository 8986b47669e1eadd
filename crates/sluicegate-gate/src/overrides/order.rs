//! What an operator orders for a while: a ban, or another quota.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluicegate_config::quota_in_words;
use sluicegate_core::{Nanos, Quota, address, parse_duration, parse_rate};

use super::ban_record::{BanRecord, BanTarget};
use crate::telemetry::rfc3339;

/// An order in force until it is over, with who gave it and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The name that ends it early: unique among all replicas.
    pub id: String,
    /// The ban or the override itself.
    pub what: What,
    /// The operator who gave the order, as the request named him.
    pub by: String,
    /// The operator's reason; never empty.
    pub reason: String,
    /// When it was given, in milliseconds of Unix time.
    pub since_ms: u64,
    /// When it ends by itself, in milliseconds of Unix time.
    pub until_ms: u64,
    /// The limit that gave the order, and how often before; `None` for an operator's. Never on the
    /// list of operators' orders.
    #[serde(skip)]
    pub automatic: Option<AutomaticBan>,
}

/// The origin of a ban that a limit gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomaticBan {
    /// The name of the limit.
    pub limit: String,
    /// The earlier bans of this caller that are remembered.
    pub earlier: u32,
}

/// What is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Nobody of this network passes.
    BanClients(IpNet),
    /// This principal does not pass.
    BanPrincipal(String),
    /// Another quota in place of a limit's own.
    Override(Override),
}

/// Another quota, for one key of a limit or for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The name of the limit; it need not be in the policy yet.
    pub limit: String,
    /// The parts of the key, as they were given; `None` is every key.
    pub key: Option<Vec<String>>,
    /// The quota in place of the limit's own.
    pub(crate) grant: Grant,
}

/// What a key gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grant {
    /// Anything.
    Unlimited,
    /// So much, as a configuration writes it.
    Rate { rate: String, burst: Option<u64> },
}

impl Grant {
    /// The quota; `None` is none.
    pub fn quota(&self) -> Result<Option<Quota>, String> {
        let Self::Rate { rate, burst } = self else {
            return Ok(None);
        };
        let (count, period) = parse_rate(rate).map_err(|error| format!("rate: {error}"))?;
        Quota::new(count, period, burst.unwrap_or(count))
            .map(Some)
            .map_err(|error| error.to_string())
    }
}

impl Order {
    /// The order of a ban that a limit gave.
    pub fn of_record(record: &BanRecord) -> Self {
        Self {
            id: record.target.id(),
            what: match &record.target {
                BanTarget::Clients(network) => What::BanClients(*network),
                BanTarget::Principal(id) => What::BanPrincipal(id.clone()),
            },
            by: "automatic".to_owned(),
            reason: record.reason(),
            since_ms: record.since_ms,
            until_ms: record.until_ms,
            automatic: Some(AutomaticBan {
                limit: record.limit.clone(),
                earlier: record.earlier,
            }),
        }
    }

    /// True from the instant at which the order ends.
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms <= now_ms
    }

    /// True for a ban of this address or principal.
    pub(super) fn meets(&self, address: Option<std::net::IpAddr>, principal: Option<&str>) -> bool {
        match &self.what {
            What::BanClients(net) => {
                address.is_some_and(|address| net.contains(&address.to_canonical()))
            }
            What::BanPrincipal(banned) => principal == Some(banned),
            What::Override(_) => false,
        }
    }

    /// `ban` or `override`, as APIs name it.
    pub fn kind(&self) -> &'static str {
        match self.what {
            What::BanClients(_) | What::BanPrincipal(_) => "ban",
            What::Override(_) => "override",
        }
    }

    /// In words: whom it is about.
    pub fn about(&self) -> String {
        match &self.what {
            What::BanClients(net) => format!("client_ip {net}"),
            What::BanPrincipal(principal) => format!("principal {principal:?}"),
            What::Override(Override {
                limit, key: None, ..
            }) => format!("limit {limit}, every key"),
            What::Override(Override {
                limit,
                key: Some(key),
                ..
            }) => format!("limit {limit}, key {key:?}"),
        }
    }

    /// The end of the order as APIs write it.
    pub fn until(&self) -> String {
        at(self.until_ms)
    }

    /// The order as the admin API reports it.
    pub fn json(&self) -> Value {
        let mut json = json!({
            "id": self.id, "kind": self.kind(), "what": self.about(),
            "limit": null, "key": null, "client_ip": null, "principal": null, "quota": null, "unlimited": false,
            "by": self.by, "reason": self.reason, "since": at(self.since_ms), "until": at(self.until_ms),
            "earlier_bans": self.automatic.as_ref().map(|automatic| automatic.earlier),
        });
        if let Some(automatic) = &self.automatic {
            json["limit"] = automatic.limit.as_str().into();
        }
        match &self.what {
            What::BanClients(net) => json["client_ip"] = net.to_string().into(),
            What::BanPrincipal(principal) => json["principal"] = principal.as_str().into(),
            What::Override(Override { limit, key, grant }) => {
                json["limit"] = limit.as_str().into();
                json["key"] = key.clone().into();
                json["unlimited"] = (*grant == Grant::Unlimited).into();
                json["quota"] = grant.quota().ok().flatten().map(quota_in_words).into();
            }
        }
        json
    }
}

/// An instant in milliseconds of Unix time, as APIs write it.
fn at(ms: u64) -> String {
    rfc3339(std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms))
}

/// A wish for an order, as it comes in.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideRequest {
    client_ip: Option<String>,
    principal: Option<String>,
    limit: Option<String>,
    key: Option<Vec<String>>,
    rate: Option<String>,
    burst: Option<u64>,
    #[serde(default)]
    unlimited: bool,
    #[serde(rename = "for")]
    lasts: Option<String>,
    by: Option<String>,
    reason: Option<String>,
}

/// A wish that can be granted: all of an order but its name.
pub struct Granted {
    /// The ban or the override itself.
    pub what: What,
    /// The operator who asks for it.
    pub by: String,
    /// The operator's reason; never empty.
    pub reason: String,
    /// The time from now until the order ends by itself.
    pub lasts: Nanos,
}

/// The longest that an order may last: what should stay belongs into the configuration.
const LASTS_MAX: Nanos = Nanos::new(30 * Nanos::DAY.get());
const TEXT_MAX: usize = 256;

impl OverrideRequest {
    /// A ban, or what is wrong with it.
    pub fn ban(self) -> Result<Granted, String> {
        let foreign = [
            ("limit", self.limit.is_some()),
            ("key", self.key.is_some()),
            ("rate", self.rate.is_some()),
            ("burst", self.burst.is_some()),
            ("unlimited", self.unlimited),
        ];
        if let Some((field, _)) = foreign.into_iter().find(|(_, is_there)| *is_there) {
            return Err(format!("{field}: does not belong to a ban"));
        }
        let what = match (&self.client_ip, &self.principal) {
            (Some(client_ip), None) => What::BanClients(network(client_ip)?),
            (None, Some(principal)) if (1..=TEXT_MAX).contains(&principal.len()) => {
                What::BanPrincipal(principal.clone())
            }
            (None, Some(_)) => return Err(format!("principal: must have 1 to {TEXT_MAX} bytes")),
            (None, None) => return Err("client_ip or principal: say whom to ban".to_owned()),
            (Some(_), Some(_)) => {
                return Err("principal: a ban is of client_ip or principal, not both".to_owned());
            }
        };
        self.granted(what)
    }

    /// Another quota, or what is wrong with it.
    pub fn quota(self) -> Result<Granted, String> {
        if self.client_ip.is_some() || self.principal.is_some() {
            return Err("client_ip, principal: an override names a limit and a key".to_owned());
        }
        let limit = self
            .limit
            .clone()
            .ok_or("limit: is missing: say the limit's name")?;
        let grant = match (self.unlimited, &self.rate) {
            (true, None) if self.burst.is_none() => Grant::Unlimited,
            (true, _) => return Err("unlimited: goes without rate and burst".to_owned()),
            (false, Some(rate)) => Grant::Rate {
                rate: rate.clone(),
                burst: self.burst,
            },
            (false, None) => {
                return Err("rate: is missing: say a rate such as 100/s, or unlimited".to_owned());
            }
        };
        grant.quota()?;
        let what = What::Override(Override {
            limit,
            key: self.key.clone(),
            grant,
        });
        self.granted(what)
    }

    fn granted(self, what: What) -> Result<Granted, String> {
        let lasts = self
            .lasts
            .ok_or("for: is missing: say how long, such as 1h")?;
        let lasts = parse_duration(&lasts).map_err(|error| format!("for: {error}"))?;
        if !lasts.get().is_multiple_of(Nanos::MILLISECOND.get()) {
            return Err(format!("for: must be whole milliseconds (got {lasts})"));
        }
        if lasts == Nanos::ZERO || lasts > LASTS_MAX {
            return Err("for: must be more than nothing and at most 30d; what should stay belongs into the file".into());
        }
        Ok(Granted {
            what,
            by: said("by", self.by)?,
            reason: said("reason", self.reason)?,
            lasts,
        })
    }
}

/// Who and why are asked for, because somebody will want to know.
fn said(field: &str, text: Option<String>) -> Result<String, String> {
    let text = text.unwrap_or_default().trim().to_owned();
    match text.len() {
        0 => Err(format!("{field}: is missing")),
        1..=TEXT_MAX => Ok(text),
        more => Err(format!("{field}: at most {TEXT_MAX} bytes (got {more})")),
    }
}

/// An address, or a network without bits behind its prefix.
fn network(text: &str) -> Result<IpNet, String> {
    let net = match text.parse::<IpNet>() {
        Ok(net) => net,
        Err(_) => match address::parse(text) {
            Some(address) => IpNet::from(address),
            None => {
                return Err(format!(
                    "client_ip: must be an address or a network such as 203.0.113.0/24 (got {text:?})"
                ));
            }
        },
    };
    if net.prefix_len() == 0 {
        return Err("client_ip: this network is everybody".to_owned());
    }
    Ok(net.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(text: &str) -> OverrideRequest {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_ban_says_whom_how_long_who_and_why() {
        let granted =
            wish(r#"{"client_ip":"203.0.113.9/24","for":"1h","by":"ann","reason":"scraping"}"#)
                .ban()
                .unwrap();
        assert_eq!(
            granted.what,
            What::BanClients("203.0.113.0/24".parse().unwrap())
        );
        assert_eq!(
            (granted.by.as_str(), granted.reason.as_str(), granted.lasts),
            ("ann", "scraping", Nanos::HOUR)
        );
        let v6 = wish(r#"{"client_ip":"[2001:db8::1]","for":"1s","by":"a","reason":"b"}"#)
            .ban()
            .unwrap();
        assert_eq!(
            v6.what,
            What::BanClients("2001:db8::1/128".parse().unwrap())
        );
        for (text, millis) in [("1.5s", 1_500), ("1m30s", 90_000), ("1h30m", 5_400_000)] {
            let request = OverrideRequest {
                lasts: Some(text.to_owned()),
                ..wish(r#"{"principal":"ann","by":"a","reason":"b"}"#)
            };
            assert_eq!(request.ban().unwrap().lasts, Nanos::from_millis(millis));
        }
    }

    #[test]
    fn a_ban_that_cannot_be_granted_is_refused_with_the_field() {
        for (text, place) in [
            (
                r#"{"client_ip":"203.0.113.9","for":"1h","by":"ann"}"#,
                "reason: ",
            ),
            (
                r#"{"client_ip":"203.0.113.9","for":"1h","reason":"x","by":"  "}"#,
                "by: ",
            ),
            (
                r#"{"client_ip":"203.0.113.9","by":"ann","reason":"x"}"#,
                "for: ",
            ),
            (
                r#"{"client_ip":"203.0.113.9","for":"31d","by":"ann","reason":"x"}"#,
                "for: ",
            ),
            (
                r#"{"client_ip":"203.0.113.9","for":"0s","by":"ann","reason":"x"}"#,
                "for: ",
            ),
            (
                r#"{"client_ip":"203.0.113.9","for":"1.5ms","by":"ann","reason":"x"}"#,
                "for: must be whole milliseconds",
            ),
            (
                r#"{"client_ip":"everybody","for":"1h","by":"ann","reason":"x"}"#,
                "client_ip: ",
            ),
            (
                r#"{"client_ip":"0.0.0.0/0","for":"1h","by":"ann","reason":"x"}"#,
                "client_ip: ",
            ),
            (
                r#"{"principal":"","for":"1h","by":"ann","reason":"x"}"#,
                "principal: ",
            ),
            (
                r#"{"for":"1h","by":"ann","reason":"x"}"#,
                "client_ip or principal: ",
            ),
            (
                r#"{"client_ip":"203.0.113.9","rate":"1/s","for":"1h","by":"ann","reason":"x"}"#,
                "rate: ",
            ),
        ] {
            let refused = wish(text).ban().err().unwrap_or_else(|| panic!("{text}"));
            assert!(refused.starts_with(place), "{text}: {refused}");
        }
    }

    #[test]
    fn an_override_is_a_quota_as_a_configuration_writes_it() {
        let text = r#"{"limit":"a","key":["x"],"rate":"100/s","burst":200,"for":"1h","by":"ann","reason":"load test"}"#;
        let granted = wish(text).quota().unwrap();
        let What::Override(Override { grant, .. }) = &granted.what else {
            panic!("{:?}", granted.what)
        };
        assert_eq!(
            grant.quota().unwrap(),
            Some(Quota::from(Quota::per_second(100).burst(200)))
        );
        for (change, place) in [
            (r#""rate":"100/s","#, "rate: "),
            (r#""limit":"a","#, "limit: "),
        ] {
            let refused = wish(&text.replace(change, "")).quota().err().unwrap();
            assert!(refused.starts_with(place), "{change}: {refused}");
        }
        for (from, to, place) in [
            ("100/s", "quick", "rate: "),
            ("200", "0", "burst: "),
            (r#""rate""#, r#""unlimited":true,"rate""#, "unlimited: "),
        ] {
            let refused = wish(&text.replace(from, to)).quota().err().unwrap();
            assert!(refused.starts_with(place), "{to}: {refused}");
        }
    }
}
