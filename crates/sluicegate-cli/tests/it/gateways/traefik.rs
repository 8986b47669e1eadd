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
fn limited_clients_of_traefik_are_told_when_to_come_back() {
    let Some(scene) = Scene::start(&EXAMPLE) else {
        return;
    };
    scene.limited_clients_are_told_when_to_come_back();
}

#[test]
fn what_a_client_says_about_itself_changes_nothing_behind_traefik() {
    let Some(scene) = Scene::start(&EXAMPLE) else {
        return;
    };
    scene.what_a_client_says_about_itself_changes_nothing();
}

#[test]
fn what_is_refused_for_good_says_no_time_behind_traefik() {
    let Some(scene) = Scene::start(&EXAMPLE) else {
        return;
    };
    scene.what_is_refused_for_good_says_no_time(400);
}

#[test]
fn without_sluicegate_traefik_refuses_and_asks_again() {
    let Some(mut scene) = Scene::start(&EXAMPLE) else {
        return;
    };
    scene.without_sluicegate_clients_get(500);
}
