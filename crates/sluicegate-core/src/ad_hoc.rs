//! Quotas that come with the request instead of the configuration.
//!
//! A policy has a hidden limit for each purpose, so that such charges go the same way as all
//! others.

use crate::limit::{KeyPart, Limit};
use crate::quota::Quota;

/// The purpose of a quota that comes with a request. Each purpose has counters of its own, apart
/// from those of every limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdHoc {
    /// A caller that names key and quota in each request.
    Throttle,
    /// A gateway that sends another quota than the configured one along with a descriptor.
    Override,
}

impl AdHoc {
    /// Every purpose, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Throttle, Self::Override];

    const MARK: u8 = b'!';

    /// The name of the hidden limit. It begins with a character that the name of a configured limit
    /// cannot have.
    const fn name(self) -> &'static str {
        match self {
            Self::Throttle => "!throttle",
            Self::Override => "!override",
        }
    }

    /// The hidden limit of this purpose. Its quota is never used: every charge brings its own.
    pub(crate) fn limit(self) -> Limit {
        Limit::new(self.name(), Quota::per_second(1)).key([KeyPart::Descriptor("key".to_owned())])
    }
}

impl Limit {
    /// Returns true when the limit stands for quotas that come with the request.
    #[inline]
    pub fn is_ad_hoc(&self) -> bool {
        // The first byte tells: no configured limit may begin with it.
        self.name.as_bytes().first() == Some(&AdHoc::MARK) && self.ad_hoc().is_some()
    }

    /// The purpose of the quotas that the limit stands for; `None` for a configured limit.
    #[inline]
    pub fn ad_hoc(&self) -> Option<AdHoc> {
        AdHoc::ALL
            .into_iter()
            .find(|purpose| purpose.name() == self.name)
    }
}
