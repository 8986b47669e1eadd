//! `sluicegate explain`: shows which limits apply to a request, why, and whether it would pass. Nothing
//! is charged.
//!
//! The request becomes the JSON of `POST /v1/explain`. With `--url` a running Sluicegate answers it;
//! otherwise the same code answers it here from a configuration, with every counter full.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::admin_client::{AdminClient, AdminUrl};
use crate::check;
use crate::exit_code::{FAILED, FINE};
use crate::sanitize::sanitize;

/// Arguments of `sluicegate explain`: a request, described as for curl, and where to look.
#[derive(Args)]
pub struct Explain {
    /// URL of the request, or only its path
    #[arg(value_name = "URL")]
    target: String,
    /// Method [default: GET, or POST with --data]
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    method: Option<String>,
    /// Header field; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Client address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    client_ip: String,
    /// Server name in the client's TLS handshake [default: the host of an https URL]
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Id of the caller, as an API key or token would prove it. With --url, a credential in a header is
    /// verified instead
    #[arg(long, value_name = "ID")]
    principal: Option<String>,
    /// Claim of that caller; repeatable
    #[arg(long = "claim", value_name = "NAME=VALUE", requires = "principal")]
    claims: Vec<String>,
    /// Entry of an Envoy descriptor; repeatable
    #[arg(long = "descriptor", value_name = "NAME=VALUE")]
    descriptors: Vec<String>,
    /// Cost of the request in units
    #[arg(long, value_name = "UNITS", default_value_t = 1)]
    cost: u32,
    /// Configuration to use, with every counter full [default: the built-in configuration]
    #[arg(
        short,
        long,
        env = "SLUICEGATE_CONFIG",
        value_name = "FILE",
        conflicts_with = "url"
    )]
    config: Option<PathBuf>,
    /// Admin address of a running Sluicegate, such as http://127.0.0.1:9090: uses its counters, bans
    /// and overrides
    #[arg(long, value_name = "URL")]
    url: Option<AdminUrl>,
    /// File with its admin token, as in `admin.token_file`; not needed on loopback
    #[arg(long, env = "SLUICEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: check::InputArgs,
    #[command(flatten)]
    curl: CurlArgs,
}

/// Options of curl that are accepted, so that `curl` in a command line can be replaced by
/// `sluicegate explain`. The hidden ones have no effect.
#[derive(Args)]
struct CurlArgs {
    /// Body of the request; only its presence matters
    #[arg(short = 'd', long = "data", aliases = ["data-raw", "data-binary", "data-urlencode"], value_name = "DATA")]
    data: Vec<String>,
    /// Use the method HEAD
    #[arg(short = 'I', long = "head", conflicts_with = "data")]
    head: bool,
    #[arg(short = 's', long, hide = true)]
    _silent: bool,
    #[arg(short = 'S', long, hide = true)]
    _show_error: bool,
    #[arg(short = 'i', long, hide = true)]
    _include: bool,
    #[arg(short = 'k', long, hide = true)]
    _insecure: bool,
    #[arg(short = 'L', long, hide = true)]
    _location: bool,
    #[arg(short = 'v', long, hide = true)]
    _verbose: bool,
}

impl Explain {
    /// The method that curl would use.
    fn method(&self) -> &str {
        match &self.method {
            Some(method) => method,
            None if self.curl.head => "HEAD",
            None if !self.curl.data.is_empty() => "POST",
            None => "GET",
        }
    }
}

/// Prints the explanation. A request that would be denied is not an error: the exit code is 0.
pub fn run(arguments: &Explain) -> u8 {
    match explain(arguments) {
        Ok(explanation) if arguments.json => println!("{explanation:#}"),
        Ok(explanation) => print!("{}", as_text(arguments, &explanation)),
        Err(error) => {
            eprintln!("sluicegate: {error}");
            return FAILED;
        }
    }
    FINE
}

/// The JSON of the explanation, from a running Sluicegate or from a configuration.
fn explain(arguments: &Explain) -> Result<Value, String> {
    let request = request_json(arguments)?;
    // A running Sluicegate knows its counters, bans and overrides; a configuration alone does not.
    if let Some(url) = &arguments.url {
        let client = AdminClient::with_token_file(url.clone(), arguments.token_file.as_deref())?;
        return client.post("/v1/explain", &request);
    }
    let loaded = check::read_once(arguments.config.as_deref(), arguments.input)
        .map_err(|mistakes| mistakes.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let request = request.to_string();
    let explanation = runtime.block_on(sluicegate_server::explain_offline(
        loaded.config,
        request.as_bytes(),
    ))?;
    serde_json::to_value(explanation).map_err(|error| error.to_string())
}

/// The request body, in the format of `/v1/check`.
fn request_json(arguments: &Explain) -> Result<Value, String> {
    let (host, path) = host_and_path(&arguments.target)?;
    let mut headers = Map::new();
    // A Host header wins over the host of the URL, as in curl.
    let mut named_host = None;
    for line in &arguments.headers {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| format!("-H {line:?}: must be a name, a colon and a value"))?;
        // As it is written: the limits service is told so.
        let (name, value) = (name.trim(), value.trim());
        let is_twice = match name.eq_ignore_ascii_case("host") {
            true => named_host.replace(value.to_owned()).is_some(),
            false => {
                let is_known = |known: &String| known.eq_ignore_ascii_case(name);
                let is_twice = headers.keys().any(is_known);
                headers.insert(name.to_owned(), value.into());
                is_twice
            }
        };
        if is_twice {
            return Err(format!(
                "-H {name}: given twice, which makes the caller ambiguous; give it once"
            ));
        }
    }
    let mut subject = json!({
        "client_ip": arguments.client_ip, "method": arguments.method(), "path": path, "headers": headers,
        "descriptors": pairs("--descriptor", &arguments.descriptors)?,
    });
    if let Some(name) = arguments
        .sni
        .clone()
        .or_else(|| tls_name(&arguments.target))
    {
        subject["sni"] = name.into();
    }
    if let Some(host) = named_host.or(host) {
        subject["host"] = host.into();
    }
    if let Some(id) = &arguments.principal {
        subject["principal"] = json!({ "id": id, "claims": pairs("--claim", &arguments.claims)? });
    }
    Ok(json!({ "subject": subject, "cost": arguments.cost }))
}

/// Parses the values of an option of the form NAME=VALUE.
fn pairs(option: &str, words: &[String]) -> Result<Map<String, Value>, String> {
    let pair = |word: &String| match word.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), Value::from(value))),
        None => Err(format!(
            "{option} {word:?}: must be a name, an equals sign and a value"
        )),
    };
    words.iter().map(pair).collect()
}

/// Splits a URL into host and path. A path alone has no host.
fn host_and_path(target: &str) -> Result<(Option<String>, String), String> {
    let Some((scheme, rest)) = target.split_once("://") else {
        return match target.starts_with('/') {
            true => Ok((None, target.to_owned())),
            false => Err(format!(
                "{target:?}: must be a URL such as http://a.example/x, or a path that begins with /"
            )),
        };
    };
    if !matches!(scheme, "http" | "https" | "ws" | "wss") {
        return Err(format!("{target:?}: must begin with http:// or https://"));
    }
    // The host ends at the path, the query or the fragment, whichever comes first.
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok((Some(host.to_owned()), path))
}

/// The name that a client of this URL asks for in its TLS handshake: the host, if it is a name.
fn tls_name(target: &str) -> Option<String> {
    let (scheme, rest) = target.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.split(':').next()?;
    let is_name = !host.starts_with('[') && host.parse::<IpAddr>().is_err() && !host.is_empty();
    (matches!(scheme, "https" | "wss") && is_name).then(|| host.to_owned())
}

/// Longest line of the output, in characters.
const WIDTH: usize = 100;

/// The request, the summary, and one paragraph per limit with a mark before it: `pass`, `deny`, `shadow`
/// (would deny, but is not enforced), `?` (unknown) or `-` (does not apply).
fn as_text(arguments: &Explain, explanation: &Value) -> String {
    let text = |value: &Value| value.as_str().map(sanitize).unwrap_or_default();
    let principal = explanation["principal"]
        .as_str()
        .map(|principal| format!(", {principal}"))
        .unwrap_or_default();
    let request = format!(
        "{} {} from {}{principal}",
        arguments.method(),
        arguments.target,
        arguments.client_ip
    );
    let mut out = format!(
        "{}\n{}\n\n",
        sanitize(&request),
        text(&explanation["summary"])
    );
    let limits = explanation["limits"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if limits.is_empty() {
        out.push_str("The configuration has no limits.\n");
    }
    for limit in limits {
        let mark = match (
            limit["standing"].as_str(),
            limit["allowed"].as_bool(),
            limit["mode"].as_str(),
        ) {
            (Some("charged"), Some(false), Some("shadow")) => "shadow",
            (Some("charged"), Some(false), _) => "deny",
            (Some("charged" | "not_limited"), ..) => "pass",
            (Some("unknown"), ..) => "?",
            (Some("off"), ..) => "off",
            (Some("missing_key"), Some(false), _) => "deny",
            _ => "-",
        };
        out.push_str(&wrapped(mark, &text(&limit["words"])));
    }
    if arguments.url.is_none() {
        out.push_str(
            "\nThis assumes that every counter is full. With --url URL, the counters of a running Sluicegate are used.\n",
        );
    }
    out
}

/// A mark, and text beside it, wrapped at [`WIDTH`].
fn wrapped(mark: &str, text: &str) -> String {
    let indent = 8;
    let mut lines = vec![format!("{mark:>6}  ")];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.chars().count() + word.chars().count() > WIDTH
            && line.trim_end().chars().count() > indent
        {
            line.truncate(line.trim_end().len());
            lines.push(" ".repeat(indent));
        }
        let line = lines.last_mut().expect("there is always a line");
        line.push_str(word);
        line.push(' ');
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_url_or_a_path() {
        let some = |host: &str, path: &str| Ok((Some(host.to_owned()), path.to_owned()));
        assert_eq!(
            host_and_path("http://a.example/x?y"),
            some("a.example", "/x?y")
        );
        assert_eq!(
            host_and_path("https://a.example:8443"),
            some("a.example:8443", "/")
        );
        assert_eq!(
            host_and_path("http://a.example?y"),
            some("a.example", "/?y")
        );
        assert_eq!(host_and_path("/x"), Ok((None, "/x".to_owned())));
        assert!(host_and_path("a.example/x").is_err());
        assert!(host_and_path("ftp://a.example/x").is_err());
    }

    #[test]
    fn a_client_asks_for_the_host_of_an_https_url() {
        let name = |target| tls_name(target);
        assert_eq!(
            name("https://A.example:8443/x").as_deref(),
            Some("A.example")
        );
        for target in [
            "http://a.example/",
            "https://203.0.113.7/",
            "https://[::1]:443/",
            "/x",
        ] {
            assert_eq!(name(target), None, "{target}");
        }
    }

    #[test]
    fn lines_are_of_a_readable_length() {
        let text = wrapped("pass", &"word ".repeat(60));
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert!(
            text.lines()
                .skip(1)
                .all(|line| line.starts_with("        word")),
            "{text}"
        );
        assert_eq!(wrapped("-", "short"), "     -  short\n");
    }
}
