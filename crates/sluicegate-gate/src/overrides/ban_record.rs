//! Bans that limits give by themselves, as replicas share them: a bounded list of records.
//!
//! There is at most one record of a caller. While its ban is in force, further requests to ban the
//! same caller change nothing, so replicas that ban at the same time make one ban. When the ban is
//! over, the record stays for the rule's `max`, to make the next ban longer. All of it is arithmetic
//! on a list; the operator keeps the list in the store.

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sluicegate_core::{BanRule, Key, KeyPart, Nanos, PartValue};

/// The most records that are kept, in force or remembered.
pub const BANS_MAX: usize = 1_000;
/// The longest name of a principal that is banned, in bytes, as for operators.
const PRINCIPAL_MAX: usize = 256;

/// The caller that a ban is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BanTarget {
    /// The clients of a network.
    Clients(IpNet),
    /// A principal, by its id.
    Principal(String),
}

impl BanTarget {
    /// The caller that a key names: its principal, else its client network. `None` when it names
    /// neither, such as the counter that requests without a key share, or when it names everybody.
    pub fn of_key(key: &Key<'_>) -> Option<Self> {
        let limit = key.limit();
        let principal = limit
            .key
            .iter()
            .zip(key.parts())
            .find_map(|pair| match pair {
                (KeyPart::Principal, PartValue::Text(id)) => Some(id),
                _ => None,
            });
        if let Some(id) = principal {
            let id = std::str::from_utf8(id).ok()?;
            let is_short = (1..=PRINCIPAL_MAX).contains(&id.len());
            return is_short.then(|| Self::Principal(id.to_owned()));
        }
        let address = key.parts().find_map(|part| match part {
            PartValue::Address(address) | PartValue::AddressInstead(address) => Some(address),
            _ => None,
        })?;
        let length = limit.prefixes.length(address);
        let network = IpNet::new(address, length).ok()?;
        (length > 0).then_some(Self::Clients(network))
    }

    /// The id of the ban of this caller: the same on every replica, whoever bans first.
    pub fn id(&self) -> String {
        let digest = Sha256::digest(self.to_string());
        let digits: String = digest[..6]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{AUTOMATIC_ID}{digits}")
    }
}

/// The beginning of the ids of automatic bans.
pub const AUTOMATIC_ID: &str = "a-";

impl fmt::Display for BanTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(network) => write!(f, "client_ip {network}"),
            Self::Principal(id) => write!(f, "principal {id:?}"),
        }
    }
}

/// A limit's wish to ban a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanRequest {
    /// The caller.
    pub target: BanTarget,
    /// The name of the limit that denied it.
    pub limit: String,
    /// The rule of that limit.
    pub rule: BanRule,
}

/// A ban that a limit gave, in force or remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanRecord {
    /// The caller.
    pub target: BanTarget,
    /// The name of the limit that denied it.
    pub limit: String,
    /// The denials that banned it.
    pub after: u64,
    /// The time in which they were counted.
    pub within_ms: u64,
    /// When the ban began, in milliseconds of Unix time.
    pub since_ms: u64,
    /// When it ends by itself.
    pub until_ms: u64,
    /// When it no longer makes the next ban longer.
    pub forget_ms: u64,
    /// The earlier bans of this caller that made this one longer.
    pub earlier: u32,
}

impl BanRecord {
    fn new(request: &BanRequest, earlier: u32, since_ms: u64) -> Self {
        let BanRequest {
            target,
            limit,
            rule,
        } = request;
        let until_ms = since_ms.saturating_add(millis(rule.lasts_after(earlier)).max(1));
        Self {
            target: target.clone(),
            limit: limit.clone(),
            after: rule.after,
            within_ms: millis(rule.within),
            since_ms,
            until_ms,
            forget_ms: until_ms.saturating_add(millis(rule.max)),
            earlier,
        }
    }

    /// True until the ban is over.
    pub fn is_in_force(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms
    }

    /// The reason in words.
    pub fn reason(&self) -> String {
        let Self {
            limit,
            after,
            earlier,
            ..
        } = self;
        let within = Nanos::from_millis(self.within_ms);
        let reason = format!("denied {} within {within} by {limit}", times(*after));
        match earlier {
            0 => reason,
            earlier => format!("{reason}, banned {} before", times(u64::from(*earlier))),
        }
    }
}

/// Bans a caller, unless it is banned already; the new record, if there is one.
pub fn add_ban(
    records: &mut Vec<BanRecord>,
    request: &BanRequest,
    at_ms: u64,
) -> Option<BanRecord> {
    let place = records
        .iter()
        .position(|record| record.target == request.target);
    let earlier = match place.map(|place| &records[place]) {
        Some(record) if record.is_in_force(at_ms) => return None,
        Some(record) if at_ms < record.forget_ms => record.earlier.saturating_add(1),
        Some(_) | None => 0,
    };
    let record = BanRecord::new(request, earlier, at_ms);
    match place {
        Some(place) => records[place] = record.clone(),
        None => records.push(record.clone()),
    }
    Some(record)
}

/// Removes what is forgotten, and, above [`BANS_MAX`], what matters least: bans that are over, the
/// longest first, and then those that are the soonest to end. Returns how many of these were in
/// force.
pub fn make_room(records: &mut Vec<BanRecord>, now_ms: u64) -> usize {
    records.retain(|record| record.is_in_force(now_ms) || now_ms < record.forget_ms);
    let excess = records.len().saturating_sub(BANS_MAX);
    if excess == 0 {
        return 0;
    }
    // The soonest to end are also those that ended first.
    records.sort_by_key(|record| record.until_ms);
    let removed = records.drain(..excess);
    removed.filter(|record| record.is_in_force(now_ms)).count()
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

/// Whole milliseconds; the configuration allows no others.
fn millis(span: Nanos) -> u64 {
    span.get() / Nanos::MILLISECOND.get()
}

#[cfg(test)]
mod tests;
