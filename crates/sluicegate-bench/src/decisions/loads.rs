//! The loads of `bench decisions`: over which protocol, and how many questions at a time.

/// A pattern of questions, all of which pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionsLoad {
    pub name: &'static str,
    pub protocol: DecisionsProtocol,
    pub connections: usize,
    /// Questions that wait at the same time in each connection.
    pub at_a_time: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionsProtocol {
    /// The protocol of Redis.
    Resp,
    /// JSON over HTTP/1.1.
    Http,
    Grpc,
}

pub const LOADS: [DecisionsLoad; 6] = [
    DecisionsLoad {
        name: "RESP, P=1",
        protocol: DecisionsProtocol::Resp,
        connections: 50,
        at_a_time: 1,
    },
    DecisionsLoad {
        name: "RESP, P=16",
        protocol: DecisionsProtocol::Resp,
        connections: 50,
        at_a_time: 16,
    },
    DecisionsLoad {
        name: "RESP, P=64",
        protocol: DecisionsProtocol::Resp,
        connections: 50,
        at_a_time: 64,
    },
    DecisionsLoad {
        name: "HTTP",
        protocol: DecisionsProtocol::Http,
        connections: 50,
        at_a_time: 1,
    },
    DecisionsLoad {
        name: "gRPC, 1 stream",
        protocol: DecisionsProtocol::Grpc,
        connections: 50,
        at_a_time: 1,
    },
    DecisionsLoad {
        name: "gRPC, 16 streams",
        protocol: DecisionsProtocol::Grpc,
        connections: 16,
        at_a_time: 16,
    },
];

/// Keys that questions choose from by chance, where the client can.
pub const KEYS: usize = 100_000;

/// A quota as questions name it: at most `burst` at once and `count` in `period_s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedQuota {
    pub burst: u32,
    pub count: u32,
    pub period_s: u32,
}

impl AskedQuota {
    /// Nobody comes to its end.
    pub const AMPLE: Self = Self {
        burst: 1_000_000,
        count: 1_000_000,
        period_s: 1,
    };
    /// Spent after two or three: whether the burst comes on top of the first is read in both ways.
    pub const SCANTY: Self = Self {
        burst: 2,
        count: 1,
        period_s: 3_600,
    };
}
