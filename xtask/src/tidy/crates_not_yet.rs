//! Crates for which a check does not hold yet, while they are being repaired.

use super::Finding;

/// A list in the source of a check. It only gets shorter: a crate on it that passes the check is a finding.
pub struct CratesNotYet {
    /// The file and the constant that hold the list.
    pub file: &'static str,
    pub constant: &'static str,
    pub crates: &'static [&'static str],
}

impl CratesNotYet {
    /// The findings of a check in one crate, held back while the crate is on the list.
    pub fn held_back(&self, name: &str, findings: Vec<Finding>) -> Vec<Finding> {
        if !self.crates.contains(&name) {
            return findings;
        }
        if !findings.is_empty() {
            return Vec::new();
        }
        let fact = format!("`{name}` passes the check");
        let way_out = format!("remove it from {}", self.constant);
        vec![Finding::new(self.file, 1, fact, way_out)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_held_back_and_an_entry_without_need_is_one() {
        let not_yet = CratesNotYet {
            file: "a.rs",
            constant: "NOT_YET",
            crates: &["x"],
        };
        let wrong = || vec![Finding::new("x/src/a.rs", 3, "wrong", "repair it")];
        assert_eq!(not_yet.held_back("x", wrong()), []);
        assert_eq!(not_yet.held_back("y", wrong()), wrong());
        assert_eq!(not_yet.held_back("y", Vec::new()), []);
        let not_needed = not_yet.held_back("x", Vec::new());
        assert_eq!(
            not_needed[0].to_string(),
            "a.rs:1: `x` passes the check: remove it from NOT_YET"
        );
    }
}
