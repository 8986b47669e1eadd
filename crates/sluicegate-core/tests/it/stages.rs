//! Limits that replace one another, in one stage and in two: no request goes uncounted.

use std::net::IpAddr;

use proptest::prelude::*;
use sluicegate_core::{
    KeyPart, Limit, Match, MissingKey, OnMissingKey, Policy, Principal, Quota, Stage, Subject,
};

use crate::cases::cases;
use crate::matching::{Rule, request, rule};

/// The names of the limits that are charged in a stage.
fn charged(
    policy: &Policy,
    stage: Stage,
    subject: &Subject<'_>,
) -> Result<Vec<String>, MissingKey> {
    let charges = policy.charges_at(stage, subject, 1)?;
    let names = charges.iter().map(|charge| charge.key.limit().name.clone());
    Ok(names.collect())
}

/// Both stages together, in the order of the list. No limit may be in both.
fn in_two_stages(
    policy: &Policy,
    later: Stage,
    subject: &Subject<'_>,
) -> Result<Vec<String>, MissingKey> {
    let nobody = Subject {
        principal: None,
        ..*subject
    };
    let mut names = charged(policy, Stage::BeforePrincipal, &nobody)?;
    names.extend(charged(policy, later, subject)?);
    let place = |name: &String| policy.limit(name).unwrap().0;
    names.sort_by_key(place);
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(twice.is_none(), "charged twice: {twice:?}");
    Ok(names)
}

fn policy_of(rules: &[Rule]) -> Policy {
    let limits = rules.iter().enumerate();
    Policy::new(limits.map(|(place, rule)| rule.limit(place))).unwrap()
}

proptest! {
    #![proptest_config(cases(4_000))]

    /// Whoever the caller turns out to be, two stages charge what one would.
    #[test]
    fn two_stages_charge_what_one_would(
        rules in prop::collection::vec(rule(), 1..12), request in request(),
    ) {
        let policy = policy_of(&rules);
        let whole = charged(&policy, Stage::Whole, &request.subject()).unwrap();
        let turns = in_two_stages(&policy, Stage::AfterPrincipal, &request.subject()).unwrap();
        prop_assert_eq!(turns, whole);
    }

    /// One limit of a family whose base covers everything is charged for every request: with a
    /// credential, without one, and with a wrong one.
    #[test]
    fn every_request_is_charged_to_one_limit_of_a_family_with_an_unconditional_base(
        mut rules in prop::collection::vec(rule(), 1..12), request in request(), strict: [bool; 12],
    ) {
        rules[0] = Rule::default();
        for (place, rule) in rules.iter_mut().enumerate().skip(1) {
            rule.replaces = Some(rule.replaces.unwrap_or(0) % place);
        }
        let policy = policy_of(&rules);
        let subject = request.subject();
        let whole = charged(&policy, Stage::Whole, &subject).unwrap();
        let turns = in_two_stages(&policy, Stage::AfterPrincipal, &subject).unwrap();
        prop_assert_eq!((whole.len(), turns.len()), (1, 1));
        // Also where limits refuse callers that they do not know: a wrong credential is charged.
        for (rule, strict) in rules.iter_mut().zip(strict) {
            match &mut rule.key {
                Some(("principal" | "claim:plan", rule)) if strict => *rule = OnMissingKey::Reject,
                _ => {}
            }
        }
        let nobody = Subject { principal: None, ..subject };
        let refused = in_two_stages(&policy_of(&rules), Stage::Unauthorized, &nobody).unwrap();
        prop_assert_eq!(refused.len(), 1);
    }
}

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 7));

fn quota() -> Quota {
    Quota::per_second(1).into()
}

fn per_ip() -> Limit {
    Limit::per_client("per-ip", quota())
}

fn per_user() -> Limit {
    Limit::new("per-user", quota())
        .key([KeyPart::Principal])
        .replaces("per-ip")
}

fn on<'a>(path: &'a str, principal: Option<&'a Principal>) -> Subject<'a> {
    Subject {
        client_ip: Some(CLIENT),
        path,
        principal,
        ..Subject::ANONYMOUS
    }
}

/// What is charged before the credential is looked at, and then for each caller: ann, nobody, and
/// a wrong credential.
fn stages(policy: &Policy, path: &str) -> [Vec<String>; 4] {
    let ann = Principal::new("ann").claim("plan", "gold");
    let nobody = on(path, None);
    [
        charged(policy, Stage::BeforePrincipal, &nobody).unwrap(),
        charged(policy, Stage::AfterPrincipal, &on(path, Some(&ann))).unwrap(),
        charged(policy, Stage::AfterPrincipal, &nobody).unwrap(),
        charged(policy, Stage::Unauthorized, &nobody).unwrap(),
    ]
}

#[test]
fn a_limit_that_a_known_caller_replaces_waits_for_the_caller() {
    let policy = Policy::new([per_ip(), per_user()]).unwrap();
    assert_eq!(
        stages(&policy, "/"),
        [&[][..], &["per-user"], &["per-ip"], &["per-ip"]]
    );
    let whole = |principal| charged(&policy, Stage::Whole, &on("/", principal)).unwrap();
    assert_eq!(whole(None), ["per-ip"]);
    assert_eq!(whole(Some(&Principal::new("ann"))), ["per-user"]);
}

/// Elsewhere the flood is stopped before a credential is verified.
#[test]
fn a_limit_that_nobody_can_replace_here_does_not_wait() {
    let api = per_user().matching(Match::path("/api").unwrap());
    let login = Limit::per_client("login", quota())
        .matching(Match::path("/api/login").unwrap())
        .replaces("per-ip");
    let policy = Policy::new([per_ip(), api, login]).unwrap();
    assert_eq!(stages(&policy, "/other"), [&["per-ip"][..], &[], &[], &[]]);
    assert_eq!(
        stages(&policy, "/api/x"),
        [&[][..], &["per-user"], &["per-ip"], &["per-ip"]]
    );
    // The longer path wins whoever asks.
    assert_eq!(
        stages(&policy, "/api/login"),
        [&["login"][..], &[], &[], &[]]
    );
}

#[test]
fn conditions_on_the_caller_that_fail_replace_nobody() {
    let gold = Limit::per_client("gold", quota())
        .matching(Match::default().claim("plan", ["gold"]))
        .replaces("per-ip");
    let bob = Limit::per_client("bob", quota())
        .matching(Match::default().principals(["bob"]))
        .replaces("per-ip");
    let policy = Policy::new([per_ip(), bob, gold]).unwrap();
    assert_eq!(
        stages(&policy, "/"),
        [&[][..], &["gold"], &["per-ip"], &["per-ip"]]
    );
    let cy = Principal::new("cy");
    assert_eq!(
        charged(&policy, Stage::AfterPrincipal, &on("/", Some(&cy))).unwrap(),
        ["per-ip"]
    );
}

#[test]
fn a_limit_that_refuses_strangers_leaves_wrong_credentials_to_the_limit_it_replaces() {
    let strict = per_user().on_missing_key(OnMissingKey::Reject);
    let policy = Policy::new([per_ip(), strict]).unwrap();
    let nobody = on("/", None);
    assert!(
        charged(&policy, Stage::BeforePrincipal, &nobody)
            .unwrap()
            .is_empty()
    );
    assert!(charged(&policy, Stage::AfterPrincipal, &nobody).is_err());
    assert_eq!(
        charged(&policy, Stage::Unauthorized, &nobody).unwrap(),
        ["per-ip"]
    );
}

/// A limit that counts strangers by themselves does so for wrong credentials, too.
#[test]
fn a_limit_with_a_counter_for_strangers_is_charged_for_wrong_credentials() {
    let by_address = per_user().on_missing_key(OnMissingKey::ClientIp);
    let policy = Policy::new([per_ip(), by_address]).unwrap();
    let nobody = on("/", None);
    let charges = policy.charges_at(Stage::Unauthorized, &nobody, 1).unwrap();
    assert_eq!(charges[0].key.to_string(), "per-user:!client:203.0.113.7");
}

/// Which of the first two wins depends on the third, whose caller is not known yet.
#[test]
fn a_rival_that_the_caller_may_remove_makes_a_limit_wait() {
    let limit = |name: &str, path: &str, replaces: &str| {
        Limit::per_client(name, quota())
            .matching(Match::path(path).unwrap())
            .replaces(replaces)
    };
    let long = limit("long", "/a/b/c", "per-ip");
    let short = limit("short", "/a", "per-ip");
    let known = Limit::new("known", quota())
        .key([KeyPart::Principal])
        .replaces("long");
    let policy = Policy::new([per_ip(), long, short, known]).unwrap();
    assert_eq!(
        stages(&policy, "/a/b/c"),
        [&[][..], &["short"], &["long"], &["long"]]
    );
}

#[test]
fn a_request_without_the_header_of_a_key_is_charged_to_the_limit_that_would_be_replaced() {
    let tenant = Limit::new("tenant", quota())
        .key([KeyPart::header("X-Tenant")])
        .replaces("per-ip");
    let with = |rule, headers: &[(&str, &str); 1]| {
        let tenant = tenant.clone().on_missing_key(rule);
        let policy = Policy::new([per_ip(), tenant]).unwrap();
        let subject = Subject {
            headers,
            ..on("/", None)
        };
        charged(&policy, Stage::Whole, &subject).unwrap()
    };
    let (named, unnamed) = (&[("x-tenant", "acme")], &[("x-other", "acme")]);
    assert_eq!(with(OnMissingKey::Skip, named), ["tenant"]);
    assert_eq!(with(OnMissingKey::Skip, unnamed), ["per-ip"]);
    assert_eq!(with(OnMissingKey::Shared, unnamed), ["tenant"]);
}

#[test]
fn an_exception_for_known_callers_exempts_nobody_else() {
    let staff = Limit {
        quota: None,
        ..per_user().matching(Match::default().claim("plan", ["gold"]))
    };
    let policy = Policy::new([per_ip(), staff]).unwrap();
    assert_eq!(
        stages(&policy, "/"),
        [&[][..], &[], &["per-ip"], &["per-ip"]]
    );
}

/// Ten thousand limits, one for each caller: a request looks at one of them, and at one for all
/// that it is not.
#[test]
fn limits_for_many_callers_wait_together() {
    let one = |number: usize| {
        Limit::per_client(format!("caller-{number}"), quota())
            .matching(Match::default().principals([format!("p{number}")]))
            .replaces("per-ip")
    };
    let limits = std::iter::once(per_ip()).chain((0..10_000).map(one));
    let policy = Policy::new(limits).unwrap();
    let (known, stranger) = (Principal::new("p7777"), Principal::new("x"));
    let after = |principal| charged(&policy, Stage::AfterPrincipal, &on("/", principal)).unwrap();
    assert_eq!(after(Some(&known)), ["caller-7777"]);
    assert_eq!(after(Some(&stranger)), ["per-ip"]);
    assert_eq!(after(None), ["per-ip"]);
    let before = charged(&policy, Stage::BeforePrincipal, &on("/", None)).unwrap();
    assert!(before.is_empty());
}
