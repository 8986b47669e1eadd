//! Header maps of requests that were answered: the next requests use their memory.

use http::HeaderMap;

/// Empty maps, each with room for the fields of a request.
#[derive(Debug, Default)]
pub(super) struct SpareHeaders(Vec<HeaderMap>);

impl SpareHeaders {
    /// As many as answer at the same time in most connections.
    const MOST: usize = 16;
    /// A map with room for more fields is not kept: few requests need it.
    const FIELDS_MAX: usize = 64;

    /// An empty map.
    pub(super) fn take(&mut self) -> HeaderMap {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the memory of a map that is not needed any more.
    pub(super) fn keep(&mut self, mut headers: HeaderMap) {
        if self.0.len() < Self::MOST && (1..=Self::FIELDS_MAX).contains(&headers.capacity()) {
            headers.clear();
            self.0.push(headers);
        }
    }

    /// Frees all of it.
    pub(super) fn shrink(&mut self) {
        self.0 = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::ETAG;

    use super::*;

    #[test]
    fn maps_come_back_empty_and_neither_many_nor_large_ones_are_kept() {
        let mut spare = SpareHeaders::default();
        let full = |room: usize| {
            let mut headers = HeaderMap::with_capacity(room);
            headers.insert(ETAG, HeaderValue::from_static("x"));
            headers
        };
        spare.keep(HeaderMap::new());
        spare.keep(full(1_000));
        assert_eq!(spare.take().capacity(), 0);
        (0..100).for_each(|_| spare.keep(full(8)));
        assert_eq!(spare.0.len(), SpareHeaders::MOST);
        let headers = spare.take();
        assert!(headers.is_empty() && headers.capacity() >= 8);
        spare.shrink();
        assert_eq!(spare.take().capacity(), 0);
    }
}
