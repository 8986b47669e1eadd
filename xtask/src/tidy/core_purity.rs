//! `sluicegate-core` computes and does nothing else: no clock, no I/O, no threads, no async.

use std::collections::BTreeSet;

use super::rust_source::RustSource;
use super::{Finding, Tree};

/// Finds words that give such things away in the code of the core, one finding per line and kind.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust
        .iter()
        .filter(|source| source.path.starts_with(CORE))
        .flat_map(impurities)
        .collect()
}

const CORE: &str = "crates/sluicegate-core/src/";

/// Things that the core must not do, and the words that give it away, after an import as well as with the full path.
const FORBIDDEN: [(&str, &[&str]); 6] = [
    (
        "reads a clock",
        &["time::Instant", "Instant::now", "SystemTime"],
    ),
    ("opens a socket", &["TcpStream", "TcpListener", "UdpSocket"]),
    ("touches files", &["std::fs", "fs::"]),
    ("uses threads", &["std::thread", "thread::"]),
    ("prints", &["print!", "println!", "eprint!", "eprintln!"]),
    (
        "is asynchronous",
        &["async fn", "async move", "async {", ".await"],
    ),
];

fn impurities(source: &RustSource) -> impl Iterator<Item = Finding> {
    FORBIDDEN.iter().flat_map(move |(fact, words)| {
        let lines: BTreeSet<usize> = words
            .iter()
            .flat_map(|word| source.mentions(word))
            .map(|at| source.line_at(at))
            .collect();
        lines.into_iter().map(move |line| {
            let way_out =
                "take the result as an argument, and do it in `sluicegate` or further out";
            Finding::new(&source.path, line, format!("the core {fact}"), way_out)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn each_kind_is_found_in_the_core() {
        let text = "fn now() -> u64 { convert(std::time::Instant::now()) }\nfn a() { SystemTime::now(); }\nfn b(s: std::net::TcpStream) {}\n\
                    fn c() { std::fs::read(p); }\nuse std::{fs, thread};\nfn d() { thread::spawn(f); }\nfn e() { eprintln!(); }\nasync fn f() {}\n";
        let kinds = [
            "1: the core reads a clock",
            "2: the core reads a clock",
            "3: the core opens a socket",
            "4: the core touches files",
        ];
        let more = [
            "6: the core uses threads",
            "7: the core prints",
            "8: the core is asynchronous",
        ];
        let expected: Vec<String> = kinds
            .iter()
            .chain(&more)
            .map(|rest| format!("{CORE}a.rs:{rest}"))
            .collect();
        assert_eq!(
            found(check, &[("crates/sluicegate-core/src/a.rs", text)]),
            expected
        );
    }

    #[test]
    fn words_in_comments_and_other_crates_are_left_alone() {
        let text = "/// Not an Instant, and never println!.\nenum State { Instant(u64) }\nfn instant(offs: u8) -> &'static str { \"std::fs\" }\n";
        let files = [
            ("crates/sluicegate-core/src/a.rs", text),
            ("crates/sluicegate/src/a.rs", "use std::fs;"),
            ("crates/sluicegate-core/tests/a.rs", "use std::fs;"),
        ];
        assert_eq!(found(check, &files), [""; 0]);
    }
}
