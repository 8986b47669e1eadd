//! The statements of `ngx_http_limit_req_module`: zones, and the places where they apply.

use super::files::NginxFiles;
use super::syntax::Directive;
use crate::import::foreign_text::Word;

/// `limit_req_zone KEY zone=NAME:SIZE rate=N r/s`
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) name: String,
    /// The key as written, such as `$binary_remote_addr`.
    pub(super) key: String,
    pub(super) count: u64,
    /// `s` or `m`.
    pub(super) period: &'static str,
    pub(super) place: String,
}

/// `limit_req zone=NAME burst=N nodelay`
#[derive(Clone, Debug)]
pub(super) struct LimitReq {
    pub(super) zone: String,
    pub(super) burst: u64,
    pub(super) delay: Delay,
    /// Place and text of the statement.
    pub(super) origin: String,
}

/// The requests above the rate that nginx delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    /// `nodelay`
    Never,
    /// Neither `nodelay` nor `delay`.
    Always,
    /// `delay=N`: those beyond this number.
    Beyond(u64),
}

/// Reads `limit_req_zone`; `None` when it has a mistake, which is noted.
pub(super) fn zone(directive: &Directive, files: &mut NginxFiles) -> Option<Zone> {
    let Some((key, rest)) = directive.arguments().split_first() else {
        let message = "limit_req_zone: expected a key, zone=NAME:SIZE and rate=N r/s".to_owned();
        files.mistake(directive, None, message);
        return None;
    };
    let (mut name, mut rate) = (None, None);
    for word in rest {
        match word.text.split_once('=') {
            Some(("zone", zone)) => {
                let zone = zone.split(':').next().unwrap_or_default();
                name = Some(zone.to_owned()).filter(|zone| !zone.is_empty());
            }
            Some(("rate", text)) => match parse_rate(text) {
                Some(read) => rate = Some(read),
                None => {
                    let message = format!(
                        "limit_req_zone: expected rate=Nr/s or rate=Nr/m with N from 1 (got {text:?})"
                    );
                    files.mistake(directive, Some(word), message);
                    return None;
                }
            },
            _ if word.text == "sync" => {}
            _ => {
                let message = format!("limit_req_zone: unknown parameter {:?}", word.text);
                files.mistake(directive, Some(word), message);
                return None;
            }
        }
    }
    let (Some(name), Some((count, period))) = (name, rate) else {
        let message = "limit_req_zone: needs zone=NAME:SIZE and rate=N r/s".to_owned();
        files.mistake(directive, None, message);
        return None;
    };
    Some(Zone {
        name,
        key: key.text.clone(),
        count,
        period,
        place: files.place(directive),
    })
}

/// Reads `limit_req`; `None` when it has a mistake, which is noted.
pub(super) fn limit_req(directive: &Directive, files: &mut NginxFiles) -> Option<LimitReq> {
    let (mut zone, mut burst, mut delay) = (None, 0, Delay::Always);
    for word in directive.arguments() {
        match word.text.split_once('=') {
            Some(("zone", name)) => zone = Some(name.to_owned()),
            Some(("burst", text)) => burst = number(text, directive, word, files)?,
            Some(("delay", text)) => delay = Delay::Beyond(number(text, directive, word, files)?),
            None if word.text == "nodelay" => delay = Delay::Never,
            _ => {
                let message = format!("limit_req: unknown parameter {:?}", word.text);
                files.mistake(directive, Some(word), message);
                return None;
            }
        }
    }
    let Some(zone) = zone else {
        files.mistake(directive, None, "limit_req: needs zone=NAME".to_owned());
        return None;
    };
    Some(LimitReq {
        zone,
        burst,
        delay,
        origin: format!("{}: {}", files.place(directive), directive.text()),
    })
}

/// `10r/s` or `30r/m`.
fn parse_rate(text: &str) -> Option<(u64, &'static str)> {
    let (number, period) = match text.strip_suffix("r/s") {
        Some(number) => (number, "s"),
        None => (text.strip_suffix("r/m")?, "m"),
    };
    Some((whole(number)?, period)).filter(|(count, _)| *count > 0)
}

fn number(text: &str, directive: &Directive, word: &Word, files: &mut NginxFiles) -> Option<u64> {
    let number = whole(text);
    if number.is_none() {
        let message = format!("limit_req: expected a whole number (got {:?})", word.text);
        files.mistake(directive, Some(word), message);
    }
    number
}

/// A whole number as nginx takes it: digits only.
fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>()
        .ok()
        .map(u64::from)
        .filter(|_| is_number)
}
