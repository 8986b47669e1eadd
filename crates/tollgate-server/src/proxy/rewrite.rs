//! stand-in
use http::HeaderValue;
use http::request::Parts;
use std::net::IpAddr;
pub(super) struct Hop<'a> {
    pub(super) client_ip: Option<IpAddr>,
    pub(super) peer: IpAddr,
    pub(super) peer_is_trusted: bool,
    pub(super) scheme: &'static str,
    pub(super) request_id: &'a HeaderValue,
    pub(super) is_upgrade: bool,
}
pub(super) struct Upgrade;
pub(super) fn upgrade_of(parts: &Parts) -> Option<Upgrade> {
    parts.headers.get("upgrade").map(|_| Upgrade)
}
pub(super) fn to_upstream(parts: &mut Parts, hop: &Hop<'_>) {
    let _ = (&hop.client_ip, hop.peer, hop.peer_is_trusted, hop.scheme, hop.is_upgrade);
    parts.headers.insert("x-request-id", hop.request_id.clone());
    if !hop.is_upgrade {
        parts.headers.remove("connection");
    }
}
pub(super) fn to_client<B>(response: &mut http::Response<B>, id: &HeaderValue) {
    response.headers_mut().insert("x-request-id", id.clone());
}
