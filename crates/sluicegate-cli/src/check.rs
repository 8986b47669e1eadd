//! `sluicegate check`: validates a configuration and prints in sentences what it enforces.
//!
//! `serve`, `explain` and `diff` load their configurations through this file too, so all of them
//! accept the same files.

mod report;

pub use report::mistakes_as_json;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sluicegate_config::{Jwt, Mistakes, Source, Syntax, load, mistakes_at};
use sluicegate_server::{LoadedConfig, check_files, count_files};

use crate::color;
use crate::exit_code::{FAILED, FINE};
use crate::sanitize::sanitize;
use report::CheckedConfig;

/// Arguments of `sluicegate check`.
#[derive(Args)]
pub struct Check {
    /// The configuration file, or - for standard input [env: SLUICEGATE_CONFIG=] [default: the built-in
    /// configuration]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration file, as for `serve`
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print the result as JSON; the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Do not read the files that the configuration names, such as keys and certificates: for machines that do not have them
    #[arg(long)]
    no_files: bool,
    #[command(flatten)]
    input: InputArgs,
}

/// What files without a telling name are written in; for commands that read standard input.
#[derive(Args, Clone, Copy)]
pub struct InputArgs {
    /// The format of standard input, and of files whose names end neither in .toml nor in .yaml, .yml
    /// or .json
    #[arg(long, value_enum, default_value_t = InputFormat::Yaml, value_name = "FORMAT")]
    input_format: InputFormat,
}

/// The format of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// YAML, or JSON
    Yaml,
    /// TOML
    Toml,
}

/// The form of the output of `sluicegate check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Sentences, and mistakes with the line they are in
    Text,
    /// One JSON object, with the place of each mistake
    Json,
    /// Workflow commands of GitHub Actions, which show mistakes beside the changed lines
    Github,
}

impl Check {
    /// Prints what the configuration enforces, or every mistake.
    pub fn run(self) -> u8 {
        let file_of_environment = || {
            let name = std::env::var_os("SLUICEGATE_CONFIG").filter(|name| !name.is_empty());
            name.map(PathBuf::from)
        };
        let path = self.file.or(self.config).or_else(file_of_environment);
        let format = if self.json { Format::Json } else { self.format };
        let source = source(path.as_deref(), self.input);
        let name = source.as_ref().map_or_else(
            |mistakes| mistakes.source_name().to_owned(),
            |source| source.name.clone(),
        );
        let read = source.and_then(|source| checked(source, self.no_files));
        match (&read, format) {
            (Ok(checked), Format::Text | Format::Github) => {
                checked.sentences().for_each(|line| println!("{line}"));
                match format {
                    Format::Github => print!("{}", report::github_warnings(&checked.warnings)),
                    _ => checked
                        .warnings
                        .iter()
                        .for_each(|warning| eprintln!("warning: {}", sanitize(warning))),
                }
            }
            (Err(mistakes), Format::Text) => show(mistakes),
            (Err(mistakes), Format::Github) => print!("{}", report::github(mistakes)),
            (read, Format::Json) => println!("{:#}", report::json(&name, read.as_ref())),
        }
        if read.is_ok() { FINE } else { FAILED }
    }
}

/// Loads a configuration and reads the files that it names, unless told otherwise.
fn checked(source: Source, no_files: bool) -> Result<CheckedConfig, Mistakes> {
    let config = load(&source, &from_environment)?;
    let mut unchecked = Vec::new();
    let fetched = config.principals.jwt.as_ref().and_then(Jwt::jwks_url);
    unchecked.extend(fetched.map(|url| format!("{} is not fetched by this check", url.shown())));
    let mut warnings = config.warnings.clone();
    match (count_files(&config), no_files) {
        (0, _) => {}
        (1, true) => unchecked.push("the file that it names was not read".to_owned()),
        (files, true) => unchecked.push(format!("the {files} files that it names were not read")),
        (_, false) => {
            let report = check_files(&config);
            if !report.mistakes.is_empty() {
                return Err(mistakes_at(&source, &from_environment, &report.mistakes));
            }
            warnings.extend(report.warnings);
        }
    }
    Ok(CheckedConfig {
        config,
        unchecked,
        warnings,
    })
}

/// Loads a file, or the built-in configuration. The error holds every mistake, not only the first.
pub fn read(path: Option<&Path>) -> Result<LoadedConfig, Mistakes> {
    let source = path.map_or_else(|| Ok(Source::embedded()), Source::read)?;
    load_source(source)
}

/// The same for commands that end: `-` is standard input, which cannot be read a second time.
pub fn read_once(path: Option<&Path>, input: InputArgs) -> Result<LoadedConfig, Mistakes> {
    source(path, input).and_then(load_source)
}

fn source(path: Option<&Path>, input: InputArgs) -> Result<Source, Mistakes> {
    let syntax = match input.input_format {
        InputFormat::Yaml => Syntax::Yaml,
        InputFormat::Toml => Syntax::Toml,
    };
    match path {
        None => Ok(Source::embedded()),
        Some(path) if path == Path::new("-") => {
            Source::read_from("standard input", syntax, std::io::stdin().lock())
        }
        Some(path) => Source::read(path).map(|source| Source {
            syntax: Syntax::of_file(path).unwrap_or(syntax),
            ..source
        }),
    }
}

fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn load_source(source: Source) -> Result<LoadedConfig, Mistakes> {
    let config = load(&source, &from_environment)?;
    Ok(LoadedConfig {
        config,
        text: source.text,
    })
}

/// Prints every mistake with the line of the file it is in; in colour on a terminal, unless
/// `NO_COLOR` is set.
pub fn show(mistakes: &Mistakes) {
    eprintln!("{}", mistakes.render(color::is_wanted(&std::io::stderr())));
}
