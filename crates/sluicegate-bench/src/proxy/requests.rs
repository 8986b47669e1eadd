//! The requests of `bench proxy`, and what the backend answers to them.

/// A request and what the backend answers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchRequest {
    /// A GET that is answered with 1 KiB.
    Small,
    /// The same, with a path of which the mixed load allows next to nothing.
    Scarce,
    /// A POST of 64 KiB that is answered with 1 KiB.
    Post,
    /// A GET that is answered with 1 MiB.
    Large,
}

impl BenchRequest {
    const ALL: [Self; 4] = [Self::Small, Self::Scarce, Self::Post, Self::Large];

    pub const fn path(self) -> &'static str {
        match self {
            Self::Small => "/1k",
            Self::Scarce => "/scarce",
            Self::Post => "/64k",
            Self::Large => "/1m",
        }
    }

    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|request| request.path() == path)
    }

    /// The length of the client's body.
    pub const fn body_bytes(self) -> usize {
        match self {
            Self::Small | Self::Scarce | Self::Large => 0,
            Self::Post => 64 << 10,
        }
    }

    /// The length of the backend's body.
    pub const fn answer_bytes(self) -> usize {
        match self {
            Self::Small | Self::Scarce | Self::Post => 1 << 10,
            Self::Large => 1 << 20,
        }
    }

    /// The request as it goes over an HTTP/1.1 connection.
    pub fn to_bytes(self) -> Vec<u8> {
        let (path, length) = (self.path(), self.body_bytes());
        let head = if length == 0 {
            format!("GET {path} HTTP/1.1\r\nHost: bench.test\r\n\r\n")
        } else {
            format!("POST {path} HTTP/1.1\r\nHost: bench.test\r\nContent-Length: {length}\r\n\r\n")
        };
        let mut bytes = head.into_bytes();
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_requests() {
        for request in BenchRequest::ALL {
            assert_eq!(BenchRequest::of_path(request.path()), Some(request));
        }
        assert_eq!(BenchRequest::of_path("/"), None);
    }
}
