//! The engine of Sluicegate: exact integer arithmetic, rules and keys, without clock, I/O or
//! dependencies.
//!
//! Reading order follows a request: a [`Subject`] says who is asking, a [`Policy`] of [`Limit`]s
//! turns it into [`Charge`]s, an [`algorithm`] answers each charge with an [`Outcome`], and a
//! [`Decision`] holds them all.
//!
//! ```
//! use sluicegate_core::{algorithm, Outcome, Quota, Timestamp};
//!
//! let quota = Quota::from(Quota::per_second(1).burst(3));
//! let start = Timestamp::from_nanos(0);
//! let step = algorithm::decide(None, quota, 3, start);
//! assert!(matches!(step.outcome, Outcome::Allowed { remaining: 0, .. }));
//! ```
#![forbid(unsafe_code)]

mod ad_hoc;
pub mod address;
pub mod algorithm;
mod charge;
mod cookie;
mod counting;
mod decision;
mod factor;
mod failure;
mod key;
mod layout_collision;
mod legacy;
mod limit;
mod list;
mod missing_key;
mod own_rejection;
mod path;
mod policy;
mod query;
mod quota;
mod rate;
mod rule_error;
mod settings;
mod short_hash;
mod subject;
mod time;
mod units;

pub use ad_hoc::AdHoc;
pub use charge::{Charge, DetachedCharge, Draw};
pub use counting::{Answer, AnswerPattern, AnswerPatternError, AnswerSet, Counting};
pub use decision::{Decision, LimitOutcome, Outcome};
pub use factor::{Factor, FactorError, FactorRule};
pub use failure::{FailurePolicy, FailureStatus, FailureStatusError, UnknownFailurePolicy};
pub use key::{DetachedKey, Key, PartValue};
pub use layout_collision::edge_guard_kind;
pub use legacy::LegacyLimit;
pub use limit::{
    BanRule, ClaimMatch, Cost, DescriptorMatch, HeaderCost, HeaderMatch, HostPattern, KeyPart,
    Limit, Match, Mode, OnMissingKey, QueryMatch, QuotaSource, ValueMatch,
};
pub use list::List;
pub use missing_key::{MissingKey, MissingReason};
pub use own_rejection::{OwnBody, OwnRejection, RejectionError, RejectionText, RejectionValues};
pub use path::{AmbiguousPath, PathPattern, normalise as normalise_path, unescape};
pub use policy::{
    Condition, ConsideredLimit, LimitEffect, PlainCharge, PlainCharges, Policy, PolicyError,
    PolicyErrors, Stage,
};
pub use query::{QueryText, QueryValue, parameter as query_parameter};
pub use quota::{
    DripBucket, Pace, ParsePaceError, Quota, QuotaError, ScaledPart, SlidingWindow, TokenBucket,
};
pub use rate::{ParseRateError, parse_duration, parse_rate};
pub use rule_error::ParseRuleError;
pub use settings::{HeaderStyle, KeyLayout, ProxyHeader, RedisClock};
pub use subject::{HeaderValue, Headers, NoHeaders, Principal, Subject, is_header_twin};
pub use time::{Nanos, Timestamp};
