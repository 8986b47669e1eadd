//! `Cache-Control` of a response (RFC 9111, section 5.2.2).

use http::HeaderMap;
use http::header::CACHE_CONTROL;

/// What a response says about its reuse. The most careful directive wins, wherever it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheControl {
    /// `no-store`: it must not be kept at all.
    pub(crate) no_store: bool,
    /// `no-cache`: the server has to be asked before each use.
    pub(crate) no_cache: bool,
    /// The seconds of `max-age`; the shortest, where there are several.
    pub(crate) max_age: Option<u64>,
}

impl CacheControl {
    /// Reads all lines of the header.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut control = Self::default();
        let lines = headers
            .get_all(CACHE_CONTROL)
            .iter()
            .filter_map(|line| line.to_str().ok());
        for directive in lines.flat_map(|line| line.split(',')) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => control.no_store = true,
                "no-cache" => control.no_cache = true,
                "max-age" => {
                    let shortest = control.max_age.unwrap_or(u64::MAX);
                    control.max_age = Some(shortest.min(seconds_in(value)));
                }
                _ => {}
            }
        }
        control
    }
}

/// The seconds of a `max-age`, perhaps in quotes. An invalid value counts as 0, expired already,
/// and one too large for the type as its maximum (RFC 9111, sections 4.2.1 and 1.2.2).
fn seconds_in(value: &str) -> u64 {
    let digits = value.trim().trim_matches('"');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        digits.parse().unwrap_or(u64::MAX)
    } else {
        0
    }
}
