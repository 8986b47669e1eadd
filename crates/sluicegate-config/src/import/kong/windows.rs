//! The windows of Kong's two plugins, as quotas.

use crate::field::Field;
use crate::import::draft::{DraftQuota, LimitLine, WindowKind, period_text};

/// A window of a plugin.
pub(super) struct KongWindow {
    /// For the name of the limit: `minute`, `90s`.
    pub(super) name: String,
    pub(super) quota: DraftQuota,
    pub(super) differences: Vec<(LimitLine, String)>,
}

/// The windows of `rate-limiting`, in seconds.
const NAMED: [(&str, u64); 6] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3_600),
    ("day", 86_400),
    ("month", 30 * 86_400),
    ("year", 365 * 86_400),
];

/// Reads the windows of a plugin; none is a mistake, which is noted.
pub(super) fn windows(kind: &str, config: &Field<'_>) -> Vec<KongWindow> {
    match kind {
        "rate-limiting" => named(config),
        _ => listed(config),
    }
}

/// `second`, `minute` and so on: fixed windows of the clock.
fn named(config: &Field<'_>) -> Vec<KongWindow> {
    let mut windows = Vec::new();
    let mut is_any = false;
    for (name, seconds) in NAMED {
        let Some(field) = config.child(name) else {
            continue;
        };
        is_any = true;
        let Some(count) = field.whole_number(1..=u64::from(u32::MAX)) else {
            continue;
        };
        let mut differences = Vec::new();
        if matches!(name, "month" | "year") {
            let difference = "a month is 30 days and a year 365, not those of the calendar";
            differences.push((LimitLine::Quota, difference.to_owned()));
        }
        windows.push(KongWindow {
            name: name.to_owned(),
            quota: DraftQuota::Window {
                kind: WindowKind::Fixed,
                count,
                period: period_text(seconds * 1_000),
            },
            differences,
        });
    }
    if !is_any {
        config.note("needs a limit: second, minute, hour, day, month or year");
    }
    windows
}

/// `limit` and `window_size`, lists of the same length.
fn listed(config: &Field<'_>) -> Vec<KongWindow> {
    let (limits, sizes) = (config.items("limit"), config.items("window_size"));
    if limits.is_empty() || limits.len() != sizes.len() {
        config.note(format!(
            "limit and window_size must be lists of the same length (got {} and {})",
            limits.len(),
            sizes.len()
        ));
        return Vec::new();
    }
    let kind = match config.text_at("window_type").as_deref() {
        Some("fixed") => WindowKind::Fixed,
        _ => WindowKind::Sliding,
    };
    let is_penalty = !config.flag_at("disable_penalty", false);
    let window = |(limit, size): (&Field<'_>, &Field<'_>)| {
        let count = limit.whole_number(1..=u64::from(u32::MAX))?;
        let seconds = size.whole_number(1..=u64::from(u32::MAX))?;
        let mut differences = Vec::new();
        if is_penalty {
            let difference = "Kong counts rejected requests too (disable_penalty: false); here they cost nothing";
            differences.push((LimitLine::Quota, difference.to_owned()));
        }
        let period = period_text(seconds * 1_000);
        Some(KongWindow {
            name: format!("{seconds}s"),
            quota: DraftQuota::Window {
                kind,
                count,
                period,
            },
            differences,
        })
    };
    limits.iter().zip(&sizes).filter_map(window).collect()
}
