//! Which primary the reports of sentinels lead to.
//!
//! The idea: each failover has an epoch, higher than all before, and a sentinel reports the primary
//! together with it. A sentinel that was cut off goes on to report the primary that was replaced, and
//! if that server was cut off with it, it confirms. So the highest epoch that was ever reported is
//! remembered, for the life of the store, and its primary is the only one that is used. While it does
//! not answer, no other takes its place.
//!
//! **Invariant:** a primary of a lower epoch than the highest one seen is not used, unless a majority of
//! the configured sentinels has named it for [`SETTLING`], and no sentinel named a primary of the higher
//! epoch that confirmed it. Without that exception, sentinels that were set up anew, and count
//! from zero again, would never be believed.
//!
//! A store that has seen no epoch yet waits for the answers of a majority of the sentinels, because a
//! single one may be the one that was cut off; but not for longer than [`SETTLING`], because most
//! sentinels may be gone for good. By then a primary that has lost its replicas refuses writes
//! itself, where `min-replicas-to-write` is set and `min-replicas-max-lag` is ten seconds, as it is by
//! default.
//!
//! Nothing here does I/O or reads a clock: `scout/sentinel.rs` brings the reports and the time.

use std::time::Duration;

use tokio::time::Instant;

use super::endpoint::Endpoint;

/// How long a word that caution speaks against has to stand before it is believed.
pub(super) const SETTLING: Duration = Duration::from_secs(10);

/// How long sentinels may take to hear of a failover from each other, which they do every two seconds.
const HEARSAY: Duration = Duration::from_secs(5);
/// Stale reports that are remembered as told.
const TOLD_MAX: usize = 16;

/// The report of one sentinel: a primary, and the failover that made it one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentinelReport {
    /// Number of the configuration; each failover increases it. 0 when the user may not see it.
    pub(super) epoch: u64,
    pub(super) primary: Endpoint,
}

/// The memory of one store about the primaries that sentinels reported.
#[derive(Debug)]
pub(super) struct PrimaryTrust {
    /// Number of configured sentinels.
    sentinels: usize,
    /// The primary of the highest epoch, or the one that a majority named in its stead.
    trusted: Option<SentinelReport>,
    /// The report that a majority overruled. It is believed again only if a majority names it.
    overruled: Option<SentinelReport>,
    /// The first search without answers of a majority, until a primary is trusted.
    incomplete_since: Option<Instant>,
    /// The primary that a majority names at a lower epoch, and since when.
    contender: Option<(Endpoint, Instant)>,
    /// Reports of other primaries than the trusted one in the last search, and since when.
    stale: Vec<(SentinelReport, Instant)>,
    /// Those that were told already.
    told: Vec<SentinelReport>,
}

/// What one search concludes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrustRuling {
    /// The one primary that may be used if it confirms its role, or why there is none.
    pub(super) primary: Result<SentinelReport, String>,
    /// Reports of a replaced primary in this search.
    pub(super) stale_reports: u64,
    /// What an operator should know.
    pub(super) news: Vec<TrustNews>,
}

/// An event that is worth a line in the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TrustNews {
    /// A sentinel names a primary that was replaced; it is not used.
    Stale {
        report: SentinelReport,
        trusted: SentinelReport,
    },
    /// A majority has named a primary of a lower epoch for long enough; it is used.
    MajorityWins {
        report: SentinelReport,
        overruled: SentinelReport,
    },
    /// No majority of the sentinels has answered for long enough; the others are believed.
    Incomplete {
        report: SentinelReport,
        answers: usize,
        sentinels: usize,
    },
}

/// A primary with the highest epoch under which it is named, and by how many sentinels it is named.
#[derive(Clone, Debug)]
struct NamedPrimary {
    report: SentinelReport,
    votes: usize,
}

impl PrimaryTrust {
    /// Trusts nobody yet; `sentinels` are configured.
    pub(super) fn new(sentinels: usize) -> Self {
        Self {
            sentinels,
            trusted: None,
            overruled: None,
            incomplete_since: None,
            contender: None,
            stale: Vec::new(),
            told: Vec::new(),
        }
    }

    /// How many sentinels are more than half of those configured.
    pub(super) fn majority(&self) -> usize {
        self.sentinels / 2 + 1
    }

    /// The epoch of the trusted primary.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.trusted.as_ref().map(|trusted| trusted.epoch)
    }

    /// Takes the reports of one search, one for each sentinel that answered.
    pub(super) fn judge(&mut self, reports: &[SentinelReport], now: Instant) -> TrustRuling {
        let mut news = Vec::new();
        let named = named_primaries(reports);
        let Some(top) = self.most_recent(&named) else {
            return TrustRuling {
                primary: Err("no sentinel names a primary".to_owned()),
                stale_reports: 0,
                news,
            };
        };
        let primary = match self.trusted.clone() {
            None => self.judge_first(top, reports.len(), now, &mut news),
            Some(trusted) => Ok(self.judge_next(trusted, &top, &named, now, &mut news)),
        };
        let stale_reports = match &primary {
            Ok(trusted) => self.note_stale(trusted, reports, now, &mut news),
            Err(_) => 0,
        };
        TrustRuling {
            primary,
            stale_reports,
            news,
        }
    }

    /// Notes that a primary which was ruled to be the one has confirmed it. If a sentinel named it at
    /// its epoch in the same search, a majority at a lower epoch has to begin anew.
    pub(super) fn confirmed(&mut self, ruled: &SentinelReport, reports: &[SentinelReport]) {
        if reports.contains(ruled) {
            self.contender = None;
        }
    }

    /// The named primary of the highest epoch; among several, the one that most sentinels name. A
    /// report that was overruled does not count, unless a majority names it now.
    fn most_recent(&self, named: &[NamedPrimary]) -> Option<NamedPrimary> {
        let majority = self.majority();
        named
            .iter()
            .filter(|named| {
                named.votes >= majority || self.overruled.as_ref() != Some(&named.report)
            })
            .max_by_key(|named| (named.report.epoch, named.votes))
            .cloned()
    }

    /// Nothing is trusted yet: the highest epoch is, once a majority has answered or the wait is over.
    fn judge_first(
        &mut self,
        top: NamedPrimary,
        answers: usize,
        now: Instant,
        news: &mut Vec<TrustNews>,
    ) -> Result<SentinelReport, String> {
        let (sentinels, majority) = (self.sentinels, self.majority());
        if answers < majority {
            let since = *self.incomplete_since.get_or_insert(now);
            if now.duration_since(since) < SETTLING {
                return Err(format!(
                    "{answers} of {sentinels} sentinels answer, {majority} are needed for the first {SETTLING:?}"
                ));
            }
            news.push(TrustNews::Incomplete {
                report: top.report.clone(),
                answers,
                sentinels,
            });
        }
        self.trusted = Some(top.report.clone());
        Ok(top.report)
    }

    /// A higher epoch is trusted at once, the same epoch if a majority says so, and a lower one if a
    /// majority has said so for long enough.
    fn judge_next(
        &mut self,
        trusted: SentinelReport,
        top: &NamedPrimary,
        named: &[NamedPrimary],
        now: Instant,
        news: &mut Vec<TrustNews>,
    ) -> SentinelReport {
        let majority = self.majority();
        let is_later = top.report.epoch > trusted.epoch;
        let is_agreed = top.report.epoch == trusted.epoch && top.votes >= majority;
        if is_later || is_agreed {
            self.contender = None;
            self.trusted = Some(top.report.clone());
            return top.report.clone();
        }
        let Some(agreed) = named
            .iter()
            .find(|named| named.votes >= majority && named.report.epoch < trusted.epoch)
        else {
            return trusted;
        };
        let since = match &self.contender {
            Some((primary, since)) if *primary == agreed.report.primary => *since,
            _ => now,
        };
        self.contender = Some((agreed.report.primary.clone(), since));
        if now.duration_since(since) < SETTLING {
            return trusted;
        }
        news.push(TrustNews::MajorityWins {
            report: agreed.report.clone(),
            overruled: trusted.clone(),
        });
        self.contender = None;
        self.overruled = Some(trusted);
        self.trusted = Some(agreed.report.clone());
        agreed.report.clone()
    }

    /// Counts the reports that name another primary than the trusted one. One that stands for longer
    /// than sentinels need to hear of a failover is told, once.
    fn note_stale(
        &mut self,
        trusted: &SentinelReport,
        reports: &[SentinelReport],
        now: Instant,
        news: &mut Vec<TrustNews>,
    ) -> u64 {
        let is_stale = |report: &&SentinelReport| report.primary != trusted.primary;
        let mut stale: Vec<(SentinelReport, Instant)> = Vec::new();
        for report in reports.iter().filter(is_stale) {
            let known = self.stale.iter().find(|(known, _)| known == report);
            stale.push((report.clone(), known.map_or(now, |(_, since)| *since)));
        }
        for (report, since) in &stale {
            if now.duration_since(*since) < HEARSAY || self.told.contains(report) {
                continue;
            }
            if self.told.len() == TOLD_MAX {
                self.told.clear();
            }
            self.told.push(report.clone());
            news.push(TrustNews::Stale {
                report: report.clone(),
                trusted: trusted.clone(),
            });
        }
        self.stale = stale;
        self.stale.len() as u64
    }
}

/// Each primary that is named, once.
fn named_primaries(reports: &[SentinelReport]) -> Vec<NamedPrimary> {
    let mut named: Vec<NamedPrimary> = Vec::new();
    for report in reports {
        match named
            .iter_mut()
            .find(|named| named.report.primary == report.primary)
        {
            Some(known) => {
                known.votes += 1;
                known.report.epoch = known.report.epoch.max(report.epoch);
            }
            None => named.push(NamedPrimary {
                report: report.clone(),
                votes: 1,
            }),
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(epoch: u64, port: u16) -> SentinelReport {
        SentinelReport {
            epoch,
            primary: Endpoint::new("127.0.0.1", port),
        }
    }

    /// A trust over three sentinels, which sees reports at seconds after its start.
    struct Sentinels {
        trust: PrimaryTrust,
        start: Instant,
    }

    impl Sentinels {
        fn new() -> Self {
            Self {
                trust: PrimaryTrust::new(3),
                start: Instant::now(),
            }
        }

        fn ruling(&mut self, second: u64, reports: &[(u64, u16)]) -> TrustRuling {
            let reports: Vec<_> = reports
                .iter()
                .map(|(epoch, port)| report(*epoch, *port))
                .collect();
            let now = self.start + Duration::from_secs(second);
            self.trust.judge(&reports, now)
        }

        /// The port of the primary that may be used; `None` when there is none.
        fn primary(&mut self, second: u64, reports: &[(u64, u16)]) -> Option<u16> {
            let ruled = self.ruling(second, reports).primary.ok()?;
            Some(ruled.primary.port())
        }

        /// The same, and it says itself that it is a primary.
        fn confirmed(&mut self, second: u64, reports: &[(u64, u16)]) -> Option<u16> {
            let ruled = self.ruling(second, reports).primary.ok()?;
            let reports: Vec<_> = reports
                .iter()
                .map(|(epoch, port)| report(*epoch, *port))
                .collect();
            self.trust.confirmed(&ruled, &reports);
            Some(ruled.primary.port())
        }
    }

    #[test]
    fn a_lower_epoch_than_one_seen_is_not_believed_whatever_a_lone_sentinel_says() {
        let mut sentinels = Sentinels::new();
        assert_eq!(sentinels.primary(0, &[(5, 1), (5, 1), (5, 1)]), Some(1));
        assert_eq!(
            sentinels.primary(1, &[(5, 1), (6, 2)]),
            Some(2),
            "the highest epoch, at once"
        );
        for second in 2..1_000 {
            assert_eq!(sentinels.primary(second, &[(5, 1)]), Some(2));
            assert_eq!(
                sentinels.primary(second, &[(5, 1), (6, 2), (6, 2)]),
                Some(2)
            );
        }
        assert_eq!(sentinels.primary(1_000, &[(7, 3)]), Some(3));
        assert_eq!(sentinels.trust.epoch(), Some(7));
    }

    #[test]
    fn a_majority_at_a_lower_epoch_wins_after_ten_seconds_and_stays() {
        let anew = [(0, 9), (0, 9), (0, 9)];
        let mut sentinels = Sentinels::new();
        assert_eq!(sentinels.confirmed(0, &[(7, 1), (7, 1), (7, 1)]), Some(1));
        assert_eq!(sentinels.confirmed(1, &anew), Some(1));
        assert_eq!(sentinels.confirmed(6, &anew[..1]), Some(1));
        assert_eq!(sentinels.confirmed(10, &anew[..2]), Some(1));
        let won = sentinels.ruling(11, &anew[..2]);
        assert_eq!(won.primary, Ok(report(0, 9)));
        let told = TrustNews::MajorityWins {
            report: report(0, 9),
            overruled: report(7, 1),
        };
        assert_eq!(won.news, [told]);
        assert_eq!(
            sentinels.confirmed(12, &[(0, 9), (0, 9), (7, 1)]),
            Some(9),
            "what was overruled stays so"
        );
        assert_eq!(sentinels.confirmed(13, &[(0, 9), (1, 8), (7, 1)]), Some(8));
        assert_eq!(
            sentinels.confirmed(14, &[(7, 1), (7, 1), (1, 8)]),
            Some(1),
            "until a majority says it again"
        );
    }

    #[test]
    fn a_majority_begins_anew_when_the_higher_epoch_is_named_and_confirmed_meanwhile() {
        let split = [(5, 1), (5, 1), (6, 2)];
        let mut sentinels = Sentinels::new();
        for second in 0..60 {
            assert_eq!(sentinels.confirmed(second, &split), Some(2));
        }
        for second in 60..70 {
            assert_eq!(sentinels.primary(second, &split), Some(2), "it is away");
        }
        assert_eq!(sentinels.primary(70, &split), Some(1));
    }

    #[test]
    fn a_majority_lowers_the_epoch_of_the_primary_in_use() {
        let mut sentinels = Sentinels::new();
        sentinels.confirmed(0, &[(7, 1), (7, 1), (7, 1)]);
        for second in 1..=11 {
            assert_eq!(sentinels.confirmed(second, &[(0, 1), (0, 1)]), Some(1));
        }
        assert_eq!(
            sentinels.confirmed(12, &[(1, 2), (0, 1)]),
            Some(2),
            "the first failover of the new sentinels is followed at once"
        );
    }

    #[test]
    fn at_the_same_epoch_a_majority_decides() {
        let mut sentinels = Sentinels::new();
        assert_eq!(sentinels.primary(0, &[(0, 1), (0, 1), (0, 1)]), Some(1));
        assert_eq!(sentinels.primary(1, &[(0, 2), (0, 1)]), Some(1));
        assert_eq!(sentinels.primary(2, &[(0, 2), (0, 2)]), Some(2));
    }

    #[test]
    fn a_store_that_has_seen_nothing_waits_ten_seconds_for_a_majority() {
        let mut sentinels = Sentinels::new();
        let ruled = sentinels.ruling(0, &[(5, 1)]).primary.unwrap_err();
        assert!(
            ruled.contains("1 of 3 sentinels answer, 2 are needed"),
            "{ruled}"
        );
        assert_eq!(sentinels.primary(9, &[(5, 1)]), None);
        let taken = sentinels.ruling(10, &[(5, 1)]);
        assert_eq!(taken.primary, Ok(report(5, 1)));
        let told = TrustNews::Incomplete {
            report: report(5, 1),
            answers: 1,
            sentinels: 3,
        };
        assert_eq!(taken.news, [told]);

        let mut sentinels = Sentinels::new();
        assert_eq!(sentinels.primary(0, &[]), None);
        assert_eq!(sentinels.primary(1, &[(5, 1)]), None);
        assert_eq!(sentinels.primary(2, &[(5, 1), (6, 2)]), Some(2));
    }

    #[test]
    fn a_stale_report_is_counted_each_time_and_told_once_it_stands() {
        let mut sentinels = Sentinels::new();
        let reports = [(5, 1), (6, 2), (6, 2)];
        let told = |ruling: &TrustRuling| ruling.news.len();
        for second in 0..5 {
            let ruling = sentinels.ruling(second, &reports);
            assert_eq!((ruling.stale_reports, told(&ruling)), (1, 0));
        }
        let ruling = sentinels.ruling(5, &reports);
        let stale = TrustNews::Stale {
            report: report(5, 1),
            trusted: report(6, 2),
        };
        assert_eq!((ruling.stale_reports, ruling.news), (1, vec![stale]));
        for second in 6..60 {
            sentinels.ruling(second, &reports[1..]);
            let ruling = sentinels.ruling(second, &reports);
            assert_eq!((ruling.stale_reports, told(&ruling)), (1, 0));
        }
    }
}
