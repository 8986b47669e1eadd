//! What libFuzzer tells about itself, line by line.

/// How far a target has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FuzzStatus {
    pub executions: u64,
    pub per_second: u64,
    /// Edges of the program that some input reaches.
    pub coverage: u64,
    /// Inputs that each reach something new.
    pub corpus: u64,
}

impl FuzzStatus {
    /// Takes what a line tells: `#4096 pulse cov: 12 ft: 30 corp: 6/27b lim: 4096 exec/s: 2048 rss: 27Mb`. Other
    /// lines tell nothing.
    pub fn take(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix('#') else {
            return false;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some(executions) = words.first().and_then(|word| word.parse().ok()) else {
            return false;
        };
        let after = |name: &str| {
            let place = words.iter().position(|word| *word == name)?;
            words.get(place + 1)?.split('/').next()?.parse().ok()
        };
        let Some(coverage) = after("cov:") else {
            return false;
        };
        *self = Self {
            executions,
            coverage,
            per_second: after("exec/s:").unwrap_or(self.per_second),
            corpus: after("corp:").unwrap_or(self.corpus),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_progress_are_read_and_others_left_alone() {
        let mut status = FuzzStatus::default();
        assert!(status.take(
            "#8388608\tpulse  cov: 12 ft: 30 corp: 6/27b lim: 4096 exec/s: 2097152 rss: 27Mb"
        ));
        let expected = FuzzStatus {
            executions: 8_388_608,
            per_second: 2_097_152,
            coverage: 12,
            corpus: 6,
        };
        assert_eq!(status, expected);
        for line in [
            "",
            "INFO: Seed: 1",
            "#x",
            "#2 INITED",
            "###### Recommended dictionary. ######",
            "thread panicked",
        ] {
            assert!(!status.take(line), "{line}");
        }
        assert_eq!(status, expected);
    }
}
