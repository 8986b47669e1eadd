//! Caddy with `forward_auth`.

use super::{Example, Scene, one_question_is_enough};

const EXAMPLE: Example = Example {
    readme: include_str!("../../../../../examples/caddy/README.md"),
    files: &[(
        "Caddyfile",
        include_str!("../../../../../examples/caddy/Caddyfile"),
    )],
    sluicegate: include_str!("../../../../../examples/caddy/sluicegate.yaml"),
    program: Some("SLUICEGATE_CADDY"),
    waits: &[
        ("dial_timeout 1s", "dial_timeout 15s"),
        ("header_timeout 1s", "header_timeout 15s"),
    ],
};

#[test]
#[ignore = "needs Caddy"]
fn limited_clients_of_caddy_are_told_when_to_come_back() {
    let scene = Scene::start(&EXAMPLE);
    scene.limited_clients_are_told_when_to_come_back();
}

#[test]
#[ignore = "needs Caddy"]
fn what_a_client_says_about_itself_changes_nothing_behind_caddy() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_a_client_says_about_itself_changes_nothing();
}

#[test]
#[ignore = "needs Caddy"]
fn what_is_refused_for_good_says_no_time_behind_caddy() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_is_refused_for_good_says_no_time(400);
}

#[test]
#[ignore = "needs Caddy"]
fn without_sluicegate_caddy_refuses_and_asks_again() {
    let mut scene = Scene::start(&EXAMPLE);
    scene.without_sluicegate_clients_get(502);
}

#[test]
#[ignore = "needs Caddy"]
fn caddy_asks_once_and_does_not_wait_for_ever() {
    one_question_is_enough(&EXAMPLE, 504);
}
