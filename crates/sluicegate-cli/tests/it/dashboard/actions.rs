//! The dashboard's buttons and forms: reset, override, ban, search, explain.

use sluicegate_testkit::{RedisServer, eventually};

use super::SLOW;
use super::visit::{Visit, check};
use crate::running::Sluicegate;

#[test]
fn a_click_on_reset_admits_the_caller_again() {
    let sluicegate = Sluicegate::start(SLOW);
    assert!(check(&sluicegate, "ann") && !check(&sluicegate, "ann"));
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelector('#keys .key')?.textContent === 'ann'");
    browser.click(&visit.button("ann", "inspect"));
    browser.wait_for("document.querySelector('#key-state').textContent.includes('0 of 1')");
    browser.click("#key-dialog button");
    assert!(!check(&sluicegate, "ann"), "looking changes nothing");
    browser.click(&visit.button("ann", "reset"));
    browser.fill("#order-dialog [name=by]", "olga");
    browser.click("#order-do");
    browser.wait_for("document.querySelector('#said').textContent.includes('is reset')");
    assert!(check(&sluicegate, "ann"));
    sluicegate.wait_for_log("olga");
    visit.end();
}

#[test]
fn an_override_and_a_ban_are_given_seen_and_ended() {
    let sluicegate = Sluicegate::start(SLOW);
    assert!(check(&sluicegate, "ann") && !check(&sluicegate, "ann"));
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("document.querySelector('#keys .key')?.textContent === 'ann'");
    browser.click(&visit.button("ann", "override"));
    browser.fill("#order-dialog [name=rate]", "1000/s");
    browser.fill("#order-dialog [name=by]", "olga");
    browser.click("#order-do");
    assert_eq!(
        browser.run("return document.querySelector('#order-dialog').open"),
        true,
        "a reason is needed"
    );
    browser.fill("#order-dialog [name=reason]", "a move");
    browser.click("#order-do");
    browser.wait_for("document.querySelector('#orders').textContent.includes('olga: a move')");
    eventually("the override holds", || {
        (0..20).all(|_| check(&sluicegate, "ann"))
    });
    browser.click("#orders li button");
    browser.click("#order-do");
    browser.wait_for("document.querySelector('#orders').children.length === 0");
    eventually("it has ended", || !check(&sluicegate, "ann"));

    assert_eq!(sluicegate.get("/", &["X-Caller: bob"]).status(), 200);
    browser.click("#new-ban");
    browser.fill("#order-dialog [name=whom]", "127.0.0.0/8");
    browser.fill("#order-dialog [name=reason]", "scraping");
    browser.click("#order-do");
    eventually("the ban holds", || {
        sluicegate.get("/", &["X-Caller: eve"]).status() == 403
    });
    browser.wait_for("document.querySelector('#orders').textContent.includes('olga: scraping')");
    // A mistake is told in words, and the dialog stays.
    browser.click("#new-ban");
    browser.fill("#order-dialog [name=whom]", "nobody/99");
    browser.fill("#order-dialog [name=reason]", "x");
    browser.click("#order-do");
    browser.wait_for("document.querySelector('#order-wrong').textContent !== ''");
    let complaints = browser.complaints();
    assert!(
        complaints
            .iter()
            .all(|line| line.contains("/v1/bans") && line.contains("40")),
        "{complaints:?}"
    );
    visit.end();
}

/// One request an hour; the first denial bans.
const BANNING: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 1, ban: { after: 1, within: 1h, for: 1h } }
";

#[test]
fn an_automatic_ban_is_seen_and_ended_on_the_page() {
    let sluicegate = Sluicegate::start(BANNING);
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    let status = |host: u32| {
        let header = format!("X-Forwarded-For: 203.0.113.{host}");
        sluicegate.get("/", &[&header]).status()
    };
    browser.wait_for("document.querySelector('#events-state').textContent.includes('newest')");
    assert_eq!((status(7), status(7)), (200, 429));
    browser.wait_for(
        "document.querySelector('#orders').textContent.includes('automatic: denied once within 1h by per-client')",
    );
    browser.wait_for("document.querySelector('#orders .tag').textContent === 'automatic ban'");
    browser.wait_for("document.querySelector('#events tr[data-outcome=banned]') !== null");
    eventually("the ban holds", || status(7) == 403);
    browser.click("#orders li button");
    browser.wait_for(
        "document.querySelector('#order-words').textContent.includes('as long as a first one')",
    );
    browser.fill("#order-dialog [name=by]", "olga");
    browser.click("#order-do");
    browser.wait_for("document.querySelector('#orders').children.length === 0");
    eventually("it has ended", || status(7) != 403);
    // The newest fifty are shown, and the others are counted.
    for host in 100..160 {
        assert_eq!((status(host), status(host)), (200, 429));
    }
    browser.wait_for("document.querySelector('#orders').children.length === 50");
    browser.wait_for(
        "document.querySelector('#orders-more').textContent.includes('more automatic bans')",
    );
    visit.end();
}

#[test]
fn a_key_that_is_not_among_the_busiest_is_found_by_a_piece_of_it() {
    let redis = RedisServer::start();
    let store = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        redis.address()
    );
    let sluicegate = Sluicegate::start(&format!("{SLOW}{store}"));
    for caller in ["ann", "ben", "bella"] {
        check(&sluicegate, caller);
    }
    // The busiest are those who are denied.
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.wait_for("!document.querySelector('#keys-empty').hidden");
    browser.fill("#keys-find", "be");
    browser.wait_for("document.querySelectorAll('#keys tbody tr').length === 2");
    browser
        .wait_for("document.querySelector('#keys-found').textContent === '2 keys in the store.'");
    browser.click(&visit.button("bella", "reset"));
    browser.fill("#order-dialog [name=by]", "olga");
    browser.click("#order-do");
    browser.wait_for("document.querySelector('#said').textContent.includes('is reset')");
    assert!(check(&sluicegate, "bella") && !check(&sluicegate, "ben"));
    browser.fill("#keys-find", "nobody");
    browser.wait_for(
        "document.querySelector('#keys-found').textContent.startsWith('No such key in the store')",
    );
    browser.fill("#keys-find", "");
    browser.wait_for(
        "document.querySelector('#keys-found').hidden && document.querySelectorAll('#keys tbody tr').length === 1",
    );
    visit.end();
}

#[test]
fn a_request_is_explained_in_sentences() {
    let sluicegate = Sluicegate::start(SLOW);
    assert!(check(&sluicegate, "ann"));
    let visit = Visit::of(&sluicegate);
    let browser = &visit.browser;
    browser.fill("#explain [name=url]", "https://shop.example/cart?x=1");
    browser.fill(
        "#explain [name=headers]",
        "X-Caller: ann\nAccept: text/html",
    );
    browser.click("#explain button");
    browser.wait_for("document.querySelector('#explained .tag')?.textContent === 'rejected'");
    let words = browser.text("#explained");
    for wanted in ["per-caller", "ann", "try again in"] {
        assert!(words.contains(wanted), "{wanted} in {words}");
    }
    browser.fill("#explain [name=headers]", "X-Caller: ben");
    browser.click("#explain button");
    browser.wait_for("document.querySelector('#explained .tag')?.textContent === 'passes'");
    browser.fill("#explain [name=client_ip]", "nowhere");
    browser.click("#explain button");
    browser.wait_for("document.querySelector('#explained').textContent.includes('client_ip')");
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|line| line.contains("/v1/explain")),
        "{complaints:?}"
    );
    visit.end();
}
