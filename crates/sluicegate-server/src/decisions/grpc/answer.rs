//! The response to a gateway: a code for each descriptor and for all, headers and metadata.
//!
//! It is written as it is sent: `RateLimitResponse` behind the head of a gRPC message.

use http::header::{HeaderName, RETRY_AFTER};
use sluicegate::http::{ResponseFields, ResponseHeaders, retry_after_secs};
use sluicegate::{Decision, LimitOutcome, Nanos};
use sluicegate_net::header_lines;

use super::descriptors::{ChargeIndex, DescriptorCharges};
use super::message_writer::MessageWriter;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;
use super::units;

/// Bytes before a message: a flag for compression, and the length.
pub(super) const MESSAGE_HEAD: usize = 5;

/// The entries of a decision on what is taken and on what is given back, one per charge; empty
/// where nothing was decided.
pub(super) struct ChargeOutcomes<'a> {
    take: &'a [Option<LimitOutcome>],
    give: &'a [Option<LimitOutcome>],
}

impl<'a> ChargeOutcomes<'a> {
    pub(super) fn of(
        charges: &DescriptorCharges<'_>,
        taken: Option<&'a Decision>,
        given: Option<&'a Decision>,
    ) -> Self {
        let (take, give) = (
            taken.map_or(&[][..], Decision::entries),
            given.map_or(&[][..], Decision::entries),
        );
        debug_assert!(take.is_empty() || take.len() == charges.take.len());
        debug_assert!(give.is_empty() || give.len() == charges.give.len());
        Self { take, give }
    }

    fn at(&self, index: ChargeIndex) -> Option<&'a LimitOutcome> {
        match index {
            ChargeIndex::Take(index) => self.take.get(index)?.as_ref(),
            ChargeIndex::Give(index) => self.give.get(index)?.as_ref(),
        }
    }

    /// True when an enforced limit denied the charge. A refund is never denied.
    fn is_denied_at(&self, charges: &DescriptorCharges<'_>, index: ChargeIndex) -> bool {
        let ChargeIndex::Take(at) = index else {
            return false;
        };
        charges.take[at].enforced
            && self
                .at(index)
                .is_some_and(|charged| !charged.outcome.is_allowed())
    }
}

/// The response to a request with this number of descriptors.
pub(super) fn answer(
    descriptors: usize,
    charges: &DescriptorCharges<'_>,
    outcomes: &ChargeOutcomes<'_>,
    taken: Option<&Decision>,
    headers: &ResponseHeaders,
) -> Vec<u8> {
    let is_denied = taken.is_some_and(|decision| !decision.is_allowed());
    message(is_denied, |response| {
        for descriptor in 0..descriptors {
            response.message(field::STATUSES, |status| {
                write_status(status, descriptor, charges, outcomes);
            });
        }
        if let Some(decision) = taken {
            write_lines(response, decision, is_denied, headers);
            write_metadata(response, decision, is_denied);
        }
    })
}

/// The response where no limit was asked: each descriptor is denied or not.
pub(super) fn without_limits(are_denied: impl Iterator<Item = bool> + Clone) -> Vec<u8> {
    message(are_denied.clone().any(|is_denied| is_denied), |response| {
        for is_denied in are_denied {
            response.message(field::STATUSES, |status| {
                status.number(field::CODE, code(is_denied));
            });
        }
    })
}

/// The numbers of fields.
mod field {
    pub(super) const OVERALL_CODE: u8 = 1;
    pub(super) const STATUSES: u8 = 2;
    pub(super) const HEADERS_TO_ADD: u8 = 3;
    pub(super) const DYNAMIC_METADATA: u8 = 6;
    /// Of a status.
    pub(super) const CODE: u8 = 1;
}

/// Writes the overall code and what follows it, behind the head of a message.
fn message(is_denied: bool, write: impl FnOnce(&mut MessageWriter<'_>)) -> Vec<u8> {
    /// Room for one descriptor and all headers.
    const USUAL_BYTES: usize = 320;
    let mut out = Vec::with_capacity(USUAL_BYTES);
    out.extend_from_slice(&[0; MESSAGE_HEAD]);
    let mut response = MessageWriter(&mut out);
    response.number(field::OVERALL_CODE, code(is_denied));
    write(&mut response);
    // No more than 64 descriptors and a few lines are answered.
    let length = (out.len() - MESSAGE_HEAD) as u32;
    out[1..MESSAGE_HEAD].copy_from_slice(&length.to_be_bytes());
    out
}

/// Metadata for the gateway's log about a request that was denied, or decided without the store
/// (`google.protobuf.Struct`). Most are neither and have none.
fn write_metadata(response: &mut MessageWriter<'_>, decision: &Decision, is_denied: bool) {
    /// The kinds of a `google.protobuf.Value`.
    const NUMBER: u8 = 2;
    const TEXT: u8 = 3;
    const TRUTH: u8 = 4;
    if !is_denied && !decision.is_degraded() {
        return;
    }
    response.message(field::DYNAMIC_METADATA, |fields| {
        let mut put = |name: &str, write: &dyn Fn(&mut MessageWriter<'_>)| {
            fields.message(1, |entry| {
                entry.text(1, name.as_bytes());
                entry.message(2, |value| write(value));
            });
        };
        put("degraded", &|value| {
            value.present_number(TRUTH, u64::from(decision.is_degraded()));
        });
        if let Some((limit, _)) = decision.tightest().filter(|_| is_denied) {
            put("limited_by", &|value| {
                value.text(TEXT, limit.name.as_bytes())
            });
            put("retry_after", &|value| {
                value.present_double(NUMBER, retry_after_secs(decision) as f64);
            });
        }
    });
}

/// The status of one descriptor, taken from its tightest limit: a denied one first, then the one
/// with the longest wait, then the one with the least left.
fn write_status(
    status: &mut MessageWriter<'_>,
    descriptor: usize,
    charges: &DescriptorCharges<'_>,
    outcomes: &ChargeOutcomes<'_>,
) {
    let own = charges
        .shares
        .iter()
        .filter(|(owner, _)| *owner == descriptor)
        .map(|(_, place)| *place);
    let decided = own.filter_map(|place| Some((place, outcomes.at(place)?)));
    let tightest = decided.min_by_key(|(place, charged)| {
        let wait = charged.outcome.retry_after().unwrap_or(Nanos::MAX);
        (
            !outcomes.is_denied_at(charges, *place),
            std::cmp::Reverse(wait),
            charged.outcome.remaining(),
        )
    });
    let Some((place, charged)) = tightest else {
        return status.number(field::CODE, code(false));
    };
    let charge = match place {
        ChargeIndex::Take(at) => &charges.take[at],
        ChargeIndex::Give(at) => &charges.give[at],
    };
    let (requests_per_unit, unit) = units::rate_of(&charged.quota);
    status.number(field::CODE, code(outcomes.is_denied_at(charges, place)));
    status.message(2, |limit| {
        limit.number(1, requests_per_unit.into());
        limit.number(2, unit as u64);
        limit.text(3, charge.key.limit().name.as_bytes());
    });
    let remaining = u32::try_from(charged.outcome.remaining()).unwrap_or(u32::MAX);
    status.number(3, remaining.into());
    status.message(4, |duration| {
        const SECOND: u64 = Nanos::SECOND.get();
        let span = charged.outcome.reset_after().get();
        duration.number(1, span / SECOND);
        duration.number(2, span % SECOND);
    });
}

fn code(is_denied: bool) -> u64 {
    let code = if is_denied { Code::OverLimit } else { Code::Ok };
    code as u64
}

/// Writes the same lines that the proxy would write.
fn write_lines(
    response: &mut MessageWriter<'_>,
    decision: &Decision,
    is_denied: bool,
    headers: &ResponseHeaders,
) {
    let mut lines = AddedLines(response);
    headers.write(decision, &mut lines);
    if is_denied {
        let seconds = retry_after_secs(decision);
        lines.append(&RETRY_AFTER, |text| {
            text.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
        });
    }
}

/// Lines that a gateway is to add. There are none before ours, and each of ours comes once, so
/// nothing is ever replaced.
struct AddedLines<'a, 'b>(&'a mut MessageWriter<'b>);

impl ResponseFields for AddedLines<'_, '_> {
    fn value(&self, _: &HeaderName) -> Option<&[u8]> {
        None
    }

    fn remove(&mut self, _: &HeaderName) {}

    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.message(field::HEADERS_TO_ADD, |line| {
            line.text(1, name.as_str().as_bytes());
            line.delimited(2, value);
        });
    }

    fn append_lines(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        /// Room for the lines of one limit.
        const USUAL_BYTES: usize = 256;
        let mut text = Vec::with_capacity(USUAL_BYTES);
        write(&mut text);
        for (name, value) in header_lines(&text) {
            self.0.message(field::HEADERS_TO_ADD, |line| {
                line.text(1, name);
                line.delimited(2, |out| out.extend_from_slice(value));
            });
        }
    }
}
