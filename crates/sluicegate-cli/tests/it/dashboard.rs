//! The dashboard in a real browser: it shows what happens, its buttons do what they say, and nothing strange acts in it.

mod actions;
mod browser;
mod documentation;
mod flood;
mod visit;

use serde_json::json;
use sluicegate_testkit::{RedisServer, eventually, free_port};

use crate::running::Sluicegate;
use visit::{Callers, Visit, check};

/// Two a second for each caller, so that one who asks more is denied.
const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-caller, key: ['header:X-Caller'], rate: 2/s, burst: 2 }
  - { name: whole, key: [global], rate: 100000/s, burst: 100000, mode: shadow }
";

/// One in an hour: who was denied stays so until somebody does something.
const SLOW: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-caller, key: ['header:X-Caller'], rate: 1/h, burst: 1 }
";

const HOSTILE: &str = "<img src=x onerror=\"window.caught=1\"><script>window.caught=2</script>\u{1b}[31m\u{202e}' & ${7*7}";

#[test]
fn charts_move_and_the_denied_caller_is_on_top() {
    let sluicegate = Sluicegate::start(CONFIG);
    let _callers = Callers::start(sluicegate.decisions.unwrap());
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    eventually("the busy caller is on top", || visit.first_key() == "busy");
    browser.wait_for("Number(document.querySelector('#rate-denied').textContent) > 0");
    // The chart is drawn in both inks, and moves: what it shows now it does not show later.
    let drawn = |ink: &str| {
        format!(
            "(() => {{
                const ink = getComputedStyle(document.querySelector('{ink}')).color.match(/[0-9]+/g).map(Number);
                const chart = document.querySelector('#chart');
                const copy = Object.assign(document.createElement('canvas'), {{ width: chart.width, height: chart.height }});
                const context = copy.getContext('2d', {{ willReadFrequently: true }});
                context.drawImage(chart, 0, 0);
                const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
                const isInk = (at) => pixels[at + 3] > 100 && ink.every((part, index) => Math.abs(part - pixels[at + index]) < 16);
                let count = 0;
                for (let at = 0; at < pixels.length; at += 4) count += isInk(at) ? 1 : 0;
                return count > 5;
            }})()"
        )
    };
    browser.wait_for(&drawn("#ink-allowed"));
    browser.wait_for(&drawn("#ink-denied"));
    let picture = || browser.run("return document.querySelector('#chart').toDataURL()");
    let (first, words) = (picture(), browser.text("#chart-text"));
    eventually("the chart moves", || picture() != first);
    eventually("its words too", || browser.text("#chart-text") != words);
    assert!(words.contains("allowed and"), "{words}");
    browser.wait_for("document.querySelectorAll('#limits tbody tr').length === 2");
    browser.wait_for(
        "[...document.querySelectorAll('#limits .tag')].map((tag) => tag.textContent).join() === 'enforce,shadow'",
    );
    // One limit on its own, chosen by its name.
    browser.run("const select = document.querySelector('#chart-limit'); select.value = 'whole'; select.dispatchEvent(new Event('change'))");
    browser.wait_for("document.querySelector('#chart-text').textContent.startsWith('whole: now')");
    visit.end();
}

#[test]
fn decisions_stream_in_can_be_filtered_and_held() {
    let sluicegate = Sluicegate::start(CONFIG);
    let _callers = Callers::start(sluicegate.decisions.unwrap());
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelectorAll('#events tbody tr').length > 20");
    browser.fill("#events-key", "calm");
    let others = "[...document.querySelectorAll('#events tbody .key')].filter((key) => !key.textContent.includes('calm')).length";
    browser.wait_for(&format!(
        "document.querySelectorAll('#events tbody tr').length > 3 && {others} === 0"
    ));
    browser.fill("#events-key", "b");
    browser.wait_for("document.querySelectorAll('#events tbody tr').length > 150");
    // It never holds more than it can draw.
    browser.wait_for("document.querySelectorAll('#events tbody tr').length === 200");
    browser.click("#events-pause");
    browser.wait_for("document.querySelector('#events-state').textContent.startsWith('paused')");
    let first = browser.text("#events tbody");
    browser.wait_for(
        "Number(document.querySelector('#events-state').textContent.match(/[0-9]+/)[0]) > 20",
    );
    assert_eq!(
        browser.text("#events tbody"),
        first,
        "nothing moves while it is paused"
    );
    visit.end();
}

#[test]
fn the_store_is_seen_to_go_and_to_come_back() {
    let redis = RedisServer::start();
    let store = format!(
        "store: {{ kind: redis, redis: {{ endpoints: ['{}'] }} }}\n",
        redis.address()
    );
    let sluicegate = Sluicegate::start(&format!("{CONFIG}{store}"));
    let _callers = Callers::start(sluicegate.decisions.unwrap());
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelector('#state').textContent === 'healthy'");
    browser.wait_for("document.querySelector('#nodes li').dataset.up === 'true'");
    browser.wait_for("/ µs| ms/.test(document.querySelector('#store-p99').textContent)");
    redis.kill();
    browser.wait_for("document.querySelector('#state').textContent === 'store degraded'");
    browser.wait_for("document.querySelector('#nodes li').dataset.up === 'false'");
    browser.wait_for(
        "document.querySelector('#timeline-text').textContent.startsWith('Unavailable for')",
    );
    browser.picture("store-degraded");
    redis.restart();
    browser.wait_for("document.querySelector('#state').textContent === 'healthy'");
    browser.wait_for("document.querySelector('#nodes li').dataset.up === 'true'");
    visit.end();
}

#[test]
fn a_hostile_key_is_only_text() {
    let sluicegate = Sluicegate::start(SLOW);
    check(&sluicegate, HOSTILE);
    check(&sluicegate, HOSTILE);
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelector('#keys .key')?.textContent.startsWith('<img src=x')");
    let told = visit.first_key();
    assert!(
        told.contains("</script>\\u{1b}[31m\\u{202e}' & ${7*7}"),
        "{told}"
    );
    // Everywhere that names it: the stream, the dialogs, the explanation, an order.
    browser.wait_for("document.querySelector('#events-state').textContent.startsWith('a sample')");
    eventually("it is in the stream", || {
        check(&sluicegate, HOSTILE);
        browser.text("#events tbody .key").contains("img")
    });
    browser.click("#keys tbody tr:first-child button[data-act=inspect]");
    browser.wait_for("document.querySelector('#key-state').textContent.includes('0 of 1')");
    browser.click("#key-dialog button");
    browser.click("#keys tbody tr:first-child button[data-act=override]");
    browser.fill("#order-dialog [name=by]", "<b>olga</b>");
    browser.fill(
        "#order-dialog [name=reason]",
        "<script>window.caught=3</script>",
    );
    browser.click("#order-do");
    browser.wait_for(
        "document.querySelector('#orders').textContent.includes('<script>window.caught=3')",
    );
    eventually("the override is of this very key", || {
        check(&sluicegate, HOSTILE)
    });
    browser.fill(
        "#explain [name=headers]",
        "X-Caller: <img src=x onerror=window.caught=4>",
    );
    browser.click("#explain button");
    browser.wait_for(
        "document.querySelector('#explained').textContent.includes('onerror=window.caught=4')",
    );
    assert_eq!(
        browser.run(
            "return [window.caught ?? null, document.querySelectorAll('main img, main script, dialog img').length]"
        ),
        json!([null, 0])
    );
    visit.end();
}

#[test]
fn the_page_opens_with_the_token_and_with_no_other() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("admin.token"),
        "0123456789abcdef-right",
    )
    .unwrap();
    let config = CONFIG.replace(
        "admin: { listen: '127.0.0.1:0' }",
        "admin: { listen: '127.0.0.1:0', token_file: admin.token }",
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let browser = browser::Browser::start();
    browser.open(sluicegate.admin.unwrap());
    browser.wait_for("document.querySelector('#token-dialog').open");
    assert_eq!(browser.text("#config"), "–", "nothing is shown before");
    browser.fill("#token-dialog [name=token]", "0123456789abcdef-wrong");
    browser.press("\u{e007}");
    browser.wait_for("document.querySelector('#token-wrong').textContent === 'Wrong token.'");
    browser.fill("#token-dialog [name=token]", "0123456789abcdef-right");
    browser.press("\u{e007}");
    browser.wait_for("document.querySelector('#config').textContent.startsWith('version')");
    browser.wait_for("document.querySelector('#events-state').textContent.startsWith('a sample')");
    assert_eq!(
        browser.run("return document.querySelector('#token-dialog').open"),
        false
    );
    // It is kept for this tab, and is nowhere in the page.
    browser.open(sluicegate.admin.unwrap());
    browser.wait_for("document.querySelector('#config').textContent.startsWith('version')");
    assert_eq!(
        browser.run("return document.documentElement.outerHTML.includes('abcdef-right')"),
        false
    );
    assert_eq!(
        browser.run("return [localStorage.length, document.cookie]"),
        json!([0, ""])
    );
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|line| line.contains("401")),
        "{complaints:?}"
    );
}

#[test]
fn a_sluicegate_that_goes_is_missed_and_welcomed_back() {
    let admin = format!("admin: {{ listen: '127.0.0.1:{}' }}", free_port());
    let config = CONFIG.replace("admin: { listen: '127.0.0.1:0' }", &admin);
    let mut sluicegate = Sluicegate::start(&config);
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    sluicegate.signal("KILL");
    sluicegate.wait();
    browser.wait_for("document.querySelector('#away').textContent.startsWith('No response since')");
    browser.wait_for("document.querySelector('#state').textContent === 'no response'");
    let _successor = Sluicegate::start(&config);
    browser.wait_for("document.querySelector('#state').textContent === 'healthy'");
    browser.wait_for("document.querySelector('#away').hidden");
    browser.wait_for("document.querySelector('#events-state').textContent.startsWith('a sample')");
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|line| line.contains("net::ERR_")),
        "{complaints:?}"
    );
    visit.end();
}

#[test]
fn it_fits_a_phone_works_by_keyboard_and_has_two_lights() {
    let sluicegate = Sluicegate::start(CONFIG);
    let _callers = Callers::start(sluicegate.decisions.unwrap());
    for _ in 0..3 {
        check(&sluicegate, HOSTILE);
    }
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelectorAll('#keys tbody tr').length === 3");
    browser.wait_for("document.querySelectorAll('#events tbody tr').length > 20");
    browser.picture("light");
    let paper = || browser.run("return getComputedStyle(document.documentElement).backgroundColor");
    let light = paper();
    browser.prefer("dark");
    browser.wait_for(&format!(
        "getComputedStyle(document.documentElement).backgroundColor !== {light}"
    ));
    let dark = paper();
    browser.picture("dark");
    // The button has the last word.
    browser.click("#theme");
    assert_eq!(
        (browser.text("#theme-name").as_str(), paper()),
        ("light", light)
    );
    browser.click("#theme");
    assert_eq!(
        (browser.text("#theme-name").as_str(), paper()),
        ("dark", dark)
    );
    browser.size(360, 740, 2.0);
    browser.wait_for("innerWidth === 360");
    browser.wait_for("document.documentElement.scrollWidth <= 360");
    let squeezed = "[...document.querySelectorAll('#limits td, #limits th, #keys td, #keys th')].filter((cell) => cell.scrollWidth > cell.clientWidth + 1)";
    browser.wait_for(&format!("{squeezed}.length === 0"));
    assert_eq!(
        browser.run("return document.querySelector('#chart').width"),
        json!(
            browser
                .run("return document.querySelector('#chart').clientWidth")
                .as_u64()
                .unwrap()
                * 2
        ),
        "sharp on a fine screen"
    );
    browser.picture("phone");
    // The first stop leads to the content; every control can be reached and has a name.
    browser.open(sluicegate.admin.unwrap());
    browser.wait_for("document.querySelector('#config').textContent.startsWith('version')");
    browser.press("\u{e004}");
    assert_eq!(
        browser.run("return document.activeElement.className"),
        "skip"
    );
    browser.press("\u{e007}");
    assert_eq!(browser.run("return document.activeElement.id"), "main");
    let unnamed = "return [...document.querySelectorAll('button, input, select, textarea')].filter((control) => control.tabIndex < 0 || \
        !(control.textContent.trim() || control.getAttribute('aria-label') || control.labels?.length)).map((control) => control.outerHTML)";
    assert_eq!(browser.run(unnamed), json!([]));
    visit.end();
}

#[test]
fn a_refused_configuration_and_replicas_that_differ_are_told() {
    let redis = RedisServer::start();
    let store = format!(
        "store: {{ kind: redis, redis: {{ endpoints: ['{}'] }} }}\n",
        redis.address()
    );
    let config = format!("{CONFIG}{store}");
    let sluicegate = Sluicegate::start(&config);
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    let other = Sluicegate::start(&config.replace("rate: 2/s", "rate: 3/s"));
    browser.wait_for("document.querySelectorAll('#replicas li').length === 2");
    browser.wait_for(
        "document.querySelector('#differ').textContent.includes('2 different configurations')",
    );
    assert!(
        browser
            .text("#replicas [data-differs=true]")
            .contains("differs")
    );
    drop(other);
    std::fs::write(
        sluicegate.file("sluicegate.yaml"),
        config.replace("burst: 2 }", "burst: 0 }"),
    )
    .unwrap();
    browser.wait_for("!document.querySelector('#reload-error').hidden");
    let told = browser.text("#reload-error");
    assert!(
        told.contains("the previous one is still running") && told.contains("limits[0].burst"),
        "{told}"
    );
    std::fs::write(
        sluicegate.file("sluicegate.yaml"),
        config.replace("burst: 2 }", "burst: 4 }"),
    )
    .unwrap();
    browser.wait_for("document.querySelector('#reload-error').hidden");
    browser.wait_for("document.querySelector('#config').textContent.startsWith('version 2')");
    visit.end();
}

#[test]
fn the_page_may_do_nothing_but_what_it_needs() {
    let sluicegate = Sluicegate::start(CONFIG);
    let wanted = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let page = sluicegate.admin_get("/");
    assert_eq!(page.header("content-security-policy"), Some(wanted));
    for inside in [
        " style=",
        "<style",
        " onclick",
        " onload",
        "javascript:",
        "//",
        "eval(",
    ] {
        assert!(!page.contains(inside), "{inside} in the page");
    }
}
