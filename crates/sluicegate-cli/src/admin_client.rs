//! HTTP client of the admin API of a running Sluicegate.
//!
//! Every request opens its own connection and has a timeout, so a command never hangs. Errors begin with
//! the URL and are safe to print.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::sanitize::sanitize;

/// The address of an admin API, and the token for it.
#[derive(Clone)]
pub struct AdminClient {
    url: AdminUrl,
    /// The `Authorization` header; marked as sensitive, so that debug output hides it.
    token: Option<HeaderValue>,
}

impl AdminClient {
    /// A client for this address. The token is the one in the server's `admin.token_file`.
    pub fn new(url: AdminUrl, token: Option<&str>) -> Result<Self, String> {
        let bearer = |token: &str| {
            let mut value =
                HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| {
                    "invalid token: it has characters that an HTTP header cannot hold".to_owned()
                })?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        Ok(Self {
            url,
            token: token.map(bearer).transpose()?,
        })
    }

    /// The same, with the token read from a file.
    pub fn with_token_file(url: AdminUrl, file: Option<&Path>) -> Result<Self, String> {
        let read = |file: &Path| {
            std::fs::read_to_string(file)
                .map_err(|error| format!("{}: {error}", sanitize(&file.to_string_lossy())))
        };
        let token = file.map(read).transpose()?;
        Self::new(url, token.as_deref())
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        self.send(Method::GET, path, None)
    }

    /// Sends a POST request with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.send(Method::POST, path, Some(body))
    }

    /// Sends a DELETE request, with a JSON body that names the author and the reason.
    pub fn delete(&self, path: &str, body: Option<&Value>) -> Result<Value, String> {
        self.send(Method::DELETE, path, body)
    }

    /// Sends a request and returns the JSON of the response. An error begins with the URL.
    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let with_url = |error: String| format!("{}: {error}", self.url);
        let request = self.request(method, path, body).map_err(with_url)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let response =
            runtime.block_on(async { timeout(RESPONSE_TIMEOUT, self.exchange(request)).await });
        let (status, body) = response
            .unwrap_or_else(|_| Err(format!("no response within {RESPONSE_TIMEOUT:?}")))
            .map_err(with_url)?;
        parse_response(status, &body, self.token.is_some()).map_err(with_url)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.prefix))
            .header(header::HOST, self.url.authority.as_str())
            .header(header::CONNECTION, "close")
            .header(header::ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body
            .map(|body| Bytes::from(body.to_string()))
            .unwrap_or_default();
        request
            .body(Full::new(bytes))
            .map_err(|error| error.to_string())
    }

    /// Connects, sends the request and reads the whole response.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let host = self
            .url
            .authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let port = self.url.authority.port_u16().unwrap_or(80);
        let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(REFUSED.to_owned());
            }
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
        };
        let not_ours = |error: hyper::Error| format!("not a response of Sluicegate: {error}");
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(not_ours)?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(not_ours)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX)
            .collect()
            .await;
        connection.abort();
        Ok((
            status,
            body.map_err(|error| format!("the response ended early: {error}"))?
                .to_bytes(),
        ))
    }
}

/// Address of an admin API: `http://HOST:PORT`, with a path prefix if a proxy in front adds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminUrl {
    authority: Authority,
    /// Path prefix: empty, or begins with a slash and does not end with one.
    prefix: String,
}

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|_| format!("must be a URL such as {EXAMPLE}"))?;
        if uri.scheme() == Some(&Scheme::HTTPS) {
            return Err("the admin API has no TLS: use a tunnel, such as \
                        `ssh -N -L 9090:127.0.0.1:9090 HOST`, and use http://127.0.0.1:9090"
                .to_owned());
        }
        let parts = uri.into_parts();
        let authority = parts
            .authority
            .filter(|authority| !authority.as_str().contains('@'));
        let path = parts
            .path_and_query
            .as_ref()
            .map_or("", |path| path.as_str());
        match authority {
            Some(authority) if parts.scheme == Some(Scheme::HTTP) && !path.contains('?') => {
                Ok(Self {
                    authority,
                    prefix: path.trim_end_matches('/').to_owned(),
                })
            }
            _ => Err(format!("must be a URL such as {EXAMPLE}")),
        }
    }
}

impl fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
    }
}

/// A path below `base`. Each part is percent-encoded, so that a slash in it does not make two parts.
pub fn path_of<'a>(base: &str, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut path = base.to_owned();
    for part in parts {
        path.push('/');
        path.push_str(&encoded(part));
    }
    path
}

/// Percent-encodes every byte that has a meaning in a URL.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        // A dot too: a proxy would remove `.` and `..` as path segments.
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

const EXAMPLE: &str = "http://127.0.0.1:9090";
const REFUSED: &str =
    "connection refused (is `sluicegate serve` running, and is admin.listen this address?)";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Bound on the memory for a response; far above the largest one.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// The JSON of a successful response, or the error that an unsuccessful one describes.
fn parse_response(status: StatusCode, body: &[u8], had_token: bool) -> Result<Value, String> {
    if status == StatusCode::UNAUTHORIZED {
        return Err(if had_token {
            "401: wrong token: --token-file FILE (or SLUICEGATE_ADMIN_TOKEN_FILE) must be the server's admin.token_file"
        } else {
            "401: a token is needed: --token-file FILE (or SLUICEGATE_ADMIN_TOKEN_FILE), the server's admin.token_file"
        }
        .to_owned());
    }
    let value: Option<Value> = serde_json::from_slice(body).ok();
    match value {
        Some(value) if status.is_success() => Ok(value),
        Some(value) => Err(error_text(status, &value)),
        None => Err(format!("{}: not a response of Sluicegate", status.as_u16())),
    }
}

/// The error of a response. The mistakes of a configuration, or the reasons why it is not ready, follow
/// on lines of their own.
fn error_text(status: StatusCode, value: &Value) -> String {
    let error = value["error"]
        .as_str()
        .map_or_else(|| status.to_string(), sanitize);
    let lists = ["mistakes", "reasons"]
        .into_iter()
        .filter_map(|name| value[name].as_array());
    let mistakes = lists.flatten().filter_map(Value::as_str);
    mistakes.fold(error, |text, mistake| {
        format!("{text}\n  {}", sanitize(mistake))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// A server that sends these bytes to one request. Returns its URL, and the request when joined.
    fn server(response: String) -> (AdminUrl, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let received = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
            request.truncate(length);
            String::from_utf8(request).unwrap()
        });
        (url, received)
    }

    fn response(status: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    #[test]
    fn a_request_carries_the_token_and_its_response_is_json() {
        let (url, request) = server(response("201 Created", r#"{"id":"b-1"}"#));
        let client = AdminClient::new(url, Some("secret-secret\n")).unwrap();
        let value = client.post("/v1/bans", &json!({ "for": "1h" })).unwrap();
        assert_eq!(value["id"], "b-1");
        let request = request.join().unwrap();
        assert!(
            request.starts_with("POST /v1/bans HTTP/1.1\r\n"),
            "{request}"
        );
        for line in [
            "authorization: Bearer secret-secret\r\n",
            "content-type: application/json\r\n",
            "{\"for\":\"1h\"}",
        ] {
            assert!(request.contains(line), "{line} in {request}");
        }
    }

    #[test]
    fn an_error_names_the_url_and_the_reason_without_control_characters() {
        let (url, _request) = server(response(
            "404 Not Found",
            r#"{"error":"no limit \u001b[31mx","mistakes":["a","b"]}"#,
        ));
        let address = url.to_string();
        let error = AdminClient::new(url, None)
            .unwrap()
            .delete("/v1/keys/x/y", None)
            .unwrap_err();
        assert_eq!(
            error,
            format!("{address}: no limit \\u{{1b}}[31mx\n  a\n  b")
        );
    }

    #[test]
    fn a_missing_or_wrong_token_says_which_option_to_use() {
        for (token, words) in [(None, "a token is needed"), (Some("wrong"), "wrong token")] {
            let (url, _request) = server(response("401 Unauthorized", r#"{"error":"x"}"#));
            let error = AdminClient::new(url, token)
                .unwrap()
                .get("/v1/stats")
                .unwrap_err();
            assert!(
                error.contains(words) && error.contains("--token-file"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_refused_connection_and_another_server_have_different_errors() {
        let gone = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let client = AdminClient::new(format!("http://{gone}").parse().unwrap(), None).unwrap();
        let error = client.get("/v1/stats").unwrap_err();
        assert_eq!(error, format!("http://{gone}: {REFUSED}"));
        for other in [
            "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
            response("200 OK", "<html>"),
        ] {
            let (url, _request) = server(other);
            let error = AdminClient::new(url, None).unwrap().get("/").unwrap_err();
            assert!(error.contains("not a response of Sluicegate"), "{error}");
        }
    }

    #[test]
    fn urls_are_checked_when_they_are_given() {
        for good in [
            "http://127.0.0.1:9090",
            "http://127.0.0.1:9090/",
            "http://[::1]:9090",
            "http://edge/sluicegate/",
        ] {
            let url: AdminUrl = good.parse().unwrap();
            assert_eq!(url.to_string(), good.trim_end_matches('/'));
        }
        let wrong = [
            "",
            "127.0.0.1:9090",
            "/x",
            "ftp://a",
            "http://ann@edge:9090",
            "http://edge/?x",
            "http://a b",
        ];
        for wrong in wrong {
            assert!(wrong.parse::<AdminUrl>().is_err(), "{wrong}");
        }
        assert!(
            "https://edge:9090"
                .parse::<AdminUrl>()
                .unwrap_err()
                .contains("ssh")
        );
    }

    #[test]
    fn a_part_of_a_path_stays_one_part() {
        assert_eq!(
            path_of("/v1/keys", ["a b", "../x?", "ü"]),
            "/v1/keys/a%20b/%2E%2E%2Fx%3F/%C3%BC"
        );
        assert_eq!(path_of("/v1/keys", ["", "."]), "/v1/keys//%2E");
    }

    #[test]
    fn a_token_that_cannot_be_sent_is_refused_and_not_shown() {
        let url: AdminUrl = EXAMPLE.parse().unwrap();
        let error = AdminClient::new(url, Some("abc\ndef")).err().unwrap();
        assert!(!error.contains("abc"), "{error}");
    }
}
