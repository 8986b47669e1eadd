//! Durations in words, for explanations.

use sluicegate_core::Nanos;

/// A duration as people say it, rounded up so that it is never too short.
pub(super) fn in_words(span: Nanos) -> String {
    let micros = span.as_micros_ceil();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros.div_ceil(1_000)),
        1_000_000..120_000_000 => {
            let tenths = micros.div_ceil(100_000);
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        _ => {
            let seconds = micros.div_ceil(1_000_000);
            match (seconds / 3_600, seconds % 3_600 / 60, seconds % 60) {
                (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
                (hours, minutes, _) => format!("{hours} h {} min", minutes + 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_as_people_say_them_and_never_too_short() {
        for (nanos, told) in [
            (1, "1 µs"),
            (999_001, "1 ms"),
            (1_000_001, "2 ms"),
            (1_500_000_000, "1.5 s"),
            (58_000_000_000, "58 s"),
            (58_000_000_001, "58.1 s"),
            (130_000_000_000, "2 min 10 s"),
            (7_320_000_000_000, "2 h 3 min"),
        ] {
            assert_eq!(in_words(Nanos::new(nanos)), told);
        }
    }
}
