//! The rules: one function per setting, which returns a finding or `None` when all is well.
//!
//! A rule whose facts are missing finds nothing; [`unseen`] tells once that they could not be read.

use super::Advice;
use super::facts::ServerFacts;
use crate::redis::endpoint::Endpoint;
use crate::redis::options::RedisMode;

/// All findings about one server.
pub(super) fn advice(node: &Endpoint, facts: &ServerFacts, mode: &RedisMode) -> Vec<Advice> {
    let found = [
        version(facts),
        role(facts),
        eviction(facts),
        persistence(facts),
        replicas(facts, mode),
        coverage(facts, mode),
        idle_timeout(facts),
        unseen(facts, mode),
    ];
    let of_node = |finding: Finding| {
        let Finding {
            setting,
            found,
            why,
            change,
        } = finding;
        Advice {
            node: node.clone(),
            setting,
            found,
            why,
            change,
        }
    };
    found.into_iter().flatten().map(of_node).collect()
}

/// The advice about a node that did not answer while others did.
pub(super) fn silent(node: Endpoint, why: String) -> Advice {
    let why = format!("its settings could not be seen: {why}");
    let change = "see whether it runs, and ask again".to_owned();
    Advice {
        node,
        setting: "the node",
        found: "silent".to_owned(),
        why,
        change,
    }
}

/// Advice without its node; the fields are those of [`Advice`].
struct Finding {
    setting: &'static str,
    found: String,
    why: String,
    change: String,
}

fn finding(setting: &'static str, found: &str, why: &str, change: &str) -> Finding {
    Finding {
        setting,
        found: found.to_owned(),
        why: why.to_owned(),
        change: change.to_owned(),
    }
}

/// The server is older than the tests. Valkey also reports the Redis version it is compatible with.
fn version(facts: &ServerFacts) -> Option<Finding> {
    const OLDEST: (u32, u32) = (6, 2);
    let found = facts.info("redis_version")?;
    let mut numbers = found
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next()?, numbers.next().unwrap_or(0));
    (version < OLDEST).then(|| {
        finding(
            "the server's version",
            found,
            "Sluicegate is tested with Redis 6.2 and later, and Valkey",
            "upgrade it",
        )
    })
}

/// The server is a replica, which cannot decide.
fn role(facts: &ServerFacts) -> Option<Finding> {
    (facts.info("role")? == "slave").then(|| {
        let why = "it takes no writes, so every decision there fails with READONLY";
        finding(
            "the server's role",
            "replica",
            why,
            "name its primary, or use the mode replication or sentinel",
        )
    })
}

/// Redis may evict counters that still matter. Without a memory limit it evicts nothing, and
/// `volatile-ttl` evicts the keys nearest to their end, which are nearly full: little is lost.
fn eviction(facts: &ServerFacts) -> Option<Finding> {
    let limit = facts
        .setting("maxmemory")
        .or_else(|| facts.info("maxmemory"))?;
    let policy = facts
        .setting("maxmemory-policy")
        .or_else(|| facts.info("maxmemory_policy"))?;
    let is_safe = limit == "0" || matches!(policy, "noeviction" | "volatile-ttl");
    (!is_safe).then(|| {
        let why =
            "when memory is full, counters that still owe are dropped, and each gives its caller a whole burst again";
        finding("maxmemory-policy", policy, why, "CONFIG SET maxmemory-policy noeviction")
    })
}

/// A restart loses all counters.
fn persistence(facts: &ServerFacts) -> Option<Finding> {
    let (save, append_only) = (facts.setting("save")?, facts.setting("appendonly")?);
    (save.is_empty() && append_only == "no").then(|| {
        let why = "a restart forgets every counter, which is worth at most one burst for each key";
        finding(
            "persistence (save, appendonly)",
            "off",
            why,
            "CONFIG SET appendonly yes",
        )
    })
}

/// A primary that is cut off goes on deciding. Where `CONFIG GET` is forbidden, `INFO` answers: it
/// counts good replicas only if a minimum is set.
fn replicas(facts: &ServerFacts, mode: &RedisMode) -> Option<Finding> {
    if !matches!(mode, RedisMode::Replication | RedisMode::Sentinel { .. })
        || facts.info("role") == Some("slave")
    {
        return None;
    }
    let is_set = match facts.setting("min-replicas-to-write") {
        Some(least) => least != "0",
        None if facts.has_info() => facts.info("min_slaves_good_slaves").is_some(),
        None => return None,
    };
    (!is_set).then(|| {
        let why = "a primary that is cut off goes on deciding, and what it wrote is lost when another takes over: one burst for \
                   each key";
        finding("min-replicas-to-write", "0", why, "CONFIG SET min-replicas-to-write 1")
    })
}

/// One missing shard stops the whole cluster.
fn coverage(facts: &ServerFacts, mode: &RedisMode) -> Option<Finding> {
    const SETTING: &str = "cluster-require-full-coverage";
    let is_whole = matches!(mode, RedisMode::Cluster) && facts.setting(SETTING)? == "yes";
    is_whole.then(|| {
        let why = "while one shard is away, all others refuse to decide too";
        finding(
            SETTING,
            "yes",
            why,
            "CONFIG SET cluster-require-full-coverage no",
        )
    })
}

/// The server closes idle connections.
fn idle_timeout(facts: &ServerFacts) -> Option<Finding> {
    let seconds = facts.setting("timeout").filter(|seconds| *seconds != "0")?;
    let why = "it closes connections that are idle, and a decision that is on its way just then has no answer";
    Some(finding(
        "timeout",
        &format!("{seconds} s"),
        why,
        "CONFIG SET timeout 0",
    ))
}

/// Facts that the user may not read, told as one finding with the permissions to add.
fn unseen(facts: &ServerFacts, mode: &RedisMode) -> Option<Finding> {
    let is_cluster = matches!(mode, RedisMode::Cluster);
    let cluster = if is_cluster {
        ", cluster-require-full-coverage"
    } else {
        ""
    };
    let (setting, unseen, allow) = match (facts.has_info(), facts.has_settings()) {
        (true, true) => return None,
        (true, false) => (
            "CONFIG GET",
            format!("save{cluster} and timeout"),
            "+config|get",
        ),
        (false, true) => ("INFO", "the server's version and role".to_owned(), "+info"),
        (false, false) => {
            let what = format!(
                "version, role, maxmemory-policy, persistence, min-replicas-to-write{cluster} and timeout"
            );
            ("INFO and CONFIG GET", what, "+info +config|get")
        }
    };
    let why = format!("{unseen} could not be seen");
    let change = format!("look at them by hand, or allow the user {allow}");
    Some(Finding {
        setting,
        found: "not allowed".to_owned(),
        why,
        change,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: [(&str, &str); 7] = [
        ("maxmemory", "1073741824"),
        ("maxmemory-policy", "noeviction"),
        ("save", "3600 1"),
        ("appendonly", "no"),
        ("min-replicas-to-write", "1"),
        ("cluster-require-full-coverage", "no"),
        ("timeout", "0"),
    ];
    const PRIMARY: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\n";

    fn settings_of(info: &str, mode: &RedisMode) -> Vec<&'static str> {
        let facts = ServerFacts::of(Some(info), Some(&WELL));
        advice(&Endpoint::new("rl-0", 6379), &facts, mode)
            .into_iter()
            .map(|advice| advice.setting)
            .collect()
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, is_old) in [
            ("5.0.14", true),
            ("6.0.16", true),
            ("6.2.0", false),
            ("7.0.15", false),
            ("10.0", false),
        ] {
            let info = format!("redis_version:{version}\r\nrole:master\r\n");
            assert_eq!(
                settings_of(&info, &RedisMode::Cluster).len(),
                usize::from(is_old),
                "{version}"
            );
        }
    }

    #[test]
    fn without_config_the_rest_is_read_from_info() {
        let info = format!("{PRIMARY}maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n");
        let facts = ServerFacts::of(Some(&info), None);
        let found = advice(
            &Endpoint::new("rl-0", 6379),
            &facts,
            &RedisMode::Replication,
        );
        let settings: Vec<&str> = found.iter().map(|advice| advice.setting).collect();
        assert_eq!(
            settings,
            ["maxmemory-policy", "min-replicas-to-write", "CONFIG GET"]
        );
        assert_eq!(
            found[2].to_string(),
            "rl-0:6379: CONFIG GET is not allowed: save and timeout could not be seen (look at them by hand, or allow the \
             user +config|get)"
        );
        let kept = ServerFacts::of(
            Some(&format!("{PRIMARY}min_slaves_good_slaves:2\r\n")),
            None,
        );
        assert_eq!(
            advice(&Endpoint::new("rl-0", 6379), &kept, &RedisMode::Replication).len(),
            1
        );
    }

    #[test]
    fn forbidden_facts_are_one_piece_of_advice() {
        let found = advice(
            &Endpoint::new("rl-0", 6379),
            &ServerFacts::of(None, None),
            &RedisMode::Cluster,
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].why.contains("cluster-require-full-coverage"),
            "{}",
            found[0]
        );
    }
}
