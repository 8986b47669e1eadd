//! The cost of a request at one limit.

/// The units that a limit takes for each unit of a request's cost.
///
/// ```
/// use sluicegate_core::{Cost, HeaderCost, Limit, Quota};
///
/// let upload = Limit::per_client("upload", Quota::per_second(10).burst(50)).cost(5);
/// assert_eq!(upload.cost, Cost::Fixed(5));
/// let batch = upload.cost(HeaderCost::new("X-Batch-Size").max(20));
/// assert_eq!(batch.cost.header(), Some("x-batch-size"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// This many units, at least 1.
    Fixed(u64),
    /// As many as a header of the request says.
    Header(HeaderCost),
}

/// A cost that a header of the request says, in a whole number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCost {
    /// The header's name, lower case.
    pub name: String,
    /// The cost of a request without the header. A smaller number in the header counts as this, so
    /// that no caller can make itself cheaper.
    pub default: u64,
    /// The largest number that is accepted; a request with a larger one is refused. `None` accepts
    /// every number.
    pub max: Option<u64>,
}

impl HeaderCost {
    /// The number in the header `name`, at least 1.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_ascii_lowercase(),
            default: 1,
            max: None,
        }
    }

    /// The cost of a request without the header, and the least cost of all others.
    #[must_use]
    pub fn default(mut self, units: u64) -> Self {
        self.default = units;
        self
    }

    /// Refuses requests with a larger number.
    #[must_use]
    pub fn max(mut self, units: u64) -> Self {
        self.max = Some(units);
        self
    }
}

impl Cost {
    /// The header that the cost is read from, if any.
    pub fn header(&self) -> Option<&str> {
        match self {
            Self::Fixed(_) => None,
            Self::Header(header) => Some(&header.name),
        }
    }

    /// The least units of a request that costs 1.
    pub(crate) fn least(&self) -> u64 {
        match self {
            Self::Fixed(units) => *units,
            Self::Header(header) => header.default,
        }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

impl From<u64> for Cost {
    fn from(units: u64) -> Self {
        Self::Fixed(units)
    }
}

impl From<HeaderCost> for Cost {
    fn from(header: HeaderCost) -> Self {
        Self::Header(header)
    }
}
