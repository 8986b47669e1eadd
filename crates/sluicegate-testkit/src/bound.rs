//! The promise of a limiter, checked on what clients saw: over no interval more than `burst + rate × Δt`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// One admitted request, as its client saw it. Times are nanoseconds on one clock shared by all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When the client asked.
    pub sent: u64,
    /// When the client had the answer; not before `sent`.
    pub received: u64,
    /// Which counter was charged, by any numbering of the test.
    pub key: u64,
    /// Units spent.
    pub cost: u64,
}

/// The promise: at most `burst × (1 + bursts_lost) + Δt × count / period` units in any interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    burst: u64,
    count: u64,
    period: u64,
    bursts_lost: u64,
}

impl Bound {
    /// `count` units every `period`, `burst` at once.
    pub fn new(count: u64, period: Duration, burst: u64) -> Self {
        let period = u64::try_from(period.as_nanos()).expect("a period of at most 584 years");
        assert!(period > 0 && count > 0, "a rate needs a count and a period");
        Self {
            burst,
            count,
            period,
            bursts_lost: 0,
        }
    }

    /// Allows one more burst for each event that lost the state of the store.
    pub fn with_bursts_lost(self, bursts_lost: u64) -> Self {
        Self {
            bursts_lost,
            ..self
        }
    }

    /// Checks each key on its own.
    pub fn check(&self, history: &[Admission]) -> Report {
        let mut by_key: BTreeMap<u64, Vec<Admission>> = BTreeMap::new();
        for admission in history {
            by_key.entry(admission.key).or_default().push(*admission);
        }
        let of_key = |(key, history): (u64, Vec<Admission>)| {
            let worst = self
                .worst(&history)
                .expect("a key of the history has an admission");
            KeyReport {
                key,
                admissions: history.len(),
                worst,
            }
        };
        let mut keys: Vec<KeyReport> = by_key.into_iter().map(of_key).collect();
        keys.sort_by_key(|report| std::cmp::Reverse(report.worst.excess));
        Report { bound: *self, keys }
    }

    /// The interval in which a history of one key (keys are not looked at) comes closest to the bound or exceeds it most.
    ///
    /// Over all pairs i, j with send_i ≤ send_j it finds the largest excess of what was both sent at or after send_i and
    /// received at or before recv_j. Exact, in n log n steps: admissions are taken from the last sent to the first, and
    /// a tree over the times of receipt holds the excess of the intervals that begin at the present one.
    pub fn worst(&self, history: &[Admission]) -> Option<Worst> {
        assert!(
            history
                .iter()
                .all(|admission| admission.sent <= admission.received),
            "an answer before its question"
        );
        let mut by_receipt: Vec<usize> = (0..history.len()).collect();
        by_receipt.sort_by_key(|index| history[*index].received);
        let mut leaves: Vec<(usize, Admission)> = by_receipt
            .into_iter()
            .map(|index| history[index])
            .enumerate()
            .collect();
        let ends: Vec<u64> = leaves
            .iter()
            .map(|(_, admission)| admission.received)
            .collect();
        leaves.sort_by_key(|(_, admission)| std::cmp::Reverse(admission.sent));

        let mut tree = Tree::new(leaves.len());
        let mut worst: Option<Worst> = None;
        for (leaf, admission) in leaves {
            let spent = i128::from(self.period) * i128::from(admission.cost);
            tree.put(leaf, spent, self.refilled_at(admission.received));
            let best = tree.best();
            let excess = best.height + self.refilled_at(admission.sent) - self.burst_allowed();
            if worst.is_none_or(|worst| excess > worst.excess) {
                worst = Some(Worst {
                    from: admission.sent,
                    to: ends[best.leaf],
                    excess,
                    period: self.period,
                });
            }
        }
        worst
    }

    /// Everything is counted in units × period, so that no division rounds.
    fn refilled_at(&self, time: u64) -> i128 {
        i128::from(self.count) * i128::from(time)
    }

    fn burst_allowed(&self) -> i128 {
        i128::from(self.period) * i128::from(self.burst) * (1 + i128::from(self.bursts_lost))
    }
}

/// The worst interval of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Its begin, the sending of an admission.
    pub from: u64,
    /// Its end, the receipt of an admission.
    pub to: u64,
    /// Units × nanoseconds of the period above the bound; negative when there was slack.
    excess: i128,
    period: u64,
}

impl Worst {
    /// True when the bound held, exactly.
    pub fn holds(&self) -> bool {
        self.excess <= 0
    }

    /// Units above the bound, for people: negative when there was slack.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn excess_units(&self) -> f64 {
        self.excess as f64 / self.period as f64
    }
}

/// The worst interval of each key, the worst key first.
#[derive(Clone, Debug)]
pub struct Report {
    bound: Bound,
    keys: Vec<KeyReport>,
}

impl Report {
    /// The keys, the worst first; none for an empty history.
    pub fn keys(&self) -> &[KeyReport] {
        &self.keys
    }

    /// True when the bound held for every key.
    pub fn holds(&self) -> bool {
        self.keys.iter().all(|key| key.worst.holds())
    }

    /// Units above the bound for the worst key: negative when there was slack, `None` for an empty history.
    pub fn excess_units(&self) -> Option<f64> {
        self.keys.first().map(|key| key.worst.excess_units())
    }

    /// Panics with the whole report unless the bound held and something was admitted at all.
    #[track_caller]
    pub fn assert_holds(&self) {
        assert!(
            !self.keys.is_empty(),
            "nothing was admitted, so nothing was checked"
        );
        assert!(self.holds(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound {
            burst,
            count,
            period,
            bursts_lost,
        } = self.bound;
        let within = self.keys.iter().filter(|key| key.worst.holds()).count();
        let period = Duration::from_nanos(period);
        writeln!(
            f,
            "bound {count} per {period:?}, burst {burst}, {bursts_lost} bursts lost: {within} of {} keys within",
            self.keys.len()
        )?;
        for KeyReport {
            key,
            admissions,
            worst,
        } in self.keys.iter().take(KEYS_SHOWN)
        {
            let length = Duration::from_nanos(worst.to - worst.from);
            let excess = worst.excess_units();
            let (words, units) = if worst.holds() {
                ("slack", -excess)
            } else {
                ("EXCESS", excess)
            };
            writeln!(
                f,
                "  key {key}: {words} {units:.3} units in {length:?} from {} ns, of {admissions} admissions",
                worst.from
            )?;
        }
        Ok(())
    }
}

/// The findings for one key.
#[derive(Clone, Copy, Debug)]
pub struct KeyReport {
    /// The key.
    pub key: u64,
    /// How many admissions it had.
    pub admissions: usize,
    /// Where it came closest to its bound or exceeded it most.
    pub worst: Worst,
}

const KEYS_SHOWN: usize = 10;

/// A row of leaves, each with a weight and a depth, all empty at first. Knows the leaf with the greatest height: the
/// weights up to and including it less its own depth. Among equal times of receipt the last full leaf counts them all.
struct Tree {
    first_leaf: usize,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Node {
    /// Weights of all leaves below.
    weight: i128,
    /// Greatest height below, counting only weights below; `None` while all leaves are empty.
    best: Option<Best>,
}

#[derive(Clone, Copy)]
struct Best {
    height: i128,
    leaf: usize,
}

impl Tree {
    fn new(leaves: usize) -> Self {
        let first_leaf = leaves.next_power_of_two();
        Self {
            first_leaf,
            nodes: vec![
                Node {
                    weight: 0,
                    best: None
                };
                2 * first_leaf
            ],
        }
    }

    fn put(&mut self, leaf: usize, weight: i128, depth: i128) {
        let mut at = self.first_leaf + leaf;
        self.nodes[at] = Node {
            weight,
            best: Some(Best {
                height: weight - depth,
                leaf,
            }),
        };
        while at > 1 {
            at /= 2;
            self.nodes[at] = join(self.nodes[2 * at], self.nodes[2 * at + 1]);
        }
    }

    fn best(&self) -> Best {
        self.nodes[1].best.expect("asked after a leaf was put")
    }
}

fn join(left: Node, right: Node) -> Node {
    let raised = right.best.map(|best| Best {
        height: best.height + left.weight,
        ..best
    });
    let best = match (left.best, raised) {
        (Some(left), Some(right)) if left.height > right.height => Some(left),
        (left, right) => right.or(left),
    };
    Node {
        weight: left.weight + right.weight,
        best,
    }
}

#[cfg(test)]
mod tests;
