//! Decides which requests are traced.
//!
//! A share of all requests is, chosen by a number that callers cannot choose. What the sampled flag
//! of a trusted peer changes is a setting; that of a stranger changes nothing, because anybody could
//! otherwise make us trace every request.

use sluicegate_config::{ParentSampling, TraceSampling, TraceShare};

use super::traceparent::TraceParent;

/// The sampling rule, made for looking things up.
#[derive(Debug)]
pub(super) struct Sampler {
    /// A request is in the share when its number is below this; `None` when all are.
    below: Option<u64>,
    /// True when the number is that of the peer's trace, so that services with the same share keep
    /// the same traces.
    by_trace: bool,
    parent: ParentSampling,
}

impl Sampler {
    pub(super) fn new(sampling: TraceSampling) -> Self {
        let (below, by_trace) = match sampling.share {
            TraceShare::OneIn(one_in) => (part(1, one_in.max(1)), false),
            TraceShare::PerBillion(share) => {
                (part(u64::from(share), u64::from(TraceShare::BILLION)), true)
            }
        };
        Self {
            below,
            by_trace,
            parent: sampling.parent,
        }
    }

    /// Returns true when a request is traced. `random` is a number of ours, spread over all 64 bits;
    /// `peer` is the span of a trusted peer.
    pub(super) fn samples(&self, random: u64, peer: Option<&TraceParent>) -> bool {
        let number = match peer {
            // The last 63 bits, as the SDKs of OpenTelemetry compare them.
            Some(peer) if self.by_trace => last_half(peer) << 1,
            _ => random,
        };
        let in_share = self.below.is_none_or(|below| number < below);
        match (self.parent, peer) {
            (ParentSampling::Adds, Some(peer)) => peer.is_sampled || in_share,
            (ParentSampling::Decides, Some(peer)) => peer.is_sampled,
            (ParentSampling::Ignored, _) | (_, None) => in_share,
        }
    }
}

/// The part of all 64-bit numbers, rounded down; `None` for all of them.
fn part(share: u64, of: u64) -> Option<u64> {
    let below = (u128::from(share) << 64) / u128::from(of);
    u64::try_from(below).ok()
}

/// The last 8 bytes of the id of a trace.
fn last_half(peer: &TraceParent) -> u64 {
    let bytes = peer.trace_id.to_bytes();
    let (_, last) = bytes.split_at(8);
    last.iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::super::mix;
    use super::super::traceparent::parse_traceparent;
    use super::*;

    fn peer(last: u64, flag: &str) -> TraceParent {
        let text = format!("00-0af7651916cd43dd{last:016x}-b7ad6b7169203331-{flag}");
        parse_traceparent(&text).unwrap()
    }

    fn sampler(share: TraceShare, parent: ParentSampling) -> Sampler {
        Sampler::new(TraceSampling { share, parent })
    }

    #[test]
    fn a_share_of_the_requests_is_traced() {
        for (share, expected) in [
            (TraceShare::OneIn(1), 10_000),
            (TraceShare::OneIn(10), 1_000),
            (TraceShare::PerBillion(0), 0),
            (TraceShare::PerBillion(250_000_000), 2_500),
            (TraceShare::PerBillion(TraceShare::BILLION), 10_000),
        ] {
            let sampler = sampler(share, ParentSampling::Adds);
            let traced = (1..=10_000_u64).filter(|number| sampler.samples(mix(*number), None));
            let traced = traced.count();
            let is_near = traced.abs_diff(expected) * 10 <= expected;
            assert!(is_near, "{traced} of 10000 for {share:?}");
        }
        let most = sampler(
            TraceShare::PerBillion(TraceShare::BILLION),
            ParentSampling::Ignored,
        );
        assert!(most.samples(u64::MAX, None));
        assert!(!sampler(TraceShare::PerBillion(0), ParentSampling::Ignored).samples(0, None));
    }

    #[test]
    fn the_flag_of_a_trusted_peer_adds_or_decides_or_is_ignored() {
        use ParentSampling::{Adds, Decides, Ignored};
        let none = TraceShare::PerBillion(0);
        let all = TraceShare::OneIn(1);
        for (parent, share, flag, expected) in [
            (Adds, none, "01", true),
            (Adds, all, "00", true),
            (Adds, none, "00", false),
            (Decides, none, "01", true),
            (Decides, all, "00", false),
            (Ignored, none, "01", false),
            (Ignored, all, "00", true),
        ] {
            let sampler = sampler(share, parent);
            let is_traced = sampler.samples(1, Some(&peer(7, flag)));
            assert_eq!(is_traced, expected, "{parent:?} {share:?} {flag}");
        }
    }

    #[test]
    fn services_with_the_same_share_keep_the_same_traces() {
        let half = sampler(TraceShare::PerBillion(500_000_000), ParentSampling::Ignored);
        let (low, high) = (peer(1 << 61, "00"), peer(u64::MAX, "00"));
        for random in [0, u64::MAX] {
            assert!(half.samples(random, Some(&low)));
            assert!(!half.samples(random, Some(&high)));
        }
        // One in so many is no share of traces: our own number decides.
        let one_in = sampler(TraceShare::OneIn(2), ParentSampling::Ignored);
        assert!(one_in.samples(0, Some(&high)) && !one_in.samples(u64::MAX, Some(&low)));
    }
}
