//! stand-in
use std::net::SocketAddr;
#[expect(dead_code)]
pub(super) enum Parsed {
    Need(usize),
    Done { source: Option<SocketAddr>, used: usize },
}
pub(super) fn parse(_: &[u8]) -> Result<Parsed, String> {
    Ok(Parsed::Done { source: None, used: 0 })
}
