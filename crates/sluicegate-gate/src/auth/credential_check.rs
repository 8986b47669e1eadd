//! What the credentials of a request come to, once each of them was checked.
//!
//! Idea: a server behind may read a credential that did not name the caller here, and may believe
//! it because it stands behind a proxy that verifies. So no credential passes that was not found
//! valid: the request is refused, or the header is removed before it is forwarded.

use std::sync::Arc;

use sluicegate_config::{CredentialPolicy, OnInvalid, Principals};
use sluicegate_core::Principal;

use super::keys_unavailable::KeysUnavailable;
use super::unauthorized::AuthFailure;

/// The result of the check of one header.
#[derive(Clone, Debug)]
pub(super) enum CredentialCheck {
    /// The request does not have the header.
    Absent,
    /// It names this principal.
    Valid(Arc<Principal>),
    /// It names nobody.
    Invalid(AuthFailure),
    /// There are no keys to verify it with.
    Unverifiable(KeysUnavailable),
    /// It is there and was not looked at.
    Skipped,
}

/// The headers of a request whose credential was not found valid, and which a server behind must
/// not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnverifiedHeaders {
    /// The header of the API key.
    pub(super) key: bool,
    /// The header of the token.
    pub(super) token: bool,
}

impl UnverifiedHeaders {
    /// Returns true when all credentials were valid, or there were none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Who forwards a request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// This process, which can remove headers before.
    Proxy,
    /// A gateway that asks for permission, and forwards what its client sent.
    Gateway,
}

/// The settings that decide about credentials.
#[derive(Clone, Copy, Debug)]
pub(super) struct CredentialRules {
    /// True when a request without a credential is refused.
    is_required: bool,
    on_invalid: OnInvalid,
    policy: CredentialPolicy,
    /// API keys and tokens come in the same header.
    pub(super) shares_header: bool,
}

/// The conclusion from all checks.
#[derive(Clone, Debug)]
pub(super) struct Conclusion {
    pub(super) caller: Result<Option<Arc<Principal>>, CredentialRefusal>,
    pub(super) unverified: UnverifiedHeaders,
    /// The failure to count, also where the request goes on.
    pub(super) counted: Option<AuthFailure>,
}

/// Why credentials do not suffice.
#[derive(Clone, Copy, Debug)]
pub(super) enum CredentialRefusal {
    Invalid(AuthFailure),
    Unverifiable(KeysUnavailable),
}

impl CredentialRules {
    pub(super) fn new(principals: &Principals, shares_header: bool) -> Self {
        Self {
            is_required: principals.required,
            on_invalid: principals.on_invalid,
            policy: principals.credentials,
            shares_header,
        }
    }

    /// The same rules towards whoever forwards: what a gateway forwards cannot be removed, so
    /// everything must be valid.
    pub(super) fn towards(self, forwarder: Forwarder) -> Self {
        match forwarder {
            Forwarder::Proxy => self,
            Forwarder::Gateway => Self {
                policy: CredentialPolicy::VerifyAll,
                ..self
            },
        }
    }

    /// Returns true when the token has to be verified after the key.
    pub(super) fn needs_token(self, by_key: &CredentialCheck) -> bool {
        let is_known = matches!(by_key, CredentialCheck::Valid(_));
        !is_known || self.policy == CredentialPolicy::VerifyAll && !self.shares_header
    }

    /// Decides who the caller is: the owner of the key, and else the subject of the token.
    pub(super) fn conclude(self, by_key: CredentialCheck, by_token: CredentialCheck) -> Conclusion {
        let (by_key, by_token) = match self.shares_header {
            true => one_of_both(by_key, by_token),
            false => (by_key, by_token),
        };
        let mut unverified = UnverifiedHeaders::default();
        let (mut principal, mut invalid, mut gap) = (None, None, None);
        let checks = [
            (by_key, &mut unverified.key),
            (by_token, &mut unverified.token),
        ];
        for (check, is_unverified) in checks {
            *is_unverified = !matches!(check, CredentialCheck::Absent | CredentialCheck::Valid(_));
            match check {
                CredentialCheck::Absent | CredentialCheck::Skipped => {}
                CredentialCheck::Valid(known) => principal = principal.or(Some(known)),
                // Another scheme is no attempt at ours: where it can be removed, it is.
                CredentialCheck::Invalid(AuthFailure::Scheme)
                    if self.policy == CredentialPolicy::StripUnverified => {}
                CredentialCheck::Invalid(reason) => invalid = invalid.or(Some(reason)),
                CredentialCheck::Unverifiable(missing) => gap = Some(missing),
            }
        }
        let refused = invalid.filter(|_| self.on_invalid == OnInvalid::Reject);
        let caller = match (self.policy, principal, refused, gap) {
            (CredentialPolicy::StripUnverified, Some(known), _, _) => Ok(Some(known)),
            (CredentialPolicy::VerifyAll, _, Some(reason), _) | (_, _, Some(reason), None) => {
                Err(CredentialRefusal::Invalid(reason))
            }
            (_, _, _, Some(gap)) => Err(CredentialRefusal::Unverifiable(gap)),
            (_, None, None, None) if self.is_required => {
                Err(CredentialRefusal::Invalid(AuthFailure::Missing))
            }
            (_, principal, None, None) => Ok(principal),
        };
        let counted = match &caller {
            Err(CredentialRefusal::Unverifiable(_)) => Some(AuthFailure::KeysUnavailable),
            Err(CredentialRefusal::Invalid(reason)) => invalid.or(Some(*reason)),
            Ok(_) => invalid,
        };
        Conclusion {
            caller,
            unverified,
            counted,
        }
    }
}

/// One header holds one credential: it is valid when it is a key or a token.
fn one_of_both(
    by_key: CredentialCheck,
    by_token: CredentialCheck,
) -> (CredentialCheck, CredentialCheck) {
    use CredentialCheck::{Absent, Unverifiable, Valid};
    match (by_key, by_token) {
        (key @ Valid(_), _) => (key, Absent),
        (_, token @ (Valid(_) | Unverifiable(_))) => (Absent, token),
        (key, _) => (key, Absent),
    }
}
