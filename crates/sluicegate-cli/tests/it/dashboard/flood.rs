//! The page beside more traffic than anybody could look at: it is sampled, and what the page costs does not grow with it.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::visit::Visit;
use crate::running::{Sluicegate, times};

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { resp: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-caller, key: ['header:X-Caller'], rate: 1/s, burst: 1 }
";

/// A hundred thousand requests a second are promised; how many a debugging build on a busy machine gets is not.
const PROMISED: u64 = 100_000;
/// For eight connections with sixty-four questions at a time: others are rounded up.
const USUAL: u32 = 4_096_000;

/// `cargo xtask chaos --only dashboard` asks many more times, and wants the rate that is promised.
#[test]
fn beside_a_flood_the_page_shows_a_sample_and_stays_light() {
    let sluicegate = Sluicegate::start(CONFIG);
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelector('#events-state').textContent.startsWith('a sample')");
    let wanted = times(USUAL);
    let (began, worked_before) = (Instant::now(), browser.worked());
    let port = sluicegate.resp.unwrap().port();
    let flood = Command::new("timeout")
        .args([
            "240",
            "redis-benchmark",
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-c",
            "8",
            "-P",
            "64",
            "-q",
        ])
        .args([
            "-r",
            "1000",
            "-n",
            &wanted.to_string(),
            "SG.CHECK",
            "per-caller",
            "__rand_int__",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-benchmark is installed with redis-server");
    browser.wait_for("[...document.querySelectorAll('#events tbody tr td:last-child')].some((cell) => Number(cell.textContent.replace(/,/g, '')) > 50)");
    assert!(flood.wait_with_output().unwrap().status.success());
    let (took, worked) = (began.elapsed(), browser.worked() - worked_before);

    let stats = sluicegate.admin_get("/v1/stats?history=true");
    let stats: Value = serde_json::from_str(stats.body()).unwrap();
    let of = |name: &str| {
        stats["history"][name]
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_u64().unwrap())
    };
    let peak = of("allowed")
        .zip(of("denied"))
        .map(|(allowed, denied)| allowed + denied)
        .max()
        .unwrap();
    let rows = browser
        .run("return document.querySelectorAll('#events tbody tr').length")
        .as_u64()
        .unwrap();
    println!(
        "{wanted} decisions in {took:?}, up to {peak} in a second: {rows} rows; the page worked for {worked:.2} s"
    );
    assert!(rows <= 200, "{rows}");
    assert!(
        worked < 0.5 * took.as_secs_f64() + 0.5,
        "the page worked for {worked} s of {took:?}"
    );
    // The page shows a sample; the counters count everything.
    let counted = |outcome: &str| {
        sluicegate.metric(&format!(
            "sluicegate_limit_decisions_total{{limit=\"per-caller\",outcome=\"{outcome}\"}}"
        ))
    };
    assert_eq!(counted("allowed") + counted("denied"), u64::from(wanted));
    if wanted > USUAL {
        assert!(peak >= PROMISED, "{peak}");
    }
    browser.wait_for("document.querySelectorAll('#keys tbody tr').length === 20");
    visit.end();
}
