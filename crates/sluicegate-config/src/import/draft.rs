//! A configuration under construction: the limits found so far, and all that has to be said about
//! them.
//!
//! Text from the other program reaches the YAML in two ways only: as quoted values, and as comments
//! on one line. So no file can smuggle keys into the result.

use std::fmt::Write;

use super::Imported;
use super::cover::Cover;

/// A configuration under construction.
#[derive(Debug)]
pub(super) struct Draft {
    /// The first line, a comment.
    heading: String,
    /// The sections before the limits, in order of their first line.
    sections: Vec<(&'static str, Vec<DraftLine>)>,
    pub(super) limits: Vec<DraftLimit>,
    /// Sentences about the whole file.
    differences: Vec<String>,
    not_carried_over: Vec<String>,
}

/// A line of a section, with what is to be said about it.
#[derive(Debug)]
struct DraftLine {
    text: String,
    comments: Vec<String>,
}

/// A limit of the other program in our words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DraftLimit {
    pub(super) name: String,
    /// Place and text of the original statement: a comment above the limit.
    pub(super) origin: String,
    pub(super) replaces: Option<String>,
    pub(super) cover: Cover,
    /// Key parts as the configuration writes them; empty is one counter for all.
    pub(super) key: Vec<String>,
    pub(super) on_missing_key: Option<&'static str>,
    pub(super) quota: DraftQuota,
    /// Counted and reported only.
    pub(super) is_shadow: bool,
    /// True when the limits service is asked for the quota.
    pub(super) is_external: bool,
    /// Differences in meaning, each at the line it belongs to.
    pub(super) differences: Vec<(LimitLine, String)>,
}

/// The numbers of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DraftQuota {
    Unlimited,
    /// A token bucket; the period as [`period_text`] writes it.
    Bucket {
        count: u64,
        period: String,
        burst: u64,
    },
    Window {
        kind: WindowKind,
        count: u64,
        period: String,
    },
    /// A leaky bucket; times in milliseconds.
    Drips {
        size: u64,
        drip_rate: u64,
        drip_size: u64,
    },
    /// The older notation: at most so many in so many milliseconds, and a time between two.
    Spaced {
        max_in: Option<(u64, u64)>,
        min_interval: Option<u64>,
    },
}

/// The algorithms that count in windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowKind {
    Fixed,
    Sliding,
}

/// The lines of a limit that a difference can belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitLine {
    Name,
    Match,
    Key,
    Quota,
    Burst,
    Mode,
}

impl Draft {
    /// A draft for a program that is a proxy itself: requests go to the built-in echo until somebody
    /// names a server.
    pub(super) fn of_proxy(heading: String) -> Self {
        let mut draft = Self::new(heading);
        let hint = "name your servers in `upstream`; without it the built-in echo answers";
        draft.line("proxy", "listen: \"127.0.0.1:8080\"", &[hint.to_owned()]);
        draft
    }

    pub(super) fn new(heading: String) -> Self {
        Self {
            heading,
            sections: Vec::new(),
            limits: Vec::new(),
            differences: Vec::new(),
            not_carried_over: Vec::new(),
        }
    }

    /// Adds a line to a section, with comments above it.
    pub(super) fn line(
        &mut self,
        section: &'static str,
        text: impl Into<String>,
        comments: &[String],
    ) {
        let line = DraftLine {
            text: text.into(),
            comments: comments.to_vec(),
        };
        match self.sections.iter_mut().find(|(name, _)| *name == section) {
            Some((_, lines)) => lines.push(line),
            None => self.sections.push((section, vec![line])),
        }
    }

    /// Adds a line that differs in meaning from the original.
    pub(super) fn differing_line(
        &mut self,
        section: &'static str,
        text: impl Into<String>,
        difference: &str,
    ) {
        self.line(section, text, &[format!("differs: {difference}")]);
        self.differs(format!("{section}: {difference}"));
    }

    /// Reports a difference that belongs to no line.
    pub(super) fn differs(&mut self, difference: String) {
        if !self.differences.contains(&difference) {
            self.differences.push(difference);
        }
    }

    /// Reports a statement that has no counterpart here.
    pub(super) fn not_carried_over(&mut self, statement: String) {
        if !self.not_carried_over.contains(&statement) {
            self.not_carried_over.push(statement);
        }
    }

    /// A name that is valid here and not taken: other characters become dashes, and a number is
    /// added to a name that is taken.
    pub(super) fn free_name(&self, wanted: &str) -> String {
        let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let dashed: String = wanted
            .chars()
            .map(|letter| if is_fine(letter) { letter } else { '-' })
            .collect();
        // Some room is left for the number.
        let name: String = dashed.trim_matches('-').chars().take(58).collect();
        let name = if name.is_empty() {
            "limit".to_owned()
        } else {
            name
        };
        let is_free = |name: &String| self.limits.iter().all(|limit| limit.name != *name);
        let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        std::iter::once(name.clone())
            .chain(numbered)
            .find(is_free)
            .unwrap_or(name)
    }

    /// The YAML, and everything that has to be said about it.
    pub(super) fn into_imported(self) -> Imported {
        let mut yaml = format!("# {}\n", one_line(&self.heading));
        for difference in &self.differences {
            write_comment(&mut yaml, 0, &format!("differs: {difference}"));
        }
        for statement in &self.not_carried_over {
            write_comment(&mut yaml, 0, &format!("not carried over: {statement}"));
        }
        for (name, lines) in &self.sections {
            yaml.push_str(&format!("{name}:\n"));
            for line in lines {
                line.comments
                    .iter()
                    .for_each(|comment| write_comment(&mut yaml, 2, comment));
                yaml.push_str(&format!("  {}\n", line.text));
            }
        }
        yaml.push_str(if self.limits.is_empty() {
            "limits: []\n"
        } else {
            "limits:\n"
        });
        self.limits.iter().for_each(|limit| limit.write(&mut yaml));
        Imported {
            yaml,
            differences: self.all_differences(),
            not_carried_over: self
                .not_carried_over
                .iter()
                .map(|text| one_line(text))
                .collect(),
        }
    }

    /// The differences of the file and of its limits; a sentence that holds for several limits is
    /// there once.
    fn all_differences(&self) -> Vec<String> {
        let mut by_sentence: Vec<(&str, Vec<&str>)> = Vec::new();
        for limit in &self.limits {
            for (_, sentence) in &limit.differences {
                match by_sentence.iter_mut().find(|(known, _)| known == sentence) {
                    Some((_, names)) => names.push(&limit.name),
                    None => by_sentence.push((sentence, vec![&limit.name])),
                }
            }
        }
        let of_limits = by_sentence
            .iter()
            .map(|(sentence, names)| format!("{}: {sentence}", names.join(", ")));
        self.differences
            .iter()
            .cloned()
            .chain(of_limits)
            .map(|difference| one_line(&difference))
            .collect()
    }
}

impl DraftLimit {
    /// A limit on all requests together, to be filled in.
    pub(super) fn new(
        name: impl Into<String>,
        origin: impl Into<String>,
        quota: DraftQuota,
    ) -> Self {
        Self {
            name: name.into(),
            origin: origin.into(),
            replaces: None,
            cover: Cover::default(),
            key: Vec::new(),
            on_missing_key: None,
            quota,
            is_shadow: false,
            is_external: false,
            differences: Vec::new(),
        }
    }

    /// Notes a difference at a line, once.
    pub(super) fn differs(&mut self, line: LimitLine, difference: impl Into<String>) {
        let difference = (line, difference.into());
        if !self.differences.contains(&difference) {
            self.differences.push(difference);
        }
    }

    /// Appends the limit in our format.
    fn write(&self, yaml: &mut String) {
        write_comment(yaml, 2, &self.origin);
        self.write_line(
            yaml,
            LimitLine::Name,
            &format!("  - name: {}", quoted(&self.name)),
        );
        if let Some(replaces) = &self.replaces {
            yaml.push_str(&format!("    replaces: {}\n", quoted(replaces)));
        }
        match self.cover.in_yaml() {
            Some(matching) => {
                self.write_line(yaml, LimitLine::Match, &format!("    match: {matching}"));
            }
            None => self.write_comments(yaml, LimitLine::Match),
        }
        let parts: Vec<String> = self
            .key
            .iter()
            .map(|part| match part.contains(':') {
                true => quoted(part),
                false => part.clone(),
            })
            .collect();
        let key = match parts.is_empty() {
            true => "global".to_owned(),
            false => parts.join(", "),
        };
        self.write_line(yaml, LimitLine::Key, &format!("    key: [{key}]"));
        if let Some(rule) = self.on_missing_key {
            yaml.push_str(&format!("    on_missing_key: {rule}\n"));
        }
        if self.is_external {
            yaml.push_str("    quota_from: external\n");
        }
        self.write_quota(yaml);
        match self.is_shadow {
            true => self.write_line(yaml, LimitLine::Mode, "    mode: shadow"),
            false => self.write_comments(yaml, LimitLine::Mode),
        }
    }

    /// Appends the numbers of the limit.
    fn write_quota(&self, yaml: &mut String) {
        match &self.quota {
            DraftQuota::Unlimited => {
                self.write_line(yaml, LimitLine::Quota, "    average: 0 # unlimited");
            }
            DraftQuota::Bucket {
                count,
                period,
                burst,
            } => {
                self.write_line(
                    yaml,
                    LimitLine::Quota,
                    &format!("    rate: {count}/{period}"),
                );
                self.write_line(yaml, LimitLine::Burst, &format!("    burst: {burst}"));
            }
            DraftQuota::Window {
                kind,
                count,
                period,
            } => {
                let algorithm = match kind {
                    WindowKind::Fixed => "fixed_window",
                    WindowKind::Sliding => "sliding_window",
                };
                yaml.push_str(&format!("    algorithm: {algorithm}\n"));
                self.write_line(
                    yaml,
                    LimitLine::Quota,
                    &format!("    rate: {count}/{period}"),
                );
            }
            DraftQuota::Drips {
                size,
                drip_rate,
                drip_size,
            } => {
                self.write_line(yaml, LimitLine::Quota, &format!("    size: {size}"));
                yaml.push_str(&format!("    drip_rate: {drip_rate}ms\n"));
                yaml.push_str(&format!("    drip_size: {drip_size}\n"));
            }
            DraftQuota::Spaced {
                max_in,
                min_interval,
            } => {
                self.write_comments(yaml, LimitLine::Quota);
                if let Some((max, duration)) = max_in {
                    yaml.push_str(&format!("    max: {max}\n    duration: {duration}ms\n"));
                }
                if let Some(interval) = min_interval {
                    yaml.push_str(&format!("    min_interval: {interval}ms\n"));
                }
            }
        }
    }

    /// Appends a line, with the differences that belong to it above it.
    fn write_line(&self, yaml: &mut String, line: LimitLine, text: &str) {
        // The name begins the list item: its comments stand before the dash.
        self.write_comments(yaml, line);
        yaml.push_str(text);
        yaml.push('\n');
    }

    fn write_comments(&self, yaml: &mut String, line: LimitLine) {
        let indent = if line == LimitLine::Name { 2 } else { 4 };
        for (_, difference) in self.differences.iter().filter(|(at, _)| *at == line) {
            write_comment(yaml, indent, &format!("differs: {difference}"));
        }
    }
}

/// Appends a comment on a line of its own.
fn write_comment(yaml: &mut String, indent: usize, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(yaml, "{:indent$}# {}", "", one_line(text));
}

/// The text with escapes in place of line ends and control characters.
fn one_line(text: &str) -> String {
    let is_plain = |letter: char| {
        !letter.is_control() && !matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}')
    };
    let shown = |letter: char| match is_plain(letter) {
        true => letter.to_string(),
        false => letter.escape_unicode().to_string(),
    };
    text.chars().map(shown).collect()
}

/// The text in quotes, as both YAML and JSON write it. A `${` stays what it is.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// A period for a rate: `s`, `m`, `10s`, `1500ms`.
pub(super) fn period_text(millis: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let whole = UNITS
        .iter()
        .find(|(length, _)| millis.is_multiple_of(*length) && millis > 0);
    match whole {
        Some((length, unit)) if millis == *length => (*unit).to_owned(),
        Some((length, unit)) => format!("{}{unit}", millis / length),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_the_largest_unit_that_fits() {
        for (millis, text) in [
            (1_000, "s"),
            (60_000, "m"),
            (10_000, "10s"),
            (1_500, "1500ms"),
            (7 * 86_400_000, "7d"),
            (90_000, "90s"),
        ] {
            assert_eq!(period_text(millis), text);
        }
    }

    #[test]
    fn text_of_the_original_stays_in_its_comment_or_its_quotes() {
        let mut draft = Draft::of_proxy("a\nlimits: []".to_owned());
        draft.not_carried_over("x\nadmin: off".to_owned());
        let mut limit = DraftLimit::new("a", "b\nc: d", DraftQuota::Unlimited);
        limit.cover.path = Some("/${HOME}\n".to_owned());
        draft.limits.push(limit);
        let yaml = draft.into_imported().yaml;
        assert!(
            !yaml.contains("\nadmin") && !yaml.contains("\nc: d"),
            "{yaml}"
        );
        assert!(yaml.contains(r#"path: "/$${HOME}\n""#), "{yaml}");
    }
}
