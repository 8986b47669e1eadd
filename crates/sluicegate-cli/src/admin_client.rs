//! The operator's door of a running Sluicegate, asked over HTTP.

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

/// A door, and what it takes to be let in. Each question has a connection of its own, and an end.
#[derive(Clone)]
pub struct AdminClient {
    url: AdminUrl,
    /// Never shown.
    token: Option<HeaderValue>,
}

impl AdminClient {
    /// The door at this place. The token is what the running Sluicegate has in its `admin.token_file`.
    pub fn new(url: AdminUrl, token: Option<&str>) -> Result<Self, String> {
        let bearer = |token: &str| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| "the token holds characters that no token has".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        Ok(Self {
            url,
            token: token.map(bearer).transpose()?,
        })
    }

    /// The same, with the token in a file.
    pub fn with_token_file(url: AdminUrl, file: Option<&Path>) -> Result<Self, String> {
        let read = |file: &Path| {
            std::fs::read_to_string(file)
                .map_err(|error| format!("{}: {error}", sanitize(&file.to_string_lossy())))
        };
        let token = file.map(read).transpose()?;
        Self::new(url, token.as_deref())
    }

    /// Asks for something.
    pub fn get(&self, path: &str) -> Result<Value, String> {
        self.ask(Method::GET, path, None)
    }

    /// Asks for something to be done.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask(Method::POST, path, Some(body))
    }

    /// Asks for something to be ended.
    pub fn delete(&self, path: &str, body: Option<&Value>) -> Result<Value, String> {
        self.ask(Method::DELETE, path, body)
    }

    /// What comes back, or a sentence that begins with the place.
    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let at_the_place = |why: String| format!("{}: {why}", self.url);
        let request = self.request(method, path, body).map_err(at_the_place)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let answered =
            runtime.block_on(async { timeout(ANSWER_TIMEOUT, self.exchange(request)).await });
        let (status, body) = answered
            .unwrap_or_else(|_| Err(format!("no answer within {ANSWER_TIMEOUT:?}")))
            .map_err(at_the_place)?;
        understood(status, &body, self.token.is_some()).map_err(at_the_place)
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
        let in_words = |error: hyper::Error| format!("this is no answer of Sluicegate's: {error}");
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(in_words)?;
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(in_words)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        connection.abort();
        Ok((
            status,
            body.map_err(|error| format!("the answer broke off: {error}"))?
                .to_bytes(),
        ))
    }
}

/// Where an operator's door is: `http://HOST:PORT`, with a path before everything if a proxy adds one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminUrl {
    authority: Authority,
    /// Empty, or begins with a slash and does not end with one.
    prefix: String,
}

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|_| format!("must be a URL such as {EXAMPLE}"))?;
        if uri.scheme() == Some(&Scheme::HTTPS) {
            return Err(
                "the operator's door speaks no TLS: come through a tunnel, such as \
                        `ssh -N -L 9090:127.0.0.1:9090 HOST`, and use http://127.0.0.1:9090"
                    .to_owned(),
            );
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

/// A path under `base` with these parts, each encoded so that it stays one part.
pub fn path_of<'a>(base: &str, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut path = base.to_owned();
    for part in parts {
        path.push('/');
        path.push_str(&encoded(part));
    }
    path
}

/// With everything percent-encoded that means something in a URL.
pub fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        // A dot too: `.` and `..` alone would be walked away.
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

const EXAMPLE: &str = "http://127.0.0.1:9090";
const REFUSED: &str =
    "connection refused (is `sluicegate serve` running, and is admin.listen this address?)";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Far above what any answer has.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The value of a good answer, or what a bad one says.
fn understood(status: StatusCode, body: &[u8], had_token: bool) -> Result<Value, String> {
    if status == StatusCode::UNAUTHORIZED {
        return Err(if had_token {
            "401: the token is not the one in admin.token_file; --token-file FILE (or SLUICEGATE_ADMIN_TOKEN_FILE) names it"
        } else {
            "401: a token is needed: --token-file FILE (or SLUICEGATE_ADMIN_TOKEN_FILE), the same as admin.token_file"
        }
        .to_owned());
    }
    let value: Option<Value> = serde_json::from_slice(body).ok();
    match value {
        Some(value) if status.is_success() => Ok(value),
        Some(value) => Err(refusal(status, &value)),
        None => Err(format!(
            "{}: this is no answer of Sluicegate's",
            status.as_u16()
        )),
    }
}

/// The reason, and every mistake, or why it is not ready, on a line of its own.
fn refusal(status: StatusCode, value: &Value) -> String {
    let why = value["error"]
        .as_str()
        .map_or_else(|| status.to_string(), sanitize);
    let lists = ["mistakes", "reasons"]
        .into_iter()
        .filter_map(|name| value[name].as_array());
    let mistakes = lists.flatten().filter_map(Value::as_str);
    mistakes.fold(why, |text, mistake| {
        format!("{text}\n  {}", sanitize(mistake))
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// Answers one request with these bytes; gives back the URL, and what was asked when it ends.
    fn door(answer: String) -> (AdminUrl, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let asked = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            asked.truncate(length);
            String::from_utf8(asked).unwrap()
        });
        (url, asked)
    }

    fn answer(status: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    #[test]
    fn a_question_shows_the_token_and_its_answer_is_json() {
        let (url, asked) = door(answer("201 Created", r#"{"id":"b-1"}"#));
        let remote = AdminClient::new(url, Some("secret-secret\n")).unwrap();
        let value = remote.post("/v1/bans", &json!({ "for": "1h" })).unwrap();
        assert_eq!(value["id"], "b-1");
        let asked = asked.join().unwrap();
        assert!(asked.starts_with("POST /v1/bans HTTP/1.1\r\n"), "{asked}");
        for line in [
            "authorization: Bearer secret-secret\r\n",
            "content-type: application/json\r\n",
            "{\"for\":\"1h\"}",
        ] {
            assert!(asked.contains(line), "{line} in {asked}");
        }
    }

    #[test]
    fn a_refusal_names_the_place_and_the_reason_without_control_characters() {
        let (url, _asked) = door(answer(
            "404 Not Found",
            r#"{"error":"no limit \u001b[31mx","mistakes":["a","b"]}"#,
        ));
        let place = url.to_string();
        let error = AdminClient::new(url, None)
            .unwrap()
            .delete("/v1/keys/x/y", None)
            .unwrap_err();
        assert_eq!(error, format!("{place}: no limit \\u{{1b}}[31mx\n  a\n  b"));
    }

    #[test]
    fn a_missing_or_wrong_token_says_which_option_to_use() {
        for (token, words) in [
            (None, "a token is needed"),
            (Some("wrong"), "is not the one"),
        ] {
            let (url, _asked) = door(answer("401 Unauthorized", r#"{"error":"x"}"#));
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
    fn nobody_there_and_somebody_else_there_are_told_apart() {
        let gone = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let remote = AdminClient::new(format!("http://{gone}").parse().unwrap(), None).unwrap();
        let error = remote.get("/v1/stats").unwrap_err();
        assert_eq!(error, format!("http://{gone}: {REFUSED}"));
        for other in [
            "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
            answer("200 OK", "<html>"),
        ] {
            let (url, _asked) = door(other);
            let error = AdminClient::new(url, None).unwrap().get("/").unwrap_err();
            assert!(error.contains("no answer of Sluicegate's"), "{error}");
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
