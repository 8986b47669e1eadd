//! Priorities of responses (RFC 9218).

/// The urgency that a client gives a response, from 0 (now) to 7 (whenever).
///
/// `incremental` makes no difference: responses of one urgency always take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Urgency(u8);

impl Urgency {
    /// Number of urgencies.
    pub(super) const COUNT: usize = 8;

    /// Reads the value of the field `Priority` or of a PRIORITY_UPDATE frame. What is not
    /// understood is ignored.
    pub(super) fn parse(value: &[u8]) -> Self {
        let members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let urgency = members.rev().find_map(|member| match member {
            [b'u', b'=', digit @ b'0'..=b'7'] | [b'u', b'=', digit @ b'0'..=b'7', b';', ..] => {
                Some(digit - b'0')
            }
            _ => None,
        });
        urgency.map_or(Self::default(), Self)
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for Urgency {
    fn default() -> Self {
        Self(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgencies_are_read_and_anything_else_is_ignored() {
        for (value, urgency) in [
            ("u=0", 0),
            ("u=5, i", 5),
            ("i,u=1", 1),
            ("u=2;x=1", 2),
            ("u=1, u=6", 6),
            ("", 3),
            ("i", 3),
            ("u=8", 3),
            ("u=-1", 3),
            ("u=11", 3),
            ("U=1", 3),
        ] {
            assert_eq!(Urgency::parse(value.as_bytes()).index(), urgency, "{value}");
        }
    }
}
