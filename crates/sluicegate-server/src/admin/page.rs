//! The dashboard: its files, which are part of the program, and their content policy.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue};

use super::response::{self, AdminResponse};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The path of the page itself.
pub(super) const PATH: &str = "/";

/// Path, type and content of every file.
const FILES: [(&str, &str, &[u8]); 12] = [
    (
        PATH,
        "text/html; charset=utf-8",
        include_bytes!("page/index.html"),
    ),
    ("/app.js", SCRIPT, include_bytes!("page/app.js")),
    (
        "/app.css",
        "text/css; charset=utf-8",
        include_bytes!("page/app.css"),
    ),
    (
        "/favicon.svg",
        "image/svg+xml",
        include_bytes!("page/favicon.svg"),
    ),
    ("/js/api.js", SCRIPT, include_bytes!("page/js/api.js")),
    ("/js/chart.js", SCRIPT, include_bytes!("page/js/chart.js")),
    ("/js/dom.js", SCRIPT, include_bytes!("page/js/dom.js")),
    ("/js/events.js", SCRIPT, include_bytes!("page/js/events.js")),
    (
        "/js/explain.js",
        SCRIPT,
        include_bytes!("page/js/explain.js"),
    ),
    ("/js/keys.js", SCRIPT, include_bytes!("page/js/keys.js")),
    ("/js/orders.js", SCRIPT, include_bytes!("page/js/orders.js")),
    (
        "/js/overview.js",
        SCRIPT,
        include_bytes!("page/js/overview.js"),
    ),
];

/// Allows files of this host only: no inline script or style, and no other host to send anything
/// to.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns true for the path of a file of the dashboard.
pub(super) fn is_file(path: &str) -> bool {
    FILES.iter().any(|(own, ..)| *own == path)
}

/// The response with a file of the dashboard.
pub(super) fn file(path: &str) -> Option<AdminResponse> {
    let (_, content_type, content) = FILES.iter().find(|(own, ..)| *own == path)?;
    let mut response =
        response::with_bytes(StatusCode::OK, content_type, Bytes::from_static(content));
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}
