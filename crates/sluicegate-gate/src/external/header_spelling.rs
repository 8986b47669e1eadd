//! The spelling of header names. They are compared without regard to case, and told as they came.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::request::Parts;
use sluicegate_net::HeadBytes;

/// The headers of a request, and how their names were written.
#[derive(Clone, Copy, Debug)]
pub struct SpelledHeaders<'a> {
    /// Every line; its names are in lower case.
    pub lines: &'a HeaderMap,
    /// The names as they came.
    pub spelling: HeaderSpelling<'a>,
}

/// Where the names of headers stand as they came. They are read when the limits service is called
/// and not before.
#[derive(Clone, Copy, Debug)]
pub enum HeaderSpelling<'a> {
    /// They came in lower case, as in HTTP/2.
    LowerCase,
    /// In the head of a request of HTTP/1.
    Head(&'a HeadBytes),
    /// In this list.
    Names(&'a [String]),
}

impl<'a> HeaderSpelling<'a> {
    /// The spelling of a request that the network engine has read.
    pub fn of_parts(parts: &'a Parts) -> Self {
        parts.extensions.get().map_or(Self::LowerCase, Self::Head)
    }

    /// The spelling of each name, by the name in lower case. The first spelling counts where a name
    /// was written in several.
    pub(super) fn by_name(&self) -> BTreeMap<String, String> {
        let names = match self {
            Self::LowerCase => Vec::new(),
            Self::Head(head) => head.header_names(),
            Self::Names(names) => names.iter().map(String::as_str).collect(),
        };
        let mut spellings = BTreeMap::new();
        for name in names {
            spellings
                .entry(name.to_ascii_lowercase())
                .or_insert_with(|| name.to_owned());
        }
        spellings
    }
}
