//! The head of a request, and the header lines that a connection of HTTP/1 remembers.
//!
//! A client sends the same header lines with almost every request of a connection; only the target
//! changes. HTTP/2 has a table for that. Over HTTP/1 the connection keeps the text of the last
//! lines beside the map that was made of them: lines that are the same to the last byte mean the
//! same, so the map stays and only the first line is parsed. What a handler has made of the lines
//! can be kept beside them ([`RequestParts::derive`]).
//!
//! **Invariant:** what is remembered says what the map holds. Whoever changes a header goes through
//! [`RequestParts::edit`], which forgets.

use std::any::Any;
use std::ops::Deref;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};
use sluicegate_config::Bounds;

use crate::validate::{self, BodyEnd, InvalidRequest};

/// Method, target, version and headers of a request.
///
/// The memory of the headers belongs to the connection, which uses it again.
#[derive(Debug)]
pub struct RequestParts {
    parts: Parts,
    remembered: Option<RememberedLines>,
}

/// The header lines of the last request, and their meaning.
#[derive(Debug)]
pub(crate) struct RememberedLines {
    /// Everything behind the first line, with the empty line at the end.
    pub(crate) text: Bytes,
    pub(crate) version: Version,
    pub(crate) meaning: LinesMeaning,
    /// They passed [`validate::check_lines`] without a host in the target.
    pub(crate) are_valid: bool,
    /// More than one request had them.
    pub(crate) are_repeated: bool,
    /// What a handler has made of them.
    pub(crate) derived: Option<Box<dyn Any + Send + Sync>>,
}

impl RememberedLines {
    /// Lines that have come for the first time.
    pub(crate) fn new(text: Bytes, version: Version, meaning: LinesMeaning) -> Self {
        Self {
            text,
            version,
            meaning,
            are_valid: false,
            are_repeated: false,
            derived: None,
        }
    }
}

/// What the header lines say about the connection and the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinesMeaning {
    /// End of the body, or the reason why it is in doubt.
    pub(crate) end: Result<BodyEnd, InvalidRequest>,
    /// The client wants the connection to stay open.
    pub(crate) keep_alive: bool,
    /// The client takes trailers.
    pub(crate) takes_trailers: bool,
    /// There is a line `Expect`, and the client speaks HTTP/1.1.
    pub(crate) expects: bool,
}

impl RequestParts {
    /// A place for a request that has not come yet.
    pub(crate) fn none() -> Self {
        Request::new(()).into_parts().0.into()
    }

    /// Checks a request before anything else looks at it; `end` is that of its body. Header lines
    /// that were found valid are not looked at again.
    pub fn validate(
        &mut self,
        end: BodyEnd,
        bounds: &Bounds,
        is_http2: bool,
    ) -> Result<(), InvalidRequest> {
        let Self { parts, remembered } = self;
        validate::check_request(parts, end, bounds, is_http2)?;
        let has_host = parts.uri.authority().is_some();
        match remembered {
            Some(lines) if lines.are_valid && !has_host => Ok(()),
            _ => {
                validate::check_lines(parts, is_http2)?;
                if let Some(lines) = remembered {
                    lines.are_valid = !has_host;
                }
                Ok(())
            }
        }
    }

    /// The parts, to be changed.
    pub fn edit(&mut self) -> &mut Parts {
        self.remembered = None;
        &mut self.parts
    }

    /// What a handler makes of header lines that come again and again, such as the lines that a server
    /// gets for them, beside the parts; `None` when they have come once, or are too long to be
    /// remembered, and nothing is worth keeping. `is_current` tells whether what was kept may be used,
    /// and `make` replaces it if not. It is kept until other lines come or a header is changed.
    ///
    /// It must depend on nothing of the request but its header lines and version. A request with a
    /// host in its target has none.
    pub fn derive<T: Any + Send + Sync>(
        &mut self,
        is_current: impl FnOnce(&T) -> bool,
        make: impl FnOnce(&Parts) -> T,
    ) -> (&Parts, Option<&T>) {
        let Self { parts, remembered } = self;
        let has_host = parts.uri.authority().is_some();
        let repeated = |lines: &&mut RememberedLines| lines.are_repeated && !has_host;
        let Some(lines) = remembered.as_mut().filter(repeated) else {
            return (parts, None);
        };
        let kept = lines.derived.as_ref().and_then(|kept| kept.downcast_ref());
        if !kept.is_some_and(is_current) {
            lines.derived = Some(Box::new(make(parts)));
        }
        let kept = lines.derived.as_ref().and_then(|kept| kept.downcast_ref());
        (parts, kept)
    }

    /// Gives the request another target; the headers stay as they came.
    pub fn set_target(&mut self, target: Uri) {
        self.parts.uri = target;
    }

    /// The parts, without what is remembered about them.
    pub fn into_inner(self) -> Parts {
        self.parts
    }

    /// The lines that the headers were made of, unless these were changed since.
    pub(crate) const fn remembered(&self) -> Option<&RememberedLines> {
        self.remembered.as_ref()
    }

    /// Remembers the lines that the headers were made of.
    pub(crate) fn remember(&mut self, lines: RememberedLines) {
        self.remembered = Some(lines);
    }

    /// Puts a first line in front of headers that come again.
    pub(crate) fn repeat(&mut self, method: Method, target: Uri, version: Version) {
        if let Some(lines) = &mut self.remembered {
            lines.are_repeated = true;
        }
        self.begin(method, target, version);
    }

    /// Puts a first line in front of the headers.
    pub(crate) fn begin(&mut self, method: Method, target: Uri, version: Version) {
        let parts = &mut self.parts;
        (parts.method, parts.uri, parts.version) = (method, target, version);
    }

    /// Things that are put beside the request.
    pub(crate) fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.parts.extensions
    }

    /// The headers, when nobody needs the request any more.
    pub(crate) fn take_headers(&mut self) -> HeaderMap {
        self.remembered = None;
        std::mem::take(&mut self.parts.headers)
    }

    /// Lets go of all that a request holds, but for headers that may come again.
    pub(crate) fn end(&mut self) {
        self.parts.uri = Uri::default();
        self.parts.extensions.clear();
        if self.remembered.is_none() {
            self.parts.headers.clear();
        }
    }
}

impl From<Parts> for RequestParts {
    fn from(parts: Parts) -> Self {
        Self {
            parts,
            remembered: None,
        }
    }
}

impl Deref for RequestParts {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::client_wire::RequestHeadReader;

    const BOUNDS: Bounds = Bounds {
        header_bytes: 8 * 1024,
        headers: 8,
        target_bytes: 64,
        body_bytes: Some(10),
    };

    /// What becomes of requests that come one after the other.
    fn validated<const N: usize>(requests: [&str; N]) -> [Result<(), InvalidRequest>; N] {
        let (mut reader, mut parts) = (RequestHeadReader::default(), RequestParts::none());
        requests.map(|text| {
            let mut input = BytesMut::from(text);
            let head = reader.take(&mut input, &BOUNDS, || false, &mut parts);
            let head = head.unwrap().expect("a whole head");
            let valid = head.end.and_then(|end| parts.validate(end, &BOUNDS, false));
            parts.end();
            valid
        })
    }

    #[test]
    fn lines_that_were_valid_are_valid_again_and_nothing_else_is() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(64));
        let answers = validated([
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n",
            &long,
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET b HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ]);
        assert_eq!(
            answers,
            [
                Ok(()),
                Ok(()),
                Err(InvalidRequest::Trace),
                Err(InvalidRequest::TargetTooLong),
                Err(InvalidRequest::OtherHost),
                Err(InvalidRequest::TargetForm),
                Err(InvalidRequest::MalformedHost),
                Err(InvalidRequest::MalformedHost),
                Err(InvalidRequest::NoHost),
                Ok(()),
                Err(InvalidRequest::NoHost),
            ]
        );
    }

    /// What a handler makes of these requests, which it takes for current while `version` stays.
    fn derived(requests: &[(&str, u32)]) -> Vec<Option<(u32, String)>> {
        let (mut reader, mut parts) = (RequestHeadReader::default(), RequestParts::none());
        let mut made = 0;
        let each = requests.iter().map(|(text, version)| {
            let mut input = BytesMut::from(*text);
            let head = reader.take(&mut input, &BOUNDS, || false, &mut parts);
            assert!(head.unwrap().is_some());
            let kept = parts.derive(
                |kept: &(u32, String)| kept.0 == *version,
                |parts| {
                    made += 1;
                    (*version, format!("{made}: {:?}", parts.headers["a"]))
                },
            );
            let kept = kept.1.cloned();
            parts.end();
            kept
        });
        each.collect()
    }

    #[test]
    fn what_is_derived_is_made_once_for_lines_that_come_again() {
        let (one, two) = (
            "GET /x HTTP/1.1\r\nA: 1\r\n\r\n",
            "PUT /y HTTP/1.1\r\nA: 2\r\n\r\n",
        );
        let elsewhere = "GET http://b/ HTTP/1.1\r\nA: 2\r\n\r\n";
        let all = [(one, 0), (one, 0), (one, 0), (one, 1), (two, 1), (two, 1)];
        let all = [&all[..], &[(elsewhere, 1), (two, 1)]].concat();
        let expected = [
            None,
            Some((0, "1: \"1\"")),
            Some((0, "1: \"1\"")),
            Some((1, "2: \"1\"")),
            None,
            Some((1, "3: \"2\"")),
            None,
            Some((1, "3: \"2\"")),
        ];
        let expected = expected.map(|kept| kept.map(|(version, text)| (version, text.to_owned())));
        assert_eq!(derived(&all), expected);
    }

    #[test]
    fn a_changed_header_takes_what_was_derived_with_it() {
        let text = "GET /x HTTP/1.1\r\nA: 1\r\n\r\n";
        let (mut reader, mut parts) = (RequestHeadReader::default(), RequestParts::none());
        for changes in [false, false, true, false] {
            let mut input = BytesMut::from(text);
            let head = reader.take(&mut input, &BOUNDS, || false, &mut parts);
            assert!(head.unwrap().is_some());
            if changes {
                parts.edit().headers.remove("a");
                assert_eq!(parts.derive(|()| true, |_| ()).1, None, "it has changed");
            }
            parts.end();
        }
        assert_eq!(parts.derive(|()| true, |_| ()).1, None, "these came once");
    }

    #[test]
    fn a_host_in_the_target_does_not_make_lines_valid() {
        let answers = validated([
            "GET http://a/ HTTP/1.0\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ]);
        assert_eq!(answers, [Ok(()), Ok(()), Err(InvalidRequest::OtherHost)]);
    }
}
