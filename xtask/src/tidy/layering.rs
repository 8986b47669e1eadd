//! The table of crates and the crates they may depend on. A new arrow is a decision, not an accident.

use serde_json::Value;

use super::{Finding, Tree};
use crate::command::{Command, root};

/// Finds arrows that the table does not have.
pub fn check(tree: &Tree) -> Vec<Finding> {
    match workspace() {
        Ok(packages) => packages
            .iter()
            .flat_map(|package| wrong_arrows(package, &packages, tree))
            .collect(),
        Err(failure) => {
            vec![Finding::new(
                "Cargo.toml",
                1,
                failure,
                "repair the manifests until `cargo metadata` works",
            )]
        }
    }
}

/// A workspace crate and the workspace crates it may use, outside its tests.
struct CrateLayer {
    name: &'static str,
    may_use: &'static [&'static str],
}

const LAYERS: [CrateLayer; 15] = [
    CrateLayer {
        name: CORE,
        may_use: &[],
    },
    CrateLayer {
        name: "sluicegate-config",
        may_use: &[CORE],
    },
    CrateLayer {
        name: "sluicegate",
        may_use: &[CORE],
    },
    // Knows sockets and no limits: of the configuration, only sizes, timeouts and files of TLS.
    CrateLayer {
        name: "sluicegate-net",
        may_use: &["sluicegate-config"],
    },
    // Knows limits and no sockets of clients: of the network, only TLS towards the services it asks
    // and the counts of connections that it exports.
    CrateLayer {
        name: "sluicegate-gate",
        may_use: &[CORE, "sluicegate-config", "sluicegate", "sluicegate-net"],
    },
    CrateLayer {
        name: "sluicegate-server",
        may_use: &[
            CORE,
            "sluicegate-config",
            "sluicegate",
            "sluicegate-net",
            "sluicegate-gate",
        ],
    },
    CrateLayer {
        name: "sluicegate-sim",
        may_use: &[CORE, "sluicegate-config", "sluicegate"],
    },
    CrateLayer {
        name: "sluicegate-cli",
        may_use: &[
            CORE,
            "sluicegate-config",
            "sluicegate",
            "sluicegate-server",
            "sluicegate-sim",
        ],
    },
    CrateLayer {
        name: "sluicegate-testkit",
        may_use: &[],
    },
    CrateLayer {
        name: "sluicegate-chaos",
        may_use: &[CORE, "sluicegate", "sluicegate-testkit"],
    },
    CrateLayer {
        name: "sluicegate-bench",
        may_use: &[CORE, "sluicegate", "sluicegate-testkit"],
    },
    // Feeds every parser, so it may use every crate that has one.
    CrateLayer {
        name: "sluicegate-fuzz",
        may_use: &[
            CORE,
            "sluicegate-config",
            "sluicegate",
            "sluicegate-net",
            "sluicegate-gate",
            "sluicegate-server",
        ],
    },
    CrateLayer {
        name: "sluicegate-fuzz-libfuzzer",
        may_use: &["sluicegate-fuzz"],
    },
    // Knows Sluicegate only by what goes over the wire.
    CrateLayer {
        name: "limits-service",
        may_use: &[],
    },
    CrateLayer {
        name: "xtask",
        may_use: &[],
    },
];

/// Has no dependencies at all, and tests itself without the rest of the workspace.
const CORE: &str = "sluicegate-core";
/// Tools of this repository, of no use to anybody else.
const NEVER_PUBLISHED: [&str; 7] = [
    "limits-service",
    "sluicegate-bench",
    "sluicegate-chaos",
    "sluicegate-fuzz",
    "sluicegate-fuzz-libfuzzer",
    "sluicegate-testkit",
    "xtask",
];
const THIS_FILE: &str = "xtask/src/tidy/layering.rs";

/// A crate of the workspace, as far as the rules go.
struct Package {
    name: String,
    manifest: String,
    is_published: bool,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    is_for_tests: bool,
}

fn workspace() -> Result<Vec<Package>, String> {
    let metadata =
        Command::cargo(["metadata", "--format-version", "1", "--no-deps"]).read_stdout()?;
    packages(&metadata).ok_or_else(|| "`cargo metadata` has an unknown form".to_string())
}

fn packages(metadata: &str) -> Option<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    metadata["packages"]
        .as_array()?
        .iter()
        .map(package)
        .collect()
}

fn package(value: &Value) -> Option<Package> {
    let manifest = value["manifest_path"].as_str()?;
    let dependencies = value["dependencies"].as_array()?.iter().map(|dependency| {
        Some(Dependency {
            name: dependency["name"].as_str()?.to_string(),
            is_for_tests: dependency["kind"] == "dev",
        })
    });
    Some(Package {
        name: value["name"].as_str()?.to_string(),
        manifest: manifest
            .strip_prefix(&*root().to_string_lossy())
            .unwrap_or(manifest)
            .trim_start_matches('/')
            .to_string(),
        is_published: value["publish"]
            .as_array()
            .is_none_or(|registries| !registries.is_empty()),
        dependencies: dependencies.collect::<Option<_>>()?,
    })
}

fn wrong_arrows(package: &Package, workspace: &[Package], tree: &Tree) -> Vec<Finding> {
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
        let fact = format!("`{}` is not in the table of layers", package.name);
        return vec![Finding::new(
            &package.manifest,
            1,
            fact,
            format!("add it to LAYERS in {THIS_FILE} with what it may use"),
        )];
    };
    let mut findings = Vec::new();
    if package.is_published && NEVER_PUBLISHED.contains(&layer.name) {
        findings.push(Finding::new(
            &package.manifest,
            1,
            format!("`{}` could be published", layer.name),
            "write `publish = false`",
        ));
    }
    for dependency in &package.dependencies {
        let is_internal = workspace.iter().any(|other| other.name == dependency.name);
        let is_wrong = match (layer.name, dependency.is_for_tests) {
            (CORE, true) => is_internal,
            (CORE, false) => true,
            (_, true) => false,
            (_, false) => is_internal && !layer.may_use.contains(&dependency.name.as_str()),
        };
        if is_wrong {
            let fact = format!("`{}` must not depend on `{}`", layer.name, dependency.name);
            let way_out = format!(
                "move the code to a crate that may, or change LAYERS in {THIS_FILE} and give the reason in the commit"
            );
            findings.push(Finding::new(
                &package.manifest,
                line_of(dependency, package, tree),
                fact,
                way_out,
            ));
        }
    }
    findings
}

/// The line of the manifest that begins with the dependency, or the first one.
fn line_of(dependency: &Dependency, package: &Package, tree: &Tree) -> usize {
    let text = tree.file(&package.manifest).map_or("", |file| &file.text);
    let is_named = |line: &str| {
        line.strip_prefix(dependency.name.as_str())
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    text.lines().position(is_named).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings in a workspace of crates given as `(name, [dependency])`; `dev:name` is a dependency of the tests.
    fn found(crates: &[(&str, &[&str])]) -> Vec<String> {
        let packages: Vec<Package> = crates
            .iter()
            .map(|(name, dependencies)| made_up(name, dependencies))
            .collect();
        let tree = Tree::of(&[(
            "crates/sluicegate/Cargo.toml",
            "[dependencies]\nsluicegate-core = \"1\"\nsluicegate-sim = \"1\"\n",
        )]);
        let findings = packages
            .iter()
            .flat_map(|package| wrong_arrows(package, &packages, &tree));
        findings
            .map(|finding| {
                finding
                    .to_string()
                    .splitn(4, ':')
                    .take(3)
                    .collect::<Vec<_>>()
                    .join(":")
            })
            .collect()
    }

    fn made_up(name: &str, dependencies: &[&str]) -> Package {
        let dependency = |word: &&str| match word.strip_prefix("dev:") {
            Some(name) => Dependency {
                name: name.to_string(),
                is_for_tests: true,
            },
            None => Dependency {
                name: (*word).to_string(),
                is_for_tests: false,
            },
        };
        Package {
            name: name.to_string(),
            manifest: format!("crates/{name}/Cargo.toml"),
            is_published: name != "xtask",
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    #[test]
    fn the_workspace_keeps_to_the_table() {
        assert_eq!(check(&Tree::of(&[])), []);
        assert!(
            workspace()
                .expect("cargo metadata works here")
                .iter()
                .any(|package| package.name == "xtask")
        );
    }

    #[test]
    fn arrows_of_the_table_are_left_alone() {
        let crates: [(&str, &[&str]); 4] = [
            ("sluicegate-core", &["dev:proptest"]),
            (
                "sluicegate",
                &["sluicegate-core", "redis", "dev:sluicegate-sim"],
            ),
            ("sluicegate-sim", &["sluicegate-core", "sluicegate"]),
            ("xtask", &["serde_json"]),
        ];
        assert_eq!(found(&crates), [""; 0]);
    }

    #[test]
    fn arrows_against_the_table_are_found() {
        let crates: [(&str, &[&str]); 3] = [
            ("sluicegate", &["sluicegate-core", "sluicegate-sim"]),
            ("sluicegate-sim", &[]),
            ("xtask", &["sluicegate"]),
        ];
        let expected = [
            "crates/sluicegate/Cargo.toml:3: `sluicegate` must not depend on `sluicegate-sim`",
            "crates/xtask/Cargo.toml:1: `xtask` must not depend on `sluicegate`",
        ];
        assert_eq!(found(&crates), expected);
    }

    #[test]
    fn the_core_depends_on_nothing() {
        let crates: [(&str, &[&str]); 2] = [
            (
                "sluicegate-core",
                &["serde", "dev:sluicegate", "dev:proptest"],
            ),
            ("sluicegate", &[]),
        ];
        let expected = ["serde", "sluicegate"].map(|name| {
            format!(
                "crates/sluicegate-core/Cargo.toml:1: `sluicegate-core` must not depend on `{name}`"
            )
        });
        assert_eq!(found(&crates), expected);
    }

    #[test]
    fn new_crates_must_be_placed_and_tools_stay_private() {
        let crates: [(&str, &[&str]); 2] = [
            ("sluicegate-wasm", &[]),
            ("sluicegate-bench", &["sluicegate"]),
        ];
        let expected = [
            "crates/sluicegate-wasm/Cargo.toml:1: `sluicegate-wasm` is not in the table of layers",
            "crates/sluicegate-bench/Cargo.toml:1: `sluicegate-bench` could be published",
        ];
        assert_eq!(found(&crates), expected);
    }

    #[test]
    fn metadata_is_read_with_its_kinds() {
        let json = r#"{"packages":[{"name":"a","manifest_path":"/x/Cargo.toml","publish":[],"dependencies":[
            {"name":"b","kind":"dev"},{"name":"c","kind":"build"},{"name":"d","kind":null}]}]}"#;
        let packages = packages(json).expect("the form of cargo metadata");
        let kinds: Vec<_> = packages[0]
            .dependencies
            .iter()
            .map(|dependency| (dependency.name.as_str(), dependency.is_for_tests))
            .collect();
        assert_eq!(kinds, [("b", true), ("c", false), ("d", false)]);
        assert!(!packages[0].is_published);
    }
}
