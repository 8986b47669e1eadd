//! The units that a limit takes for a request: its cost, times the number of the limit.

use crate::key::header_text;
use crate::limit::{Cost, HeaderCost, KeyPart, Limit};
use crate::missing_key::{MissingKey, MissingReason};
use crate::subject::{HeaderValue, Subject};

impl Limit {
    /// The units that this limit takes for a request of this cost. An error when the cost is in a
    /// header that cannot be read.
    #[inline]
    pub fn units_of_request(&self, subject: &Subject<'_>, cost: u64) -> Result<u64, MissingKey> {
        let number = match &self.cost {
            Cost::Fixed(number) => *number,
            Cost::Header(header) => self.number_in_header(header, subject)?,
        };
        Ok(cost.saturating_mul(number))
    }

    #[inline(never)]
    fn number_in_header(
        &self,
        header: &HeaderCost,
        subject: &Subject<'_>,
    ) -> Result<u64, MissingKey> {
        let read = number_in(header, subject.headers.get(&header.name));
        let part = || KeyPart::Header(header.name.clone());
        read.map_err(|reason| MissingKey::new(self, &part(), reason))
    }

    /// The units that this limit takes for a charge by name, which has no headers: a cost from a
    /// header is what the charge says.
    pub fn units_by_name(&self, cost: u64) -> u64 {
        match &self.cost {
            Cost::Fixed(number) => cost.saturating_mul(*number),
            Cost::Header(_) => cost,
        }
    }
}

/// The number in the header of a request, or the reason why it cannot be used.
fn number_in(header: &HeaderCost, value: HeaderValue<'_>) -> Result<u64, MissingReason> {
    let text = match header_text(value) {
        Err(MissingReason::Missing) => return Ok(header.default),
        read => read?,
    };
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(MissingReason::NotANumber);
    }
    let max = header.max.unwrap_or(u64::MAX);
    // Digits that are no number are one beyond every bound.
    let number = std::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.parse::<u64>().ok());
    match number.filter(|number| *number <= max) {
        Some(number) => Ok(number.max(header.default)),
        None => Err(MissingReason::AboveCost { max }),
    }
}
