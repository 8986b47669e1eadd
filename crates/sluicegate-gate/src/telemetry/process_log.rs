//! The log of the process itself, on standard error, as text or JSON.
//!
//! Every event is exactly one line. Values come from callers and from files, so line ends and
//! control characters in them are escaped before they reach a terminal or a log collector.

use std::io::{self, IsTerminal, Write};
use std::{env, fmt};

use sluicegate_config::LogFormat;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The target of log lines about changes by operators. They are written whatever the filter says.
pub const AUDIT: &str = "sluicegate::audit";

/// Starts the log. `filter` is the value of `SLUICEGATE_LOG`, a level or levels by module; `info`
/// without one. Colours are used on terminals only, and not when `NO_COLOR` is set and not empty.
pub fn init_tracing(format: LogFormat, filter: Option<&str>) -> Result<(), LogInitError> {
    let filter = parse_filter(filter.unwrap_or("info"))?;
    let wants_none = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let has_colours = io::stderr().is_terminal() && !wants_none;
    let subscriber = subscriber(format, filter, has_colours, io::stderr);
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogInitError::Twice)
}

/// The filter, with changes by operators always let through: an audit log has no gaps.
fn parse_filter(filter: &str) -> Result<EnvFilter, LogInitError> {
    let filter =
        EnvFilter::try_new(filter).map_err(|error| LogInitError::Filter(error.to_string()))?;
    let audit = format!("{AUDIT}=info")
        .parse()
        .expect("a target and a level are a directive");
    Ok(filter.add_directive(audit))
}

/// The log cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogInitError {
    /// The filter is invalid, with the reason.
    Filter(String),
    /// The log was started before.
    Twice,
}

impl fmt::Display for LogInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter(error) => write!(f, "SLUICEGATE_LOG: {error}"),
            Self::Twice => f.write_str("the log was started already"),
        }
    }
}

impl std::error::Error for LogInitError {}

/// The subscriber behind the log; tests give it another `out`.
fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    has_colours: bool,
    out: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let fmt = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(has_colours);
    let out = OneLineOutput {
        out,
        keeps_colours: has_colours,
    };
    match format {
        LogFormat::Json => Box::new(fmt.with_writer(out).json().finish()),
        LogFormat::Text => Box::new(fmt.with_writer(out).finish()),
    }
}

/// Makes writers that keep every event on one line.
struct OneLineOutput<W> {
    out: W,
    /// True on terminals: the escape sequences of colours, which we write ourselves, stay.
    keeps_colours: bool,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLineOutput<W> {
    type Writer = OneLineWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLineWriter {
            out: self.out.make_writer(),
            keeps_colours: self.keeps_colours,
        }
    }
}

/// Escapes control characters inside an event.
struct OneLineWriter<W> {
    out: W,
    keeps_colours: bool,
}

impl<W: Write> Write for OneLineWriter<W> {
    /// `tracing_subscriber` writes each event with one call, line end included.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (text, end) = match event {
            [text @ .., b'\n'] => (text, "\n"),
            text => (text, ""),
        };
        let is_control =
            |byte: &u8| byte.is_ascii_control() && !(self.keeps_colours && *byte == ESCAPE);
        if !text.iter().any(is_control) {
            self.out.write_all(event)?;
            return Ok(event.len());
        }
        let mut line = Vec::with_capacity(event.len() + 16);
        for byte in text {
            match byte {
                b'\n' => line.extend_from_slice(b"\\n"),
                // The escape of JSON, so that an object stays valid.
                byte if is_control(byte) => write!(line, "\\u{byte:04x}")?,
                byte => line.push(*byte),
            }
        }
        line.extend_from_slice(end.as_bytes());
        self.out.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The first byte of a colour sequence.
const ESCAPE: u8 = 0x1b;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

    impl Write for CapturedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let captured = CapturedOutput::default();
        let out = captured.clone();
        let subscriber = subscriber(format, parse_filter(filter).unwrap(), false, move || {
            out.clone()
        });
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(captured.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_event_is_one_line_without_colours_whatever_it_says() {
        let nasty = "a\r\nWARN forged\u{1b}[2J\"\\\u{7}\0b";
        for format in [LogFormat::Json, LogFormat::Text] {
            let text = logged(format, "info", || {
                tracing::warn!(value = nasty, shown = %nasty, "said {nasty}");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            assert!(
                text.trim_end_matches('\n')
                    .bytes()
                    .all(|byte| !byte.is_ascii_control()),
                "{text:?}"
            );
            assert!(text.contains("WARN") && text.contains("forged"), "{text:?}");
            if format == LogFormat::Json {
                serde_json::from_str::<serde_json::Value>(&text).unwrap();
            }
        }
    }

    #[test]
    fn the_filter_chooses_by_level_and_module() {
        let log = || {
            tracing::info!("quiet");
            tracing::info!(target: "other", "loud");
        };
        let text = logged(LogFormat::Text, "warn,other=info", log);
        assert!(!text.contains("quiet") && text.contains("loud"), "{text:?}");
    }

    #[test]
    fn who_changed_what_is_told_whatever_the_filter_says() {
        for filter in ["off", "error", "sluicegate=error", "other=trace"] {
            let text = logged(LogFormat::Text, filter, || {
                tracing::info!(target: AUDIT, by = "ann", "a change");
                tracing::info!("something else");
            });
            assert!(
                text.contains("ann") && !text.contains("something else"),
                "{filter}: {text:?}"
            );
        }
    }

    #[test]
    fn a_bad_filter_is_refused_with_its_name() {
        let error = init_tracing(LogFormat::Text, Some("sluicegate=loudly"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("SLUICEGATE_LOG: "), "{error}");
    }
}
