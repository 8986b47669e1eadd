//! The standard variables of OpenTelemetry (`OTEL_…`) that set up traces.
//!
//! A key of the file comes before its variable. As OpenTelemetry specifies, an empty variable is an
//! absent one, and a value that cannot be used is warned about and ignored: variables are often set
//! for a whole cluster, and must not keep a process from starting. Warnings do not contain values,
//! because they may be secrets.

use std::path::PathBuf;

use sluicegate_core::Nanos;

use super::external::parse_url;
use crate::field::ReadContext;
use crate::typed::{ParentSampling, SecretHeaders, ServiceAddress, TraceSampling, TraceShare};

/// The settings of traces in the environment; `None` where there is none.
#[derive(Debug, Default)]
pub(super) struct OtelSettings {
    /// The variable that turns traces off.
    pub(super) off_by: Option<&'static str>,
    pub(super) otlp: Option<FromVariable<ServiceAddress>>,
    pub(super) ca_file: Option<FromVariable<PathBuf>>,
    pub(super) sampling: Option<FromVariable<TraceSampling>>,
    pub(super) service_name: Option<FromVariable<String>>,
    pub(super) resource: Option<FromVariable<Vec<(String, String)>>>,
    pub(super) headers: Option<FromVariable<SecretHeaders>>,
    pub(super) timeout: Option<FromVariable<Nanos>>,
    pub(super) batch_delay: Option<FromVariable<Nanos>>,
    pub(super) batch_queue: Option<FromVariable<usize>>,
    pub(super) batch_size: Option<FromVariable<usize>>,
}

/// A value and the variable that it came from.
#[derive(Debug)]
pub(super) struct FromVariable<T> {
    pub(super) value: T,
    pub(super) variable: &'static str,
}

/// The variables of one setting, the first before the others.
type Names = &'static [&'static str];

const ENDPOINT: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const INSECURE: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    "OTEL_EXPORTER_OTLP_INSECURE",
];
const PROTOCOL: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
const CERTIFICATE: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];
const HEADERS: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];
const TIMEOUT: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];
const COMPRESSION: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_COMPRESSION",
];
const CLIENT_CERTIFICATE: Names = &[
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
];

/// The collector of a process that names none.
const DEFAULT_ENDPOINT: &str = "http://localhost:4317";

impl OtelSettings {
    /// Reads the variables that matter beside the file.
    pub(super) fn read(context: &ReadContext<'_>, file: InFile) -> Self {
        let off_by = off_by(context).filter(|_| !file.is_enabled);
        if off_by.is_some() {
            return Self {
                off_by,
                ..Self::default()
            };
        }
        let otlp = match file.has_endpoint {
            true => None,
            false => endpoint(context),
        };
        if otlp.is_none() && !file.has_endpoint {
            return Self::default();
        }
        note_unsupported(context);
        let resource = first(context, &["OTEL_RESOURCE_ATTRIBUTES"], |text| {
            pairs(text).ok_or_else(|| "name=value, percent-encoded, with commas between".to_owned())
        });
        Self {
            off_by: None,
            otlp,
            ca_file: first(context, CERTIFICATE, |text| Ok(PathBuf::from(text))),
            sampling: sampling(context),
            service_name: first(context, &["OTEL_SERVICE_NAME"], |text| Ok(text.to_owned())),
            resource,
            headers: headers(context),
            timeout: first(context, TIMEOUT, millis),
            batch_delay: first(context, &["OTEL_BSP_SCHEDULE_DELAY"], millis),
            batch_queue: first(context, &["OTEL_BSP_MAX_QUEUE_SIZE"], count),
            batch_size: first(context, &["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"], count),
        }
    }
}

/// What the file says already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFile {
    /// True when it has `enabled: true`.
    pub(super) is_enabled: bool,
    /// True when it names the collector, so that variables about it mean nothing.
    pub(super) has_endpoint: bool,
}

/// The value of the first of these variables that is set and can be read. The error of `read` says
/// what is expected.
fn first<T>(
    context: &ReadContext<'_>,
    names: Names,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<FromVariable<T>> {
    names.iter().find_map(|variable| {
        let text = context.variable(variable)?;
        match read(text.trim()) {
            Ok(value) => Some(FromVariable { value, variable }),
            Err(expected) => {
                context.warn(format!("{variable} is ignored: expected {expected}"));
                None
            }
        }
    })
}

/// The variable that turns traces off.
fn off_by(context: &ReadContext<'_>) -> Option<&'static str> {
    let disabled = first(context, &["OTEL_SDK_DISABLED"], boolean);
    let exporter = first(context, &["OTEL_TRACES_EXPORTER"], exporter);
    let disabled = disabled.filter(|disabled| disabled.value);
    let none = exporter.filter(|sends| !sends.value);
    disabled.or(none).map(|off| off.variable)
}

/// True for an exporter that sends, false for `none`.
fn exporter(text: &str) -> Result<bool, String> {
    match text {
        "otlp" => Ok(true),
        "none" => Ok(false),
        _ => Err("otlp or none".to_owned()),
    }
}

/// The collector: that of the variables, or the usual one where only the exporter is named.
fn endpoint(context: &ReadContext<'_>) -> Option<FromVariable<ServiceAddress>> {
    let is_insecure = first(context, INSECURE, boolean).is_some_and(|insecure| insecure.value);
    let read = |text: &str| {
        let scheme = match (text.contains("://"), is_insecure) {
            (true, _) => "",
            (false, true) => "http://",
            (false, false) => "https://",
        };
        match parse_url(&format!("{scheme}{text}")) {
            Ok((address, path)) if path == "/" => Ok(address),
            _ => Err("http://HOST:PORT or https://HOST:PORT, without a path".to_owned()),
        }
    };
    let address = first(context, ENDPOINT, read).or_else(|| {
        let named = first(context, &["OTEL_TRACES_EXPORTER"], exporter)?;
        let (value, _) = parse_url(DEFAULT_ENDPOINT).ok()?;
        Some(FromVariable {
            value,
            variable: named.variable,
        })
    })?;
    let protocol = PROTOCOL.iter().find_map(|variable| {
        let text = context.variable(variable)?;
        (text.trim() != "grpc").then_some(*variable)
    });
    if let Some(variable) = protocol {
        context.warn(format!(
            "{variable}: expected grpc, the only protocol here; the collector of {} gets no spans",
            address.variable
        ));
        return None;
    }
    Some(address)
}

/// Warns about variables that would change what a collector accepts, and that have no effect here.
fn note_unsupported(context: &ReadContext<'_>) {
    first(context, COMPRESSION, |text| match text {
        "none" => Ok(()),
        _ => Err("none: spans are sent without compression".to_owned()),
    });
    first(context, CLIENT_CERTIFICATE, |_| {
        Err::<(), _>("nothing: there is no certificate for the collector".to_owned())
    });
}

/// `OTEL_TRACES_SAMPLER`, with the share in `OTEL_TRACES_SAMPLER_ARG`.
fn sampling(context: &ReadContext<'_>) -> Option<FromVariable<TraceSampling>> {
    const ALL: u32 = TraceShare::BILLION;
    let sampler = first(context, &["OTEL_TRACES_SAMPLER"], |text| {
        let (parent, of_rest) = match text.strip_prefix("parentbased_") {
            Some(of_rest) => (ParentSampling::Decides, of_rest),
            None => (ParentSampling::Ignored, text),
        };
        let share = match of_rest {
            "always_on" => Some(ALL),
            "always_off" => Some(0),
            "traceidratio" => None,
            _ => {
                return Err(
                    "always_on, always_off, traceidratio, or one of these after parentbased_"
                        .to_owned(),
                );
            }
        };
        Ok((parent, share))
    })?;
    let (parent, share) = sampler.value;
    let of_argument = || {
        let argument = first(context, &["OTEL_TRACES_SAMPLER_ARG"], |text| {
            let share: Option<f64> = text.parse().ok();
            let share = share.filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| "a number from 0 to 1".to_owned())
        });
        // OpenTelemetry traces everything where the share is absent or wrong.
        argument.map_or(ALL, |of| (of.value * f64::from(ALL)).round() as u32)
    };
    Some(FromVariable {
        value: TraceSampling {
            share: TraceShare::PerBillion(share.unwrap_or_else(of_argument)),
            parent,
        },
        variable: sampler.variable,
    })
}

/// Headers for the collector. One that is wrong is left out, and the others are sent.
fn headers(context: &ReadContext<'_>) -> Option<FromVariable<SecretHeaders>> {
    let variable = HEADERS
        .iter()
        .find(|name| context.variable(name).is_some())?;
    let text = context.variable(variable)?;
    let mut headers = Vec::new();
    for (number, item) in text.split(',').enumerate() {
        match pair(item).filter(|(name, value)| is_header(name, value)) {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value)),
            None => context.warn(format!(
                "{variable}: item {} is ignored: expected name=value, percent-encoded, with commas between",
                number + 1
            )),
        }
    }
    (!headers.is_empty()).then_some(FromVariable {
        value: SecretHeaders(headers),
        variable,
    })
}

fn is_header(name: &str, value: &str) -> bool {
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    // Metadata whose names end in -bin is binary in gRPC.
    name.bytes().all(in_name)
        && !name.to_ascii_lowercase().ends_with("-bin")
        && value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// `name=value,name=value`; `None` when one of them is wrong.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    text.split(',').map(pair).collect()
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let value = percent_decoded(value.trim())?;
    (!name.is_empty()).then(|| (name.to_owned(), value))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

fn millis(text: &str) -> Result<Nanos, String> {
    const HOUR: u64 = 3_600_000;
    let millis = number(text, HOUR).map_err(|range| format!("milliseconds, {range}"))?;
    Ok(Nanos::from_millis(millis))
}

fn count(text: &str) -> Result<usize, String> {
    const SPANS_MAX: u64 = 100_000;
    let spans = number(text, SPANS_MAX)?;
    usize::try_from(spans).map_err(|error| error.to_string())
}

fn number(text: &str, max: u64) -> Result<u64, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = text.parse().ok();
    number
        .filter(|number| is_number && (1..=max).contains(number))
        .ok_or_else(|| format!("1 to {max}"))
}
