use super::*;
use crate::limit::Match;
use crate::quota::Quota;

const MANY: usize = 10_000;

/// The most candidates that any of these requests finds among many limits, one of which is for
/// it.
fn most_candidates(
    matching: impl Fn(usize) -> Match,
    candidates_of: impl Fn(&Index, usize) -> LimitIndices,
) -> usize {
    let limit = |limit_index| {
        Limit::new(format!("limit-{limit_index}"), Quota::per_second(1))
            .matching(matching(limit_index))
    };
    let index = Index::new(&(0..MANY).map(limit).collect::<Vec<_>>());
    let found = (0..MANY).step_by(97).map(|limit_index| {
        let candidates = candidates_of(&index, limit_index);
        assert!(
            candidates.contains(&limit_index),
            "the limit for request {limit_index} was not found"
        );
        candidates.len()
    });
    found.max().expect("some requests were made")
}

#[test]
fn among_many_paths_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index| {
        let path = format!("/api/{limit_index}/items/7");
        index.candidates(&Subject {
            path: &path,
            ..Subject::ANONYMOUS
        })
    };
    assert_eq!(
        most_candidates(
            |limit_index| Match::path(&format!("/api/{limit_index}/items")).unwrap(),
            candidates_of
        ),
        1
    );
}

#[test]
fn among_many_templates_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index| {
        let path = format!("/users/ann/{limit_index}");
        index.candidates(&Subject {
            path: &path,
            ..Subject::ANONYMOUS
        })
    };
    assert_eq!(
        most_candidates(
            |limit_index| Match::path(&format!("/users/{{id}}/{limit_index}")).unwrap(),
            candidates_of
        ),
        1
    );
}

#[test]
fn among_many_hosts_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index| {
        let host = format!("tenant-{limit_index}.example");
        index.candidates(&Subject {
            host: Some(&host),
            ..Subject::ANONYMOUS
        })
    };
    let whole = |limit_index| {
        Match::default()
            .host(&format!("tenant-{limit_index}.example"))
            .unwrap()
    };
    assert_eq!(most_candidates(whole, candidates_of), 1);
}

#[test]
fn among_many_domains_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index| {
        let host = format!("www.tenant-{limit_index}.example");
        index.candidates(&Subject {
            host: Some(&host),
            ..Subject::ANONYMOUS
        })
    };
    let below = |limit_index| {
        Match::default()
            .host(&format!("*.tenant-{limit_index}.example"))
            .unwrap()
    };
    assert_eq!(most_candidates(below, candidates_of), 1);
}

#[test]
fn among_many_header_values_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index: usize| {
        let headers = [("x-tenant-id", limit_index.to_string())];
        index.candidates(&Subject {
            headers: &headers,
            ..Subject::ANONYMOUS
        })
    };
    let tenant =
        |limit_index: usize| Match::default().header("X-Tenant-Id", limit_index.to_string());
    assert_eq!(most_candidates(tenant, candidates_of), 1);
}

#[test]
fn among_many_entries_of_descriptors_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index: usize| {
        let value = limit_index.to_string();
        let descriptors = [("plan", "any"), ("tenant", value.as_str())];
        index.candidates(&Subject {
            descriptors: &descriptors,
            ..Subject::ANONYMOUS
        })
    };
    let tenant =
        |limit_index: usize| Match::default().descriptor("tenant", limit_index.to_string());
    assert_eq!(most_candidates(tenant, candidates_of), 1);
}

#[test]
fn among_many_values_of_a_query_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index: usize| {
        let query = format!("a=b&tenant=%74{limit_index}");
        index.candidates(&Subject {
            query: Some(&query),
            ..Subject::ANONYMOUS
        })
    };
    let tenant = |limit_index: usize| Match::default().query("tenant", format!("t{limit_index}"));
    assert_eq!(most_candidates(tenant, candidates_of), 1);
}

#[test]
fn among_many_principals_and_claims_one_is_looked_at() {
    let candidates_of = |index: &Index, limit_index: usize| {
        let principal = Principal::new(format!("tenant-{limit_index}"))
            .claim("plan", format!("any,plan-{limit_index}"));
        index.candidates(&Subject {
            principal: Some(&principal),
            ..Subject::ANONYMOUS
        })
    };
    let by_id = |limit_index: usize| Match::default().principals([format!("tenant-{limit_index}")]);
    assert_eq!(most_candidates(by_id, candidates_of), 1);
    let by_claim =
        |limit_index: usize| Match::default().claim("plan", [format!("plan-{limit_index}")]);
    assert_eq!(most_candidates(by_claim, candidates_of), 1);
}
