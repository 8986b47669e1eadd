//! The key of a stick table's entry in our words.

use sluicegate_core::KeyPart;

use super::facts::call;

/// A key in our words.
#[derive(Debug, Default, PartialEq)]
pub(super) struct HaproxyKey {
    pub(super) parts: Vec<&'static str>,
    /// The header, cookie or parameter that makes the key, as the configuration writes it.
    pub(super) named: Option<String>,
    /// The leading bits of IPv4 and IPv6 addresses that are counted, if fewer than all.
    pub(super) prefixes: Option<(u8, Option<u8>)>,
    pub(super) difference: Option<&'static str>,
}

impl HaproxyKey {
    /// Reads a sample such as `src`, `req.hdr(X-Api-Key)` or `url_param(id)`; `None` when it has no counterpart.
    pub(super) fn read(sample: &str) -> Option<Self> {
        let (fetch, converters) = match sample.find("),").map(|end| end + 1) {
            Some(end) => (&sample[..end], &sample[end + 1..]),
            None if sample.contains('(') && !sample.starts_with("src") => (sample, ""),
            None => sample.split_once(',').unwrap_or((sample, "")),
        };
        let mut key = Self::of_fetch(fetch)?;
        match call(converters) {
            ("", _) | ("lower", _) => {}
            ("url_dec", _) if key.is_parameter() => {}
            ("ipmask", Some(masks)) if key.parts == ["client_ip"] => {
                let (v4, v6) = masks
                    .split_once(',')
                    .map_or((masks, None), |(v4, v6)| (v4, Some(v6)));
                let v4 = v4.trim().parse().ok().filter(|bits| *bits <= 32)?;
                let v6 = v6
                    .and_then(|bits| bits.trim().parse().ok())
                    .filter(|bits| *bits <= 128);
                key.prefixes = Some((v4, v6));
            }
            _ => return None,
        }
        Some(key)
    }

    fn is_parameter(&self) -> bool {
        let part = self.named.as_deref();
        part.is_some_and(|part| part.starts_with("query:"))
    }

    fn of_fetch(fetch: &str) -> Option<Self> {
        let parts = |parts: &[&'static str]| {
            Some(Self {
                parts: parts.to_vec(),
                ..Self::default()
            })
        };
        let named = |kind: &str, name: &str, difference: &'static str| {
            let name = name.split(',').next().unwrap_or_default().trim();
            let part = format!("{kind}:{name}");
            part.parse::<KeyPart>().is_ok().then(|| Self {
                named: Some(part),
                difference: Some(difference),
                ..Self::default()
            })
        };
        match call(fetch) {
            ("src", None) => parts(&["client_ip"]),
            ("path", None) => parts(&["path"]),
            ("method", None) => parts(&["method"]),
            ("base" | "base32", None) => parts(&["host", "path"]),
            ("base32+src", None) => parts(&["host", "path", "client_ip"]),
            ("url32+src", None) => parts(&["host", "path", "client_ip"]),
            ("url" | "url32", None) => parts(&["host", "path"]),
            ("url_param" | "urlp", Some(name)) => named(
                "query",
                name,
                "HAProxy takes the first of several parameters as it was sent; here it is decoded, and one that occurs twice is missing",
            ),
            ("req.cook" | "cook", Some(name)) => named(
                "cookie",
                name,
                "HAProxy takes the last of several cookies; here one that occurs twice is missing",
            ),
            ("ssl_fc_sni", None) => Some(Self {
                named: Some("sni".to_owned()),
                ..Self::default()
            }),
            (name, Some(header)) => Self::of_header(name, header),
            _ => None,
        }
    }

    /// The key of `req.hdr(NAME)` and its like.
    fn of_header(fetch: &str, header: &str) -> Option<Self> {
        let is_header = matches!(fetch.trim_start_matches("req."), "hdr" | "fhdr" | "hdr_ip");
        let header = header.split(',').next().unwrap_or_default().trim();
        let header = header.to_ascii_lowercase();
        match header.as_str() {
            _ if !is_header || header.is_empty() => None,
            "host" => Some(Self {
                parts: vec!["host"],
                ..Self::default()
            }),
            "x-forwarded-for" | "x-real-ip" | "forwarded" => Some(Self {
                parts: vec!["client_ip"],
                difference: Some(
                    "HAProxy reads the client's address from a header; here the header counts once `client_ip.trusted_proxies` names the proxies that write it",
                ),
                ..Self::default()
            }),
            _ => Some(Self {
                named: Some(format!("header:{header}")),
                ..Self::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_or_refused() {
        let parts = |sample: &str| HaproxyKey::read(sample).map(|key| key.parts);
        assert_eq!(parts("src"), Some(vec!["client_ip"]));
        assert_eq!(parts("hdr(host),lower"), Some(vec!["host"]));
        assert_eq!(parts("hdr_ip(x-forwarded-for,-1)"), Some(vec!["client_ip"]));
        assert_eq!(parts("base32+src"), Some(vec!["host", "path", "client_ip"]));
        let masked = HaproxyKey::read("src,ipmask(24,64)").unwrap();
        assert_eq!(masked.prefixes, Some((24, Some(64))));
        for (sample, part) in [
            ("req.hdr(X-Api-Key)", "header:x-api-key"),
            ("url_param(id)", "query:id"),
            ("urlp(id,;)", "query:id"),
            ("url_param(id),url_dec", "query:id"),
            ("req.cook(session)", "cookie:session"),
            ("req.cook(session),lower", "cookie:session"),
            ("ssl_fc_sni", "sni"),
        ] {
            let key = HaproxyKey::read(sample).unwrap();
            assert_eq!(key.named.as_deref(), Some(part), "{sample}");
        }
        for sample in [
            "url_param()",
            "req.cook(a b)",
            "url_param(id),hex",
            "src,concat(x)",
            "var(txn.key)",
        ] {
            assert_eq!(HaproxyKey::read(sample), None, "{sample}");
        }
    }
}
