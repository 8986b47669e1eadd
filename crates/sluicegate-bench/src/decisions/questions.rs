//! The same question in the words of each contestant.

use super::contestants::DecisionsContestant;
use super::loads::AskedQuota;
use super::message::ProtobufMessage;

/// A question about one quota, in the form that a contestant understands.
#[derive(Clone, Copy)]
pub struct QuotaQuestion<'a> {
    pub contestant: DecisionsContestant,
    pub quota: AskedQuota,
    /// The digest of the script in Redis.
    pub script: &'a str,
}

impl QuotaQuestion<'_> {
    /// The words of a command of Redis.
    pub fn command(&self, key: &str) -> Vec<String> {
        let AskedQuota {
            burst,
            count,
            period_s,
        } = self.quota;
        let numbers = [burst, count, period_s].map(|number| number.to_string());
        let (first, rest): (Vec<&str>, Vec<String>) = match self.contestant {
            DecisionsContestant::Sluicegate => (vec!["CL.THROTTLE", key], numbers.into()),
            DecisionsContestant::Throttlecrab => (vec!["THROTTLE", key], numbers.into()),
            DecisionsContestant::Redis => {
                let interval_ns = u64::from(period_s) * 1_000_000_000 / u64::from(count);
                let tolerance_ns = interval_ns * (u64::from(burst) + 1);
                (
                    vec!["EVALSHA", self.script, "1", key],
                    [tolerance_ns, interval_ns].map(|ns| ns.to_string()).into(),
                )
            }
        };
        first.into_iter().map(str::to_string).chain(rest).collect()
    }

    /// The path and the body of a POST.
    pub fn post(&self, key: &str) -> (&'static str, String) {
        let AskedQuota {
            burst,
            count,
            period_s,
        } = self.quota;
        match self.contestant {
            DecisionsContestant::Throttlecrab => (
                "/throttle",
                format!(
                    "{{\"key\":\"{key}\",\"max_burst\":{burst},\"count_per_period\":{count},\"period\":{period_s}}}"
                ),
            ),
            DecisionsContestant::Sluicegate | DecisionsContestant::Redis => (
                "/v1/check",
                format!("{{\"limit\":\"{}\",\"key\":[\"{key}\"]}}", self.limit()),
            ),
        }
    }

    /// The method and the framed message of a call.
    pub fn call(&self, key: &str) -> (&'static str, Vec<u8>) {
        let AskedQuota {
            burst,
            count,
            period_s,
        } = self.quota;
        match self.contestant {
            DecisionsContestant::Throttlecrab => {
                let numbers = [(2, burst), (3, count), (4, period_s), (5, 1)];
                let message = numbers.into_iter().fold(
                    ProtobufMessage::default().bytes(1, key.as_bytes()),
                    |message, (field, value)| message.number(field, u64::from(value)),
                );
                ("/throttlecrab.RateLimiter/Throttle", message.framed())
            }
            DecisionsContestant::Sluicegate | DecisionsContestant::Redis => {
                let entry = ProtobufMessage::default()
                    .bytes(1, b"key")
                    .bytes(2, key.as_bytes());
                let descriptor = ProtobufMessage::default().message(1, &entry);
                let message = ProtobufMessage::default()
                    .bytes(1, self.limit().as_bytes())
                    .message(2, &descriptor);
                (
                    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                    message.framed(),
                )
            }
        }
    }

    /// As ours is configured, by limit and by domain.
    fn limit(&self) -> &'static str {
        if self.quota == AskedQuota::AMPLE {
            "ample"
        } else {
            "scanty"
        }
    }

    /// True when an answer to [`QuotaQuestion::command`] says yes; `None` when it is no answer.
    pub fn is_allowed_reply(&self, reply: &str) -> Option<bool> {
        let mut integers = reply
            .split("\r\n")
            .filter_map(|line| line.strip_prefix(':')?.parse::<i64>().ok());
        let first = integers.next()?;
        Some(match self.contestant {
            DecisionsContestant::Sluicegate => first == 0,
            DecisionsContestant::Throttlecrab => first == 1,
            DecisionsContestant::Redis => first >= 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn question(
        contestant: DecisionsContestant,
        quota: AskedQuota,
    ) -> QuotaQuestion<'static> {
        QuotaQuestion {
            contestant,
            quota,
            script: "d1g",
        }
    }

    #[test]
    fn everybody_is_asked_for_the_same() {
        let words = |contestant| {
            question(contestant, AskedQuota::SCANTY)
                .command("k")
                .join(" ")
        };
        assert_eq!(
            words(DecisionsContestant::Sluicegate),
            "CL.THROTTLE k 2 1 3600"
        );
        assert_eq!(
            words(DecisionsContestant::Throttlecrab),
            "THROTTLE k 2 1 3600"
        );
        assert_eq!(
            words(DecisionsContestant::Redis),
            "EVALSHA d1g 1 k 10800000000000 3600000000000"
        );
        let (path, body) = question(DecisionsContestant::Sluicegate, AskedQuota::AMPLE).post("k");
        assert_eq!(
            (path, body.as_str()),
            ("/v1/check", r#"{"limit":"ample","key":["k"]}"#)
        );
    }

    #[test]
    fn yes_and_no_are_told_apart() {
        let answer =
            |contestant, text| question(contestant, AskedQuota::SCANTY).is_allowed_reply(text);
        assert_eq!(
            answer(
                DecisionsContestant::Sluicegate,
                "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:3\r\n"
            ),
            Some(true)
        );
        assert_eq!(
            answer(
                DecisionsContestant::Sluicegate,
                "*5\r\n:1\r\n:2\r\n:0\r\n:9\r\n:9\r\n"
            ),
            Some(false)
        );
        assert_eq!(
            answer(
                DecisionsContestant::Throttlecrab,
                "*5\r\n:1\r\n:2\r\n:1\r\n:0\r\n:0\r\n"
            ),
            Some(true)
        );
        assert_eq!(answer(DecisionsContestant::Redis, ":-3\r\n"), Some(false));
        assert_eq!(answer(DecisionsContestant::Redis, "-ERR no\r\n"), None);
    }
}
