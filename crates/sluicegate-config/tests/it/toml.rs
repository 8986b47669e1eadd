//! Files in TOML: the same tree as YAML, the same mistakes, at their own places.

mod both_notations;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use sluicegate_config::{Config, Mistakes, Source, Syntax, load};

use crate::{docs, schema, source, try_load};

fn try_toml(text: &str) -> Result<Config, Mistakes> {
    let env = |name: &str| (name == "BURST").then(|| "7".to_owned());
    let toml = Source {
        name: "sluicegate.toml".to_owned(),
        syntax: Syntax::Toml,
        ..source(text)
    };
    load(&toml, &env)
}

/// The configuration of a text in TOML that must be accepted.
#[track_caller]
pub fn good(text: &str) -> Config {
    try_toml(text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

/// Everything that a configuration holds. Of the policy that is its limits: its index is made from
/// them and has no order.
pub fn everything(config: &Config) -> String {
    let Config {
        proxy,
        decisions,
        admin,
        client_ip,
        principals,
        access,
        store,
        policy,
        overload,
        external,
        response,
        log,
        traces,
        switched_off,
        value_files,
        warnings,
    } = config;
    let limits = (policy.limits(), policy.disabled());
    let front = (proxy, decisions, admin, client_ip, principals, access);
    let back = (
        value_files,
        store,
        overload,
        external,
        response,
        log,
        traces,
        switched_off,
        warnings,
    );
    format!("{front:#?}\n{limits:#?}\n{back:#?}")
}

const MANY: &str = r#"[proxy]
listen = "127.0.0.1:80800"
timeouts = { idle = "1M" }
max_conections = 5

[client_ip]
trusted_proxies = ["10.0.0.0/33"]

[[limits]]
name = "a"
key = ["client_ip"]
rate = "10/s"
brust = 3

[[limits]]
name = "ä"
key = [
  "client_ip",
]
rate = "${RATE}"
burst = 0
match.path = "api"

[external]
"#;

#[test]
fn all_mistakes_in_toml_are_told_at_once_with_line_and_column() {
    let reported = try_toml(MANY).unwrap_err().to_string();
    let expected = r#"
sluicegate.toml:2:10: proxy.listen: expected an IP address and port, such as 127.0.0.1:8080 (got "127.0.0.1:80800")
sluicegate.toml:3:21: proxy.timeouts.idle: expected a number and a unit (ns, us, ms, s, m, h, d), such as 30s, 1.5s or 1m30s (got "1M")
sluicegate.toml:4:1: proxy: unknown key `max_conections`, did you mean `max_connections`?
sluicegate.toml:7:20: client_ip.trusted_proxies[0]: expected addresses such as 10.0.0.0/8 or 2001:db8::/32 (got "10.0.0.0/33")
sluicegate.toml:13:1: limits[0]: unknown key `brust`, did you mean `burst`?
sluicegate.toml:16:8: limits[1].name: must be 1 to 64 letters, digits, '.', '_' and '-' (got "ä")
sluicegate.toml:20:8: limits[1].rate: there is no variable RATE in the environment; ${RATE:-default} gives it a default
sluicegate.toml:21:9: limits[1].burst: must be at least 1; write 1 for a burst of one request, or leave it out for those of one period (got 0)
sluicegate.toml:22:14: limits[1].match.path: expected a path that starts with a slash (got "api")
sluicegate.toml:24:1: external: needs http or grpc: the service to ask"#;
    assert_eq!(reported, expected.trim_start());
    let shown = try_toml(MANY).unwrap_err().render(false);
    assert!(shown.contains("13 | brust = 3\n   | ^^^^^\n"), "{shown}");
}

#[test]
fn what_is_no_toml_is_told_at_every_place() {
    for (text, reported) in [
        (
            "[[limits]]\nname = per-ip\nrate = 10/s\n",
            "2:8: expected a value; text must be in quotes\n\
             3:8: expected a value; text must be in quotes",
        ),
        ("[log]\nformat =\n", "2:9: expected a value after `=`"),
        ("log", "1:4: key with no value, expected `=`"),
        ("[log\n", "1:5: unclosed table, expected `]`"),
        (
            "ä = [1, 2\n",
            "1:1: invalid unquoted key, expected letters, numbers, `-`, `_`\n1:10: unclosed array, expected `]`",
        ),
        ("a = 01", "1:5: unexpected leading zero"),
        (
            "log = {}\n[log.x]\n",
            "2:2: cannot extend value of type inline table with a dotted key",
        ),
        (
            "a = \"\u{1b}\"",
            "1:6: invalid basic string, expected non-double-quote visible characters, `\\`",
        ),
    ] {
        let mistakes = try_toml(text).unwrap_err();
        let lines: Vec<String> = mistakes
            .to_string()
            .lines()
            .map(|line| line.replace("sluicegate.toml:", ""))
            .collect();
        assert_eq!(lines.join("\n"), reported, "{text}");
        assert!(!mistakes.render(false).contains('\u{1b}'));
    }
}

#[test]
fn a_key_that_occurs_twice_in_toml_is_refused_beside_the_other_mistakes() {
    let text = "\"limits\" = []\nlimits = []\n[log]\nformat = \"xml\"\n[log]\naccess = 1\n";
    let mistakes = try_toml(text).unwrap_err();
    let reported: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "the key \"limits\" occurs twice",
            "log.format: unknown value \"xml\" (expected text or json)",
            "the key \"log\" occurs twice",
            "log.access: expected true or false (got 1)",
        ]
    );
}

#[test]
fn names_of_files_say_what_they_are_written_in() {
    for (name, syntax) in [
        ("a.toml", Some(Syntax::Toml)),
        ("dir.yaml/A.TOML", Some(Syntax::Toml)),
        ("a.yaml", Some(Syntax::Yaml)),
        ("a.yml", Some(Syntax::Yaml)),
        ("a.json", Some(Syntax::Yaml)),
        ("toml", None),
        (".toml", None),
        ("a.conf", None),
    ] {
        assert_eq!(Syntax::of_file(name), syntax, "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let toml = directory.path().join("a.toml");
    std::fs::write(&toml, "admin = \"off\"\n").unwrap();
    let config = load(&Source::read(&toml).unwrap(), &|_| None).unwrap();
    assert_eq!(config.admin.listen, None);
    let other = directory.path().join("a.conf");
    std::fs::write(&other, "admin: off\n").unwrap();
    assert_eq!(Source::read(&other).unwrap().syntax, Syntax::Yaml);
}

#[test]
fn references_are_filled_in_inside_quotes() {
    let text = "[[limits]]\nname = \"a\"\nkey = \"client_ip\"\nrate = \"${RATE:-3/s}\"\nburst = \"${BURST}\"\n";
    assert_eq!(good(text).policy.limits()[0].quota.unwrap().limit(), 7);
    let literal = text.replace("\"${BURST}\"", "\"7\"");
    let reported = try_toml(&literal).unwrap_err().to_string();
    assert!(
        reported.ends_with("limits[0].burst: expected a whole number (got \"7\")"),
        "{reported}"
    );
}

/// The depth of one key times that of brackets: the parser's own bounds would let it through.
#[test]
fn deep_nesting_in_toml_is_refused() {
    let levels = 100_000;
    let path = "a.".repeat(75);
    let product = format!("{path}a = {}", format!("{{ {path}a = ").repeat(75));
    for text in [
        "[".repeat(levels),
        format!("a = {}", "[".repeat(levels)),
        format!("a = {}", "{ a = ".repeat(levels)),
        format!("{}a = 1", "a.".repeat(levels)),
        format!("[{}a]", "a.".repeat(levels)),
        format!("a = {}1{}", "[".repeat(33), "]".repeat(33)),
        format!("{product}1{}", "}".repeat(75)),
    ] {
        let reported = refused_quickly(&text).to_string();
        assert!(
            reported.lines().count() == 1 && reported.len() < 200,
            "{reported}"
        );
    }
    let many: String = (0..100).map(|number| format!("key{number}\n")).collect();
    let reported = refused_quickly(&many).to_string();
    assert_eq!(reported.lines().count(), 100, "{reported}");
    let wide = "a.b.c = { d = [{ e.f = [1] }, { e.f = [1] }] }\n".repeat(100);
    assert!(!refused_quickly(&wide).to_string().contains("deeply"));
}

#[test]
fn toml_that_takes_time_is_refused_quickly() {
    let one_line = format!("limits = [{}]", "1,".repeat(500_000));
    assert_eq!(refused_quickly(&one_line).iter().len(), 500_000);
    refused_quickly(&"=".repeat(200_000));
    refused_quickly(&"a\n".repeat(100_000));
    refused_quickly(&"[a]\n".repeat(200_000));
    refused_quickly(&"\"".repeat(1 << 20));
    let headers: String = (0..40_000)
        .map(|number| format!("[a.b.c{number}]\n"))
        .collect();
    refused_quickly(&headers);
    let long = format!("a = \"{}\"", "ä".repeat(600_000));
    assert!(
        refused_quickly(&long)
            .to_string()
            .ends_with("is longer than 1 MiB")
    );
}

#[track_caller]
fn refused_quickly(text: &str) -> Mistakes {
    /// Long for a computer, even a busy one without optimisation.
    const QUICKLY: Duration = Duration::from_secs(10);
    let started = Instant::now();
    let mistakes = try_toml(text).expect_err("was accepted");
    let shown = mistakes.render(true).len();
    let took = started.elapsed();
    assert!(took < QUICKLY, "took {took:?} for {shown} bytes");
    mistakes
}

#[test]
fn the_schema_describes_toml_too() {
    let example = docs::toml_example();
    let table: Value = ::toml::from_str(&example).unwrap();
    schema::accepts_json(&table).unwrap_or_else(|why| panic!("{why}"));
}

/// Every letter of the example taken out, and the example cut there.
#[test]
fn damaged_toml_is_loaded_or_refused() {
    let example = docs::toml_example();
    for (at, letter) in example.char_indices().step_by(3) {
        let (before, after) = (&example[..at], &example[at + letter.len_utf8()..]);
        for text in [before.to_owned(), format!("{before}{after}")] {
            if let Err(mistakes) = try_toml(&text) {
                assert!(mistakes.iter().all(|mistake| mistake.place().is_some()));
                mistakes.render(true);
            }
        }
    }
}

proptest! {
    /// Whatever a file holds, it is loaded or refused.
    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        words in proptest::collection::vec(select(WORDS.to_vec()), 0..60),
    ) {
        let mut directory = tempfile::tempdir().unwrap().keep();
        directory.push("a.toml");
        std::fs::write(&directory, &bytes).unwrap();
        let read = Source::read(&directory);
        std::fs::remove_dir_all(directory.parent().unwrap()).unwrap();
        let noise = String::from_utf8_lossy(&bytes);
        prop_assert_eq!(read.is_ok(), std::str::from_utf8(&bytes).is_ok());
        for text in [noise.to_string(), words.concat(), words.join(" "), words.concat() + &noise] {
            if let Err(mistakes) = try_toml(&text) {
                mistakes.render(true);
            }
            if let Err(mistakes) = try_load(&text) {
                mistakes.render(true);
            }
        }
    }
}

const WORDS: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\"",
    "\"\"\"",
    "'",
    "'''",
    "#",
    " ",
    "\t",
    "a",
    "limits",
    "store",
    "password",
    "name",
    "key",
    "1",
    "-",
    "+",
    "_",
    "0x",
    "1e9",
    "inf",
    "nan",
    "true",
    "1979-05-27T07:32:00Z",
    "\\",
    "\\u00e9",
    "${",
    "}",
    "é",
    "\u{feff}",
    "\u{0}",
    "[a]\n",
    "[[a]]\n",
    "[a.b]\n",
    "a.b = 1\n",
    "a = [",
    "a = {",
    ":",
    "- ",
];
