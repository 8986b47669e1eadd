//! The fields of a request, put together to its head (RFC 9113, section 8.3.1).

use std::ops::ControlFlow;

use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, uri};

use crate::hop_by_hop;
use crate::hpack::{Field, FieldName, FieldValue};
use crate::upgrade_request::ExtendedConnect;

/// Reason for which fields are no head and no trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldsError {
    /// They are not as HTTP demands.
    Malformed,
    /// They are larger than allowed.
    TooLarge,
}

/// Whether clients may ask for another protocol on a stream (RFC 8441).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendedConnectUse {
    /// They were not told that they may.
    Excluded = 0,
    /// They were, by the setting of this value.
    Offered = 1,
}

/// How much larger than allowed a header may be to be refused on its own. Short words can stand for
/// long fields again and again, and a client that makes us unpack those for nothing does not go on.
const EXCESS_MAX: usize = 16;

/// Fields as they come, one after the other. Those beyond the allowed size are not kept.
#[derive(Debug)]
pub(super) struct RequestFields {
    method: Option<Method>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    path: Option<PathAndQuery>,
    /// The protocol that the stream is to go on in (RFC 8441).
    protocol: Option<HeaderValue>,
    headers: HeaderMap,
    /// Bytes that may still come.
    left: usize,
    /// Bytes that may be unpacked for nothing.
    excess_left: usize,
    /// A pseudo-field has come.
    has_pseudo: bool,
    error: Option<FieldsError>,
}

impl RequestFields {
    /// No fields so far, within these bounds; `headers` is an empty map.
    pub(super) fn new(bytes_max: usize, headers: HeaderMap) -> Self {
        Self {
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            headers,
            left: bytes_max,
            excess_left: bytes_max.saturating_mul(EXCESS_MAX),
            has_pseudo: false,
            error: None,
        }
    }

    /// Adds a field; breaks off when far more has come than is allowed.
    pub(super) fn add(&mut self, field: &Field) -> ControlFlow<()> {
        if self.error.is_some() {
            return match self.excess_left.checked_sub(field.size) {
                None => ControlFlow::Break(()),
                Some(left) => {
                    self.excess_left = left;
                    ControlFlow::Continue(())
                }
            };
        }
        self.error = match self.left.checked_sub(field.size) {
            None => Some(FieldsError::TooLarge),
            Some(left) => {
                self.left = left;
                self.keep(field).err()
            }
        };
        ControlFlow::Continue(())
    }

    fn keep(&mut self, field: &Field) -> Result<(), FieldsError> {
        if let (FieldName::Header(name), FieldValue::Header(value)) = (&field.name, &field.value) {
            if self.headers.capacity() == 0 {
                // Room for what most requests have, so that the map need not grow.
                self.headers.reserve(12);
            }
            let kept = self.headers.try_append(name.clone(), value.clone());
            return kept.map(drop).map_err(|_| FieldsError::TooLarge);
        }
        // Pseudo-fields come before all others.
        if !self.headers.is_empty() {
            return Err(FieldsError::Malformed);
        }
        self.has_pseudo = true;
        let is_second = match &field.value {
            FieldValue::Method(method) => self.method.replace(method.clone()).is_some(),
            FieldValue::Scheme(scheme) => self.scheme.replace(scheme.clone()).is_some(),
            FieldValue::Authority(host) => self.authority.replace(host.clone()).is_some(),
            FieldValue::Path(path) => self.path.replace(path.clone()).is_some(),
            FieldValue::Protocol(protocol) => self.protocol.replace(protocol.clone()).is_some(),
            FieldValue::Header(_) | FieldValue::Malformed => true,
        };
        match is_second {
            true => Err(FieldsError::Malformed),
            false => Ok(()),
        }
    }

    /// The head of a request. One that changes the protocol of its stream becomes what it asks of
    /// the server: a GET, with an [`ExtendedConnect`] beside it. So every rule that covers it over
    /// HTTP/1 covers it here. It is malformed where that is `Excluded`, as nobody has offered it.
    pub(super) fn into_parts(
        self,
        extended_connect: ExtendedConnectUse,
    ) -> Result<Parts, FieldsError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut method = self.method.ok_or(FieldsError::Malformed)?;
        let mut connect = None;
        if let Some(protocol) = self.protocol {
            let is_offered = extended_connect == ExtendedConnectUse::Offered;
            if !is_offered || method != Method::CONNECT || self.authority.is_none() {
                return Err(FieldsError::Malformed);
            }
            (method, connect) = (Method::GET, Some(ExtendedConnect { protocol }));
        }
        let uri = match (&method, self.scheme, self.authority, self.path) {
            (&Method::CONNECT, None, Some(authority), None) => Uri::from(authority),
            (&Method::CONNECT, ..) => return Err(FieldsError::Malformed),
            (_, Some(scheme), authority, Some(path)) => {
                let mut parts = uri::Parts::default();
                // There is no URI with a scheme and without an authority; `Host` names the server.
                parts.scheme = authority.is_some().then_some(scheme);
                (parts.authority, parts.path_and_query) = (authority, Some(path));
                Uri::from_parts(parts).map_err(|_| FieldsError::Malformed)?
            }
            _ => return Err(FieldsError::Malformed),
        };
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri) = (method, uri);
        (parts.version, parts.headers) = (Version::HTTP_2, self.headers);
        if let Some(connect) = connect {
            parts.extensions.insert(connect);
        }
        Ok(parts)
    }

    /// The trailers of a request, which have no pseudo-fields and none of a connection.
    pub(super) fn into_trailers(self) -> Result<HeaderMap, FieldsError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let is_of_connection = |name: &http::HeaderName| hop_by_hop::is_hop_by_hop(name.as_str());
        if self.has_pseudo || self.headers.keys().any(is_of_connection) {
            return Err(FieldsError::Malformed);
        }
        Ok(self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::{Decoder, push_field};

    fn fields(pairs: &[(&str, &str)]) -> RequestFields {
        let mut block = Vec::new();
        for (name, value) in pairs {
            push_field(&mut block, name.as_bytes(), value.as_bytes());
        }
        let mut fields = RequestFields::new(1_000, HeaderMap::new());
        Decoder::new()
            .decode(&block, |field| fields.add(field))
            .unwrap();
        fields
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example:8443"),
        (":path", "/a?b"),
    ];

    fn with(more: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let more = more
            .iter()
            .map(|(name, value)| (&*name.to_string().leak(), value.to_string()));
        let get = GET.map(|(name, value)| (name, value.to_owned()));
        get.into_iter().chain(more).collect()
    }

    fn head(pairs: &[(&str, String)]) -> Result<Parts, FieldsError> {
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        fields(&pairs).into_parts(ExtendedConnectUse::Offered)
    }

    #[test]
    fn fields_become_a_head() {
        let parts = head(&with(&[("cookie", "a=b"), ("cookie", "c=d")])).unwrap();
        assert_eq!(parts.uri, "https://a.example:8443/a?b");
        assert_eq!(
            (parts.method, parts.version),
            (Method::GET, Version::HTTP_2)
        );
        assert_eq!(parts.headers.get_all("cookie").iter().count(), 2);
        let parts = fields(&[GET[0], GET[1], GET[3], ("host", "b")])
            .into_parts(ExtendedConnectUse::Offered);
        assert_eq!(parts.unwrap().uri, "/a?b");
        let parts =
            fields(&[(":method", "CONNECT"), GET[2]]).into_parts(ExtendedConnectUse::Offered);
        assert_eq!(parts.unwrap().uri, "a.example:8443");
    }

    #[test]
    fn pseudo_fields_are_complete_known_single_and_first() {
        for missing in [0, 1, 3] {
            let mut pairs = with(&[]);
            pairs.remove(missing);
            assert_eq!(
                head(&pairs).unwrap_err(),
                FieldsError::Malformed,
                "{missing}"
            );
        }
        for pair in GET {
            assert!(head(&with(&[pair])).is_err(), "{pair:?} twice");
            let mut pairs = with(&[("x", "y"), pair]);
            pairs.retain({
                let mut is_first = true;
                move |(name, _)| *name != pair.0 || !std::mem::replace(&mut is_first, false)
            });
            assert!(head(&pairs).is_err(), "{pair:?} behind a field");
        }
        for name in [":status", ":protocol", ":x", ":"] {
            assert!(head(&with(&[(name, "200")])).is_err(), "{name}");
        }
        assert!(head(&with(&[("x y", "z")])).is_err());
        assert!(head(&with(&[("x", "a\0b")])).is_err());
    }

    #[test]
    fn a_stream_that_changes_its_protocol_is_a_get_with_everything_that_one_has() {
        let all = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            GET[1],
            GET[2],
            GET[3],
        ];
        let parts = fields(&all)
            .into_parts(ExtendedConnectUse::Offered)
            .unwrap();
        let connect = parts.extensions.get::<ExtendedConnect>().unwrap();
        assert_eq!(
            (parts.method, &connect.protocol),
            (Method::GET, &HeaderValue::from_static("websocket"))
        );
        assert_eq!(parts.uri, "https://a.example:8443/a?b");
        let refused = fields(&all).into_parts(ExtendedConnectUse::Excluded);
        assert_eq!(refused.unwrap_err(), FieldsError::Malformed);
        for missing in [0, 2, 3, 4] {
            let mut some = all.to_vec();
            some.remove(missing);
            let refused = fields(&some).into_parts(ExtendedConnectUse::Offered);
            assert!(refused.is_err(), "{missing}");
        }
        for other in [(":protocol", "x"), (":method", "GET"), (":protocol", "a\0")] {
            let mut twice = all.to_vec();
            twice.push(other);
            let refused = fields(&twice).into_parts(ExtendedConnectUse::Offered);
            assert!(refused.is_err(), "{other:?} twice");
        }
        let other_method = [GET[0], all[1], GET[1], GET[2], GET[3]];
        let refused = fields(&other_method).into_parts(ExtendedConnectUse::Offered);
        assert!(refused.is_err());
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let long = "a".repeat(200);
        let many: Vec<(&str, &str)> = (0..50).map(|_| ("x", &*long)).collect();
        let kept = fields(&many);
        assert_eq!(kept.headers.len(), 1_000 / (201 + Field::OVERHEAD));
        assert_eq!(kept.into_trailers().unwrap_err(), FieldsError::TooLarge);
    }

    #[test]
    fn trailers_have_neither_pseudo_fields_nor_those_of_a_connection() {
        assert_eq!(fields(&[("x", "y")]).into_trailers().unwrap().len(), 1);
        for pair in [(":path", "/"), ("connection", "close"), ("te", "trailers")] {
            assert!(fields(&[pair]).into_trailers().is_err(), "{pair:?}");
        }
    }
}
