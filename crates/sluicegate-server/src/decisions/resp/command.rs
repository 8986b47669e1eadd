//! The commands by name, and the arguments of those about counters.

use sluicegate::{Charge, KeyPart, List, Nanos, Policy, Quota};
use sluicegate_core::AdHoc;

use super::parse::integer;
use super::reply::RespReply;

/// The commands with their number of arguments, which includes the name; a negative number is a
/// minimum. `COMMAND` reports them in this form.
pub(super) const COMMANDS: [(&str, i64); 13] = [
    ("cl.throttle", -5),
    ("sg.check", -2),
    ("sg.peek", -2),
    ("sg.refund", -2),
    ("sg.reset", -2),
    ("ping", -1),
    ("echo", 2),
    ("hello", -1),
    ("auth", -2),
    ("command", -1),
    ("client", -2),
    ("select", 2),
    ("quit", -1),
];

/// The name of a command, in the order of [`COMMANDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandName {
    Throttle,
    Check,
    Peek,
    Refund,
    Reset,
    Ping,
    Echo,
    Hello,
    Auth,
    Command,
    Client,
    Select,
    Quit,
}

impl CommandName {
    /// Finds a name, in upper or lower case.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        use CommandName::{
            Auth, Check, Client, Command, Echo, Hello, Peek, Ping, Quit, Refund, Reset, Select,
            Throttle,
        };
        const NAMES: [CommandName; COMMANDS.len()] = [
            Throttle, Check, Peek, Refund, Reset, Ping, Echo, Hello, Auth, Command, Client, Select,
            Quit,
        ];
        let place = COMMANDS
            .iter()
            .position(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word))?;
        Some(NAMES[place])
    }

    /// Returns true when a client may send the command before it has shown the token.
    pub(super) fn needs_no_token(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Ping | Self::Quit)
    }

    /// Returns true when the command is about counters.
    pub(super) fn is_of_counters(self) -> bool {
        matches!(
            self,
            Self::Throttle | Self::Check | Self::Peek | Self::Refund | Self::Reset
        )
    }
}

/// The arguments of `CL.THROTTLE`: the client names both key and quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleCommand<'a> {
    pub(super) key: &'a [u8],
    pub(super) quota: Quota,
    pub(super) quantity: u64,
}

impl<'a> ThrottleCommand<'a> {
    /// `key max_burst count period [quantity]`
    pub(super) fn of(arguments: &[&'a [u8]]) -> Result<Self, RespReply> {
        let (key, max_burst, count, period, quantity) = match *arguments {
            [key, max_burst, count, period] => (key, max_burst, count, period, &b"1"[..]),
            [key, max_burst, count, period, quantity] => (key, max_burst, count, period, quantity),
            _ => {
                return Err(RespReply::wrong(
                    "expected CL.THROTTLE key max_burst count period [quantity]",
                ));
            }
        };
        let max_burst = whole("max_burst", max_burst, 0)?;
        let count = whole("count", count, 1)?;
        let period = whole("period", period, 1)?;
        let quantity = whole("quantity", quantity, 0)?;
        let too_long = || RespReply::wrong("period: must be at most 9223372036 seconds");
        let period = period
            .checked_mul(Nanos::SECOND.get())
            .filter(|nanos| i64::try_from(*nanos).is_ok());
        let period = Nanos::new(period.ok_or_else(too_long)?);
        // redis-cell allows `max_burst` units beyond the first one.
        let quota = Quota::new(count, period, max_burst + 1)
            .map_err(|error| RespReply::wrong(error.to_string()))?;
        Ok(Self {
            key,
            quota,
            quantity,
        })
    }

    /// The charge on the counter of this key.
    pub(super) fn charge<'p>(&self, policy: &'p Policy, parts: &'p [&'p [u8]]) -> Charge<'p> {
        policy.charge_ad_hoc(AdHoc::Throttle, parts, self.quota, self.quantity)
    }
}

/// One counter of a limit that the configuration names.
#[derive(Clone, Debug)]
pub(super) struct NamedCounter<'a> {
    limit: &'a str,
    parts: Vec<&'a str>,
    cost: u64,
}

impl<'a> NamedCounter<'a> {
    /// Reads `limit part… [cost]` or `limit part… COST cost`, with one argument for each part of
    /// the limit's key; `global` has none.
    ///
    /// The limit tells the number of parts, so that a part may be a number or the word COST.
    pub(super) fn with_cost(policy: &Policy, arguments: &[&'a [u8]]) -> Result<Self, RespReply> {
        Self::of(policy, arguments, ", then perhaps a cost")
    }

    /// Reads `limit part…`, without a cost.
    pub(super) fn whole(policy: &Policy, arguments: &[&'a [u8]]) -> Result<Self, RespReply> {
        Self::of(policy, arguments, "")
    }

    /// `then` names the arguments that may follow the parts, for the error; empty if none may.
    fn of(policy: &Policy, arguments: &[&'a [u8]], then: &str) -> Result<Self, RespReply> {
        let takes_cost = !then.is_empty();
        let [limit, rest @ ..] = arguments else {
            return Err(RespReply::wrong("expected a limit and its key parts"));
        };
        let limit = text("limit", limit)?;
        let Some((_, known)) = policy.limit(limit) else {
            return Err(RespReply::wrong(policy.why_absent(limit)));
        };
        let expected = known
            .key
            .iter()
            .filter(|part| **part != KeyPart::Global)
            .count();
        let (given, cost) = match rest.split_at_checked(expected) {
            Some((given, [])) => (given, 1),
            Some((given, [cost])) if takes_cost => (given, whole("cost", cost, 0)?),
            Some((given, [word, cost])) if takes_cost && word.eq_ignore_ascii_case(b"COST") => {
                (given, whole("COST", cost, 0)?)
            }
            _ => {
                let parts: Vec<String> = known.key.iter().map(ToString::to_string).collect();
                return Err(RespReply::wrong(format!(
                    "limit {limit:?} is keyed by {} and takes {expected} parts{then}",
                    parts.join(", ")
                )));
            }
        };
        let mut given = given.iter();
        let mut parts = Vec::with_capacity(known.key.len());
        for part in &known.key {
            parts.push(match part {
                KeyPart::Global => "",
                _ => text(&part.to_string(), given.next().copied().unwrap_or_default())?,
            });
        }
        Ok(Self { limit, parts, cost })
    }

    /// The charge, none when the limit is unlimited.
    pub(super) fn charge<'p>(
        &'p self,
        policy: &'p Policy,
        cost: u64,
    ) -> Result<List<Charge<'p>>, RespReply> {
        let charge = policy.charge_named(self.limit, &self.parts, cost);
        charge
            .map(|charge| charge.into_iter().collect())
            .map_err(|missing| RespReply::wrong(missing.to_string()))
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
}

/// Reads a whole number of at least `least`.
pub(super) fn whole(name: &str, argument: &[u8], least: u64) -> Result<u64, RespReply> {
    let refused = || {
        let got = String::from_utf8_lossy(&argument[..argument.len().min(32)]).into_owned();
        RespReply::wrong(format!(
            "{name}: must be a whole number of at least {least} (got {got:?})"
        ))
    };
    let number = integer(argument).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number >= least).ok_or_else(refused)
}

fn text<'a>(name: &str, argument: &'a [u8]) -> Result<&'a str, RespReply> {
    std::str::from_utf8(argument).map_err(|_| RespReply::wrong(format!("{name}: must be UTF-8")))
}

#[cfg(test)]
mod tests {
    use sluicegate::{Limit, Match};

    use super::*;

    fn throttle(line: &str) -> Result<(u64, u64, u64), String> {
        let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match ThrottleCommand::of(&arguments) {
            Ok(throttle) => Ok((
                throttle.quota.limit(),
                throttle.quota.window().as_secs_ceil(),
                throttle.quantity,
            )),
            Err(RespReply::Error(_, words)) => Err(words),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_throttle_is_a_rate_and_one_more_than_its_burst() {
        assert_eq!(throttle("user 15 30 60"), Ok((16, 32, 1)));
        assert_eq!(throttle("user 0 1 1 0"), Ok((1, 1, 0)));
        assert_eq!(throttle("user 9 10 1 5"), Ok((10, 1, 5)));
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_name() {
        for (line, expected) in [
            (
                "user 15 30",
                "expected CL.THROTTLE key max_burst count period [quantity]",
            ),
            (
                "user 1 2 3 4 5",
                "expected CL.THROTTLE key max_burst count period [quantity]",
            ),
            (
                "user -1 30 60",
                "max_burst: must be a whole number of at least 0 (got \"-1\")",
            ),
            (
                "user 1 0 60",
                "count: must be a whole number of at least 1 (got \"0\")",
            ),
            (
                "user 1 1 0",
                "period: must be a whole number of at least 1 (got \"0\")",
            ),
            (
                "user 1 1 x",
                "period: must be a whole number of at least 1 (got \"x\")",
            ),
            (
                "user 1 1 1 1.5",
                "quantity: must be a whole number of at least 0 (got \"1.5\")",
            ),
            (
                "user 1 1 99999999999",
                "period: must be at most 9223372036 seconds",
            ),
            ("user 1 99999999999999 1", "rate: 99999999999999"),
            ("user 9223372036854775807 1 1", "size: must be at most"),
        ] {
            let message = throttle(line).unwrap_err();
            assert!(message.starts_with(expected), "{line}: {message}");
        }
    }

    fn named(arguments: &[&str]) -> Result<(String, u64), String> {
        let quota = Quota::from(Quota::per_second(1));
        let policy = Policy::new([
            Limit::per_client("per-ip", quota),
            Limit::new("all", quota),
            Limit::new("pair", quota)
                .key(["host", "global", "principal"].map(|part| part.parse().unwrap())),
            Limit::unlimited("free").matching(Match::default()),
        ])
        .unwrap();
        let arguments: Vec<&[u8]> = arguments.iter().map(|word| word.as_bytes()).collect();
        let message = |reply| match reply {
            RespReply::Error(_, words) => words,
            other => panic!("{other:?}"),
        };
        let named = NamedCounter::with_cost(&policy, &arguments).map_err(message)?;
        let key = named.charge(&policy, 1).map_err(message)?[0]
            .key
            .to_string();
        Ok((key, named.cost()))
    }

    #[test]
    fn a_named_limit_takes_as_many_parts_as_its_key_has() {
        assert_eq!(
            named(&["per-ip", "203.0.113.7"]),
            Ok(("per-ip:203.0.113.7".into(), 1))
        );
        assert_eq!(
            named(&["all"]),
            Ok(("all:!all".into(), 1)),
            "global has no part"
        );
        assert_eq!(named(&["all", "cost", "7"]), Ok(("all:!all".into(), 7)));
        assert_eq!(
            named(&["pair", "COST", "5", "COST", "3"]),
            Ok(("pair:COST:!all:5".into(), 3))
        );
        assert_eq!(
            named(&["pair", "COST", "5", "3"]),
            Ok(("pair:COST:!all:5".into(), 3))
        );
        for (arguments, expected) in [
            (&[][..], "expected a limit and its key parts"),
            (&["none", "a"], "there is no limit named \"none\""),
            (
                &["per-ip"],
                "limit \"per-ip\" is keyed by client_ip and takes 1 parts, then perhaps a cost",
            ),
            (
                &["per-ip", "a", "b"],
                "cost: must be a whole number of at least 0 (got \"b\")",
            ),
            (
                &["per-ip", "a", "1", "2"],
                "limit \"per-ip\" is keyed by client_ip and takes 1 parts, then perhaps a cost",
            ),
            (
                &["per-ip", "a"],
                "limit \"per-ip\": client_ip is not an IP address",
            ),
            (
                &["all", "COST", "x"],
                "COST: must be a whole number of at least 0 (got \"x\")",
            ),
        ] {
            assert_eq!(named(arguments).unwrap_err(), expected);
        }
    }

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(CommandName::of(b"cl.THROTTLE"), Some(CommandName::Throttle));
        assert_eq!(CommandName::of(b"Quit"), Some(CommandName::Quit));
        assert_eq!(CommandName::of(b"get"), None);
        assert_eq!(CommandName::of(b""), None);
    }
}
