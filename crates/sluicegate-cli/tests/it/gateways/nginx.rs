//! nginx with `auth_request`.

use super::{Example, Scene, one_question_is_enough};

const EXAMPLE: Example = Example {
    readme: include_str!("../../../../../examples/nginx/README.md"),
    files: &[(
        "nginx.conf",
        include_str!("../../../../../examples/nginx/nginx.conf"),
    )],
    sluicegate: include_str!("../../../../../examples/nginx/sluicegate.yaml"),
    program: None,
    waits: &[
        ("proxy_connect_timeout 1s", "proxy_connect_timeout 15s"),
        ("proxy_read_timeout 1s", "proxy_read_timeout 15s"),
    ],
};

#[test]
fn limited_clients_of_nginx_are_told_when_to_come_back() {
    let scene = Scene::start(&EXAMPLE);
    scene.limited_clients_are_told_when_to_come_back();
    scene.responses_that_pass_tell_the_limit();
}

#[test]
fn what_a_client_says_about_itself_changes_nothing_behind_nginx() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_a_client_says_about_itself_changes_nothing();
}

#[test]
fn what_is_refused_for_good_stays_403_behind_nginx() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_is_refused_for_good_says_no_time(403);
}

#[test]
fn without_sluicegate_nginx_refuses_and_asks_again() {
    Scene::start(&EXAMPLE).without_sluicegate_clients_get(500);
}

#[test]
fn nginx_asks_once_and_does_not_wait_for_ever() {
    one_question_is_enough(&EXAMPLE, 500);
}

#[test]
fn nginx_can_be_told_to_let_requests_pass_without_sluicegate() {
    const LINE: &str = "# error_page 502 504 = @unlimited;";
    assert!(EXAMPLE.files[0].1.contains(LINE));
    let open = |file: String| file.replace(LINE, LINE.trim_start_matches("# "));
    let mut scene = Scene::start_with(&EXAMPLE, open);
    scene.without_sluicegate_clients_get(200);
}

/// The guide shows the part of the example that matters.
#[test]
fn the_guide_and_the_example_of_nginx_say_the_same() {
    let guide = include_str!("../../../../../docs/decisions.md");
    let block = guide
        .split_once("```nginx\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .unwrap()
        .0;
    let mut example = EXAMPLE.files[0].1.lines().map(str::trim);
    for line in block.lines().map(str::trim) {
        assert!(
            example.any(|own| own == line),
            "in the guide and not, or elsewhere, in the example: {line}"
        );
    }
}
