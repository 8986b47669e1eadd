//! The time that it takes to find a request's limits among many.

use std::hint::black_box;
use std::time::Instant;

use sluicegate::{Limit, Match, Policy, Quota, Subject};

use crate::median::median;

/// Limits in the policy; a request is covered by one of them.
pub const LIMITS: usize = 10_000;

/// One way to tell limits apart, and the time to find a request's charges.
pub struct MatchingTime {
    pub told_apart_by: &'static str,
    pub ns: f64,
}

pub fn measured(rounds: usize) -> Vec<MatchingTime> {
    let by_path =
        |place: usize| Match::path(&format!("/api/v1/{place}/items")).expect("a plain path");
    let by_template =
        |place: usize| Match::path(&format!("/users/{{id}}/{place}")).expect("a plain template");
    let by_host = |place: usize| {
        Match::default()
            .host(&format!("tenant-{place}.example"))
            .expect("a plain host")
    };
    let by_header = |place: usize| Match::default().header("x-tenant-id", place.to_string());
    vec![
        timed("path", rounds, by_path),
        timed("path with a template", rounds, by_template),
        timed("host", rounds, by_host),
        timed("header value", rounds, by_header),
    ]
}

fn timed(
    told_apart_by: &'static str,
    rounds: usize,
    matching: impl Fn(usize) -> Match,
) -> MatchingTime {
    let limit = |place| {
        Limit::per_client(format!("limit-{place}"), Quota::per_second(1)).matching(matching(place))
    };
    let policy = Policy::new((0..LIMITS).map(limit)).expect("the limits are well-formed");
    let asked: Vec<usize> = (0..LIMITS)
        .map(|place| place.wrapping_mul(7_919) % LIMITS)
        .collect();
    let texts: Vec<[String; 3]> = asked
        .iter()
        .map(|place| request(told_apart_by, *place))
        .collect();
    let round = |_| {
        let start = Instant::now();
        for [path, host, tenant] in &texts {
            let headers = [("x-tenant-id", tenant.as_str())];
            let client_ip = Some([203, 0, 113, 7].into());
            let subject = Subject {
                client_ip,
                path,
                host: Some(host),
                headers: &headers,
                ..Subject::ANONYMOUS
            };
            let charges = policy
                .charges_for(&subject, 1)
                .expect("the request has an address");
            assert_eq!(black_box(charges).len(), 1, "one limit covers each request");
        }
        start.elapsed().as_nanos() as f64 / texts.len() as f64
    };
    MatchingTime {
        told_apart_by,
        ns: median((0..rounds.max(3)).map(round)).unwrap_or(f64::NAN),
    }
}

/// Path, host and tenant of the request that limit `place` covers.
fn request(told_apart_by: &str, place: usize) -> [String; 3] {
    let path = match told_apart_by {
        "path" => format!("/api/v1/{place}/items/7"),
        "path with a template" => format!("/users/ann/{place}"),
        _ => "/api/v1/items".to_string(),
    };
    [path, format!("tenant-{place}.example"), place.to_string()]
}
