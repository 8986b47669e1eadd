//! Exemplars: the id of a trace beside each bucket of a histogram, so that a slow request in a
//! chart leads to its trace.
//!
//! They are added to the encoded text, because the library supports exemplars only for histograms
//! of its own.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The latest traced request of each bucket.
#[derive(Debug)]
pub(super) struct Exemplars<const BUCKETS: usize>([Mutex<Option<Exemplar>>; BUCKETS]);

/// One traced request.
#[derive(Debug)]
struct Exemplar {
    trace_id: String,
    took: Duration,
    at: SystemTime,
}

impl<const BUCKETS: usize> Exemplars<BUCKETS> {
    /// Records a traced request that has just ended. If another one is being recorded, this one is
    /// skipped: either will do, and no request waits.
    pub(super) fn put(&self, bucket: usize, trace_id: String, took: Duration) {
        if let Ok(mut last) = self.0[bucket].try_lock() {
            *last = Some(Exemplar {
                trace_id,
                took,
                at: SystemTime::now(),
            });
        }
    }

    /// Appends the exemplars to the bucket lines of `family`, which are in ascending order in the
    /// text.
    pub(super) fn append_to(&self, family: &str, text: String) -> String {
        let exemplar_text: Vec<Option<String>> = self.0.iter().map(exemplar_text).collect();
        if exemplar_text.iter().all(Option::is_none) {
            return text;
        }
        let buckets = format!("{family}_bucket{{");
        let mut exemplar_text = exemplar_text.into_iter();
        let mut with = String::with_capacity(text.len() + BUCKETS * 96);
        for line in text.lines() {
            with += line;
            if line.starts_with(&buckets)
                && let Some(Some(exemplar)) = exemplar_text.next()
            {
                with += &exemplar;
            }
            with.push('\n');
        }
        with
    }
}

/// An exemplar in the syntax of OpenMetrics: labels, value, time.
fn exemplar_text(last: &Mutex<Option<Exemplar>>) -> Option<String> {
    let last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let Exemplar { trace_id, took, at } = last.as_ref()?;
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let took = format_args!("{}.{:06}", took.as_secs(), took.subsec_micros());
    let at = format_args!("{}.{:03}", at.as_secs(), at.subsec_millis());
    Some(format!(" # {{trace_id=\"{trace_id}\"}} {took} {at}"))
}

impl<const BUCKETS: usize> Default for Exemplars<BUCKETS> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
a_seconds_bucket{le=\"1.0\"} 3
a_seconds_bucket{le=\"+Inf\"} 4
a_seconds_count 4
ab_seconds_bucket{le=\"1.0\"} 3
# EOF
";

    #[test]
    fn the_last_trace_of_a_bucket_stands_beside_it() {
        let exemplars = Exemplars::<2>::default();
        exemplars.put(1, "a1".to_owned(), Duration::from_secs(2));
        exemplars.put(1, "b2".to_owned(), Duration::from_micros(1_500_001));
        let text = exemplars.append_to("a_seconds", TEXT.to_owned());
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let (before, at) = text.lines().nth(1).unwrap().rsplit_once(' ').unwrap();
        assert_eq!(
            before,
            "a_seconds_bucket{le=\"+Inf\"} 4 # {trace_id=\"b2\"} 1.500001"
        );
        assert!((at.parse::<f64>().unwrap() - now).abs() < 60.0, "{at}");
        let others = |text: &str| {
            text.lines()
                .filter(|line| !line.contains("+Inf"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(others(&text), others(TEXT));
    }

    #[test]
    fn without_a_trace_the_text_stays_as_it_is() {
        assert_eq!(
            Exemplars::<2>::default().append_to("a_seconds", TEXT.to_owned()),
            TEXT
        );
    }
}
