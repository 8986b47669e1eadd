//! The head of a request as its client wrote it, for whoever must tell more than it means.

use bytes::Bytes;

/// The bytes of an HTTP/1 request up to the empty line.
///
/// [`HeaderMap`](http::HeaderMap) has names in lower case, because their case means nothing. Where
/// somebody asks for them as they were written, they are found here. The engine puts it into the
/// extensions of [`Parts`](http::request::Parts) if
/// [`Handler::keeps_head_bytes`](crate::Handler::keeps_head_bytes) says so. A request of HTTP/2 has
/// none: its names are in lower case by definition.
///
/// The memory is shared with the values of the headers, so that nothing is copied.
#[derive(Clone, Debug)]
pub struct HeadBytes(pub(crate) Bytes);

impl HeadBytes {
    /// The names of the header lines, as they were written and in their order.
    pub fn header_names(&self) -> Vec<&str> {
        // The first line and the empty one have ends too, so this is room for all.
        let lines = self.0.iter().filter(|byte| **byte == b'\n').count();
        let mut room = vec![httparse::EMPTY_HEADER; lines];
        let mut parsed = httparse::Request::new(&mut room);
        match parsed.parse(&self.0) {
            Ok(httparse::Status::Complete(_)) => {
                parsed.headers.iter().map(|line| line.name).collect()
            }
            // The same parser has read the same bytes before.
            Ok(httparse::Status::Partial) | Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_they_were_written() {
        let head = HeadBytes(Bytes::from_static(
            b"\r\nGET /a HTTP/1.1\r\nHost: a\r\nX-Tenant-ID:  t\r\nx-tenant-id: u\nX-tEnAnt-Id:\r\n\r\n",
        ));
        assert_eq!(
            head.header_names(),
            ["Host", "X-Tenant-ID", "x-tenant-id", "X-tEnAnt-Id"]
        );
    }
}
