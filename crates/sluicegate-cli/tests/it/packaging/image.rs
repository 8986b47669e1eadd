//! The last stage of the image, put together by hand from its lines and run: the C library, the program, its
//! configuration and a user without rights, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{DOCKERFILE, told};

/// The shared libraries that `distroless/cc` has.
const LIBRARIES: [&str; 5] = [
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
    "libstdc++.so.6",
];
const NO_OTHERS: &str = "-rnpf";

#[test]
#[ignore = "needs user namespaces"]
fn the_program_runs_as_the_user_of_the_image_with_nothing_else_there() {
    let root = tempfile::tempdir().unwrap();
    lay_out(root.path());
    let user = line("USER ");
    let (user, group) = user.split_once(':').unwrap();
    let command = [words(line("ENTRYPOINT ")), words(line("CMD "))]
        .concat()
        .join(" ");
    let health = words(line("HEALTHCHECK ").split_once("CMD ").unwrap().1).join(" ");
    let inside = format!(
        "unshare --map-user={user} --map-group={group} --root='{}' --wd=/",
        root.path().display()
    );
    let asked = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/";
    let script = format!(
        "exec 2>&1
ip link set lo up
{inside} {command} &
for i in $(seq 200); do {inside} {health} && break; sleep 0.1; done
echo \"health $?\"
echo \"answer $({asked})\"
kill %1; wait %1
echo \"ended $?\"
"
    );
    let output = Command::new("timeout")
        .args([
            "--signal=KILL",
            "60",
            "unshare",
            NO_OTHERS,
            "--kill-child",
            "bash",
            "-c",
            &script,
        ])
        .env_remove("http_proxy")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = told(&output);
    for line in ["health 0", "answer 200", "ended 0"] {
        assert!(told.lines().any(|own| own == line), "{line}?\n{told}");
    }
}

/// The last line that begins so.
fn line(word: &str) -> &'static str {
    DOCKERFILE
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(word))
        .unwrap()
}

fn words(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap()
}

/// Everything that the last stage copies, and the libraries of its base.
fn lay_out(root: &Path) {
    let put = |from: &Path, to: &str| {
        let to = root.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    let program = Path::new(env!("CARGO_BIN_EXE_sluicegate"));
    let (_, last_stage) = DOCKERFILE.rsplit_once("\nFROM ").unwrap();
    let copies = last_stage
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "));
    for copy in copies {
        let (from, to) = copy
            .trim_start_matches("--from=build ")
            .split_once(' ')
            .unwrap();
        match from {
            "/usr/local/bin/sluicegate" => put(program, to),
            from => put(
                &Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("../..")
                    .join(from),
                to,
            ),
        }
    }
    let linked = Command::new("ldd").arg(program).output().unwrap();
    for library in told(&linked)
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let name = library.rsplit('/').next().unwrap();
        assert!(LIBRARIES.contains(&name), "the image has no {name}");
        put(Path::new(library), library);
    }
    // Nobody inside may write anything.
    fs::set_permissions(root, fs::Permissions::from_mode(0o555)).unwrap();
}
