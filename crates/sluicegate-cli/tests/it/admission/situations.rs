//! The rows of the table: a situation, what every door is expected to do in it, and the doors that
//! do something else, each with its reason.

use super::doors::{FrontDoor, KeyedBy, Question};
use super::{Mark, Observation};

/// A situation that every door is brought into.
pub struct Situation {
    pub name: &'static str,
    pub question: Question,
    /// What the configuration has beside its listeners: limits, lists, a store.
    pub config: String,
    pub preparation: Preparation,
    /// The port of the Redis that is not there.
    pub store_away: Option<u16>,
    pub is_traced: bool,
    pub expected: Observation,
    pub marks: Vec<(FrontDoor, Mark)>,
}

/// What is done before a door is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    Nothing,
    /// The one unit of the client is spent.
    Spend,
    /// An operator bans the client.
    Ban,
    /// The one unit of the client is spent, and then an operator gives it five.
    Override,
}

/// One unit an hour for each client. Descriptors are limited by limits that name them, so gRPC has a
/// limit of its own with the same quota.
fn per_client(more: &str) -> String {
    format!(
        "limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: 1{more} }}
  - {{ name: per-client-by-descriptor, key: ['descriptor:remote_address'], rate: 1/h, burst: 1, match: {{ domain: edge }}{more} }}
"
    )
}

/// One unit an hour for each tenant; a request that names none is refused.
const PER_TENANT: &str = "limits:
  - { name: per-tenant, key: ['header:X-Tenant'], rate: 1/h, burst: 1 }
  - { name: per-tenant-by-descriptor, key: ['descriptor:tenant', client_ip], rate: 1/h, burst: 1, match: { domain: edge }, on_missing_key: reject }
";

const BY_ADDRESS: Question = Question {
    path: "/",
    headers: &[],
    keyed_by: KeyedBy::Address,
};

const BY_TENANT: Question = Question {
    keyed_by: KeyedBy::Tenant,
    ..BY_ADDRESS
};

const NAMES_A_COUNTER: &str = "a command names a counter: there is no caller to look up";
const COUNTER_AND_NOTHING_ELSE: &str =
    "a command names a counter: there is no path, header or credential to look at";
const DESCRIPTORS_ONLY: &str =
    "a question has descriptors: there is no path, header or credential to look at";
const LAYER_HAS_NO_OPERATOR: &str = "the layer has no bans, lists, overrides or external quotas";

fn passes(left: &str) -> Observation {
    Observation::new("allowed", left, "per-client allowed")
}

fn limited() -> Observation {
    Observation {
        lines: 1,
        ..Observation::new("limited", "left 0/1, retry", "per-client denied")
    }
}

fn refused() -> Observation {
    Observation::new("refused", "-", "-")
}

fn differs(door: FrontDoor, reason: &'static str, expected: Observation) -> (FrontDoor, Mark) {
    (door, Mark::Differs { reason, expected })
}

fn not_asked(door: FrontDoor, reason: &'static str) -> (FrontDoor, Mark) {
    (door, Mark::NotAsked { reason })
}

impl Situation {
    fn new(name: &'static str, expected: Observation) -> Self {
        Self {
            name,
            question: BY_ADDRESS,
            config: per_client(""),
            preparation: Preparation::Nothing,
            store_away: None,
            is_traced: false,
            expected,
            marks: Vec::new(),
        }
    }
}

/// All rows. `service` is the address of a limits service that grants four units.
pub fn all(port_of_nobody: u16, service: &str) -> Vec<Situation> {
    let mut rows = vec![
        Situation {
            is_traced: true,
            ..Situation::new("allowed", passes("left 0/1"))
        },
        Situation {
            is_traced: true,
            preparation: Preparation::Spend,
            ..Situation::new("limited", limited())
        },
    ];
    rows.extend(lists());
    rows.extend(unreadable());
    rows.extend(store_away(port_of_nobody));
    rows.extend(other_terms(service));
    rows
}

/// Bans, lists and credentials.
fn lists() -> [Situation; 3] {
    [
        Situation {
            preparation: Preparation::Ban,
            marks: vec![
                differs(FrontDoor::Resp, NAMES_A_COUNTER, passes("left 0/1")),
                differs(FrontDoor::Layer, LAYER_HAS_NO_OPERATOR, passes("left 0/1")),
            ],
            ..Situation::new("banned", Observation::new("denied", "-", "-"))
        },
        Situation {
            preparation: Preparation::Spend,
            config: per_client("") + "access: { allow: { cidrs: [203.0.113.0/24] } }\n",
            marks: vec![
                differs(FrontDoor::Resp, NAMES_A_COUNTER, limited()),
                differs(FrontDoor::Layer, LAYER_HAS_NO_OPERATOR, limited()),
            ],
            ..Situation::new("allow-listed", Observation::new("allowed", "-", "-"))
        },
        Situation {
            question: Question {
                headers: &[("X-Api-Key", "guessed")],
                ..BY_ADDRESS
            },
            config: per_client("")
                + "principals: { required: true, api_keys: { file: keys.yaml } }\n",
            marks: vec![
                differs(
                    FrontDoor::Json,
                    "the caller of /v1/check names the principal and has verified it",
                    passes("left 0/1"),
                ),
                differs(FrontDoor::Grpc, DESCRIPTORS_ONLY, passes("left 0/1")),
                differs(
                    FrontDoor::Resp,
                    COUNTER_AND_NOTHING_ELSE,
                    passes("left 0/1"),
                ),
                differs(
                    FrontDoor::Layer,
                    "the layer takes the principal that another layer has verified",
                    passes("left 0/1"),
                ),
            ],
            // Limits that need no principal are charged first, so that guessing keys is limited.
            ..Situation::new(
                "unauthorised",
                Observation::new("unauthorized", "-", "per-client allowed"),
            )
        },
    ]
}

/// Requests without a key, or with two readings.
fn unreadable() -> [Situation; 3] {
    [
        Situation {
            question: BY_TENANT,
            config: PER_TENANT.to_owned(),
            ..Situation::new("unidentified", refused())
        },
        Situation {
            question: Question {
                path: "/a%2fb",
                ..BY_ADDRESS
            },
            marks: vec![
                not_asked(FrontDoor::Grpc, DESCRIPTORS_ONLY),
                not_asked(FrontDoor::Resp, COUNTER_AND_NOTHING_ELSE),
            ],
            ..Situation::new("ambiguous path", refused())
        },
        Situation {
            question: Question {
                headers: &[("X-Tenant", "acme"), ("X_Tenant", "other")],
                ..BY_TENANT
            },
            config: PER_TENANT.to_owned(),
            marks: vec![
                not_asked(FrontDoor::Grpc, DESCRIPTORS_ONLY),
                not_asked(FrontDoor::Resp, COUNTER_AND_NOTHING_ELSE),
            ],
            ..Situation::new("twin header", refused())
        },
    ]
}

/// Nobody listens where the counters should be.
fn store_away(port: u16) -> [Situation; 3] {
    let row = |name, policy: &str, expected| Situation {
        config: per_client("")
            + &format!(
                "store: {{ kind: redis, on_failure: {{ policy: {policy} }}, redis: {{ endpoints: ['127.0.0.1:{port}'] }} }}\n"
            ),
        store_away: Some(port),
        ..Situation::new(name, expected)
    };
    let unavailable = |tells| Observation::new("unavailable", tells, "-");
    [
        row(
            "store away, open",
            "open",
            Observation::new("allowed", "-", "-"),
        ),
        Situation {
            marks: vec![
                differs(
                    FrontDoor::Grpc,
                    "a gRPC status has no headers to add for the client; Envoy has its own policy",
                    unavailable("-"),
                ),
                differs(
                    FrontDoor::Resp,
                    "an error reply of Redis is a word and a sentence",
                    unavailable("-"),
                ),
            ],
            ..row("store away, closed", "closed", unavailable("retry"))
        },
        row("store away, local", "local", passes("left 0/1")),
    ]
}

/// Limits that only watch, and quotas that are not those of the configuration.
fn other_terms(service: &str) -> [Situation; 3] {
    let watched = |tells| Observation::new("allowed", tells, "per-client shadow_denied");
    [
        Situation {
            preparation: Preparation::Spend,
            config: per_client(", mode: shadow"),
            marks: vec![
                differs(
                    FrontDoor::Json,
                    "the answer lists every limit; headers speak of enforced ones only",
                    watched("left 0/1"),
                ),
                differs(
                    FrontDoor::Resp,
                    "the reply is about the counter that was named, enforced or not",
                    watched("left 0/1"),
                ),
            ],
            ..Situation::new("shadow denial", watched("-"))
        },
        Situation {
            preparation: Preparation::Override,
            marks: vec![differs(FrontDoor::Layer, LAYER_HAS_NO_OPERATOR, limited())],
            ..Situation::new("override in force", passes("left 3/5"))
        },
        Situation {
            config: per_client(", quota_from: external")
                + &format!(
                    "external: {{ timeout: 2s, http: {{ url: 'http://{service}/limits' }} }}\n"
                ),
            marks: vec![differs(
                FrontDoor::Layer,
                LAYER_HAS_NO_OPERATOR,
                passes("left 0/1"),
            )],
            ..Situation::new("quota from outside", passes("left 3/4"))
        },
    ]
}
