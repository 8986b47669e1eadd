//! Programs with their own limits, and Sluicegate with what `sluicegate import` makes of the same
//! file: both get the same requests, and both let the same ones pass.

mod haproxy;
mod nginx;
mod traefik;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use sluicegate_testkit::{HttpRequest, UpstreamRecorder, eventually, free_port};
use tempfile::TempDir;

use super::running::{LoggedProcess, Sluicegate, system_path};

const ANN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Another program and Sluicegate side by side, in front of the same server.
struct Pair {
    original: SocketAddr,
    converted: Sluicegate,
    /// What the import said about the file.
    told: String,
    _process: LoggedProcess,
    _upstream: UpstreamRecorder,
}

/// A request, without what is the same for all.
struct Asked<'a> {
    from: Ipv4Addr,
    method: &'a str,
    path: &'a str,
    header: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// A GET of Ann's.
    fn get(path: &'a str) -> Self {
        Self {
            from: ANN,
            method: "GET",
            path,
            header: None,
        }
    }

    /// A POST of Ann's.
    fn post(path: &'a str) -> Self {
        Self {
            method: "POST",
            ..Self::get(path)
        }
    }

    fn by_bob(self) -> Self {
        Self { from: BOB, ..self }
    }

    fn with(self, header: &'a str) -> Self {
        Self {
            header: Some(header),
            ..self
        }
    }
}

impl Pair {
    /// Writes the files, whose ports 8000 and 3000 are replaced by free ones, runs the program in
    /// their directory, imports the first file, and serves the result.
    fn start(format: &str, files: &[(&str, &str)], command: &mut Command) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let upstream = UpstreamRecorder::start();
        let original = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        for (name, text) in files {
            let text = text
                .replace("127.0.0.1:8000", &original.to_string())
                .replace("127.0.0.1:3000", &upstream.address.to_string());
            fs::write(directory.path().join(name), text).unwrap();
        }
        let (yaml, told) = import(format, &directory, files[0].0);
        command
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let process = LoggedProcess::start(command, directory);
        let listen = "listen: \"127.0.0.1:8080\"";
        assert!(yaml.contains(listen), "{yaml}");
        let ours = format!(
            "listen: \"127.0.0.1:0\"\n  upstream: \"http://{}\"",
            upstream.address
        );
        let converted = Sluicegate::start(&format!("admin: off\n{}", yaml.replace(listen, &ours)));
        eventually("the original listens", || {
            TcpStream::connect(original).is_ok()
        });
        Self {
            original,
            converted,
            told,
            _process: process,
            _upstream: upstream,
        }
    }

    /// The status of one request.
    fn send(&self, asked: &Asked<'_>, to: SocketAddr) -> u16 {
        HttpRequest::new(asked.method, asked.path)
            .from(asked.from)
            .headers(asked.header.as_slice())
            .send(to)
            .status()
    }

    /// Sends a request this many times to both; returns the statuses, which must be the same.
    fn statuses(&self, asked: &Asked<'_>, times: usize) -> Vec<u16> {
        let of_original: Vec<u16> = (0..times)
            .map(|_| self.send(asked, self.original))
            .collect();
        let of_converted: Vec<u16> = (0..times)
            .map(|_| self.send(asked, self.converted.proxy))
            .collect();
        assert_eq!(
            of_original, of_converted,
            "{} {} from {}: the original, and ours",
            asked.method, asked.path, asked.from
        );
        of_original
    }

    /// Two keys in a header have a counter each: of both so many requests pass.
    fn keys_pass(&self, path: &str, count: usize) {
        for key in ["X-Api-Key: one", "X-Api-Key: two"] {
            self.passes(&Asked::get(path).with(key), count);
        }
    }

    /// The first requests pass and the next is denied, at both.
    fn passes(&self, asked: &Asked<'_>, count: usize) {
        let mut expected = vec![200; count];
        expected.push(429);
        assert_eq!(self.statuses(asked, count + 1), expected, "{}", asked.path);
    }

    /// None of so many requests is denied, at both.
    fn is_not_limited(&self, asked: &Asked<'_>, count: usize) {
        assert_eq!(
            self.statuses(asked, count),
            vec![200; count],
            "{}",
            asked.path
        );
    }
}

/// A program that Debian may install where only root looks for it.
fn system_program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", system_path());
    command
}

/// The configuration that `sluicegate import` prints, and what it says about it.
fn import(format: &str, directory: &TempDir, file: &str) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["import", format])
        .arg(directory.path().join(file))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    (String::from_utf8(output.stdout).unwrap(), told)
}
