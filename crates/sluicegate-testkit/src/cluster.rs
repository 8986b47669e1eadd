//! A cluster of three masters with a replica each.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

use redis::{RedisResult, cmd};

use crate::processes::wait_until;
use crate::server::RedisServer;

/// Six nodes. At the start 0, 1 and 2 are masters of a third of the slots each, and 3, 4 and 5 their replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
}

impl RedisCluster {
    /// Returns when every node says that the cluster works and every replica has its link.
    #[track_caller]
    pub fn start() -> Self {
        let nodes: Vec<RedisServer> = (0..2 * MASTERS).map(|_| start_node()).collect();
        let ids = nodes
            .iter()
            .map(|node| node.command(&["CLUSTER", "MYID"]))
            .collect();
        let cluster = Self { nodes, ids };
        cluster.give_slots();
        cluster.introduce_nodes();
        cluster.assign_replicas();
        wait_until(START_TIMEOUT, "all nodes call the cluster ok", || {
            cluster.is_ok()
        });
        cluster
    }

    /// All nodes; their order never changes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// `redis://` addresses of all nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// The slot of a key, by Redis.
    pub fn slot_of_key(&self, key: &str) -> u16 {
        self.a_running_node().command(&["CLUSTER", "KEYSLOT", key])
    }

    /// Index of the master of this slot: the node that runs and says so of itself, or when there is none, the dead one
    /// that the others remember. A master that wakes after its replacement says so wrongly for a moment; after a
    /// failover ask [`wait_for_new_master`](Self::wait_for_new_master).
    #[track_caller]
    pub fn master_of_slot(&self, slot: u16) -> usize {
        let known_to = |node: &RedisServer| self.master_in(&self.masters_known_to(node), slot);
        let running = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.is_running());
        let claimed = running
            .map(|(index, node)| (index, known_to(node)))
            .find(|(index, known)| *known == Some(*index));
        let master =
            claimed.map_or_else(|| known_to(self.a_running_node()), |(index, _)| Some(index));
        master.unwrap_or_else(|| panic!("slot {slot} has no master"))
    }

    /// Index of the master of this key's slot.
    #[track_caller]
    pub fn owner_of_key(&self, key: &str) -> usize {
        self.master_of_slot(self.slot_of_key(key))
    }

    /// Waits until all nodes that run name a node that runs as the master of this slot, and returns its index.
    /// To be called after its master was killed or stopped.
    #[track_caller]
    pub fn wait_for_new_master(&self, slot: u16, timeout: Duration) -> usize {
        let mut found = None;
        wait_until(timeout, "another node is master of the slot", || {
            let running = self.nodes.iter().filter(|node| node.is_running());
            let words: Vec<_> = running
                .map(|node| self.master_in(&self.masters_known_to(node), slot))
                .collect();
            found = words
                .first()
                .copied()
                .flatten()
                .filter(|master| self.nodes[*master].is_running());
            found.is_some() && words.iter().all(|word| *word == found)
        });
        found.expect("set when the wait ended")
    }

    /// Waits until every node that runs calls the cluster ok, all others are known to be dead, and replicas have links.
    #[track_caller]
    pub fn wait_until_ok(&self, timeout: Duration) {
        wait_until(timeout, "all nodes call the cluster ok", || self.is_ok());
    }

    /// Takes the whole cluster down while every node runs on: nobody owns the first slot any more, and
    /// all nodes refuse every key because of it.
    #[track_caller]
    pub fn take_down(&self) {
        for node in &self.nodes {
            let full_coverage = ["CONFIG", "SET", "cluster-require-full-coverage", "yes"];
            node.command::<()>(&full_coverage);
            node.command::<()>(&["CLUSTER", "DELSLOTS", "0"]);
        }
        wait_until(START_TIMEOUT, "all nodes call the cluster down", || {
            self.nodes.iter().all(|node| {
                let info: String = node.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:fail")
            })
        });
    }

    /// Ends [`take_down`](Self::take_down), and returns when every node calls the cluster ok.
    #[track_caller]
    pub fn bring_up(&self) {
        self.nodes[0].command::<()>(&["CLUSTER", "ADDSLOTS", "0"]);
        self.wait_until_ok(START_TIMEOUT);
    }

    /// Moves slots to this master one by one with all their keys, while clients go on: a key is asked for at the old
    /// master until it has moved (then `ASK`), and the slot changes hands when it is empty (then `MOVED`).
    #[track_caller]
    pub fn move_slots(&self, slots: RangeInclusive<u16>, to: usize) {
        for slot in slots {
            // For a moment after a move, old news of it go round, and a node may be wrong about itself.
            wait_until(
                Duration::from_secs(10),
                "the slot is with its new master",
                || {
                    let from = self.master_of_slot(slot);
                    let moved = if from == to {
                        Ok(())
                    } else {
                        self.move_slot(slot, from, to)
                    };
                    moved.is_ok()
                },
            );
        }
    }

    fn move_slot(&self, slot: u16, from: usize, to: usize) -> RedisResult<()> {
        let set_slot = |node: usize, state: &str, about: usize| {
            self.nodes[node].try_command::<()>(&[
                "CLUSTER",
                "SETSLOT",
                &slot.to_string(),
                state,
                &self.ids[about],
            ])
        };
        // A new master that did not know how new the old one's word is would be overruled by it, and nobody own the slot.
        wait_until(
            START_TIMEOUT,
            "all masters know each other's epochs",
            || self.epochs_are_known(),
        );
        set_slot(to, "IMPORTING", from)?;
        set_slot(from, "MIGRATING", to)?;
        let mut old_master = self.nodes[from].try_client()?;
        loop {
            let keys: Vec<Vec<u8>> = cmd("CLUSTER")
                .arg("GETKEYSINSLOT")
                .arg(slot)
                .arg(10)
                .query(&mut old_master)?;
            if keys.is_empty() {
                break;
            }
            let mut migrate = cmd("MIGRATE");
            migrate
                .arg("127.0.0.1")
                .arg(self.nodes[to].port())
                .arg("")
                .arg(0)
                .arg(5000)
                .arg("KEYS")
                .arg(keys);
            migrate.exec(&mut old_master)?;
        }
        // The new master learns it first: otherwise the old one would send clients to a node that sends them back.
        set_slot(to, "NODE", to)?;
        set_slot(from, "NODE", to)?;
        for other in (0..self.nodes.len())
            .filter(|node| *node != from && *node != to && self.nodes[*node].is_running())
        {
            // Replicas do not take the order; they hear of it from the others.
            let _heard_later = set_slot(other, "NODE", to);
        }
        Ok(())
    }

    /// Returns true when no two masters have the same epoch and each knows those of all.
    fn epochs_are_known(&self) -> bool {
        let known_to = |node: &RedisServer| -> BTreeMap<String, String> {
            let text = nodes_known_to(node);
            let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let masters = lines.filter(|fields| fields.len() > 8 && fields[2].contains("master"));
            masters
                .map(|fields| (fields[6].to_owned(), fields[0].to_owned()))
                .collect()
        };
        let words: Vec<_> = self
            .nodes
            .iter()
            .filter(|node| node.is_running())
            .map(known_to)
            .collect();
        words
            .iter()
            .all(|word| word.len() == MASTERS && *word == words[0])
    }

    fn give_slots(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for (node, (first, last)) in
            self.nodes
                .iter()
                .zip([(0, 5460), (5461, 10922), (10923, 16383)])
        {
            node.command::<()>(&[
                "CLUSTER",
                "ADDSLOTSRANGE",
                &first.to_string(),
                &last.to_string(),
            ]);
        }
    }

    fn introduce_nodes(&self) {
        let (first, others) = self.nodes.split_first().expect("six nodes");
        for node in others {
            let bus_port = node.bus_port().expect("a cluster node").to_string();
            first.command::<()>(&[
                "CLUSTER",
                "MEET",
                "127.0.0.1",
                &node.port().to_string(),
                &bus_port,
            ]);
        }
        wait_until(START_TIMEOUT, "all nodes know each other", || {
            self.nodes.iter().all(|node| {
                let text = nodes_known_to(node);
                self.ids.iter().all(|id| text.contains(id.as_str())) && !text.contains("handshake")
            })
        });
    }

    fn assign_replicas(&self) {
        for (replica, master_id) in self.nodes[MASTERS..].iter().zip(&self.ids) {
            replica.command::<()>(&["CLUSTER", "REPLICATE", master_id]);
        }
    }

    fn is_ok(&self) -> bool {
        let calls_it_ok = |node: &RedisServer| {
            let info: String = node.try_command(&["CLUSTER", "INFO"]).unwrap_or_default();
            let replication = node.try_info("replication").unwrap_or_default();
            let is_linked = replication
                .get("master_link_status")
                .is_none_or(|status| status == "up");
            info.contains("cluster_state:ok")
                && info.contains("cluster_slots_ok:16384")
                && is_linked
        };
        let mut running = self.nodes.iter().filter(|node| node.is_running());
        running.all(calls_it_ok) && self.all_replicas_are_known()
    }

    /// A failover needs masters that have heard of their replicas.
    fn all_replicas_are_known(&self) -> bool {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
        running.iter().all(|node| {
            let text = nodes_known_to(node);
            let alive = text
                .lines()
                .filter(|line| !line.contains("fail") && !line.contains("noaddr"));
            let (replicas, masters): (Vec<&str>, Vec<&str>) =
                alive.partition(|line| line.contains("slave"));
            replicas.len() + masters.len() == running.len() && masters.len() == MASTERS
        })
    }

    /// Slot ranges and the id of their master, as this node knows them.
    fn masters_known_to(&self, node: &RedisServer) -> Vec<(RangeInclusive<u16>, String)> {
        let text = nodes_known_to(node);
        let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let slots = lines.flat_map(|fields| {
            let id = fields[0].to_owned();
            // From the ninth field on: `0-5460`, `7`, and `[93->-…]` for a slot on the move.
            let ranges: Vec<_> = fields[8.min(fields.len())..]
                .iter()
                .filter_map(|field| parse_range(field))
                .collect();
            ranges.into_iter().map(move |range| (range, id.clone()))
        });
        slots.collect()
    }

    fn master_in(&self, masters: &[(RangeInclusive<u16>, String)], slot: u16) -> Option<usize> {
        let indices: HashMap<&str, usize> = self.ids.iter().map(String::as_str).zip(0..).collect();
        let (_, id) = masters.iter().find(|(range, _)| range.contains(&slot))?;
        indices.get(id.as_str()).copied()
    }

    #[track_caller]
    fn a_running_node(&self) -> &RedisServer {
        self.nodes
            .iter()
            .find(|node| node.is_running())
            .expect("a node runs")
    }
}

const MASTERS: usize = 3;
const START_TIMEOUT: Duration = Duration::from_secs(20);

fn start_node() -> RedisServer {
    RedisServer::builder()
        .cluster_node()
        .config("cluster-node-timeout 1000")
        .config("cluster-require-full-coverage no")
        .config("cluster-allow-replica-migration no")
        .start()
}

/// Empty when the node is away.
fn nodes_known_to(node: &RedisServer) -> String {
    node.try_command(&["CLUSTER", "NODES"]).unwrap_or_default()
}

fn parse_range(field: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = field.split_once('-').unwrap_or((field, field));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
