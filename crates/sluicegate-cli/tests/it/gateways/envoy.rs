//! Envoy with `ext_authz` over HTTP.

use super::{Example, Scene, one_question_is_enough};

const EXAMPLE: Example = Example {
    readme: include_str!("../../../../../examples/envoy-ext-authz/README.md"),
    files: &[(
        "envoy.yaml",
        include_str!("../../../../../examples/envoy-ext-authz/envoy.yaml"),
    )],
    sluicegate: include_str!("../../../../../examples/envoy-ext-authz/sluicegate.yaml"),
    program: Some("SLUICEGATE_ENVOY"),
    waits: &[
        ("timeout: 0.5s", "timeout: 15s"),
        ("connect_timeout: 0.2s", "connect_timeout: 15s"),
    ],
};

#[test]
#[ignore = "needs Envoy"]
fn limited_clients_of_envoy_are_told_when_to_come_back() {
    let scene = Scene::start(&EXAMPLE);
    scene.limited_clients_are_told_when_to_come_back();
    scene.responses_that_pass_tell_the_limit();
}

#[test]
#[ignore = "needs Envoy"]
fn what_a_client_says_about_itself_changes_nothing_behind_envoy() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_a_client_says_about_itself_changes_nothing();
}

#[test]
#[ignore = "needs Envoy"]
fn what_is_refused_for_good_says_no_time_behind_envoy() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_is_refused_for_good_says_no_time(400);
}

#[test]
#[ignore = "needs Envoy"]
fn without_sluicegate_envoy_refuses_what_it_should_authorize_and_asks_again() {
    let mut scene = Scene::start(&EXAMPLE);
    scene.without_sluicegate_clients_get(503);
}

#[test]
#[ignore = "needs Envoy"]
fn envoy_asks_once_and_does_not_wait_for_ever() {
    one_question_is_enough(&EXAMPLE, 503);
}

#[test]
#[ignore = "needs Envoy"]
fn envoy_can_be_told_to_let_requests_pass_without_sluicegate() {
    const CLOSED: &str = "failure_mode_allow: false";
    assert!(EXAMPLE.files[0].1.contains(CLOSED));
    let open = |file: String| file.replace(CLOSED, "failure_mode_allow: true");
    let mut scene = Scene::start_with(&EXAMPLE, open);
    scene.without_sluicegate_clients_get(200);
}
