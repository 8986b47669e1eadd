//! The picture of the dashboard that README and docs/dashboard.md show, taken of a real page.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate_testkit::raw_socket;

use super::visit::{Visit, ask};
use crate::operator;
use crate::running::Sluicegate;

/// The seconds of traffic before the picture is taken. Without it a short one goes beside the
/// build; with it (300 fill the chart) the picture goes to docs/:
///
/// ```text
/// SLUICEGATE_PICTURE_SECONDS=300 cargo nextest run -p sluicegate-cli the_picture_of_the_documentation
/// ```
const SECONDS: &str = "SLUICEGATE_PICTURE_SECONDS";
/// The picture is on the front page, which has to open quickly.
const LARGEST: u64 = 150_000;

const CONFIG: &str = "
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-client, key: [client_ip], rate: 20/s, burst: 40 }
  - { name: sign-in, match: { path: /sign-in }, key: [client_ip], rate: 5/m, burst: 5 }
  - { name: per-tenant, key: [host], rate: 50/s, burst: 100, mode: shadow }
";

#[test]
fn the_picture_of_the_documentation_is_of_this_dashboard() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard.png");
    let asked = std::env::var(SECONDS).ok();
    let seconds = asked.as_deref().map_or(3, |text| text.parse().unwrap());
    let sluicegate = Sluicegate::start(CONFIG);
    for (path, order) in [
        (
            "/v1/overrides",
            json!({ "limit": "per-client", "key": ["198.51.100.20"], "rate": "100/s", "burst": 100,
                    "for": "1h", "by": "ann", "reason": "load test" }),
        ),
        (
            "/v1/bans",
            json!({ "client_ip": "192.0.2.0/24", "for": "8h", "by": "ann", "reason": "scraping" }),
        ),
    ] {
        let (status, answer) = operator::ask(&sluicegate, "POST", path, Some(&order.to_string()));
        assert_eq!(status, 201, "{answer}");
    }
    play_day(&sluicegate, Duration::from_secs(seconds));
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.size(1_280, 1_090, 1.0);
    browser.wait_for("document.querySelectorAll('#limits tbody tr').length === 3");
    browser.wait_for("document.querySelector('#keys tbody .key').textContent === '203.0.113.7'");
    browser.wait_for("document.querySelector('#chart-text').textContent.includes('denied')");
    let taken = browser.picture_of_screen("documentation");
    if asked.is_some() {
        std::fs::copy(&taken, &docs).unwrap();
    }
    let size = std::fs::metadata(&docs).unwrap().len();
    assert!(size < LARGEST, "{} has {size} bytes", docs.display());
    visit.end();
}

/// Plays a day in a few minutes: visitors come and go in waves, and twice somebody scrapes.
fn play_day(sluicegate: &Sluicegate, length: Duration) {
    const TICK: Duration = Duration::from_millis(50);
    let decisions = sluicegate.decisions.unwrap();
    let mut stream = raw_socket::connect(decisions);
    let begun = Instant::now();
    for tick in 0_u32.. {
        let now = begun.elapsed();
        if now >= length {
            break;
        }
        let of_day = now.as_secs_f64() / length.as_secs_f64();
        let wave = 1.0 + (of_day * 12.0).sin();
        let scrapes = (0.25..0.4).contains(&of_day) || of_day > 0.75 && of_day < 0.85;
        let mut visit = |client: String, path: &str| {
            let subject = json!({ "method": "GET", "host": "shop.example", "path": path, "client_ip": client });
            ask(&mut stream, decisions, &json!({ "subject": subject }));
        };
        for visitor in 0..(1.0 + 2.0 * wave) as u32 {
            visit(
                format!("198.51.100.{}", (tick * 7 + visitor * 31) % 200),
                "/",
            );
        }
        if tick.is_multiple_of(12) {
            visit("203.0.113.7".to_owned(), "/sign-in");
        }
        if scrapes {
            (0..3).for_each(|page| visit("203.0.113.7".to_owned(), &format!("/page/{page}")));
        }
        let next = TICK * (tick + 1);
        // bounded wait: the pace of the visitors
        std::thread::sleep(next.saturating_sub(begun.elapsed()));
    }
}
