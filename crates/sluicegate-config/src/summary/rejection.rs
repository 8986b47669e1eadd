//! The responses to denied requests, where they are not the usual ones.

use std::sync::Arc;

use sluicegate_core::{Limit, OwnRejection};

use super::and;
use crate::typed::Config;

/// The response that limits without one of their own give.
pub(super) fn of_all(config: &Config) -> Option<String> {
    let own = config.response.reject.as_ref()?;
    Some(format!("denied requests get {}", rejection(Some(own))))
}

/// The response that a limit gives, where it is not that of all.
pub(super) fn of_limit(limit: &Limit, config: &Config) -> Option<String> {
    let own = limit.reject.as_ref()?;
    (!is_default(limit, config)).then(|| {
        format!(
            "requests that {} denies get {}",
            limit.name,
            rejection(Some(own))
        )
    })
}

/// True when a limit answers as `response.reject` has it.
pub(crate) fn is_default(limit: &Limit, config: &Config) -> bool {
    match (&limit.reject, &config.response.reject) {
        (Some(own), Some(default)) => Arc::ptr_eq(own, default),
        (None, None) => true,
        _ => false,
    }
}

/// A response in words: `403, a body of text/html (12 bytes) and the header x-support`.
pub(crate) fn rejection(own: Option<&Arc<OwnRejection>>) -> String {
    let mut words = vec![own.and_then(|own| own.status()).unwrap_or(429).to_string()];
    if let Some(body) = own.and_then(|own| own.body()) {
        let media_type = body.content_type.split(';').next().unwrap_or_default();
        let bytes = body.text.fixed_len();
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        words.push(format!("a body of {media_type} ({bytes} {unit})"));
    }
    for (name, _) in own.map(|own| own.headers()).unwrap_or_default() {
        words.push(format!("the header {name}"));
    }
    and(&words)
}
