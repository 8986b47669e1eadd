//! HAProxy with a script in Lua.

use super::{Example, Scene, one_question_is_enough};

const EXAMPLE: Example = Example {
    readme: include_str!("../../../../../examples/haproxy/README.md"),
    files: &[
        (
            "haproxy.cfg",
            include_str!("../../../../../examples/haproxy/haproxy.cfg"),
        ),
        (
            "sluicegate.lua",
            include_str!("../../../../../examples/haproxy/sluicegate.lua"),
        ),
    ],
    sluicegate: include_str!("../../../../../examples/haproxy/sluicegate.yaml"),
    program: None,
    waits: &[
        ("timeout connect 1s", "timeout connect 15s"),
        ("timeout connect 200ms", "timeout connect 15s"),
        ("timeout server 500ms", "timeout server 15s"),
        ("timeout = 2000", "timeout = 15000"),
    ],
};

#[test]
fn limited_clients_of_haproxy_are_told_when_to_come_back() {
    let scene = Scene::start(&EXAMPLE);
    scene.limited_clients_are_told_when_to_come_back();
    scene.responses_that_pass_tell_the_limit();
}

#[test]
fn what_a_client_says_about_itself_changes_nothing_behind_haproxy() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_a_client_says_about_itself_changes_nothing();
}

#[test]
fn what_is_refused_for_good_says_no_time_behind_haproxy() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_is_refused_for_good_says_no_time(400);
}

#[test]
fn without_sluicegate_haproxy_refuses_and_asks_again() {
    Scene::start(&EXAMPLE).without_sluicegate_clients_get(503);
}

#[test]
fn haproxy_asks_once_and_does_not_wait_for_ever() {
    one_question_is_enough(&EXAMPLE, 503);
}

#[test]
fn haproxy_can_be_told_to_let_requests_pass_without_sluicegate() {
    const LINE: &str =
        "    http-request deny deny_status 503 if { var(txn.sluicegate_away) -m bool }\n";
    assert!(EXAMPLE.files[0].1.contains(LINE));
    let open = |file: String| file.replace(LINE, "");
    let mut scene = Scene::start_with(&EXAMPLE, open);
    scene.without_sluicegate_clients_get(200);
}
