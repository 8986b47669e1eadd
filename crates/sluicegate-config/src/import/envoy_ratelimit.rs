//! envoyproxy/ratelimit: a tree of descriptors, some with a limit.

use std::fmt::Write;

use super::Imported;
use crate::field::Field;
use crate::section::Section;
use crate::tree::Value;

/// A limit of theirs: it covers descriptors with exactly these entries.
#[derive(Debug)]
struct EnvoyLimit {
    entries: Vec<EntryPattern>,
    name: String,
    rate: EnvoyRate,
    is_shadow: bool,
}

/// An entry of a descriptor; any value if `None`, each with a counter of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryPattern {
    name: String,
    value: Option<String>,
}

/// How much passes.
#[derive(Clone, Copy, Debug)]
enum EnvoyRate {
    Unlimited,
    /// So many in this time.
    Of(u64, &'static str),
}

/// Units, as our rates write them.
const UNITS: [(&str, &str); 7] = [
    ("second", "s"),
    ("minute", "m"),
    ("hour", "h"),
    ("day", "d"),
    ("week", "7d"),
    ("month", "30d"),
    ("year", "365d"),
];

/// Keys that say nothing about limits.
const OF_METRICS: [&str; 3] = ["detailed_metric", "value_to_metric", "share_threshold"];

/// The whole file.
pub(super) fn domain(field: &Field<'_>) -> Option<Imported> {
    field.section(|section| {
        let name = section
            .need("domain", "the domain that descriptors belong to")?
            .text()?
            .to_owned();
        let mut importer = Importer::default();
        if let Some(descriptors) = section.get("descriptors") {
            importer.read_descriptors(&descriptors, &[]);
        }
        Some(importer.into_imported(&name))
    })?
}

/// What was importer so far.
#[derive(Default)]
struct Importer {
    limits: Vec<EnvoyLimit>,
    differences: Vec<String>,
}

impl Importer {
    /// Reads the descriptors of one level, and all below them.
    fn read_descriptors(&mut self, descriptors: &Field<'_>, above: &[EntryPattern]) {
        for field in descriptors.list().unwrap_or_default() {
            field.section(|section| self.read_descriptor(section, above));
        }
    }

    fn read_descriptor(&mut self, section: &mut Section<'_>, above: &[EntryPattern]) -> Option<()> {
        let path = section.field().path.clone();
        let name = section
            .need("key", "the name of an entry")
            .and_then(|field| Some(field.text()?.to_owned()));
        let value = section
            .get("value")
            .and_then(|field| text_of(&field))
            .filter(|value| !value.is_empty());
        let is_shadow = section.read("shadow_mode", false, Field::boolean);
        for key in OF_METRICS {
            if section.subsection(key).is_some() {
                self.note_difference(format!(
                    "{path}.{key} is about their metrics; ours count every limit by its name"
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
            self.note_difference(format!(
                "{path}: all values that begin as {value:?} does are no condition of ours; left out"
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
            self.note_difference(format!(
                "{path}.replaces is left out: ours replaces the one limit that is less particular"
            ));
        }
        let rate = match (is_unlimited, units, unit) {
            (true, ..) => EnvoyRate::Unlimited,
            (false, Some(0), _) => {
                self.note_difference(format!(
                    "{path} lets nothing pass, which no limit of ours does; left out (see `access`)"
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
        });
        Some(())
    }

    /// A name that our limits may have and none of them has.
    fn free_name(&self, wanted: &str) -> String {
        let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let name: String = wanted
            .chars()
            .map(|letter| if is_fine(letter) { letter } else { '-' })
            .take(64)
            .collect();
        let is_free = |name: &String| self.limits.iter().all(|limit| limit.name != *name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        std::iter::once(name.clone())
            .chain(numbered)
            .find(is_free)
            .unwrap_or(name)
    }

    fn note_difference(&mut self, what: String) {
        self.differences.push(what);
    }

    fn into_imported(mut self, domain: &str) -> Imported {
        let mut yaml = format!(
            "# The limits of the domain {} of envoyproxy/ratelimit.\n",
            quoted(domain)
        );
        yaml.push_str("decisions:\n  grpc: \"127.0.0.1:8082\"\nlimits:\n");
        for limit in &self.limits {
            let replaced = self.replaced_by(limit);
            limit.write(&mut yaml, domain, replaced);
        }
        if self.limits.is_empty() {
            yaml = yaml.replace("limits:\n", "limits: []\n");
        }
        for (place, one) in self.limits.iter().enumerate() {
            for other in &self.limits[place + 1..] {
                if one.overlaps(other) && !one.is_within(other) && !other.is_within(one) {
                    self.differences.push(format!(
                        "{} and {} both count where both cover a descriptor; theirs took the one that is more particular in its first entry",
                        one.name, other.name
                    ));
                }
            }
        }
        let fixed = "they count in windows of the clock, around whose ends twice as many may pass; ours let pass as many at once as \
                     theirs in a unit, and never more over any interval (`algorithm: fixed_window` is theirs)";
        self.differences.insert(0, fixed.to_owned());
        let is_long = |limit: &EnvoyLimit| matches!(limit.rate, EnvoyRate::Of(_, "30d" | "365d"));
        if self.limits.iter().any(is_long) {
            self.differences.insert(
                1,
                "a month is 30 days and a year 365, whatever the calendar says".to_owned(),
            );
        }
        Imported {
            yaml,
            differences: self.differences,
        }
    }

    /// The limit that covers all that this one covers, and more: the most particular of them.
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
    /// Whether both can cover the same descriptor.
    fn overlaps(&self, other: &Self) -> bool {
        let agree = |(one, two): (&EntryPattern, &EntryPattern)| {
            one.name == two.name
                && (one.value == two.value || one.value.is_none() || two.value.is_none())
        };
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(agree)
    }

    /// Whether the other one covers all that this one covers, and more.
    fn is_within(&self, other: &Self) -> bool {
        let is_wider = |(own, theirs): (&EntryPattern, &EntryPattern)| {
            theirs.value.is_none() || own.value == theirs.value
        };
        self.entries != other.entries
            && self.overlaps(other)
            && self.entries.iter().zip(&other.entries).all(is_wider)
    }

    fn write(&self, yaml: &mut String, domain: &str, replaces: Option<&str>) {
        let conditions = self
            .entries
            .iter()
            .filter_map(|entry| Some((&entry.name, entry.value.as_ref()?)));
        let conditions: Vec<String> = conditions
            .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
            .collect();
        let parts = self.entries.iter().filter(|entry| entry.value.is_none());
        let parts: Vec<String> = parts
            .map(|entry| quoted(&format!("descriptor:{}", entry.name)))
            .collect();
        let key = if parts.is_empty() {
            "global".to_owned()
        } else {
            parts.join(", ")
        };
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Text takes every line.
            let _ = writeln!(yaml, "{text}");
        };
        line(format_args!("  - name: {}", quoted(&self.name)));
        if let Some(replaces) = replaces {
            line(format_args!("    replaces: {}", quoted(replaces)));
        }
        match conditions.is_empty() {
            true => line(format_args!("    match: {{ domain: {} }}", quoted(domain))),
            false => line(format_args!(
                "    match: {{ domain: {}, descriptor: {{ {} }} }}",
                quoted(domain),
                conditions.join(", ")
            )),
        }
        line(format_args!("    key: [{key}]"));
        match self.rate {
            EnvoyRate::Unlimited => line(format_args!("    average: 0 # unlimited")),
            EnvoyRate::Of(units, period) => line(format_args!(
                "    rate: {units}/{period}\n    burst: {units}"
            )),
        }
        if self.is_shadow {
            line(format_args!("    mode: shadow"));
        }
    }
}

/// Text, or what YAML takes for something else where they read text.
fn text_of(field: &Field<'_>) -> Option<String> {
    match &field.node.value {
        Value::Whole(number) => Some(number.to_string()),
        Value::Negative(number) => Some(number.to_string()),
        Value::Bool(on) => Some(on.to_string()),
        _ => field.any_text().map(str::to_owned),
    }
}

/// The entries as a name: `path-slow.user`.
fn name_of(entries: &[EntryPattern]) -> String {
    let word = |entry: &EntryPattern| match &entry.value {
        Some(value) => format!("{}-{value}", entry.name),
        None => entry.name.clone(),
    };
    entries.iter().map(word).collect::<Vec<_>>().join(".")
}

/// As YAML and JSON write it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
