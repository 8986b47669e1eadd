//! Keeps the figures of the last run in `docs/performance-targets.md`, between two markers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::report::Report;

/// The text between the markers of one bench, and its picture.
pub struct PerformancePage<'a> {
    /// The bench, as it is called on the command line and in the markers.
    pub bench: &'a str,
    pub report: &'a Report,
    pub rounds: usize,
    /// Anything else that the reader must know about the run.
    pub note: &'a str,
    /// The packages whose versions matter.
    pub peers: &'a [&'a str],
    /// The caption of the picture.
    pub caption: &'a str,
}

/// Puts the figures into the page and the plot beside it; the rest of the page stays as it is.
pub fn write(page: &PerformancePage<'_>, plot: &str) -> Result<(), String> {
    let docs = root().join("docs");
    let path = docs.join("performance-targets.md");
    let old = fs::read_to_string(&path).unwrap_or_else(|_| INTRODUCTION.to_string());
    let new = replaced(&old, page.bench, &page.to_markdown());
    let failed =
        |error: std::io::Error| format!("docs/performance-targets.md: cannot be written: {error}");
    fs::create_dir_all(&docs).map_err(failed)?;
    fs::write(docs.join(page.plot()), plot).map_err(failed)?;
    fs::write(path, new).map_err(failed)
}

const INTRODUCTION: &str = include_str!("introduction.md");

impl PerformancePage<'_> {
    fn to_markdown(&self) -> String {
        format!(
            "_{}. {}. {} rounds{}.{}_\n\n![{}]({})\n\n{}",
            date(SystemTime::now()),
            machine(),
            self.rounds,
            self.note,
            versions(self.peers),
            self.caption,
            self.plot(),
            self.report.to_markdown()
        )
    }

    fn plot(&self) -> String {
        format!("performance-{}.svg", self.bench)
    }
}

/// The page with another text between the markers; the markers go to the end of a page that has none.
fn replaced(page: &str, bench: &str, text: &str) -> String {
    let [first, last] = markers(bench);
    let section = format!("{first}\n\n{}\n\n{last}", text.trim());
    let (Some(begin), Some(end)) = (page.find(&first), page.find(&last)) else {
        return format!("{}\n\n{section}\n", page.trim_end());
    };
    if end < begin {
        return format!("{}\n\n{section}\n", page.trim_end());
    }
    format!("{}{section}{}", &page[..begin], &page[end + last.len()..])
}

fn markers(bench: &str) -> [String; 2] {
    ["begin", "end"].map(|place| format!("<!-- bench {bench} {place} -->"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Processor, cores and kernel: what a ratio may depend on, and nothing that names the machine.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{model}, {cores} cores, {} {}",
        std::env::consts::OS,
        plain_version(&release)
    )
    .trim_end()
    .to_string()
}

/// The numbers a kernel release starts with; what distributions append says nothing here.
fn plain_version(release: &str) -> &str {
    let end = release
        .find(|char: char| !char.is_ascii_digit() && char != '.')
        .unwrap_or(release.len());
    &release[..end]
}

/// The peers' versions, from the lock file, as a sentence of its own; nothing for peers that are no packages.
fn versions(peers: &[&str]) -> String {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    let version = |name: &str| {
        let after = lock
            .split_once(&format!("name = \"{name}\"\nversion = \""))?
            .1;
        Some(format!("{name} {}", after.split('"').next()?))
    };
    let versions: Vec<String> = peers.iter().copied().filter_map(version).collect();
    if versions.is_empty() {
        String::new()
    } else {
        format!(" {}.", versions.join(", "))
    }
}

/// The day as year, month and day, in UTC.
fn date(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Counts from 1 March of year 0, so that the leap day ends its year: days of 400, 100, 4 and 1 years.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_what_is_between_the_markers_of_the_bench_changes() {
        let page = |text: &str| {
            let [[begin, end], [other_begin, other_end]] = [markers("local"), markers("redis")];
            format!(
                "# Title\n\n{begin}\n{text}\n{end}\n\nbetween\n\n{other_begin}\nother\n{other_end}\n"
            )
        };
        let expected = page("\nnew\n");
        assert_eq!(replaced(&page("old"), "local", "new"), expected);
        assert_eq!(replaced(&expected, "local", "new\n"), expected);
    }

    #[test]
    fn a_page_without_markers_gets_them_at_its_end() {
        let [begin, end] = markers("redis");
        assert_eq!(
            replaced("# Title\n", "redis", "new"),
            format!("# Title\n\n{begin}\n\nnew\n\n{end}\n")
        );
        let swapped = format!("{end} {begin}");
        assert!(
            replaced(&swapped, "redis", "new").ends_with(&format!("{begin}\n\nnew\n\n{end}\n"))
        );
    }

    #[test]
    fn the_introduction_has_a_place_for_the_figures_of_every_bench() {
        for marker in ["local", "redis", "proxy", "decisions"]
            .map(markers)
            .concat()
        {
            assert!(INTRODUCTION.contains(&marker), "{marker}");
        }
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        assert!(versions(&["redis"]).starts_with(" redis "));
        assert_eq!(versions(&[]), "");
    }

    #[test]
    fn dates_know_leap_years() {
        let on = |days: u64| date(UNIX_EPOCH + Duration::from_secs(days * 86_400 + 5));
        assert_eq!(on(0), "1970-01-01");
        assert_eq!(on(11_016), "2000-02-29");
        assert_eq!(on(11_017), "2000-03-01");
        assert_eq!(on(20_454), "2026-01-01");
    }

    #[test]
    fn a_kernel_release_is_cut_to_its_numbers() {
        assert_eq!(plain_version("6.12.3-generic #1\n"), "6.12.3");
        assert_eq!(plain_version("6.1\n"), "6.1");
    }
}
