//! Automatic bans: a caller that a limit denies again and again is refused on every replica.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::{RedisServer, eventually, wait_until};

use super::super::running::Sluicegate;
use super::{ask, exchange, from};

/// The promise is a second; this machine may be busy.
const PROMISED: Duration = Duration::from_secs(5);

/// One request an hour, and the hundredth denial bans. Denials are counted for an hour, so that no
/// test is too slow.
const BAN: &str = "ban: { after: 100 denials, within: 1h, for: 1h }";

fn config(limit: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
decisions: {{ http: '127.0.0.1:0' }}
client_ip: {{ trusted_proxies: [127.0.0.1/32] }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: 1, {limit} }}
"
    )
}

fn with_redis(server: &RedisServer, limit: &str) -> String {
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, on_failure: local, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    config(limit) + &redis
}

fn orders(sluicegate: &Sluicegate) -> Vec<Value> {
    let (_, told) = ask(sluicegate, "GET", "/v1/orders", None);
    told["orders"].as_array().unwrap().clone()
}

/// Lets a caller pass once, and then be denied so often.
fn deny(sluicegate: &Sluicegate, client_ip: &str, times: usize) {
    assert_eq!(from(sluicegate, client_ip), 200);
    for _ in 0..times {
        assert_eq!(from(sluicegate, client_ip), 429);
    }
}

#[track_caller]
fn refuses(sluicegate: &Sluicegate, client_ip: &str) {
    wait_until(PROMISED, &format!("{client_ip} is banned"), || {
        from(sluicegate, client_ip) == 403
    });
}

#[test]
fn who_is_denied_a_hundred_times_on_one_replica_is_banned_on_the_other_until_an_operator_ends_it() {
    let server = RedisServer::start();
    let config = with_redis(&server, BAN);
    let (one, other) = (Sluicegate::start(&config), Sluicegate::start(&config));
    deny(&one, "203.0.113.7", 99);
    deny(&one, "203.0.113.8", 1);
    assert_eq!(orders(&one), [] as [Value; 0], "not one denial too early");
    assert_eq!(from(&one, "203.0.113.7"), 429);
    refuses(&other, "203.0.113.7");
    refuses(&one, "203.0.113.7");
    assert_eq!(from(&other, "203.0.113.8"), 429, "nobody else is banned");
    for replica in [&one, &other] {
        let [ban] = &orders(replica)[..] else {
            panic!("{:?}", orders(replica))
        };
        for (key, value) in [
            ("kind", json!("ban")),
            ("client_ip", json!("203.0.113.7/32")),
            ("by", json!("automatic")),
            ("limit", json!("per-client")),
            ("earlier_bans", json!(0)),
            ("reason", json!("denied 100 times within 1h by per-client")),
        ] {
            assert_eq!(ban[key], value, "{ban}");
        }
        let series = "sluicegate_orders{kind=\"automatic_ban\"}";
        assert_eq!(replica.metric(series), 1);
    }
    let series = "sluicegate_automatic_bans_total{limit=\"per-client\"}";
    assert_eq!((one.metric(series), other.metric(series)), (1, 0));
    one.wait_for_log("an automatic ban");
    let question = r#"{"subject":{"client_ip":"203.0.113.7"}}"#;
    let (_, explained) = ask(&other, "POST", "/v1/explain", Some(question));
    let (summary, limit) = (explained["summary"].as_str(), &explained["limits"][0]);
    assert!(
        summary.unwrap().starts_with(
            "It is refused with 403: client_ip 203.0.113.7/32 is banned by automatic (denied 100 times within 1h by per-client) until 2"
        ),
        "{explained}"
    );
    let ban = "for 1h after 100 denials within 1h, 2 times as long each time, at most 1d";
    assert_eq!(limit["ban"], ban, "{limit}");
    assert!(
        limit["words"]
            .as_str()
            .unwrap()
            .ends_with(&format!("It bans its caller {ban}."))
    );

    let path = format!("/v1/orders/{}", orders(&one)[0]["id"].as_str().unwrap());
    let author = r#"{"by":"bob","reason":"sorted out"}"#;
    let (code, ended) = ask(&other, "DELETE", &path, Some(author));
    assert_eq!((code, &ended["ended"]), (200, &json!(true)));
    assert_eq!(
        from(&other, "203.0.113.7"),
        429,
        "at once where it was ended"
    );
    wait_until(PROMISED, "and soon everywhere", || {
        from(&one, "203.0.113.7") == 429
    });
    other.wait_for_log("sorted out");
    assert_eq!(ask(&other, "DELETE", &path, Some(author)).0, 404);
}

/// A line of the audit log has all that an operator asks about.
#[test]
fn a_ban_is_audited_and_told_to_those_who_watch() {
    let sluicegate = Sluicegate::start(&config(
        "ban: { after: 2, within: 1h, for: 10m, grow: 3, max: 2h }",
    ));
    let mut events = watch(&sluicegate, "/v1/events?outcome=banned");
    deny(&sluicegate, "203.0.113.7", 2);
    refuses(&sluicegate, "203.0.113.7");
    sluicegate.wait_for_log("an automatic ban");
    let logged = sluicegate.logged.lock().unwrap().clone();
    let line = logged.iter().find(|line| line.contains("an automatic ban"));
    let id = orders(&sluicegate)[0]["id"].as_str().unwrap().to_owned();
    for word in [
        "sluicegate::audit",
        "automatic",
        "client_ip 203.0.113.7/32",
        "denied 2 times within 1h by per-client",
        "until",
        "per-client",
        &id,
    ] {
        assert!(line.unwrap().contains(word), "{word} in {line:?}");
    }
    let mut told = String::new();
    while !told.contains("stands_for") {
        let mut piece = [0; 4_096];
        let length = events.read(&mut piece).unwrap();
        assert!(length > 0, "the stream ended: {told}");
        told.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    for word in [
        r#""outcome":"banned""#,
        r#""key":"client_ip 203.0.113.7/32""#,
        r#""retry_after_us":600000000"#,
    ] {
        assert!(told.contains(word), "{word} in {told}");
    }
}

/// The stream of events, once it has begun.
fn watch(sluicegate: &Sluicegate, path: &str) -> std::net::TcpStream {
    let address = sluicegate.admin.unwrap();
    let mut stream = sluicegate_testkit::raw_socket::connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

#[test]
fn each_further_ban_is_longer_and_ends_by_itself() {
    let sluicegate = Sluicegate::start(&config(
        "ban: { after: 2, within: 1h, for: 400ms, grow: 2, max: 1h }",
    ));
    deny(&sluicegate, "203.0.113.7", 2);
    for earlier in 0..3 {
        sluicegate.wait_for_log(&format!("earlier_bans={earlier}"));
        wait_until(PROMISED, "the ban ends by itself", || {
            from(&sluicegate, "203.0.113.7") == 429
        });
        assert_eq!(from(&sluicegate, "203.0.113.7"), 429, "the second denial");
    }
}

#[test]
fn lists_loopback_trusted_proxies_and_shadow_limits_ban_nobody() {
    let networks = "client_ip: { trusted_proxies: [127.0.0.1/32, 198.51.100.9/32, 100.64.0.0/10], ipv4_prefix: 24 }\n\
                    access: { allow: { cidrs: [203.0.113.7/32, 192.0.2.0/24] } }\n";
    let ban = "ban: { after: 2, within: 1h, for: 1h }";
    // A request that both deny is rejected, and the one that only watches does not ban for it.
    let watched = "  - { name: watched, key: [client_ip], rate: 1/h, burst: 1, mode: shadow, \
                   ban: { after: 1, within: 1h, for: 1h }, match: { path: /watched }, replaces: per-client }\n  \
                   - { name: strict, key: [client_ip], rate: 1/h, burst: 1, match: { path: /watched } }\n";
    let text = config(ban).replace("client_ip: { trusted_proxies: [127.0.0.1/32] }\n", networks);
    let sluicegate = Sluicegate::start(&(text + watched));
    // The proxy itself, without a header, and one that is named by another.
    for client_ip in ["unknown", "198.51.100.9"] {
        assert_eq!(from(&sluicegate, client_ip), 200, "{client_ip}");
        (0..9).for_each(|_| assert_eq!(from(&sluicegate, client_ip), 429, "{client_ip}"));
    }
    for turn in 0..9 {
        assert_eq!(from(&sluicegate, "203.0.113.7"), 200);
        assert_eq!(from(&sluicegate, "192.0.2.1"), 200);
        let watched = sluicegate.get("/watched", &["X-Forwarded-For: 10.9.9.9"]);
        assert_eq!(watched.status(), if turn == 0 { 200 } else { 429 });
        // Counters by name know no lists, and lists hold all the same.
        for client_ip in ["192.0.2.1", "127.0.0.7", "100.64.1.1"] {
            let question = format!(r#"{{"limit":"per-client","key":["{client_ip}"]}}"#);
            let address = sluicegate.decisions.unwrap();
            exchange(
                address,
                "POST",
                "/v1/check",
                "application/json",
                Some(&question),
            );
        }
    }
    // Whoever comes after them is banned, with the whole network that the limit counts; those who
    // are on a list there pass, and so does the proxy.
    deny(&sluicegate, "203.0.113.8", 2);
    let answers = [(); 2].map(|()| from(&sluicegate, "198.51.100.10"));
    assert_eq!(answers, [429; 2], "the denials of the proxy did not count");
    refuses(&sluicegate, "203.0.113.8");
    refuses(&sluicegate, "198.51.100.10");
    assert_eq!(from(&sluicegate, "203.0.113.9"), 403);
    assert_eq!(from(&sluicegate, "203.0.113.7"), 200);
    assert_eq!(from(&sluicegate, "198.51.100.9"), 429);
    let mut banned: Vec<Value> = orders(&sluicegate)
        .iter()
        .map(|ban| ban["client_ip"].clone())
        .collect();
    banned.sort_by_key(Value::to_string);
    assert_eq!(banned, ["198.51.100.0/24", "203.0.113.0/24"]);
}

#[test]
fn a_network_of_ipv6_is_banned_as_the_limit_counts_it() {
    let sluicegate = Sluicegate::start(&config("ban: { after: 3, within: 1h, for: 1h }"));
    assert_eq!(from(&sluicegate, "2001:db8:1:2::1"), 200);
    for host in 2..5 {
        assert_eq!(from(&sluicegate, &format!("2001:db8:1:2::{host}")), 429);
    }
    refuses(&sluicegate, "2001:db8:1:2:ffff::9");
    assert_eq!(from(&sluicegate, "2001:db8:1:3::1"), 200);
    assert_eq!(orders(&sluicegate)[0]["client_ip"], "2001:db8:1:2::/64");
}

#[test]
fn a_principal_is_banned_wherever_it_comes_from() {
    let directory = tempfile::tempdir().unwrap();
    // The key of each of them is its name.
    let keys = "
- { id: ann, sha256: 49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1 }
- { id: bob, sha256: 81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9 }
- { id: eve, sha256: 85262adf74518bbb70c7cb94cd6159d91669e5a81edf1efebd543eadbda9fa2b }
";
    fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    let text = config("ban: { after: 2, within: 1h, for: 1h }")
        .replace("key: [client_ip]", "key: [client_ip, principal]");
    let more = "principals: { api_keys: { file: keys.yaml } }\n\
                access: { allow: { cidrs: [192.0.2.0/24], keys: [eve] } }\n";
    fs::write(directory.path().join("sluicegate.yaml"), text + more).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let status = |principal: &str, client_ip: &str| {
        let headers = [
            format!("X-Api-Key: {principal}"),
            format!("X-Forwarded-For: {client_ip}"),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        sluicegate.get("/", &headers).status()
    };
    let answers = [(); 3].map(|()| status("ann", "203.0.113.7"));
    assert_eq!(answers, [200, 429, 429]);
    wait_until(PROMISED, "ann is banned", || {
        status("ann", "203.0.113.8") == 403
    });
    assert_eq!(status("bob", "203.0.113.7"), 200, "not the address");
    assert_eq!(
        status("ann", "192.0.2.1"),
        200,
        "an address on the list passes"
    );
    assert!((0..5).all(|_| status("eve", "203.0.113.7") == 200));
    assert_eq!(orders(&sluicegate)[0]["principal"], "ann");
    let question = r#"{"subject":{"client_ip":"203.0.113.99","principal":"ann"}}"#;
    let address = sluicegate.decisions.unwrap();
    let answer = exchange(
        address,
        "POST",
        "/v1/check",
        "application/json",
        Some(question),
    );
    assert!(answer.contains(r#""allowed":false"#), "{answer}");
}

#[test]
fn denials_of_the_decision_service_count_and_a_look_does_not() {
    let sluicegate = Sluicegate::start(&config("ban: { after: 3, within: 1h, for: 1h }"));
    let check = |path: &str, rest: &str| {
        let question = format!(r#"{{"subject":{{"client_ip":"203.0.113.7"}}{rest}}}"#);
        let address = sluicegate.decisions.unwrap();
        exchange(address, "POST", path, "application/json", Some(&question)).status()
    };
    assert_eq!(check("/v1/check", ""), 200);
    (0..9).for_each(|_| {
        check("/v1/peek", "");
    });
    (0..2).for_each(|_| {
        check("/v1/check", "");
    });
    deny(&sluicegate, "203.0.113.8", 3);
    refuses(&sluicegate, "203.0.113.8");
    assert_eq!(from(&sluicegate, "203.0.113.7"), 429, "the third denial");
    refuses(&sluicegate, "203.0.113.7");
}

#[test]
fn a_replica_that_starts_knows_the_bans_of_those_before() {
    let server = RedisServer::start();
    let config = with_redis(&server, "ban: { after: 2, within: 1h, for: 1h }");
    let first = Sluicegate::start(&config);
    deny(&first, "203.0.113.7", 2);
    refuses(&first, "203.0.113.7");
    eventually("it is on the list", || {
        server
            .command::<Option<String>>(&["GET", "sluicegate:!bans"])
            .is_some()
    });
    drop(first);
    let second = Sluicegate::start(&config);
    refuses(&second, "203.0.113.7");
    let ttl: i64 = server.command(&["PTTL", "sluicegate:!bans"]);
    let most = (Duration::from_secs(3_600) + Duration::from_secs(86_400)).as_millis() as i64;
    assert!(
        (1..=most).contains(&ttl),
        "as long as it is remembered: {ttl}"
    );
}

#[test]
fn a_ban_without_the_store_holds_here_and_everywhere_once_it_is_back() {
    let server = RedisServer::start();
    let config = with_redis(&server, "ban: { after: 3, within: 1h, for: 1h }");
    let (one, other) = (Sluicegate::start(&config), Sluicegate::start(&config));
    server.kill();
    eventually("the store is away", || {
        from(&one, "203.0.113.99");
        one.metric("sluicegate_store_degraded") == 1
    });
    deny(&one, "203.0.113.7", 3);
    refuses(&one, "203.0.113.7");
    deny(&one, "203.0.113.8", 3);
    refuses(&one, "203.0.113.8");
    let series = "sluicegate_automatic_bans_total{limit=\"per-client\"}";
    eventually("both are told", || one.metric(series) == 2);
    assert_eq!(orders(&one).len(), 2);
    assert_eq!(orders(&other), [] as [Value; 0]);
    // An operator ends one of them here, which needs no store: nobody else has it.
    let bans = orders(&one);
    let ended = bans.iter().find(|ban| ban["client_ip"] == "203.0.113.8/32");
    let path = format!("/v1/orders/{}", ended.unwrap()["id"].as_str().unwrap());
    assert_eq!(ask(&one, "DELETE", &path, None).0, 200);
    server.restart();
    // Looked up and not asked for: the other must not come to ban by itself.
    eventually("the other replica knows", || !orders(&other).is_empty());
    let banned = orders(&other);
    assert_eq!(banned.len(), 1, "{banned:?}");
    for replica in [&one, &other] {
        assert_eq!(from(replica, "203.0.113.7"), 403);
    }
    assert_eq!(one.metric(series), 2, "told once");
}

/// Sends requests of these clients, each of them twice: the second is denied.
fn flood(sluicegate: &Sluicegate, clients: std::ops::Range<u32>) {
    const AT_ONCE: usize = 500;
    let mut stream = sluicegate.connect();
    let clients: Vec<u32> = clients.flat_map(|client| [client, client]).collect();
    for some in clients.chunks(AT_ONCE) {
        let mut requests = String::new();
        for client in some {
            let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + client);
            requests +=
                &format!("GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: {address}\r\n\r\n");
        }
        let mut writer = stream.try_clone().unwrap();
        let written = std::thread::spawn(move || writer.write_all(requests.as_bytes()));
        let mut answers = Vec::new();
        while answers
            .windows(9)
            .filter(|part| part == b"HTTP/1.1 ")
            .count()
            < some.len()
        {
            let mut piece = [0; 65_536];
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0, "closed");
            answers.extend_from_slice(&piece[..length]);
        }
        written.join().unwrap().unwrap();
    }
}

#[test]
fn a_flood_of_addresses_neither_grows_the_list_nor_touches_the_orders_of_operators() {
    let server = RedisServer::start();
    let config = with_redis(&server, "ban: { after: 1, within: 1h, for: 1h }");
    let (one, other) = (Sluicegate::start(&config), Sluicegate::start(&config));
    for host in 0..10 {
        let ban =
            format!(r#"{{"client_ip":"198.51.100.{host}","for":"1h","by":"ann","reason":"x"}}"#);
        assert_eq!(ask(&one, "POST", "/v1/bans", Some(&ban)).0, 201);
    }
    flood(&one, 0..1_000);
    let before_kib = one.resident_kib();
    flood(&one, 1_000..20_000);
    let dropped = "sluicegate_automatic_bans_dropped_total{reason=\"no_room\"}";
    let mut next = 20_000;
    wait_until(10 * PROMISED, "bans make room for others", || {
        flood(&one, next..next + 200);
        next += 200;
        one.metric(dropped) > 0
    });
    let grown_kib = one.resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 32 * 1_024, "{grown_kib} KiB more");
    let bytes: usize = server.command(&["STRLEN", "sluicegate:!bans"]);
    assert!(bytes < 300_000, "{bytes} bytes");
    for replica in [&one, &other] {
        let series = "sluicegate_orders{kind=\"automatic_ban\"}";
        wait_until(PROMISED, "the replica has as many as there are", || {
            replica.metric(series) == 1_000
        });
        assert_eq!(replica.metric("sluicegate_orders{kind=\"ban\"}"), 10);
        for host in 0..10 {
            assert_eq!(from(replica, &format!("198.51.100.{host}")), 403);
        }
    }
    // Operators' orders are given and ended as usual.
    let ban = r#"{"client_ip":"198.51.100.77","for":"1h","by":"ann","reason":"x"}"#;
    let (code, ban) = ask(&other, "POST", "/v1/bans", Some(ban));
    assert_eq!(code, 201, "{ban}");
    let path = format!("/v1/orders/{}", ban["id"].as_str().unwrap());
    assert_eq!(ask(&other, "DELETE", &path, None).0, 200);
}
