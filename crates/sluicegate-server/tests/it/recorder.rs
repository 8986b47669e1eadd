//! A server that writes down what it is sent, and reads it as strictly as the standard allows.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::raw::PATIENCE;

/// A running recorder. Its threads end with the test's process.
pub struct Recorder {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The request line and headers, without the empty line.
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the body came to its end.
    pub is_whole: bool,
    /// What is wrong with it, if anything.
    pub fault: Option<String>,
}

impl Seen {
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap()
    }

    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The values of a header, line by line.
    pub fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self
            .head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        lines
            .filter(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }
}

impl Recorder {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &seen));
            }
        });
        Self { address, seen }
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Seen>>) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(head) = read_head(&mut reader) {
        let fault = fault_in(&head);
        let is_faulty = fault.is_some();
        let seen = Seen {
            head,
            fault,
            ..Seen::default()
        };
        let (has_length, is_chunked) = (
            seen.fields("content-length")
                .first()
                .map(|length| length.to_string()),
            !seen.fields("transfer-encoding").is_empty(),
        );
        let is_head = seen.method() == "HEAD";
        let place = {
            let mut log = log.lock().unwrap();
            log.push(seen);
            log.len() - 1
        };
        if is_faulty {
            return;
        }
        let body = match (is_chunked, has_length) {
            (true, _) => read_chunks(&mut reader),
            (false, Some(length)) => read_exactly(&mut reader, length.parse().unwrap()),
            (false, None) => Ok(Vec::new()),
        };
        match body {
            Ok(body) => {
                let mut log = log.lock().unwrap();
                (log[place].body, log[place].is_whole) = (body, true);
            }
            Err(fault) => {
                log.lock().unwrap()[place].fault = fault;
                return;
            }
        }
        let answer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let answer = if is_head {
            &answer[..answer.len() - 2]
        } else {
            answer
        };
        if writer.write_all(answer).is_err() {
            return;
        }
    }
}

fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = Vec::new();
    loop {
        let before = head.len();
        if reader.read_until(b'\n', &mut head).ok()? == 0 {
            return if before == 0 {
                None
            } else {
                Some(String::from_utf8_lossy(&head).into_owned())
            };
        }
        if head.ends_with(b"\r\n\r\n") {
            head.truncate(head.len() - 4);
            return Some(String::from_utf8_lossy(&head).into_owned());
        }
    }
}

/// What a careful server would not take.
fn fault_in(head: &str) -> Option<String> {
    let mut lines = head.split("\r\n");
    let request_line = lines.next()?;
    let words: Vec<_> = request_line.split(' ').collect();
    if !matches!(words[..], [_, target, "HTTP/1.1"] if target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'))
    {
        return Some(format!("request line {request_line:?}"));
    }
    let is_token = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
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
        match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "host" => hosts += 1,
            "content-length"
                if value
                    .parse::<u64>()
                    .is_ok_and(|length| length.to_string() == value) =>
            {
                lengths += 1
            }
            "transfer-encoding" if value == "chunked" => codings += 1,
            "content-length" | "transfer-encoding" => return Some(format!("line {line:?}")),
            _ => {}
        }
    }
    (hosts != 1 || lengths + codings > 1)
        .then(|| format!("{hosts} hosts, {lengths} lengths, {codings} codings"))
}

/// A body that ends too early is no fault, only not whole.
fn read_exactly(reader: &mut impl Read, length: usize) -> Result<Vec<u8>, Option<String>> {
    let mut body = vec![0; length];
    reader.read_exact(&mut body).map_err(|_| None)?;
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> Result<Vec<u8>, Option<String>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let size =
            usize::from_str_radix(&line, 16).map_err(|_| Some(format!("chunk size {line:?}")))?;
        if size == 0 {
            break;
        }
        body.extend(read_exactly(reader, size)?);
        if !read_line(reader)?.is_empty() {
            return Err(Some("a chunk without end".to_owned()));
        }
    }
    while !read_line(reader)?.is_empty() {}
    Ok(body)
}

fn read_line(reader: &mut impl BufRead) -> Result<String, Option<String>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).map_err(|_| None)?;
    if line.is_empty() {
        return Err(None);
    }
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err(None),
    }
}
