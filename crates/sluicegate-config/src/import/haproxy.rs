//! Import from HAProxy: rules that reject requests by the `http_req_rate` of a stick table.
//!
//! A limit there is in three places: a table with the period, a rule that tracks a key in it, and a
//! rule that rejects when the rate is above a number. HAProxy weighs the previous period and the
//! current one, which is our sliding window.

mod condition;
mod facts;
mod key;
mod rules;
mod syntax;

use super::alternatives::{both, contrary};
use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine, WindowKind, period_text, quoted};
use super::foreign_text::ForeignText;
use crate::{Mistakes, Source};
use condition::{Condition, Literal};
use facts::{Fact, RateSource};
use key::HaproxyKey;
use rules::{Rejecting, SectionRules, StickTable, Tracking};
use syntax::{HaproxySection, sections};

/// Reads the configuration.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    let mut file = ForeignText::new(&source.name, &source.text);
    let sections = sections(&mut file);
    let mut all = Vec::new();
    for section in sections {
        let rules = SectionRules::read(&section, &mut file, &source.base_dir);
        all.push((section, rules));
    }
    let mut importer = Importer {
        draft: Draft::of_proxy(format!("The limits of {}, from HAProxy.", source.name)),
        file,
        prefixes: (32, 128),
        allow: Vec::new(),
    };
    for (section, rules) in &all {
        for rule in &rules.rejecting {
            importer.read_rule(rule, section, rules, &all);
        }
    }
    match importer.file.mistakes() {
        Some(mistakes) => Err(mistakes),
        None => Ok(importer.into_draft(&all)),
    }
}

/// A section with its rules.
type ReadSection = (HaproxySection, SectionRules);

/// The limits found so far.
struct Importer {
    draft: Draft,
    file: ForeignText,
    /// The leading bits of addresses that are counted.
    prefixes: (u8, u8),
    /// Networks that are not limited.
    allow: Vec<String>,
}

/// The facts of a rule, sorted by what becomes of them.
#[derive(Default)]
struct SortedFacts {
    /// All of these lists must cover a request.
    covers: Vec<Vec<Cover>>,
    except: Vec<Cover>,
    differences: Vec<(LimitLine, String)>,
    allow: Vec<String>,
}

impl Importer {
    /// Converts a rule that rejects requests, if it is about their rate.
    fn read_rule(
        &mut self,
        rule: &Rejecting,
        section: &HaproxySection,
        own: &SectionRules,
        all: &[ReadSection],
    ) {
        for list in &rule.condition {
            let is_rate = |literal: &&Literal| {
                matches!(literal.fact, Fact::Rate { .. }) && !literal.is_negated
            };
            let rates: Vec<&Literal> = list.iter().filter(is_rate).collect();
            let rest: Vec<Literal> = list
                .iter()
                .filter(|literal| !is_rate(literal))
                .cloned()
                .collect();
            match rates.as_slice() {
                [] => self.note_other_counters(rule, &rest),
                [rate] => {
                    let Fact::Rate { of, above } = &rate.fact else {
                        continue;
                    };
                    self.read_rate(rule, section, own, all, (of, *above), &rest);
                }
                _ => self.not_carried_over(rule, "a limit cannot depend on two rates at once"),
            }
        }
    }

    /// Tells of rules by counters that are not rates of requests.
    fn note_other_counters(&mut self, rule: &Rejecting, facts: &[Literal]) {
        let counter = facts.iter().find(|literal| {
            let text = &literal.text;
            let is_counter = text.starts_with("sc") || text.starts_with("src_");
            // Whatever it reads, a rule that answers 429 is about a limit.
            let is_limit = text.contains("table_") || rule.answer == "with 429";
            literal.fact == Fact::Other && (is_counter || is_limit)
        });
        if let Some(counter) = counter {
            let reason = format!(
                "only rates of requests can be limited, not {}",
                counter.text
            );
            self.not_carried_over(rule, &reason);
        }
    }

    fn not_carried_over(&mut self, rule: &Rejecting, reason: &str) {
        self.draft
            .not_carried_over(format!("{}: {reason}", rule.origin));
    }

    /// Converts a rate: finds the rules that track it, and their table.
    fn read_rate(
        &mut self,
        rule: &Rejecting,
        section: &HaproxySection,
        own: &SectionRules,
        all: &[ReadSection],
        (of, above): (&RateSource, u64),
        facts: &[Literal],
    ) {
        let found = trackings_of(of, section, own, all);
        if found.is_empty() {
            self.not_carried_over(rule, "no rule tracks the counter that it reads");
        }
        for (tracking, table) in found {
            let known = all
                .iter()
                .flat_map(|(_, rules)| &rules.tables)
                .find(|one| one.name == table);
            let Some(known) = known else {
                let message = format!("no stick-table is called {table:?}");
                self.file.mistake(&rule.line.at, message);
                continue;
            };
            let Some(period) = known.period else {
                let reason = format!("the table {table} does not store http_req_rate");
                self.not_carried_over(rule, &reason);
                continue;
            };
            let is_later =
                tracking.at > rule.at && own.trackings.iter().any(|track| track.at == tracking.at);
            let counted = CountedRate {
                table: known,
                tracking,
                period,
                // A request that is tracked later is not part of the rate yet.
                count: above + u64::from(is_later),
            };
            let backends = backend_conditions(section, all);
            for tracked in both(&tracking.condition, &backends) {
                let passed = rule
                    .passed_before
                    .iter()
                    .fold(vec![Vec::new()], |all, condition| {
                        both(&all, &contrary(condition))
                    });
                for passed in passed {
                    let around = [tracked.as_slice(), &passed].concat();
                    self.add_limits(rule, section, &counted, &around, facts);
                }
            }
        }
    }

    /// Adds the limits of one list of facts: `around` are those of the counting, `own` those of the
    /// rule alone.
    fn add_limits(
        &mut self,
        rule: &Rejecting,
        section: &HaproxySection,
        rate: &CountedRate<'_>,
        around: &[Literal],
        own: &[Literal],
    ) {
        let Some(key) = HaproxyKey::read(&rate.tracking.key) else {
            let reason = format!("there is no key part for {}", rate.tracking.key);
            return self.not_carried_over(rule, &reason);
        };
        if rate.count == 0 {
            return self.not_carried_over(rule, "a limit cannot block everything (use `access`)");
        }
        let mut facts = SortedFacts::default();
        let new = own.iter().filter(|literal| !around.contains(literal));
        for literal in around.iter().chain(new.clone()) {
            if let Err(reason) = facts.add(literal) {
                if let Some(reason) = reason {
                    self.not_carried_over(rule, &reason);
                }
                return;
            }
        }
        let mut new = new;
        if new.any(|literal| matches!(literal.fact, Fact::Covered(..))) {
            let difference = "HAProxy counts every tracked request for it; here only those that it can reject count";
            facts
                .differences
                .push((LimitLine::Match, difference.to_owned()));
        }
        let limit = self.limit(rule, section, rate, &key, &facts);
        for network in &facts.allow {
            if !self.allow.contains(network) {
                self.allow.push(network.clone());
            }
        }
        self.push_limits(limit, &facts);
    }

    /// The limit of a rate, before it is split by covers.
    fn limit(
        &mut self,
        rule: &Rejecting,
        section: &HaproxySection,
        rate: &CountedRate<'_>,
        key: &HaproxyKey,
        facts: &SortedFacts,
    ) -> DraftLimit {
        let name = if rate.table.name == section.name {
            section.name.clone()
        } else {
            rate.table
                .name
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let quota = DraftQuota::Window {
            kind: WindowKind::Sliding,
            count: rate.count,
            period: period_text(rate.period),
        };
        let mut limit = DraftLimit::new(name, &rule.origin, quota);
        limit.differences = facts.differences.clone();
        self.set_key(&mut limit, key, rate.table);
        if rate.tracking.at < rule.at {
            limit.differs(
                LimitLine::Quota,
                "HAProxy counts rejected requests too, so that a caller who goes on stays rejected; here they cost nothing",
            );
        }
        if rule.answer != "with 429" {
            let difference = format!("HAProxy rejects {}, here with 429", rule.answer);
            limit.differs(LimitLine::Quota, difference);
        }
        limit
    }

    /// Sets the key of a limit, and the prefixes that addresses are counted by.
    fn set_key(&mut self, limit: &mut DraftLimit, key: &HaproxyKey, table: &StickTable) {
        limit.key = key.parts.iter().map(ToString::to_string).collect();
        if let Some(part) = &key.named {
            limit.key = vec![part.clone()];
            // A sample that is not there is not tracked.
            limit.on_missing_key = Some("skip");
        }
        if let Some(difference) = key.difference {
            limit.differs(LimitLine::Key, difference);
        }
        if table.is_ipv4 && limit.key == ["client_ip"] {
            limit.differs(
                LimitLine::Key,
                "a table of type ip counts IPv4 addresses only; here IPv6 addresses are limited too",
            );
        }
        let (v4, v6) = key.prefixes.unwrap_or((32, None));
        let v6 = v6.unwrap_or(128);
        if limit.key.iter().any(|part| part == "client_ip") && (v4, v6) != (32, 128) {
            self.prefixes = (v4, v6);
        }
    }

    /// Adds a limit for each combination of covers, and the exceptions of each.
    fn push_limits(&mut self, limit: DraftLimit, facts: &SortedFacts) {
        let combined = facts
            .covers
            .iter()
            .fold(vec![Cover::default()], |all, list| {
                let pairs = all
                    .iter()
                    .flat_map(|one| list.iter().filter_map(|two| one.and(two)));
                pairs.take(64).collect()
            });
        let mut first: Option<String> = None;
        for cover in combined {
            let mut limit = limit.clone();
            let wanted = match first {
                Some(_) => format!("{}-{}", limit.name, cover.words()),
                None => limit.name.clone(),
            };
            limit.name = self.draft.free_name(&wanted);
            limit.cover = cover;
            if let Some(first) = &first {
                let difference = format!(
                    "HAProxy counts it together with {first}; here it has its own counters"
                );
                limit.differs(LimitLine::Name, difference);
            }
            first.get_or_insert_with(|| limit.name.clone());
            let (name, key) = (limit.name.clone(), limit.key.clone());
            let covered = limit.cover.clone();
            let origin = limit.origin.clone();
            self.draft.limits.push(limit);
            for except in facts.except.iter().filter_map(|except| covered.and(except)) {
                let wanted = format!("{name}-except-{}", except.words());
                let mut exception = DraftLimit::new(
                    self.draft.free_name(&wanted),
                    &origin,
                    DraftQuota::Unlimited,
                );
                exception.replaces = Some(name.clone());
                (exception.cover, exception.key) = (except, key.clone());
                self.draft.limits.push(exception);
            }
        }
    }

    /// Writes the addresses, and what holds for the whole file.
    fn into_draft(mut self, all: &[ReadSection]) -> Draft {
        let by_address = |limit: &DraftLimit| limit.key.iter().any(|part| part == "client_ip");
        if self.draft.limits.iter().any(by_address) {
            let (v4, v6) = self.prefixes;
            if v4 != 32 {
                self.draft
                    .line("client_ip", format!("ipv4_prefix: {v4}"), &[]);
            }
            let hint =
                "as HAProxy counts; 64 is safer, because a subscriber usually has a whole /64";
            let hint = if v6 == 128 {
                vec![hint.to_owned()]
            } else {
                Vec::new()
            };
            self.draft
                .line("client_ip", format!("ipv6_prefix: {v6}"), &hint);
        }
        if !self.allow.is_empty() {
            let list: Vec<String> = self.allow.iter().map(|network| quoted(network)).collect();
            self.draft.differing_line(
                "access",
                format!("allow: {{ cidrs: [{}] }}", list.join(", ")),
                "these addresses are exempt from every limit, in HAProxy from the rules that name them",
            );
        }
        let entrances = all.iter().filter(|(section, rules)| {
            matches!(section.kind.as_str(), "frontend" | "listen") && !rules.rejecting.is_empty()
        });
        let names: Vec<&str> = entrances
            .map(|(section, _)| section.name.as_str())
            .collect();
        if names.len() > 1 && !self.draft.limits.is_empty() {
            let difference = format!(
                "the limits of each of {} cover all requests here, in HAProxy those of its own listener",
                names.join(", ")
            );
            self.draft.differs(difference);
        }
        self.draft
    }
}

/// A rate of requests, as HAProxy counts it.
struct CountedRate<'a> {
    table: &'a StickTable,
    tracking: &'a Tracking,
    /// In milliseconds.
    period: u64,
    /// The requests that pass in a period.
    count: u64,
}

impl SortedFacts {
    /// Adds a fact. An error says that there is no limit, and why if that has to be told.
    fn add(&mut self, literal: &Literal) -> Result<(), Option<String>> {
        match (&literal.fact, literal.is_negated) {
            (Fact::Covered(covers, difference), false) => {
                self.covers.push(covers.clone());
                let difference = difference
                    .iter()
                    .map(|text| (LimitLine::Match, text.clone()));
                self.differences.extend(difference);
            }
            (Fact::Covered(covers, _), true) => self.except.extend(covers.iter().cloned()),
            (Fact::From(networks), true) => {
                self.allow.extend(networks.iter().map(ToString::to_string));
            }
            (Fact::From(_), false) => {
                return Err(Some("a limit cannot cover some addresses only".to_owned()));
            }
            (Fact::Always(holds), is_negated) if *holds == is_negated => return Err(None),
            (Fact::Always(_), _) => {}
            (Fact::Rate { .. } | Fact::Other, true) => self.differences.push((
                LimitLine::Match,
                format!(
                    "HAProxy leaves out requests with {}; here they are limited too",
                    literal.text
                ),
            )),
            (Fact::Rate { .. } | Fact::Other, false) => {
                return Err(Some(format!("a limit cannot depend on {}", literal.text)));
            }
        }
        Ok(())
    }
}

/// The rules that track a counter, with the names of their tables: those of the section, or the
/// first of another one, because a counter that a frontend tracks can be read in a backend.
fn trackings_of<'a>(
    of: &RateSource,
    section: &'a HaproxySection,
    own: &'a SectionRules,
    all: &'a [ReadSection],
) -> Vec<(&'a Tracking, String)> {
    let named = match of {
        RateSource::Tracked(_, table) | RateSource::Entry(_, table) => table.clone(),
    };
    let others = all
        .iter()
        .filter(|(other, _)| other.name != section.name || other.kind != section.kind)
        .flat_map(|(other, rules)| rules.trackings.iter().map(move |track| (other, track)));
    let candidates = own
        .trackings
        .iter()
        .map(|track| (section, track))
        .chain(others);
    let mut found: Vec<(&Tracking, String)> = Vec::new();
    for (place, tracking) in candidates {
        let table = tracking.table.clone().unwrap_or_else(|| place.name.clone());
        let fits = match of {
            RateSource::Tracked(number, _) => {
                tracking.number == *number && named.as_ref().is_none_or(|name| *name == table)
            }
            RateSource::Entry(..) => table == *named.as_ref().unwrap_or(&section.name),
        };
        let is_own = std::ptr::eq(place, section);
        if fits && (is_own || found.is_empty()) {
            found.push((tracking, table));
        }
    }
    found
}

/// The conditions under which a backend gets requests; a frontend gets all.
fn backend_conditions(section: &HaproxySection, all: &[ReadSection]) -> Condition {
    let everything = vec![Vec::new()];
    if section.kind != "backend" {
        return everything;
    }
    let uses = all.iter().flat_map(|(_, rules)| &rules.backends);
    let own: Condition = uses
        .filter(|(name, _)| *name == section.name)
        .flat_map(|(_, condition)| condition.clone())
        .collect();
    if own.is_empty() { everything } else { own }
}
