//! stand-in
use http::StatusCode;
use http::request::Parts;
pub(super) struct Refusal;
impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }
    pub(super) fn closes(&self) -> bool {
        true
    }
}
impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bad Request")
    }
}
pub(super) fn validate(_: &Parts, _: &tollgate_config::Bounds, _: bool) -> Result<(), Refusal> {
    Ok(())
}
