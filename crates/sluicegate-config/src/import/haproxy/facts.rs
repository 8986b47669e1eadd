//! Criteria of ACLs as facts about a request: its rate, its address, or what our limits can match.

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

use crate::Source;
use crate::import::cover::Cover;
use crate::import::regex_path::regex_paths;

/// A fact about a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fact {
    /// A rate of requests is above a number.
    Rate { of: RateSource, above: u64 },
    /// One of these covers it; the text says how they differ from the criterion.
    Covered(Vec<Cover>, Option<String>),
    /// The client's address is in one of these networks.
    From(Vec<IpNet>),
    /// Every request, or none.
    Always(bool),
    /// A fact that our limits do not know.
    Other,
}

/// The counter that a rate is read from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RateSource {
    /// The counter of `track-scN`, and perhaps its table.
    Tracked(String, Option<String>),
    /// The entry of a key in a table; `None` is the table of the section.
    Entry(String, Option<String>),
}

impl Fact {
    /// The ACLs that exist without a definition.
    pub(super) fn predefined(name: &str) -> Option<Self> {
        let methods = |methods: &[&str]| {
            let methods = methods.iter().map(ToString::to_string).collect();
            let cover = Cover {
                methods,
                ..Cover::default()
            };
            Some(Self::Covered(vec![cover], None))
        };
        match name {
            "TRUE" | "HTTP" => Some(Self::Always(true)),
            "FALSE" => Some(Self::Always(false)),
            "LOCALHOST" => Some(Self::From("127.0.0.0/8".parse().into_iter().collect())),
            "METH_GET" => methods(&["GET", "HEAD"]),
            "HTTP_1.0" | "HTTP_1.1" | "HTTP_2.0" | "HTTP_CONTENT" | "HTTP_URL_ABS"
            | "HTTP_URL_SLASH" | "HTTP_URL_STAR" | "REQ_CONTENT" | "RDP_COOKIE" | "WAIT_END" => {
                Some(Self::Other)
            }
            _ => methods(&[name.strip_prefix("METH_")?]),
        }
    }
}

/// Reads a criterion with its flags and values; the second part is true for its contrary.
pub(super) fn fact(words: &[&str], base_dir: &Path) -> (Fact, bool) {
    let Some((criterion, rest)) = words.split_first() else {
        return (Fact::Other, false);
    };
    let mut method = "";
    let mut values: Vec<String> = Vec::new();
    let mut rest = rest.iter();
    let mut has_flags = true;
    while let Some(word) = rest.next() {
        match *word {
            "-i" | "-n" | "-u" if has_flags => {}
            "-m" if has_flags => method = rest.next().copied().unwrap_or_default(),
            "-f" if has_flags => match rest.next().and_then(|name| lines_of(name, base_dir)) {
                Some(lines) => values.extend(lines),
                None => return (Fact::Other, false),
            },
            "--" if has_flags => has_flags = false,
            value => {
                has_flags = false;
                values.push(value.to_owned());
            }
        }
    }
    if let Some(of) = rate_source(criterion) {
        return rate(of, &values);
    }
    (
        other_fact(criterion, method, &values).unwrap_or(Fact::Other),
        false,
    )
}

/// The lines of a file of patterns.
fn lines_of(name: &str, base_dir: &Path) -> Option<Vec<String>> {
    let path = base_dir.join(name);
    // Reading a pipe could wait for ever.
    let source = path.is_file().then(|| Source::read(path).ok()).flatten()?;
    let lines = source.text.lines().map(str::trim);
    let is_pattern = |line: &&str| !line.is_empty() && !line.starts_with('#');
    Some(lines.filter(is_pattern).map(str::to_owned).collect())
}

/// The counter of a fetch such as `sc_http_req_rate(0)`; `None` for any other fetch.
fn rate_source(criterion: &str) -> Option<RateSource> {
    if let Some((key, table)) = criterion.rsplit_once(",table_http_req_rate(") {
        return Some(RateSource::Entry(
            key.to_owned(),
            Some(table.trim_end_matches(')').to_owned()),
        ));
    }
    let (fetch, argument) = call(criterion);
    let argument = argument.filter(|argument| !argument.is_empty());
    let owned = |text: &str| text.trim().to_owned();
    match fetch {
        "sc_http_req_rate" => {
            let argument = argument?;
            let (number, table) = argument
                .split_once(',')
                .map_or((argument, None), |(number, table)| (number, Some(table)));
            Some(RateSource::Tracked(owned(number), table.map(owned)))
        }
        "src_http_req_rate" => Some(RateSource::Entry("src".to_owned(), argument.map(owned))),
        _ => {
            let number = fetch.strip_prefix("sc")?.strip_suffix("_http_req_rate")?;
            let is_number = number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| RateSource::Tracked(owned(number), argument.map(owned)))
        }
    }
}

/// `gt 100`, `ge 100`, `lt 100`, `le 100` or `100:`.
fn rate(of: RateSource, values: &[String]) -> (Fact, bool) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
    let read = match values.as_slice() {
        ["gt", text] => number(text).map(|number| (number, false)),
        ["ge", text] => number(text).and_then(|number| Some((number.checked_sub(1)?, false))),
        ["le", text] => number(text).map(|number| (number, true)),
        ["lt", text] => number(text).and_then(|number| Some((number.checked_sub(1)?, true))),
        [range] => range
            .strip_suffix(':')
            .and_then(number)
            .and_then(|number| Some((number.checked_sub(1)?, false))),
        _ => None,
    };
    match read {
        Some((above, is_negated)) => (Fact::Rate { of, above }, is_negated),
        None => (Fact::Other, false),
    }
}

/// A criterion that our limits or lists can express; `None` for any other.
fn other_fact(criterion: &str, method: &str, values: &[String]) -> Option<Fact> {
    let criterion = criterion
        .trim_end_matches(",lower")
        .trim_end_matches(",url_dec");
    let (fetch, argument) = call(criterion);
    let covered = |covers: Option<Vec<Cover>>| Some(Fact::Covered(covers?, None));
    match (fetch, method) {
        ("always_true", _) => Some(Fact::Always(true)),
        ("always_false", _) => Some(Fact::Always(false)),
        ("src", "" | "ip") => {
            let network = |text: &String| {
                let network = text.parse::<IpNet>().ok();
                let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
                Some(network.or_else(address)?.trunc())
            };
            Some(Fact::From(
                values.iter().map(network).collect::<Option<_>>()?,
            ))
        }
        ("method", "" | "str") => covered(Some(vec![Cover {
            methods: values
                .iter()
                .map(|value| value.to_ascii_uppercase())
                .collect(),
            ..Cover::default()
        }])),
        ("path_beg" | "path_dir" | "url_beg", _) | ("path" | "url", "beg" | "dir") => {
            let differs = "HAProxy compares the beginning of the path, here whole segments match";
            let covers = values.iter().map(|path| Cover::of_path(path));
            Some(Fact::Covered(
                covers.collect::<Option<_>>()?,
                Some(differs.to_owned()),
            ))
        }
        ("path" | "url", "" | "str") => {
            let is_below =
                |path: &String| Cover::of_path(path).filter(|cover| cover.path.is_some());
            let differs = "HAProxy compares the whole path, here paths below it match too";
            let covers = values.iter().map(is_below).collect::<Option<_>>()?;
            Some(Fact::Covered(covers, Some(differs.to_owned())))
        }
        ("path_reg", _) | ("path", "reg") => {
            let paths: Vec<Vec<String>> = values
                .iter()
                .map(|regex| regex_paths(regex))
                .collect::<Option<_>>()?;
            let covers = paths
                .concat()
                .iter()
                .map(|path| Cover::of_path(path))
                .collect::<Option<_>>()?;
            let differs =
                "HAProxy compares a regular expression, here the path and all below it match";
            Some(Fact::Covered(covers, Some(differs.to_owned())))
        }
        ("url_param" | "urlp", _) => parameter_fact(argument?, method, values),
        _ => header_fact(fetch, argument?, method, values),
    }
}

/// A criterion on a parameter of the query.
fn parameter_fact(parameter: &str, method: &str, values: &[String]) -> Option<Fact> {
    let name = parameter.split(',').next().unwrap_or_default().trim();
    let cover = |value: &str| Cover {
        query: vec![(name.to_owned(), value.to_owned())],
        ..Cover::default()
    };
    let covers = match method {
        "found" => vec![cover("*")],
        "" | "str" => values.iter().map(|value| cover(value)).collect(),
        _ => return None,
    };
    let differs = "HAProxy compares the first of several parameters as it was sent; here it is decoded, and one that occurs twice matches no value";
    (!name.is_empty()).then(|| Fact::Covered(covers, Some(differs.to_owned())))
}

/// A criterion on a header, the host above all.
fn header_fact(fetch: &str, header: &str, method: &str, values: &[String]) -> Option<Fact> {
    let header = header
        .split(',')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let fetch = fetch.trim_start_matches("req.");
    let kind = match (fetch, method) {
        ("hdr" | "fhdr", method) => method,
        (fetch, _) => fetch.strip_prefix("hdr_")?,
    };
    if header != "host" {
        let cover = |value: &str| Cover {
            headers: vec![(header.clone(), value.to_owned())],
            ..Cover::default()
        };
        return match kind {
            "found" => Some(Fact::Covered(vec![cover("*")], None)),
            "" | "str" => Some(Fact::Covered(
                values.iter().map(|value| cover(value)).collect(),
                None,
            )),
            _ => None,
        };
    }
    let mut hosts = Vec::new();
    for value in values {
        let value = value
            .split(':')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        match (kind, value.strip_prefix('.')) {
            ("" | "str", None) => hosts.push(value),
            ("end", Some(domain)) => hosts.push(format!("*.{domain}")),
            ("dom", None) | ("end", None) => hosts.extend([value.clone(), format!("*.{value}")]),
            _ => return None,
        }
    }
    let is_host = |host: &String| Cover::of_host(host).is_some();
    hosts.iter().all(is_host).then(|| {
        let cover = Cover {
            hosts: hosts.clone(),
            ..Cover::default()
        };
        Fact::Covered(vec![cover], None)
    })
}

/// Name and argument of `name(argument)`.
pub(super) fn call(text: &str) -> (&str, Option<&str>) {
    match text.split_once('(') {
        Some((name, rest)) => (name, Some(rest.trim_end_matches(')'))),
        None => (text, None),
    }
}
