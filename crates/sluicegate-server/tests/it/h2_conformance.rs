//! What RFC 9113 and RFC 7541 demand of a server, case by case: every type of frame, every state of a
//! stream, every error code. The cases run against a listener without and with TLS.
//!
//! Where the RFC lets a server choose between an error of the stream and one of the connection,
//! either will do; where it names a code, the code must be right.

mod driver;
mod flow;
mod frames;
mod hpack;
mod messages;
mod settings;
mod streams;

use driver::{Case, Target};

/// All cases, by the part of the RFC that they are about.
fn all() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("frames", frames::cases()),
        ("streams", streams::cases()),
        ("settings", settings::cases()),
        ("flow control", flow::cases()),
        ("messages", messages::cases()),
        ("header compression", hpack::cases()),
    ]
}

/// Runs every case on a connection of its own, and fails with all that went wrong.
fn run(target: &Target) {
    let mut failures = Vec::new();
    let mut count = 0;
    for (part, cases) in all() {
        for case in cases {
            count += 1;
            if let Err(failure) = target.run(&case) {
                failures.push(format!("{part}: {}: {failure}", case.name));
            }
        }
    }
    assert!(count >= 146, "only {count} cases");
    assert!(
        failures.is_empty(),
        "{} of {count} cases:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn http2_is_spoken_as_the_rfc_says() {
    run(&Target::plain());
}

#[test]
fn http2_is_spoken_as_the_rfc_says_over_tls() {
    run(&Target::with_tls());
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let mut names: Vec<&str> = Vec::new();
    for (_, cases) in all() {
        names.extend(cases.iter().map(|case| case.name));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
