//! The key of a request that is over: its values, with memory of their own.

use std::net::IpAddr;

use super::{Key, KeySource, NameHash, PartValue};
use crate::limit::Limit;

/// The values of a key that outlive the request they were read from.
#[derive(Clone, Debug)]
pub struct DetachedKey {
    name_hash: NameHash,
    parts: Box<[DetachedPart]>,
}

impl DetachedKey {
    pub(super) fn of(key: &Key<'_>) -> Self {
        Self {
            name_hash: key.name_hash,
            parts: key.parts().map(DetachedPart::of).collect(),
        }
    }

    /// The key that these values make together with the limit they were read for.
    pub fn on<'a>(&'a self, limit: &'a Limit) -> Key<'a> {
        Key {
            limit,
            name_hash: self.name_hash,
            source: KeySource::Detached(&self.parts),
        }
    }
}

/// A [`PartValue`] with memory of its own.
#[derive(Clone, Debug)]
pub(super) enum DetachedPart {
    Text(Box<[u8]>),
    Path(Box<str>),
    Address(IpAddr),
    Global,
    AddressInstead(IpAddr),
    Shared,
    Tenant(Box<str>),
}

impl DetachedPart {
    fn of(value: PartValue<'_>) -> Self {
        match value {
            PartValue::Text(bytes) => Self::Text(bytes.into()),
            PartValue::Query(text) => Self::Text(text.decoded().into()),
            PartValue::Path(path) => Self::Path(path.into()),
            PartValue::Address(address) => Self::Address(address),
            PartValue::Global => Self::Global,
            PartValue::AddressInstead(address) => Self::AddressInstead(address),
            PartValue::Shared => Self::Shared,
            PartValue::Tenant(tenant) => Self::Tenant(tenant.into()),
        }
    }

    pub(super) fn value(&self) -> PartValue<'_> {
        match self {
            Self::Text(bytes) => PartValue::Text(bytes),
            Self::Path(path) => PartValue::Path(path),
            Self::Address(address) => PartValue::Address(*address),
            Self::Global => PartValue::Global,
            Self::AddressInstead(address) => PartValue::AddressInstead(*address),
            Self::Shared => PartValue::Shared,
            Self::Tenant(tenant) => PartValue::Tenant(tenant),
        }
    }
}
