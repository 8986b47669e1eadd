//! The memory that the process may use, beyond which it refuses and closes connections.

use std::fmt;

/// What happens when the process has too much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// The memory that the process may use.
    pub memory: MemoryBudget,
}

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryBudget {
    /// Any amount.
    Unlimited,
    /// This many bytes, at least [`MemoryBudget::BYTES_MIN`].
    Bytes(u64),
    /// This share of what the control group allows, or else of the machine's memory; 1 to 100.
    Percent(u8),
}

impl MemoryBudget {
    /// The smallest amount that can be set: less than that is used before the first request.
    pub const BYTES_MIN: u64 = 32 << 20;
}

impl Default for Overload {
    fn default() -> Self {
        Self {
            memory: MemoryBudget::Percent(80),
        }
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("off"),
            Self::Bytes(bytes) if bytes.is_multiple_of(1 << 30) => {
                write!(f, "{}GiB", bytes >> 30)
            }
            Self::Bytes(bytes) if bytes.is_multiple_of(1 << 20) => {
                write!(f, "{}MiB", bytes >> 20)
            }
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}
