//! The same question in the words of each contestant.

use super::contestants::Who;
use super::loads::Allowance;
use super::message::Message;

/// Who is asked, and about which quota.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub who: Who,
    pub allowance: Allowance,
    /// The digest of the script in Redis.
    pub script: &'a str,
}

impl Question<'_> {
    /// The words of a command of Redis.
    pub fn command(&self, key: &str) -> Vec<String> {
        let Allowance {
            burst,
            count,
            period_s,
        } = self.allowance;
        let numbers = [burst, count, period_s].map(|number| number.to_string());
        let (first, rest): (Vec<&str>, Vec<String>) = match self.who {
            Who::Sluicegate => (vec!["CL.THROTTLE", key], numbers.into()),
            Who::Throttlecrab => (vec!["THROTTLE", key], numbers.into()),
            Who::Redis => {
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
        let Allowance {
            burst,
            count,
            period_s,
        } = self.allowance;
        match self.who {
            Who::Throttlecrab => (
                "/throttle",
                format!(
                    "{{\"key\":\"{key}\",\"max_burst\":{burst},\"count_per_period\":{count},\"period\":{period_s}}}"
                ),
            ),
            Who::Sluicegate | Who::Redis => (
                "/v1/check",
                format!("{{\"limit\":\"{}\",\"key\":[\"{key}\"]}}", self.limit()),
            ),
        }
    }

    /// The method and the framed message of a call.
    pub fn call(&self, key: &str) -> (&'static str, Vec<u8>) {
        let Allowance {
            burst,
            count,
            period_s,
        } = self.allowance;
        match self.who {
            Who::Throttlecrab => {
                let numbers = [(2, burst), (3, count), (4, period_s), (5, 1)];
                let message = numbers.into_iter().fold(
                    Message::default().bytes(1, key.as_bytes()),
                    |message, (field, value)| message.number(field, u64::from(value)),
                );
                ("/throttlecrab.RateLimiter/Throttle", message.framed())
            }
            Who::Sluicegate | Who::Redis => {
                let entry = Message::default().bytes(1, b"key").bytes(2, key.as_bytes());
                let descriptor = Message::default().message(1, &entry);
                let message = Message::default()
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
        if self.allowance == Allowance::AMPLE {
            "ample"
        } else {
            "scanty"
        }
    }

    /// Whether an answer to [`Question::command`] says yes; `None` when it is no answer.
    pub fn is_allowed_reply(&self, reply: &str) -> Option<bool> {
        let mut integers = reply
            .split("\r\n")
            .filter_map(|line| line.strip_prefix(':')?.parse::<i64>().ok());
        let first = integers.next()?;
        Some(match self.who {
            Who::Sluicegate => first == 0,
            Who::Throttlecrab => first == 1,
            Who::Redis => first >= 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn question(who: Who, allowance: Allowance) -> Question<'static> {
        Question {
            who,
            allowance,
            script: "d1g",
        }
    }

    #[test]
    fn everybody_is_asked_for_the_same() {
        let words = |who| question(who, Allowance::SCANTY).command("k").join(" ");
        assert_eq!(words(Who::Sluicegate), "CL.THROTTLE k 2 1 3600");
        assert_eq!(words(Who::Throttlecrab), "THROTTLE k 2 1 3600");
        assert_eq!(
            words(Who::Redis),
            "EVALSHA d1g 1 k 10800000000000 3600000000000"
        );
        let (path, body) = question(Who::Sluicegate, Allowance::AMPLE).post("k");
        assert_eq!(
            (path, body.as_str()),
            ("/v1/check", r#"{"limit":"ample","key":["k"]}"#)
        );
    }

    #[test]
    fn yes_and_no_are_told_apart() {
        let answer = |who, text| question(who, Allowance::SCANTY).is_allowed_reply(text);
        assert_eq!(
            answer(Who::Sluicegate, "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:3\r\n"),
            Some(true)
        );
        assert_eq!(
            answer(Who::Sluicegate, "*5\r\n:1\r\n:2\r\n:0\r\n:9\r\n:9\r\n"),
            Some(false)
        );
        assert_eq!(
            answer(Who::Throttlecrab, "*5\r\n:1\r\n:2\r\n:1\r\n:0\r\n:0\r\n"),
            Some(true)
        );
        assert_eq!(answer(Who::Redis, ":-3\r\n"), Some(false));
        assert_eq!(answer(Who::Redis, "-ERR no\r\n"), None);
    }
}
