//! `traces`: the collector of spans, and how many requests are traced.

use std::path::PathBuf;

use sluicegate_core::Nanos;

use super::external::parse_url;
use super::otel::{FromVariable, InFile, OtelSettings};
use crate::field::{Field, ReadContext, Section};
use crate::typed::{ParentSampling, ServiceAddress, TraceBatch, TraceSampling, TraceShare, Traces};

/// The settings of the section.
#[derive(Debug, Default)]
struct FileSettings {
    otlp: Option<ServiceAddress>,
    ca_file: Option<PathBuf>,
    sampling: Option<TraceSampling>,
    service_name: Option<String>,
}

/// The settings; `None` when traces are off, or the address of the collector cannot be read.
///
/// Where there is no section, an address in the environment turns traces on.
pub(super) fn traces(field: Option<&Field<'_>>, context: &ReadContext<'_>) -> Option<Traces> {
    let Some(field) = field else {
        let environment = OtelSettings::read(context, InFile::default());
        return combined(FileSettings::default(), environment);
    };
    field.section(|section| {
        let is_on = section.enabled();
        let in_file = InFile {
            is_enabled: is_on && section.has("enabled"),
            has_endpoint: section.has("otlp"),
        };
        let environment = match is_on {
            true => OtelSettings::read(context, in_file),
            false => OtelSettings::default(),
        };
        let off_by = environment.off_by;
        let file = read(section, environment.otlp.is_some() || off_by.is_some());
        if let Some(variable) = off_by {
            context.warn(format!(
                "{variable} turns traces off; `enabled: true` in the section keeps them on"
            ));
            return None;
        }
        combined(file, environment).filter(|_| is_on)
    })?
}

/// Reads the section. The address may be missing where the environment has it.
fn read(section: &mut Section<'_>, is_in_environment: bool) -> FileSettings {
    let otlp = match is_in_environment {
        true => section.get("otlp"),
        false => section.need(
            "otlp",
            "where spans go by OTLP over gRPC, such as http://127.0.0.1:4317",
        ),
    };
    let otlp = otlp.and_then(|field| {
        let text = field.text()?;
        match parse_url(text) {
            Ok((at, path)) if path == "/" => Some(at),
            Ok(_) => {
                field.note("must have no path: OTLP over gRPC has its own");
                None
            }
            Err(why) => {
                field.note(why);
                None
            }
        }
    });
    let one_in = section.optional("one_in", |field| field.whole_number(1..=1_000_000_000));
    let service_name = section.text_or_none("service_name");
    let is_plain = otlp.as_ref().is_some_and(|otlp| !otlp.tls);
    let ca_file = section.optional("ca_file", |field| {
        if is_plain {
            field.note("needs a collector with https://");
        }
        field.file()
    });
    FileSettings {
        otlp,
        ca_file,
        sampling: one_in.map(|one_in| TraceSampling {
            share: TraceShare::OneIn(one_in),
            parent: ParentSampling::Adds,
        }),
        service_name,
    }
}

/// Each setting of the file, or that of the environment, or the default. `None` without a
/// collector.
fn combined(file: FileSettings, environment: OtelSettings) -> Option<Traces> {
    /// The longest that sending a batch takes, unless the environment says otherwise.
    const TIMEOUT: Nanos = Nanos::from_secs(5);
    let mut chosen = Chosen::default();
    let otlp = chosen.of("otlp", file.otlp, environment.otlp)?;
    let ca_file = environment.ca_file.filter(|_| otlp.tls);
    let ca_file = chosen.of("ca_file", file.ca_file, ca_file);
    let sampling = chosen.of("sampler", file.sampling, environment.sampling);
    let service_name = chosen.of("service_name", file.service_name, environment.service_name);
    let resource = chosen.of("resource", None, environment.resource);
    let mut resource = resource.unwrap_or_default();
    // The name may be one of the attributes.
    let of_resource = resource
        .iter()
        .rposition(|(name, _)| name == "service.name");
    let of_resource = of_resource.map(|at| resource.remove(at).1);
    let headers = chosen.of("headers", None, environment.headers);
    let timeout = chosen.of("timeout", None, environment.timeout);
    let default = TraceBatch::default();
    let delay = chosen.of("batch_delay", None, environment.batch_delay);
    let queue_max = chosen.of("batch_queue", None, environment.batch_queue);
    let queue_max = queue_max.unwrap_or(default.queue_max);
    let size_max = chosen.of("batch_size", None, environment.batch_size);
    Some(Traces {
        otlp: ServiceAddress { ca_file, ..otlp },
        sampling: sampling.unwrap_or_default(),
        service_name: service_name
            .or(of_resource)
            .unwrap_or_else(|| "sluicegate".to_owned()),
        resource,
        headers: headers.unwrap_or_default(),
        timeout: timeout.unwrap_or(TIMEOUT),
        batch: TraceBatch {
            delay: delay.unwrap_or(default.delay),
            queue_max,
            size_max: size_max.unwrap_or(default.size_max).min(queue_max),
        },
        variables: chosen.variables,
    })
}

/// Chooses between file and environment, and notes the variables that were chosen.
#[derive(Default)]
struct Chosen {
    variables: Vec<(&'static str, &'static str)>,
}

impl Chosen {
    fn of<T>(
        &mut self,
        key: &'static str,
        file: Option<T>,
        environment: Option<FromVariable<T>>,
    ) -> Option<T> {
        if file.is_some() {
            return file;
        }
        let environment = environment?;
        self.variables.push((key, environment.variable));
        Some(environment.value)
    }
}
