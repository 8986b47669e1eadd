//! The stages in which a server that verifies credentials charges a request.

/// The part of a request's limits that is charged.
///
/// A server that authenticates callers charges in two stages, so that a flood of wrong credentials is
/// limited before any of them is verified, and guessing is limited too. Both stages together charge
/// the same limits as [`Stage::Whole`], each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All limits, at once.
    Whole,
    /// The limits that are charged whoever the caller is, before time is spent on a credential.
    BeforePrincipal,
    /// The limits that need a principal, and those whose place they do not take: the caller is known,
    /// or known to be nobody.
    AfterPrincipal,
    /// The same for a caller whose credential is refused: it is nobody. Limits that would refuse a
    /// request without a principal take nobody's place.
    Unauthorized,
}
