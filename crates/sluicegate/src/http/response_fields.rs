//! The header fields of a response while it is written.
//!
//! [`ResponseHeaders`](super::ResponseHeaders) and [`Rejection`](super::Rejection) write through
//! this trait instead of a [`HeaderMap`], so that a server which keeps the head of a response as
//! text can take the lines as they are, without building a map first.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The header fields of a response while it is written: a [`HeaderMap`], or the response type of a
/// server that has none.
///
/// ```
/// use http::HeaderName;
/// use sluicegate::http::ResponseFields;
///
/// /// The head of an HTTP/1 response, as text.
/// #[derive(Default)]
/// struct Head(Vec<(HeaderName, Vec<u8>)>);
///
/// impl ResponseFields for Head {
///     fn value(&self, name: &HeaderName) -> Option<&[u8]> {
///         self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_slice())
///     }
///
///     fn remove(&mut self, name: &HeaderName) {
///         self.0.retain(|(own, _)| own != name);
///     }
///
///     fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
///         let mut text = Vec::new();
///         value(&mut text);
///         self.0.push((name.clone(), text));
///     }
/// }
///
/// let mut head = Head::default();
/// head.replace(&http::header::RETRY_AFTER, |text| text.push(b'1'));
/// assert_eq!(head.value(&http::header::RETRY_AFTER), Some(&b"1"[..]));
/// ```
pub trait ResponseFields {
    /// The value of the first line with this name that is there already.
    fn value(&self, name: &HeaderName) -> Option<&[u8]>;

    /// Takes away every line with this name.
    fn remove(&mut self, name: &HeaderName);

    /// Adds a line. `value` writes the bytes of its value: text without control characters.
    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>));

    /// Adds lines that `write` writes as HTTP/1 sends them: names in lower case, `: `, the value, CR
    /// LF. A head that is text takes them in one go.
    fn append_lines(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = Vec::new();
        write(&mut lines);
        for line in lines.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii_end();
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            if let Ok(name) = HeaderName::from_bytes(&line[..colon]) {
                let value = line[colon + 1..].trim_ascii_start();
                self.append(&name, |text| text.extend_from_slice(value));
            }
        }
    }

    /// Adds a line in place of all lines with the same name.
    fn replace(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        self.remove(name);
        self.append(name, value);
    }
}

impl ResponseFields for HeaderMap {
    fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        self.get(name).map(HeaderValue::as_bytes)
    }

    fn remove(&mut self, name: &HeaderName) {
        HeaderMap::remove(self, name);
    }

    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::with_capacity(48);
        value(&mut text);
        // Always `Ok`, because the text has no control characters.
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
            HeaderMap::append(self, name, value);
        }
    }

    fn replace(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::with_capacity(24);
        value(&mut text);
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
            self.insert(name, value);
        }
    }
}

/// Writes a number as the standard library does, but without `fmt`: this runs several times for
/// every response.
pub(super) fn push_number(text: &mut Vec<u8>, mut number: u64) {
    // As many digits as `u64::MAX` has.
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    while start == digits.len() || number > 0 {
        start -= 1;
        digits[start] += (number % 10) as u8;
        number /= 10;
    }
    text.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [
            0,
            1,
            9,
            10,
            99,
            100,
            1_000_000,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut text = Vec::new();
            push_number(&mut text, number);
            assert_eq!(text, number.to_string().as_bytes());
        }
    }

    #[test]
    fn lines_of_a_map_are_added_replaced_and_taken_away() {
        let name = HeaderName::from_static("x-a");
        let mut map = HeaderMap::new();
        let values = |map: &HeaderMap| {
            map.get_all("x-a")
                .iter()
                .map(|value| value.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        ResponseFields::append(&mut map, &name, |text| text.push(b'1'));
        ResponseFields::append(&mut map, &name, |text| text.push(b'2'));
        assert_eq!(values(&map), ["1", "2"]);
        assert_eq!(map.value(&name), Some(&b"1"[..]));
        map.replace(&name, |text| text.push(b'3'));
        assert_eq!(values(&map), ["3"]);
        ResponseFields::remove(&mut map, &name);
        assert_eq!(map.value(&name), None);
    }
}
