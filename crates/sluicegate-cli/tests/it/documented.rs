//! Every `curl` of the admin API in the documentation and in the alerts is answered.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::running::Sluicegate;

#[test]
fn every_question_to_the_admin_door_in_the_documentation_is_answered() {
    let sluicegate = Sluicegate::start(
        "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-client, key: [client_ip], rate: 10/s, burst: 20 }
",
    );
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    let address = sluicegate.admin.unwrap().to_string();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["docs/troubleshooting.md", "deploy/prometheus/rules.yml"];
    let pages = pages.map(|page| std::fs::read_to_string(root.join(page)).unwrap());
    let commands: BTreeSet<String> = pages
        .iter()
        .flat_map(|page| curls(page, &address))
        .collect();
    assert!(commands.len() >= 8, "{commands:?}");
    let directory = tempfile::tempdir().unwrap();
    for command in commands {
        let answered = Command::new("sh")
            .args([
                "-c",
                &format!("{command} --noproxy '*' --max-time 20 -o answer -w '%{{http_code}}'"),
            ])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let code = String::from_utf8_lossy(&answered.stdout).into_owned();
        let answer = std::fs::read_to_string(directory.path().join("answer")).unwrap_or_default();
        assert!(code.starts_with('2'), "{command}: {code} {answer}");
    }
}

/// The commands between backticks, up to what the shell does with their output, sent to this address.
fn curls(page: &str, address: &str) -> Vec<String> {
    let spans = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let commands = spans.filter(|span| span.starts_with("curl ")).map(|span| {
        let span = span.replace("\\|", "|").replace("\\\"", "\"");
        let command = span.split('|').next().unwrap_or_default().trim_end();
        let command = command
            .replace("127.0.0.1:9090", address)
            .replace("{{ $labels.instance }}", address);
        command.replace("{{ $labels.limit }}", "per-client")
    });
    commands
        .filter(|command| command.contains(address))
        .collect()
}
