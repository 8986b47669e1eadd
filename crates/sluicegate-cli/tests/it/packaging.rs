//! The image, the manifests for Kubernetes, and what they need of the program.
//!
//! Neither Docker nor a cluster is needed: hadolint reads the Dockerfile, its last stage is put together by hand, and Kubernetes' own
//! schemas judge the manifests.

mod image;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sluicegate_config::{Config, Source};
use sluicegate_testkit::needs;

use super::running::Sluicegate;

const DOCKERFILE: &str = include_str!("../../../../deploy/docker/Dockerfile");
const IN_IMAGE: &str = include_str!("../../../../deploy/docker/sluicegate.yaml");

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(name)
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
#[ignore = "needs hadolint"]
fn hadolint_finds_nothing_in_the_dockerfile() {
    let hadolint = needs::program("SLUICEGATE_HADOLINT");
    let judge = |file: &Path| {
        let output = Command::new("timeout")
            .arg("60")
            .arg(&hadolint)
            .arg(file)
            .output()
            .unwrap();
        (output.status.success(), told(&output))
    };
    assert_eq!(judge(&deploy("docker/Dockerfile")), (true, String::new()));
    let directory = tempfile::tempdir().unwrap();
    let sloppy = directory.path().join("Dockerfile");
    fs::write(&sloppy, DOCKERFILE.replace("rust:1.95-bookworm", "rust")).unwrap();
    let (is_content, findings) = judge(&sloppy);
    assert!(!is_content && findings.contains("DL3006"), "{findings}");
}

#[test]
fn the_image_has_a_user_without_rights_and_starts_what_the_program_knows() {
    let last = |word: &str| {
        DOCKERFILE
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(word))
            .unwrap()
    };
    assert_eq!(last("USER "), "65532:65532");
    let (_, health) = last("HEALTHCHECK ").split_once("CMD ").unwrap();
    for words in [last("CMD "), health] {
        let words: Vec<String> = serde_json::from_str(words).unwrap();
        let words: Vec<&str> = words
            .iter()
            .map(String::as_str)
            .filter(|word| *word != "/usr/bin/sluicegate")
            .collect();
        assert!(is_understood(&words), "{words:?}");
    }
    let sluicegate = Sluicegate::start(
        &IN_IMAGE
            .replace("0.0.0.0:8080", "127.0.0.1:0")
            .replace(":9090", ":0"),
    );
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
}

/// Returns true when the program takes these arguments: only a wrong command line ends with 2.
fn is_understood(arguments: &[&str]) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(arguments)
        .arg("--help")
        .output()
        .unwrap();
    output.status.code() == Some(0)
}

#[test]
fn ready_asks_the_admin_door_with_its_token() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("admin.token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let config = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0', token_file: admin.token }
limits:
  - { name: a, key: [client_ip], rate: 1/s }
";
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let ready = |url: &str, more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(["ready", "--url", url])
            .args(more)
            .output()
            .unwrap();
        (output.status.code(), told(&output))
    };
    let url = format!("http://{}", sluicegate.admin.unwrap());
    let with_token = ["--token-file", token.to_str().unwrap()];
    let (code, said) = ready(&url, &with_token);
    assert!(
        code == Some(0) && said.starts_with("{\"ready\":true"),
        "{said}"
    );
    assert_eq!(ready(&url, &[]).0, Some(1), "without the token");
    assert_eq!(ready(&url, &["--token-file", "/nowhere/token"]).0, Some(1));
    let (code, said) = ready("http://127.0.0.1:1", &with_token);
    assert!(
        code == Some(1) && said.contains("http://127.0.0.1:1") && !said.contains("0123456789"),
        "{said}"
    );
    for wrong in [
        "https://127.0.0.1:9090",
        "127.0.0.1:9090",
        "http://a b",
        "http://x@127.0.0.1:1",
    ] {
        assert_eq!(ready(wrong, &with_token).0, Some(2), "{wrong}");
    }
}

/// Pages and completions are written by the program before the package is made, the rest must be there.
#[test]
fn what_a_debian_package_holds_is_there_and_the_unit_finds_it() {
    let manifest = include_str!("../../Cargo.toml");
    let assets: Vec<(&str, &str)> = manifest
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("[\"")?
                .strip_suffix("\"],")?
                .split_once("\", \"")
        })
        .filter_map(|(source, rest)| Some((source, rest.split_once('"')?.0)))
        .collect();
    assert!(assets.len() > 8, "{assets:?}");
    let made = ["target/release/", "../../target/deb/"];
    for (source, _) in assets
        .iter()
        .filter(|(source, _)| !made.iter().any(|made| source.starts_with(made)))
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(source.trim_end_matches("*.yml"));
        assert!(path.exists(), "{source}");
    }
    let service = fs::read_to_string(deploy("systemd/sluicegate.service")).unwrap();
    assert!(service.contains(
        "ExecStart=/usr/bin/sluicegate serve --config /etc/sluicegate/sluicegate.yaml\n"
    ));
    assert!(assets.contains(&("target/release/sluicegate", "usr/bin/")));
    assert!(assets.contains(&(
        "../../deploy/sluicegate.yaml",
        "etc/sluicegate/sluicegate.yaml"
    )));
}

/// The manifests, by their files.
fn manifests() -> Vec<(String, Vec<Value>)> {
    let mut manifests: Vec<(String, Vec<Value>)> = fs::read_dir(deploy("kubernetes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let parts = text
                .split("\n---\n")
                .map(|part| serde_saphyr::from_str(part).unwrap())
                .collect();
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                parts,
            )
        })
        .collect();
    manifests.sort_by(|one, other| one.0.cmp(&other.0));
    manifests
}

const KUSTOMIZATION: &str = "kustomization.yaml";

#[test]
#[ignore = "needs the schemas of Kubernetes"]
fn kubernetes_own_schemas_accept_every_manifest_and_no_other_field() {
    let python = needs::program("SLUICEGATE_KUBERNETES_PYTHON");
    let judge = |files: &[PathBuf]| {
        let validate = [
            "60",
            python.to_str().unwrap(),
            "-m",
            "kubernetes_validate",
            "--strict",
        ];
        let output = Command::new("timeout")
            .args(validate)
            .args(files)
            .output()
            .unwrap();
        (output.status.success(), told(&output))
    };
    let files = manifests()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name != KUSTOMIZATION);
    let files: Vec<PathBuf> = files.map(|name| deploy("kubernetes").join(name)).collect();
    assert!(files.len() >= 8);
    let (is_content, told) = judge(&files);
    assert!(
        is_content && told.matches(" passed for ").count() > files.len(),
        "{told}"
    );

    let directory = tempfile::tempdir().unwrap();
    let slip = directory.path().join("deployment.yaml");
    let good = fs::read_to_string(deploy("kubernetes/deployment.yaml")).unwrap();
    fs::write(
        &slip,
        good.replace("readOnlyRootFilesystem", "readonlyRootFilesystem"),
    )
    .unwrap();
    let (is_content, told) = judge(&[slip]);
    assert!(
        !is_content && told.contains("readonlyRootFilesystem"),
        "{told}"
    );
}

#[test]
fn the_kustomization_names_every_manifest() {
    let manifests = manifests();
    let named = |(name, _): &&(String, Vec<Value>)| *name != KUSTOMIZATION;
    let files: BTreeSet<&str> = manifests
        .iter()
        .filter(named)
        .map(|(name, _)| name.as_str())
        .collect();
    let (_, kustomization) = manifests
        .iter()
        .find(|manifest| manifest.0 == KUSTOMIZATION)
        .unwrap();
    let resources = kustomization[0]["resources"].as_array().unwrap();
    assert_eq!(
        resources
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect::<BTreeSet<_>>(),
        files
    );
}

/// One manifest of a kind.
fn manifest(kind: &str, name: &str) -> Value {
    let all = manifests().into_iter().flat_map(|(_, parts)| parts);
    let mut found = all.filter(|part| part["kind"] == kind && part["metadata"]["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {kind} {name}"))
}

fn loaded(text: &str) -> Config {
    let source = Source {
        name: "sluicegate.yaml".to_owned(),
        text: text.to_owned(),
        ..Source::embedded()
    };
    sluicegate_config::load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn the_configuration_in_the_manifests_is_good_and_fits_them() {
    let config = manifest("ConfigMap", "sluicegate");
    let config = loaded(config["data"]["sluicegate.yaml"].as_str().unwrap());
    let pod = &manifest("Deployment", "sluicegate")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let port = |name: &str| {
        let ports = container["ports"].as_array().unwrap();
        ports
            .iter()
            .find(|port| port["name"] == name)
            .and_then(|port| port["containerPort"].as_u64())
            .unwrap()
    };
    let proxy = config.proxy.expect("there is a proxy");
    assert_eq!(
        proxy
            .listen
            .iter()
            .map(|address| u64::from(address.port()))
            .collect::<Vec<_>>(),
        [port("proxy")]
    );
    assert_eq!(
        config.admin.listen.map(|address| u64::from(address.port())),
        Some(port("admin"))
    );
    let drain = std::time::Duration::from(proxy.timeouts.drain).as_secs();
    let pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        .as_u64()
        .unwrap();
    assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() > drain + pause);
    // The token that the admin API wants is the one that the probe shows.
    let token = config
        .admin
        .token_file
        .expect("beyond loopback there is a token");
    let probe = container["readinessProbe"]["exec"]["command"]
        .as_array()
        .unwrap();
    let probe: Vec<&str> = probe.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(
        probe,
        [
            "sluicegate",
            "ready",
            "--token-file",
            token.to_str().unwrap()
        ]
    );
    assert!(is_understood(&probe[1..]));
    let arguments = container["args"].as_array().unwrap();
    assert!(is_understood(
        &arguments
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect::<Vec<_>>()
    ));
    let service = manifest("Service", "sluicegate-redis");
    assert!(service["spec"]["ports"][0]["port"] == 6379, "{service}");
}

/// The Deployment's name for what the strictest standard of Kubernetes demands.
#[test]
fn pods_run_without_rights() {
    for (kind, name) in [
        ("Deployment", "sluicegate"),
        ("StatefulSet", "sluicegate-redis"),
    ] {
        let pod = &manifest(kind, name)["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert_eq!(pod["automountServiceAccountToken"], false);
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["capabilities"]["drop"][0], "ALL");
    }
}
