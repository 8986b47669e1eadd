//! The standard variables of OpenTelemetry: after the file, and never a reason to refuse it.

use std::path::Path;

use sluicegate_config::{
    Config, ParentSampling, TraceBatch, TraceSampling, TraceShare, Traces, load,
};
use sluicegate_core::Nanos;

use crate::source;

fn loaded(text: &str, variables: &[(&str, &str)]) -> Config {
    let env = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    load(&source(text), &env).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[track_caller]
fn traces(text: &str, variables: &[(&str, &str)]) -> Traces {
    let config = loaded(text, variables);
    assert_eq!(config.warnings, [""; 0]);
    config.traces.expect("traces are on")
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
const SECTION: &str = "traces: { otlp: 'http://file:4317' }\n";

#[test]
fn an_endpoint_in_the_environment_turns_traces_on() {
    let set = traces("", &[ENDPOINT]);
    assert_eq!(set.otlp.url(), "http://collector:4317");
    assert_eq!(set.sampling, TraceSampling::default());
    assert_eq!(set.service_name, "sluicegate");
    assert_eq!(
        (set.timeout, set.batch),
        (Nanos::from_secs(5), TraceBatch::default())
    );
    assert_eq!(set.variables, [("otlp", "OTEL_EXPORTER_OTLP_ENDPOINT")]);
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://spans:1");
    assert_eq!(traces("", &[ENDPOINT, own]).otlp.url(), "https://spans:1");
    assert_eq!(
        traces("traces: {}", &[ENDPOINT]).otlp.url(),
        "http://collector:4317"
    );
    let only_named = [("OTEL_TRACES_EXPORTER", "otlp")];
    assert_eq!(traces("", &only_named).otlp.url(), "http://localhost:4317");
    for nothing in [
        &[][..],
        &[("OTEL_SERVICE_NAME", "edge")],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
        &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
        &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")],
    ] {
        let config = loaded("", nothing);
        assert_eq!(
            (config.traces, config.warnings),
            (None, vec![]),
            "{nothing:?}"
        );
    }
}

#[test]
fn an_endpoint_without_a_scheme_is_secure_unless_told() {
    let plain = ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    assert_eq!(traces("", &[plain]).otlp.url(), "https://collector:4317");
    let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "true");
    assert_eq!(
        traces("", &[plain, insecure]).otlp.url(),
        "http://collector:4317"
    );
    let secure = ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "false");
    assert!(traces("", &[plain, insecure, secure]).otlp.tls);
}

#[test]
fn keys_of_the_file_come_before_their_variables() {
    let variables = [
        ENDPOINT,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_SERVICE_NAME", "by-variable"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=by-attribute,zone=a%2Cb, host.name = c",
        ),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "64"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100"),
    ];
    let file =
        "traces: { otlp: 'https://file', one_in: 7, service_name: file, ca_file: /file.pem }";
    let set = traces(file, &variables);
    assert_eq!(
        (set.otlp.url(), set.service_name.as_str()),
        ("https://file:443".to_owned(), "file")
    );
    assert_eq!(set.otlp.ca_file.as_deref(), Some(Path::new("/file.pem")));
    assert_eq!(set.sampling.share, TraceShare::OneIn(7));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(set.resource, [pair("zone", "a,b"), pair("host.name", "c")]);
    assert_eq!(set.timeout, Nanos::from_millis(250));
    let batch = TraceBatch {
        delay: Nanos::from_millis(100),
        queue_max: 64,
        size_max: 64,
    };
    assert_eq!(set.batch, batch);
    let names: Vec<&str> = set.variables.iter().map(|(key, _)| *key).collect();
    assert_eq!(
        names,
        [
            "resource",
            "timeout",
            "batch_delay",
            "batch_queue",
            "batch_size"
        ]
    );

    let bare = traces("traces: { otlp: 'https://file' }", &variables);
    assert_eq!(bare.service_name, "by-variable");
    assert_eq!(bare.otlp.ca_file.as_deref(), Some(Path::new("/ca.pem")));
    let ratio = TraceSampling {
        share: TraceShare::PerBillion(250_000_000),
        parent: ParentSampling::Ignored,
    };
    assert_eq!(bare.sampling, ratio);
    assert_eq!(bare.origin("ca_file"), "OTEL_EXPORTER_OTLP_CERTIFICATE");
    assert_eq!(set.origin("ca_file"), "traces.ca_file");
    let attribute = [("OTEL_RESOURCE_ATTRIBUTES", "service.name=by-attribute")];
    assert_eq!(traces(SECTION, &attribute).service_name, "by-attribute");
}

#[test]
fn the_file_can_keep_traces_on_and_off() {
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        let config = loaded(SECTION, &[off]);
        assert!(config.traces.is_none());
        let told = format!(
            "{} turns traces off; `enabled: true` in the section keeps them on",
            off.0
        );
        assert_eq!(config.warnings, [told]);
        let on = "traces: { enabled: true, otlp: 'http://file:4317' }";
        assert_eq!(
            traces(on, &[off, ("OTEL_SERVICE_NAME", "edge")]).service_name,
            "edge"
        );
    }
    let off = loaded(
        "traces: { enabled: false, otlp: 'http://file:4317' }",
        &[ENDPOINT],
    );
    assert_eq!((off.traces, off.warnings), (None, vec![]));
}

#[test]
fn every_sampler_is_understood() {
    use ParentSampling::{Decides, Ignored};
    for (sampler, argument, share, parent) in [
        ("always_on", "0.5", 1_000_000_000, Ignored),
        ("always_off", "", 0, Ignored),
        ("traceidratio", "", 1_000_000_000, Ignored),
        ("traceidratio", "1e-9", 1, Ignored),
        ("parentbased_always_on", "", 1_000_000_000, Decides),
        ("parentbased_always_off", "1", 0, Decides),
        ("parentbased_traceidratio", "0.125", 125_000_000, Decides),
    ] {
        let variables = [
            ("OTEL_TRACES_SAMPLER", sampler),
            ("OTEL_TRACES_SAMPLER_ARG", argument),
        ];
        let share = TraceShare::PerBillion(share);
        let expected = TraceSampling { share, parent };
        assert_eq!(
            traces(SECTION, &variables).sampling,
            expected,
            "{sampler} {argument}"
        );
    }
}

#[test]
fn a_variable_that_cannot_be_used_is_warned_about_and_ignored() {
    for (variable, value, expected) in [
        ("OTEL_SDK_DISABLED", "1", "true or false"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
        (
            "OTEL_TRACES_SAMPLER",
            "jaeger_remote",
            "always_on, always_off, traceidratio, or one of these after parentbased_",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "10s",
            "milliseconds, 1 to 3600000",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "0",
            "milliseconds, 1 to 3600000",
        ),
        (
            "OTEL_BSP_SCHEDULE_DELAY",
            "-1",
            "milliseconds, 1 to 3600000",
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "+1", "1 to 100000"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100001", "1 to 100000"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=b,c",
            "name=value, percent-encoded, with commas between",
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=%F",
            "name=value, percent-encoded, with commas between",
        ),
        (
            "OTEL_EXPORTER_OTLP_COMPRESSION",
            "gzip",
            "none: spans are sent without compression",
        ),
        (
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "a.pem",
            "nothing: there is no certificate for the collector",
        ),
    ] {
        let config = loaded(SECTION, &[(variable, value)]);
        let warning = format!("{variable} is ignored: expected {expected}");
        assert_eq!(config.warnings, [warning], "{value}");
        let unset = loaded(SECTION, &[]);
        assert_eq!(config.traces, unset.traces, "{variable}");
    }
    let argument = [
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
    ];
    let config = loaded(SECTION, &argument);
    assert_eq!(
        config.warnings,
        ["OTEL_TRACES_SAMPLER_ARG is ignored: expected a number from 0 to 1"]
    );
    for value in [
        "collector",
        "ftp://a:1",
        "http://a:4318/v1/traces",
        "http://u:p@a",
    ] {
        let wrong = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value);
        let config = loaded(
            "",
            &[wrong, ENDPOINT, ("OTEL_EXPORTER_OTLP_INSECURE", "true")],
        );
        let is_fine = value == "collector";
        assert_eq!(config.warnings.is_empty(), is_fine, "{:?}", config.warnings);
        let url = config.traces.unwrap().otlp.url();
        assert_eq!(
            url == "http://collector:4317",
            !is_fine,
            "the general one is next"
        );
    }
    let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    let config = loaded("", &[ENDPOINT, http]);
    assert_eq!(config.traces, None);
    assert_eq!(
        config.warnings,
        [
            "OTEL_EXPORTER_OTLP_PROTOCOL: expected grpc, the only protocol here; the collector of OTEL_EXPORTER_OTLP_ENDPOINT gets no spans"
        ]
    );
}

#[test]
fn headers_of_the_environment_are_secrets() {
    let headers = (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Api-Key=hunter2, authorization=Bearer%20hunter2 ,broken,x-bin=hunter2,a b=c,z=%00",
    );
    let config = loaded(SECTION, &[headers]);
    let set = config.traces.as_ref().unwrap();
    assert_eq!(set.headers.names(), ["api-key", "authorization"]);
    assert_eq!(set.headers.0[1].1, "Bearer hunter2");
    let ignored = |item: u8| {
        format!(
            "OTEL_EXPORTER_OTLP_HEADERS: item {item} is ignored: expected name=value, percent-encoded, with commas between"
        )
    };
    assert_eq!(config.warnings, [3, 4, 5, 6].map(ignored));
    let words = config.in_words().join("\n");
    assert!(
        words.contains("the environment sets of traces: the headers api-key and authorization (OTEL_EXPORTER_OTLP_HEADERS)"),
        "{words}"
    );
    let other = loaded(SECTION, &[("OTEL_EXPORTER_OTLP_HEADERS", "api-key=other")]);
    let changes = format!("{:?}", config.changes_to(&other));
    for shown in [
        format!("{config:?}"),
        words,
        config.warnings.join("\n"),
        changes,
    ] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn shares_are_told_in_words() {
    for (argument, told) in [
        ("0.125", "12.5%"),
        ("1", "100%"),
        ("0", "0%"),
        ("0.0000001", "0.00001%"),
    ] {
        let variables = [
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", argument),
        ];
        let words = loaded(SECTION, &variables).in_words();
        let sentence = format!("{told} of the requests are traced, to http://file:4317");
        assert!(words.contains(&sentence), "{words:?}");
    }
}
