//! HTTP/1.1 as an upstream reads it: one thread for each connection, and no leniency.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::{RecordedRequest, Service, UpstreamResponse};
use crate::raw_socket::with_timeouts;

pub(super) fn serve(listener: &TcpListener, service: &Service) {
    for stream in listener.incoming().flatten() {
        let service = service.clone();
        thread::spawn(move || serve_connection(stream, &service));
    }
}

/// Serves until the peer closes, a request has a fault, or one of both asked for the end.
fn serve_connection(stream: TcpStream, service: &Service) {
    let stream = with_timeouts(stream);
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    while let Some(head) = read_head(&mut reader) {
        let mut request = parse(head);
        let place = service.requests.add(request.clone());
        if request.fault.is_some() {
            return;
        }
        match read_body(&mut reader, &request) {
            Ok((body, trailers)) => {
                (request.body, request.trailers, request.is_complete) = (body, trailers, true);
                service.requests.replace(place, request.clone());
            }
            Err(BodyError::CutOff) => return,
            Err(BodyError::Malformed(fault)) => {
                request.fault = Some(fault);
                return service.requests.replace(place, request);
            }
        }
        let response = (service.answer)(&request);
        let is_last = request.version == "HTTP/1.0"
            || request
                .header("connection")
                .is_some_and(|value| value.to_ascii_lowercase().contains("close"));
        if writer.write_all(&to_bytes(&response, &request)).is_err() || is_last {
            return;
        }
    }
}

/// A head without its empty line; what came of one that is cut off; `None` at the end.
fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = Vec::new();
    loop {
        let is_over = reader.read_until(b'\n', &mut head).ok()? == 0;
        if is_over && head.is_empty() {
            return None;
        }
        if head.ends_with(b"\r\n\r\n") {
            head.truncate(head.len() - 4);
        } else if !is_over {
            continue;
        }
        return Some(String::from_utf8_lossy(&head).into_owned());
    }
}

fn parse(head: String) -> RecordedRequest {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, target, version) = (word(), word(), word());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
        .collect();
    RecordedRequest {
        fault: fault_in(&head),
        head,
        method,
        target,
        version,
        headers,
        ..RecordedRequest::default()
    }
}

/// The first thing in a head that a careful server would not accept.
fn fault_in(head: &str) -> Option<String> {
    let mut lines = head.split("\r\n");
    let request_line = lines.next()?;
    if !is_request_line(request_line) {
        return Some(format!("request line {request_line:?}"));
    }
    let (mut hosts, mut lengths, mut codings) = (0, 0, 0);
    for line in lines {
        let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_token(name)) else {
            return Some(format!("line {line:?}"));
        };
        let value = value.trim_matches([' ', '\t']);
        if value
            .chars()
            .any(|letter| letter.is_control() && letter != '\t')
        {
            return Some(format!("value of {name}"));
        }
        // Some servers take `_` for `-`, so a name with it counts as the other.
        match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "host" => hosts += 1,
            "content-length" if is_length(value) => lengths += 1,
            "transfer-encoding" if value == "chunked" => codings += 1,
            "content-length" | "transfer-encoding" => return Some(format!("line {line:?}")),
            _ => {}
        }
    }
    (hosts != 1 || lengths + codings > 1)
        .then(|| format!("{hosts} hosts, {lengths} lengths, {codings} codings"))
}

/// True for three words: a method, a path (or `*` for OPTIONS) and a version.
fn is_request_line(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words[..] else {
        return false;
    };
    let is_clean = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    (target.starts_with('/') || (method, target) == ("OPTIONS", "*"))
        && target.bytes().all(is_clean)
}

fn is_token(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_letter)
}

/// True for digits without a sign or leading zeros.
fn is_length(value: &str) -> bool {
    value
        .parse::<u64>()
        .is_ok_and(|length| length.to_string() == value)
}

enum BodyError {
    /// The connection ended too early: no fault, only incomplete.
    CutOff,
    Malformed(String),
}

/// A body and its trailers.
type BodyAndTrailers = (Vec<u8>, Vec<(String, String)>);

fn read_body(
    reader: &mut impl BufRead,
    request: &RecordedRequest,
) -> Result<BodyAndTrailers, BodyError> {
    if request.header("transfer-encoding").is_some() {
        return read_chunks(reader);
    }
    let length = request.header("content-length").unwrap_or("0");
    let length = length.parse().map_err(|_| BodyError::CutOff)?;
    Ok((read_exactly(reader, length)?, Vec::new()))
}

fn read_exactly(reader: &mut impl Read, length: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = vec![0; length];
    reader
        .read_exact(&mut body)
        .map_err(|_| BodyError::CutOff)?;
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> Result<BodyAndTrailers, BodyError> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let size = usize::from_str_radix(&line, 16)
            .map_err(|_| BodyError::Malformed(format!("chunk size {line:?}")))?;
        if size == 0 {
            break;
        }
        body.extend(read_exactly(reader, size)?);
        if !read_line(reader)?.is_empty() {
            return Err(BodyError::Malformed("a chunk without end".to_owned()));
        }
    }
    let mut trailers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok((body, trailers));
        }
        if let Some((name, value)) = line.split_once(':') {
            trailers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> Result<String, BodyError> {
    let mut line = Vec::new();
    let read = reader.read_until(b'\n', &mut line);
    let line = read.ok().and_then(|_| line.strip_suffix(b"\r\n"));
    line.map(|line| String::from_utf8_lossy(line).into_owned())
        .ok_or(BodyError::CutOff)
}

fn to_bytes(response: &UpstreamResponse, request: &RecordedRequest) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(response.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Unknown");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", response.status);
    for (name, value) in &response.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let has_trailers = !response.trailers.is_empty();
    head += &if has_trailers {
        "Transfer-Encoding: chunked\r\n\r\n".to_owned()
    } else {
        format!("Content-Length: {}\r\n\r\n", response.body.len())
    };
    let mut bytes = head.into_bytes();
    if request.method == "HEAD" {
        return bytes;
    }
    if has_trailers {
        bytes.extend(format!("{:x}\r\n", response.body.len()).into_bytes());
    }
    bytes.extend_from_slice(&response.body);
    if has_trailers {
        bytes.extend_from_slice(b"\r\n0\r\n");
        for (name, value) in &response.trailers {
            bytes.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
