//! Import from envoyproxy/ratelimit: a tree of descriptors, some with a limit.
//!
//! There, a descriptor walks down the tree by its entries, and an entry with a value wins over one
//! without. Here, each node with a limit becomes a limit on exactly the entries above it, and a
//! limit with more values replaces the one that covers all that it covers. Where the two rules
//! choose differently, the difference is reported.

use super::cover::Cover;
use super::draft::{Draft, DraftLimit, DraftQuota, LimitLine, quoted};
use super::foreign_tree;
use crate::field::{Field, Section};
use crate::{Mistakes, Source, Syntax};

/// Reads the file of one domain.
pub(super) fn draft(source: &Source) -> Result<Draft, Mistakes> {
    foreign_tree::read(source, Syntax::Yaml, |documents| domain(documents.first()?))
}

/// A limit of the imported file: it covers descriptors with exactly these entries.
#[derive(Debug)]
struct EnvoyLimit {
    /// The entries on the way down the tree.
    entries: Vec<EntryPattern>,
    /// A name that is valid for our limits, and unique.
    name: String,
    rate: EnvoyRate,
    /// Counted and reported only.
    is_shadow: bool,
    /// The path of `rate_limit` in the file.
    path: String,
}

/// An entry of a descriptor. Without a value it covers any, each with a counter of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryPattern {
    name: String,
    /// `None` covers every value.
    value: Option<String>,
}

/// The rate of an imported limit.
#[derive(Clone, Copy, Debug)]
enum EnvoyRate {
    Unlimited,
    /// This many units in this period, in our notation.
    Of(u64, &'static str),
}

/// The units of time, in their notation and in ours.
const UNITS: [(&str, &str); 7] = [
    ("second", "s"),
    ("minute", "m"),
    ("hour", "h"),
    ("day", "d"),
    ("week", "7d"),
    ("month", "30d"),
    ("year", "365d"),
];

/// Keys that do not change what passes.
const OF_METRICS: [&str; 3] = ["detailed_metric", "value_to_metric", "share_threshold"];

/// Converts the whole file; `None` when it has no domain.
fn domain(field: &Field<'_>) -> Option<Draft> {
    field.section(|section| {
        let name = section
            .need("domain", "the domain that descriptors belong to")?
            .text()?
            .to_owned();
        let heading = format!(
            "The limits of the domain {} of envoyproxy/ratelimit.",
            quoted(&name)
        );
        let mut importer = Importer {
            limits: Vec::new(),
            draft: Draft::new(heading),
        };
        importer
            .draft
            .line("decisions", "grpc: \"127.0.0.1:8082\"", &[]);
        if let Some(descriptors) = section.get("descriptors") {
            importer.read_descriptors(&descriptors, &[]);
        }
        Some(importer.into_draft(&name))
    })?
}

/// The limits found so far, and a draft for what is left out.
struct Importer {
    limits: Vec<EnvoyLimit>,
    draft: Draft,
}

impl Importer {
    /// Reads the descriptors of one level, and all below them.
    fn read_descriptors(&mut self, descriptors: &Field<'_>, above: &[EntryPattern]) {
        for field in descriptors.list().unwrap_or_default() {
            field.section(|section| self.read_descriptor(section, above));
        }
    }

    /// Reads one descriptor, its limit and all below it. `None` when it is left out.
    fn read_descriptor(&mut self, section: &mut Section<'_>, above: &[EntryPattern]) -> Option<()> {
        let path = section.field().path.clone();
        let name = section
            .need("key", "the name of an entry")
            .and_then(|field| Some(field.text()?.to_owned()));
        let value = section
            .get("value")
            .and_then(|field| field.plain_text())
            .filter(|value| !value.is_empty());
        let is_shadow = section.read("shadow_mode", false, Field::boolean);
        for key in OF_METRICS {
            if section.subsection(key).is_some() {
                self.draft.not_carried_over(format!(
                    "{path}.{key}: our metrics count every limit by its name"
                ));
            }
        }
        let (limit, below) = (section.get("rate_limit"), section.get("descriptors"));
        let mut entries = above.to_vec();
        entries.push(EntryPattern { name: name?, value });
        if let Some(value) = entries
            .iter()
            .filter_map(|entry| entry.value.as_deref())
            .find(|value| value.ends_with('*'))
        {
            self.draft.not_carried_over(format!(
                "{path}: a limit cannot match values by prefix ({value:?})"
            ));
            return None;
        }
        if let Some(limit) = limit {
            limit.section(|section| self.read_limit(section, &entries, is_shadow));
        }
        if let Some(below) = below {
            self.read_descriptors(&below, &entries);
        }
        Some(())
    }

    /// Reads `rate_limit` of a descriptor with these entries. `None` when it is left out.
    fn read_limit(
        &mut self,
        section: &mut Section<'_>,
        entries: &[EntryPattern],
        is_shadow: bool,
    ) -> Option<()> {
        let path = section.field().path.clone();
        let is_unlimited = section.read("unlimited", false, Field::boolean);
        let unit = section.optional("unit", |field| field.word(&UNITS));
        let units = section.optional("requests_per_unit", |field| {
            field.whole_number(0..=u64::from(u32::MAX))
        });
        let name = section.text_or_none("name");
        if section.subsection("replaces").is_some() {
            self.draft.not_carried_over(format!(
                "{path}.replaces: a limit replaces the one that covers all that it covers"
            ));
        }
        let rate = match (is_unlimited, units, unit) {
            (true, ..) => EnvoyRate::Unlimited,
            (false, Some(0), _) => {
                self.draft.not_carried_over(format!(
                    "{path}: a limit cannot block everything (use `access`)"
                ));
                return None;
            }
            (false, Some(units), Some(unit)) => EnvoyRate::Of(units, unit),
            (false, None, _) => {
                section.need("requests_per_unit", "how many pass in a unit of time");
                return None;
            }
            (false, Some(_), None) => {
                section.need(
                    "unit",
                    "the unit of time: second, minute, hour, day, week, month or year",
                );
                return None;
            }
        };
        let name = self.free_name(&name.unwrap_or_else(|| name_of(entries)));
        self.limits.push(EnvoyLimit {
            entries: entries.to_vec(),
            name,
            rate,
            is_shadow,
            path,
        });
        Some(())
    }

    /// A name that is valid here and not taken by the limits read so far.
    fn free_name(&self, wanted: &str) -> String {
        let mut taken = Draft::new(String::new());
        let limit = |limit: &EnvoyLimit| DraftLimit::new(&limit.name, "", DraftQuota::Unlimited);
        taken.limits.extend(self.limits.iter().map(limit));
        taken.free_name(wanted)
    }

    /// Converts the limits, now that all of them are known, and adds the differences between them.
    fn into_draft(mut self, domain: &str) -> Draft {
        for limit in &self.limits {
            let replaced = self.replaced_by(limit).map(str::to_owned);
            self.draft.limits.push(limit.to_draft(domain, replaced));
        }
        for (place, one) in self.limits.iter().enumerate() {
            for other in &self.limits[place + 1..] {
                if one.overlaps(other) && !one.is_within(other) && !other.is_within(one) {
                    self.draft.differs(format!(
                        "{} and {} are both charged where both cover a descriptor; ratelimit takes the one with a value in its first entry",
                        one.name, other.name
                    ));
                }
            }
        }
        self.draft
    }

    /// The limit that this one replaces: of those that cover all that it covers, the one with the
    /// most values, and of these the one with values first.
    fn replaced_by(&self, limit: &EnvoyLimit) -> Option<&str> {
        let wider = self.limits.iter().filter(|other| limit.is_within(other));
        let exact = |other: &&EnvoyLimit| {
            other
                .entries
                .iter()
                .map(|entry| entry.value.is_some())
                .collect::<Vec<_>>()
        };
        let count = |other: &&EnvoyLimit| exact(other).iter().filter(|is_exact| **is_exact).count();
        wider
            .max_by_key(|other| (count(other), exact(other)))
            .map(|other| other.name.as_str())
    }
}

impl EnvoyLimit {
    /// Returns true when both can cover the same descriptor.
    fn overlaps(&self, other: &Self) -> bool {
        let agree = |(one, two): (&EntryPattern, &EntryPattern)| {
            one.name == two.name
                && (one.value == two.value || one.value.is_none() || two.value.is_none())
        };
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(agree)
    }

    /// Returns true when the other limit covers all that this one covers, and more.
    fn is_within(&self, other: &Self) -> bool {
        let is_wider = |(own, theirs): (&EntryPattern, &EntryPattern)| {
            theirs.value.is_none() || own.value == theirs.value
        };
        self.entries != other.entries
            && self.overlaps(other)
            && self.entries.iter().zip(&other.entries).all(is_wider)
    }

    /// The limit in our words.
    fn to_draft(&self, domain: &str, replaces: Option<String>) -> DraftLimit {
        let quota = match self.rate {
            EnvoyRate::Unlimited => DraftQuota::Unlimited,
            EnvoyRate::Of(units, period) => DraftQuota::Bucket {
                count: units,
                period: period.to_owned(),
                burst: units,
            },
        };
        let mut limit = DraftLimit::new(&self.name, &self.path, quota);
        let conditions = self
            .entries
            .iter()
            .filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?)));
        limit.cover = Cover {
            domain: Some(domain.to_owned()),
            descriptor: conditions.collect(),
            ..Cover::default()
        };
        let parts = self.entries.iter().filter(|entry| entry.value.is_none());
        limit.key = parts
            .map(|entry| format!("descriptor:{}", entry.name))
            .collect();
        limit.replaces = replaces;
        limit.is_shadow = self.is_shadow;
        if let EnvoyRate::Of(_, period) = self.rate {
            limit.differs(
                LimitLine::Quota,
                "ratelimit counts in windows of the clock, and twice as many requests may pass around the end of one; the converted \
                 limits admit as many at once as a window, and never more over any interval (`algorithm: fixed_window` counts as ratelimit does)",
            );
            if matches!(period, "30d" | "365d") {
                limit.differs(
                    LimitLine::Quota,
                    "a month is 30 days and a year 365, not those of the calendar",
                );
            }
        }
        limit
    }
}

/// A name made of the entries: `path-slow.user`.
fn name_of(entries: &[EntryPattern]) -> String {
    let word = |entry: &EntryPattern| match &entry.value {
        Some(value) => format!("{}-{value}", entry.name),
        None => entry.name.clone(),
    };
    entries.iter().map(word).collect::<Vec<_>>().join(".")
}
