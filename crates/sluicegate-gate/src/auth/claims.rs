//! The claims of a token whose signature was verified: is it valid now and here, and for whom?
//!
//! Time is an argument and counted in nanoseconds, so that the bounds are exact: a token is valid
//! from `nbf - leeway` on, and until just before `exp + leeway`.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use sluicegate_config::Jwt;
use sluicegate_core::Principal;

use super::is_principal_id;
use super::unauthorized::AuthFailure;

/// The requirements on the claims of a token.
pub(super) struct ClaimRules {
    /// The only accepted `iss`; `None` accepts every one.
    issuer: Option<String>,
    /// The name that must be in `aud`; `None` accepts every one.
    audience: Option<String>,
    /// How far the clock of the issuer may be off.
    leeway_nanos: i128,
}

impl ClaimRules {
    pub(super) fn new(settings: &Jwt) -> Self {
        Self {
            issuer: settings.issuer.clone(),
            audience: settings.audience.clone(),
            leeway_nanos: i128::from(settings.leeway.get()),
        }
    }

    /// The principal of a valid token. `exp` and `sub` are required, and a claim of the wrong type
    /// makes the token invalid instead of being skipped.
    pub(super) fn principal(
        &self,
        claims: &Map<String, Value>,
        now: SystemTime,
    ) -> Result<Principal, AuthFailure> {
        let now = nanos_since_epoch(now);
        let expires = time(claims, "exp")?.ok_or(AuthFailure::Malformed)?;
        if now >= expires.saturating_add(self.leeway_nanos) {
            return Err(AuthFailure::Expired);
        }
        if let Some(begins) = time(claims, "nbf")?
            && now.saturating_add(self.leeway_nanos) < begins
        {
            return Err(AuthFailure::NotYet);
        }
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(AuthFailure::Issuer);
        }
        if let Some(audience) = &self.audience
            && !is_meant_for(claims.get("aud"), audience)
        {
            return Err(AuthFailure::Audience);
        }
        let subject = claims
            .get("sub")
            .and_then(Value::as_str)
            .filter(|subject| is_principal_id(subject));
        let id = subject.ok_or(AuthFailure::Malformed)?.to_owned();
        Ok(Principal {
            id,
            claims: claim_texts(claims),
        })
    }
}

/// Returns true when `aud`, one name or a list of names, contains the audience.
fn is_meant_for(audiences: Option<&Value>, audience: &str) -> bool {
    match audiences {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(several)) => several.iter().any(|one| one == audience),
        _ => false,
    }
}

/// A time claim, in seconds since 1970 with or without a fraction, as nanoseconds.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<i128>, AuthFailure> {
    const PER_SECOND: i128 = 1_000_000_000;
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    if let Some(seconds) = value.as_i64() {
        return Ok(Some(i128::from(seconds) * PER_SECOND));
    }
    // The cast saturates: a time beyond the range is the far end of it.
    let seconds = value.as_f64().ok_or(AuthFailure::Malformed)?;
    Ok(Some((seconds * PER_SECOND as f64) as i128))
}

/// Negative before 1970, for clocks that are not set.
fn nanos_since_epoch(now: SystemTime) -> i128 {
    let nanos = |span: std::time::Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    now.duration_since(UNIX_EPOCH)
        .map_or_else(|before| -nanos(before.duration()), nanos)
}

/// The claims as limits use them, as text: strings, numbers and booleans, and lists of strings
/// joined with commas. Other shapes are left out, and so is a list with a comma inside a string,
/// because two different lists must not give the same text.
fn claim_texts(claims: &Map<String, Value>) -> BTreeMap<String, String> {
    claims
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), claim_text(value)?)))
        .collect()
}

fn claim_text(value: &Value) -> Option<String> {
    match value {
        Value::String(claim_text) => Some(claim_text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Array(list) if !list.is_empty() => {
            let claim_texts: Option<Vec<&str>> = list
                .iter()
                .map(|item| item.as_str().filter(|claim_text| !claim_text.contains(',')))
                .collect();
            Some(claim_texts?.join(","))
        }
        Value::Array(_) | Value::Object(_) | Value::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const NOON: u64 = 1_800_000_000;

    fn rules(leeway_nanos: i128) -> ClaimRules {
        ClaimRules {
            issuer: None,
            audience: None,
            leeway_nanos,
        }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn reason(rules: &ClaimRules, claims: &Value, now: SystemTime) -> Option<AuthFailure> {
        rules.principal(claims.as_object().unwrap(), now).err()
    }

    #[test]
    fn a_token_ends_exactly_at_its_end_and_its_leeway() {
        let claims = json!({"sub": "ann", "exp": NOON});
        let nanosecond = Duration::from_nanos(1);
        assert_eq!(reason(&rules(0), &claims, at(NOON) - nanosecond), None);
        assert_eq!(
            reason(&rules(0), &claims, at(NOON)),
            Some(AuthFailure::Expired)
        );
        assert_eq!(
            reason(&rules(2_000_000_000), &claims, at(NOON + 2) - nanosecond),
            None
        );
        assert_eq!(
            reason(&rules(2_000_000_000), &claims, at(NOON + 2)),
            Some(AuthFailure::Expired)
        );
    }

    #[test]
    fn a_token_begins_exactly_at_its_beginning_less_the_leeway() {
        let claims = json!({"sub": "ann", "exp": NOON + 100, "nbf": NOON});
        let nanosecond = Duration::from_nanos(1);
        assert_eq!(reason(&rules(0), &claims, at(NOON)), None);
        assert_eq!(
            reason(&rules(0), &claims, at(NOON) - nanosecond),
            Some(AuthFailure::NotYet)
        );
        assert_eq!(reason(&rules(2_000_000_000), &claims, at(NOON - 2)), None);
        assert_eq!(
            reason(&rules(2_000_000_000), &claims, at(NOON - 2) - nanosecond),
            Some(AuthFailure::NotYet)
        );
    }

    #[test]
    fn times_may_have_fractions_and_any_size() {
        let expires = |exp: Value| {
            reason(
                &rules(i128::from(u64::MAX)),
                &json!({"sub": "ann", "exp": exp}),
                at(NOON),
            )
        };
        assert_eq!(expires(json!(1_800_000_000.5)), None);
        assert_eq!(expires(json!(f64::MAX)), None);
        assert_eq!(expires(json!(u64::MAX)), None);
        assert_eq!(expires(json!(i64::MIN)), Some(AuthFailure::Expired));
        assert_eq!(expires(json!(f64::MIN)), Some(AuthFailure::Expired));
        for wrong in [
            json!("1800000000"),
            json!(null),
            json!([1]),
            json!({}),
            json!(true),
        ] {
            assert_eq!(expires(wrong), Some(AuthFailure::Malformed));
        }
        let before_1970 = UNIX_EPOCH - Duration::from_secs(10);
        assert_eq!(
            reason(&rules(0), &json!({"sub": "ann", "exp": -5}), before_1970),
            None
        );
        assert_eq!(
            reason(&rules(0), &json!({"sub": "ann", "exp": -15}), before_1970),
            Some(AuthFailure::Expired)
        );
    }

    #[test]
    fn claims_become_texts_and_shapes_are_left_out() {
        let claims = json!({
            "sub": "ann", "exp": NOON, "plan": "gold", "rate_factor": 0.5, "beta": true, "roles": ["a", "b"],
            "none": null, "nested": {"a": 1}, "numbers": [1], "empty": [], "comma": ["a,b"],
        });
        let principal = rules(0)
            .principal(claims.as_object().unwrap(), at(0))
            .unwrap();
        let expected = Principal::new("ann")
            .claim("sub", "ann")
            .claim("exp", NOON.to_string())
            .claim("plan", "gold")
            .claim("rate_factor", "0.5")
            .claim("beta", "true")
            .claim("roles", "a,b");
        assert_eq!(principal, expected);
    }

    #[test]
    fn a_subject_is_a_short_text_without_control_characters() {
        let subject = |sub: Value| reason(&rules(0), &json!({"sub": sub, "exp": NOON}), at(0));
        assert_eq!(subject(json!("\u{e9}".repeat(128))), None);
        for wrong in [
            json!(""),
            json!("a\nb"),
            json!("a\u{85}"),
            json!("\u{e9}".repeat(129)),
            json!(7),
            json!(null),
        ] {
            assert_eq!(subject(wrong), Some(AuthFailure::Malformed));
        }
        assert_eq!(
            reason(&rules(0), &json!({"exp": NOON}), at(0)),
            Some(AuthFailure::Malformed)
        );
    }
}
