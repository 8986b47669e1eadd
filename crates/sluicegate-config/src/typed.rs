//! The configuration as the rest of Sluicegate sees it: checked, complete, with every default filled in.

mod external;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use sluicegate_core::{FailurePolicy, Nanos, Policy};

pub use external::{
    BackendScheme, BackendUrlSettings, ExternalService, ExternalSettings, GrpcCodec, HeaderFilter,
    ServiceAddress,
};

/// A whole configuration.
#[derive(Debug)]
pub struct Config {
    /// The reverse proxy; `None` is off.
    pub proxy: Option<Proxy>,
    /// The decision service.
    pub decisions: Decisions,
    /// The operator's door.
    pub admin: Admin,
    /// How the client's address is found.
    pub client_ip: ClientIp,
    /// How callers say who they are.
    pub principals: Principals,
    /// Who passes unlimited, and who does not pass at all.
    pub access: Access,
    /// Where counters are.
    pub store: Store,
    /// The limits, checked. Every limit's `on_failure` is filled in from the store's.
    pub policy: Arc<Policy>,
    /// The service that knows callers' quotas; there whenever a limit asks it.
    pub external: Option<ExternalSettings>,
    /// What callers are told.
    pub response: Response,
    /// What is logged, and how.
    pub log: Log,
    /// Where spans of requests go; `None` is off.
    pub traces: Option<Traces>,
}

/// The reverse proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// Where it listens; HTTP/1.1 and HTTP/2.
    pub listen: Vec<SocketAddr>,
    /// Where requests go, the most particular route first; the last covers everything.
    pub routes: Vec<Route>,
    /// TLS for clients.
    pub tls: Option<ServerTls>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Connections at a time.
    pub max_connections: usize,
    /// How large a request may be.
    pub bounds: Bounds,
    /// Peers from whom the PROXY protocol (version 1 or 2) is required; empty is off.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Threads, each with a runtime of its own; by default as many as cores.
    pub workers: Option<usize>,
}

/// Requests that go to the same servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Lower case, `*.example` for all below it; `None` is every host.
    pub host: Option<String>,
    /// This path and what lies below it; `None` is every path.
    pub path: Option<sluicegate_core::PathPattern>,
    /// The servers, in order of preference; requests are spread over those that are well.
    pub upstreams: Vec<Upstream>,
}

/// A server that requests are forwarded to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// The one that is built in and says what it received.
    Echo,
    /// Another program.
    Server {
        /// Whether it is spoken to over TLS.
        tls: bool,
        /// A name or address.
        host: String,
        /// 80, or 443 with TLS, unless said.
        port: u16,
        /// Which version it is spoken to in.
        http: UpstreamHttp,
        /// Certificates that it may be signed with, besides the system's.
        ca_file: Option<PathBuf>,
    },
}

/// The version of HTTP towards a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpstreamHttp {
    /// HTTP/1.1, or HTTP/2 if the server prefers it by ALPN.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
}

/// A certificate and its key, read again when the files change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The chain, in PEM.
    pub cert: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a connection or request to the end of its header; also the TLS handshake.
    pub header: Nanos,
    /// A connection between requests; also the time in which a client must take some of its answer.
    pub idle: Nanos,
    /// A new connection to a server.
    pub connect: Nanos,
    /// From the end of a request's header to the beginning of its answer.
    pub request: Nanos,
    /// What is under way when Sluicegate is told to end.
    pub drain: Nanos,
}

/// How large a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The request line and headers together, in bytes.
    pub header_bytes: usize,
    /// Header lines.
    pub headers: usize,
    /// The target, in bytes.
    pub target_bytes: usize,
    /// A body; `None` is any size.
    pub body_bytes: Option<u64>,
}

/// The decision service: where other proxies ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// JSON, and what gateways ask of an external authority; `None` is off.
    pub http: Option<SocketAddr>,
    /// Envoy's rate limit service; `None` is off.
    pub grpc: Option<SocketAddr>,
    /// The protocol of Redis; `None` is off.
    pub resp: Option<SocketAddr>,
    /// The file with the token that callers must show.
    pub token_file: Option<PathBuf>,
    /// TLS for all of them.
    pub tls: Option<DecisionsTls>,
    /// Whether an address beyond loopback needs neither a token nor certificates.
    pub allow_remote: bool,
}

/// TLS of the decision service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionsTls {
    /// What callers see.
    pub server: ServerTls,
    /// Whose certificates callers must show; `None` asks for none.
    pub client_ca_file: Option<PathBuf>,
}

impl Decisions {
    /// Every address that is listened at, with its key in the file.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let all = [
            ("decisions.http", self.http),
            ("decisions.grpc", self.grpc),
            ("decisions.resp", self.resp),
        ];
        all.into_iter()
            .filter_map(|(name, address)| Some((name, address?)))
    }
}

/// The operator's door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// `None` is off.
    pub listen: Option<SocketAddr>,
    /// The file with the token; there whenever `listen` is not loopback.
    pub token_file: Option<PathBuf>,
}

/// How the client's address is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    /// Whose headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Which header they write.
    pub header: ProxyHeader,
}

/// The header in which trusted proxies name the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// `X-Real-IP`.
    XRealIp,
}

/// How callers say who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principals {
    /// API keys.
    pub api_keys: Option<ApiKeys>,
    /// JSON web tokens.
    pub jwt: Option<Jwt>,
    /// Whether a request without a credential is refused with 401.
    pub required: bool,
    /// What happens to a request whose credential is wrong.
    pub on_invalid: OnInvalid,
}

/// What happens to a request whose credential is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInvalid {
    /// 401.
    #[default]
    Reject,
    /// It goes on as if it had none.
    Anonymous,
}

/// API keys in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeys {
    /// Lower case.
    pub header: String,
    /// The list: id, SHA-256 of the key in hex, claims.
    pub file: PathBuf,
}

/// JSON web tokens in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// Lower case; `Bearer` in front of the token is optional.
    pub header: String,
    /// The keys, as a JSON Web Key Set.
    pub jwks_file: PathBuf,
    /// Who must have issued the token.
    pub issuer: Option<String>,
    /// Whom it must be meant for.
    pub audience: Option<String>,
    /// Signature algorithms that are accepted.
    pub algorithms: Vec<JwtAlgorithm>,
    /// By how much clocks may differ.
    pub leeway: Nanos,
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of RFC 7518")]
pub enum JwtAlgorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// Who passes unlimited, and who does not pass at all. Deny comes before allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// These are never limited.
    pub allow: AccessList,
    /// These get 403.
    pub deny: AccessList,
}

/// Callers by address or by principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    /// Client addresses.
    pub cidrs: Vec<IpNet>,
    /// Principals, by id.
    pub keys: Vec<String>,
}

/// Where counters are.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// What happens to requests while it is away.
    pub on_failure: FailurePolicy,
    /// Which it is.
    pub kind: StoreKind,
}

/// A store with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreKind {
    /// In this process.
    Local {
        /// Callers that are remembered at most.
        max_keys: usize,
        /// How often what is full again is swept out.
        sweep: Nanos,
    },
    /// In Redis or Valkey.
    Redis(Box<Redis>),
}

/// Redis or Valkey.
#[derive(Clone, Debug, PartialEq)]
pub struct Redis {
    /// How the servers belong together.
    pub mode: RedisMode,
    /// `host:port`, as written.
    pub endpoints: Vec<String>,
    /// The ACL user.
    pub username: Option<String>,
    /// Where the password is; it is read when the store is made.
    pub password: Option<SecretSource>,
    /// The database; a cluster has only 0.
    pub database: u32,
    /// TLS, if enabled.
    pub tls: Option<RedisTls>,
    /// The longest a decision may take.
    pub deadline: Nanos,
    /// The longest a new connection may take.
    pub connect_timeout: Nanos,
    /// The first pause between attempts.
    pub recovery_base: Nanos,
    /// The longest pause between attempts.
    pub recovery_cap: Nanos,
    /// The beginning of every key.
    pub key_prefix: String,
    /// The form of keys.
    pub key_layout: KeyLayout,
    /// Whose clock counts.
    pub clock: RedisClock,
}

/// How the servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisMode {
    /// One server.
    Standalone,
    /// A primary and its replicas.
    Replication,
    /// A primary that sentinels name.
    Sentinel {
        /// The name they know it by.
        master: String,
        /// The ACL user at the sentinels.
        username: Option<String>,
        /// The password at the sentinels.
        password: Option<SecretSource>,
    },
    /// A cluster.
    Cluster,
}

/// Where a secret is; the secret itself is never in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The first line of a file.
    File(PathBuf),
    /// A variable of the environment.
    Env(String),
}

/// TLS towards Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Our certificate and key.
    pub client: Option<ServerTls>,
    /// The name that the server's certificate must have, if not the host's.
    pub server_name: Option<String>,
}

/// The form of keys in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// `sluicegate:limit:part…`
    #[default]
    Readable,
    /// 14 bytes.
    Compact,
    /// As EdgeQuota wrote them.
    EdgeQuota,
    /// As EdgeGuard wrote them.
    EdgeGuard,
}

/// Whose clock counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisClock {
    /// Redis' own.
    #[default]
    Server,
    /// This process's, clamped.
    Replica,
}

/// What callers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Which headers; empty is none.
    pub headers: Vec<HeaderStyle>,
    /// The form of a refusal.
    pub body: BodyStyle,
}

/// A way to tell callers what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy`.
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`.
    XRateLimit,
    /// `X-RateLimit-Remaining`, `-Clear`, `-Reset`.
    Clear,
}

/// The form of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyStyle {
    /// Problem details when the caller prefers JSON, else text.
    #[default]
    Auto,
    /// Text, whatever the caller prefers.
    Text,
    /// Problem details, whatever the caller prefers.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// JSON or text.
    pub format: LogFormat,
    /// Whether every request is logged.
    pub access: bool,
    /// Whether a rejection writes a line that starts with `RATE_LIMIT`.
    pub rate_limit_line: bool,
}

/// Spans of requests for a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// The collector, which takes OTLP over gRPC.
    pub otlp: ServiceAddress,
    /// Of so many requests one is traced; those that a trusted peer traces are traced in any case.
    pub one_in: u64,
    /// What this service is called in traces.
    pub service_name: String,
}

/// Of so many requests one is traced, unless it is said.
pub const TRACES_ONE_IN: u64 = 100;

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object.
    Json,
    /// Words.
    #[default]
    Text,
}
