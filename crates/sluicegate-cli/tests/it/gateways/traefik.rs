//! Traefik with `forwardAuth`.

use super::{Example, Scene};

const EXAMPLE: Example = Example {
    readme: include_str!("../../../../../examples/traefik/README.md"),
    files: &[
        (
            "traefik.yaml",
            include_str!("../../../../../examples/traefik/traefik.yaml"),
        ),
        (
            "routes.yaml",
            include_str!("../../../../../examples/traefik/routes.yaml"),
        ),
    ],
    sluicegate: include_str!("../../../../../examples/traefik/sluicegate.yaml"),
    program: Some("SLUICEGATE_TRAEFIK"),
    waits: &[],
};

#[test]
#[ignore = "needs Traefik"]
fn limited_clients_of_traefik_are_told_when_to_come_back() {
    let scene = Scene::start(&EXAMPLE);
    scene.limited_clients_are_told_when_to_come_back();
}

#[test]
#[ignore = "needs Traefik"]
fn what_a_client_says_about_itself_changes_nothing_behind_traefik() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_a_client_says_about_itself_changes_nothing();
}

#[test]
#[ignore = "needs Traefik"]
fn what_is_refused_for_good_says_no_time_behind_traefik() {
    let scene = Scene::start(&EXAMPLE);
    scene.what_is_refused_for_good_says_no_time(400);
}

#[test]
#[ignore = "needs Traefik"]
fn without_sluicegate_traefik_refuses_and_asks_again() {
    let mut scene = Scene::start(&EXAMPLE);
    scene.without_sluicegate_clients_get(500);
}
