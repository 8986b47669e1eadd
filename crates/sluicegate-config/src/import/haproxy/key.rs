//! The key of a stick table's entry in our words.

use super::facts::call;

/// A key in our words.
#[derive(Debug, Default, PartialEq)]
pub(super) struct HaproxyKey {
    pub(super) parts: Vec<&'static str>,
    /// The header that makes the key, in lower case.
    pub(super) header: Option<String>,
    /// The leading bits of IPv4 and IPv6 addresses that are counted, if fewer than all.
    pub(super) prefixes: Option<(u8, Option<u8>)>,
    pub(super) difference: Option<&'static str>,
}

impl HaproxyKey {
    /// Reads a sample such as `src` or `req.hdr(X-Api-Key)`; `None` when it has no counterpart.
    pub(super) fn read(sample: &str) -> Option<Self> {
        let (fetch, converters) = match sample.find("),").map(|end| end + 1) {
            Some(end) => (&sample[..end], &sample[end + 1..]),
            None if sample.contains('(') && !sample.starts_with("src") => (sample, ""),
            None => sample.split_once(',').unwrap_or((sample, "")),
        };
        let mut key = Self::of_fetch(fetch)?;
        match call(converters) {
            ("", _) | ("lower", _) => {}
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

    fn of_fetch(fetch: &str) -> Option<Self> {
        let parts = |parts: &[&'static str]| {
            Some(Self {
                parts: parts.to_vec(),
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
            (name, Some(header)) => {
                let is_header =
                    matches!(name.trim_start_matches("req."), "hdr" | "fhdr" | "hdr_ip");
                let header = header.split(',').next().unwrap_or_default().trim();
                let header = header.to_ascii_lowercase();
                match header.as_str() {
                    _ if !is_header || header.is_empty() => None,
                    "host" => parts(&["host"]),
                    "x-forwarded-for" | "x-real-ip" | "forwarded" => Some(Self {
                        parts: vec!["client_ip"],
                        difference: Some(
                            "HAProxy reads the client's address from a header; here the header counts once `client_ip.trusted_proxies` names the proxies that write it",
                        ),
                        ..Self::default()
                    }),
                    _ => Some(Self {
                        header: Some(header),
                        ..Self::default()
                    }),
                }
            }
            _ => None,
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
        let header = HaproxyKey::read("req.hdr(X-Api-Key)").unwrap();
        assert_eq!(header.header.as_deref(), Some("x-api-key"));
        for sample in [
            "url_param(id)",
            "req.cook(session)",
            "src,concat(x)",
            "var(txn.key)",
        ] {
            assert_eq!(HaproxyKey::read(sample), None, "{sample}");
        }
    }
}
