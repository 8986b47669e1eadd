//! However many paths, tenants and methods there are, the metrics stay the same.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::super::running::{Sluicegate, times};

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-tenant, key: ['header:X-Tenant'], rate: 1/h, burst: 1 }
  - { name: per-path, key: [path, method], rate: 1/h, burst: 1 }
";

fn scrape(sluicegate: &Sluicegate) -> (usize, usize, Duration) {
    let asked = Instant::now();
    let answer = sluicegate.admin_get("/metrics");
    let took = asked.elapsed();
    assert_eq!(answer.status(), 200);
    (
        answer
            .body()
            .lines()
            .filter(|line| line.starts_with("sluicegate_"))
            .count(),
        answer.text.len(),
        took,
    )
}

/// `cargo xtask chaos --only series` does it a million times.
#[test]
fn distinct_paths_tenants_and_methods_add_no_series() {
    let sluicegate = Sluicegate::start(CONFIG);
    let (before, ..) = scrape(&sluicegate);
    let wanted = times(20_000);
    const AT_ONCE: u32 = 500;
    let mut stream = sluicegate.connect();
    for first in (0..wanted).step_by(AT_ONCE as usize) {
        let last = (first + AT_ONCE).min(wanted);
        let mut requests = String::new();
        for number in first..last {
            requests += &format!(
                "M{number} /p/{number} HTTP/1.1\r\nHost: h{number}.example\r\nX-Tenant: t{number}\r\n\r\n"
            );
        }
        let mut writer = stream.try_clone().unwrap();
        let written = std::thread::spawn(move || writer.write_all(requests.as_bytes()));
        let mut answers = Vec::new();
        let mut seen = 0;
        while seen < last - first {
            let mut piece = [0; 65_536];
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0, "closed after {seen} of {first}…");
            answers.extend_from_slice(&piece[..length]);
            seen = answers
                .windows(9)
                .filter(|window| window == b"HTTP/1.1 ")
                .count() as u32;
        }
        written.join().unwrap().unwrap();
    }
    let (after, bytes, took) = scrape(&sluicegate);
    println!(
        "{wanted} distinct paths, tenants, methods and hosts: {after} series, {bytes} bytes, scraped in {took:?}"
    );
    assert_eq!(after, before);
    assert!(bytes < 1 << 20, "{bytes} bytes");
    // 50 ms are promised; this machine may be busy.
    assert!(took < Duration::from_millis(250), "{took:?}");
    let top = sluicegate.admin_get("/v1/top?n=100");
    assert_eq!(top.status(), 200);
    assert!(
        sluicegate.metric("sluicegate_requests_total{outcome=\"forwarded\"}")
            >= u64::from(wanted) / 2
    );
}
