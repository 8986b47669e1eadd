//! A configuration as text, its syntax, and where it came from: a file, or the built-in default.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::mistakes::Mistakes;

/// A configuration as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name that messages use, such as that of the file.
    pub name: String,
    /// The text.
    pub text: String,
    /// What the text is written in.
    pub syntax: Syntax,
    /// The directory that relative file names start from.
    pub base_dir: PathBuf,
}

/// What a configuration is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// Also JSON, which is YAML.
    #[default]
    Yaml,
    /// TOML 1.1.
    Toml,
}

impl Syntax {
    /// The syntax that the end of a file's name says: `.toml`, or `.yaml`, `.yml` and `.json`. `None` for
    /// every other name.
    pub fn of_file(path: impl AsRef<Path>) -> Option<Self> {
        let extension = path.as_ref().extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" | "json" => Some(Self::Yaml),
            _ => None,
        }
    }
}

impl Source {
    /// The longest text that is read, in bytes.
    pub(crate) const LENGTH_MAX: usize = 1 << 20;

    /// Reads a file; names in it are relative to the directory it is in. A file is YAML unless its
    /// name ends in `.toml`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Mistakes> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = File::open(path)
            .and_then(read_text)
            .map_err(|error| Mistakes::whole(&name, format!("cannot be read: {error}")))?;
        let base_dir = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self {
            name,
            text,
            syntax: Syntax::of_file(path).unwrap_or_default(),
            base_dir,
        })
    }

    /// Reads an open file or a pipe under a name for messages; names in it are relative to the
    /// working directory.
    pub fn read_from(name: &str, syntax: Syntax, input: impl Read) -> Result<Self, Mistakes> {
        let text = read_text(input)
            .map_err(|error| Mistakes::whole(name, format!("cannot be read: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            text,
            syntax,
            base_dir: PathBuf::new(),
        })
    }

    /// The configuration that runs without a file: the proxy at 127.0.0.1:8080 in front of an echo,
    /// ten requests a second for each client.
    pub fn embedded() -> Self {
        Self {
            name: "built-in default".to_owned(),
            text: include_str!("default.yaml").to_owned(),
            syntax: Syntax::Yaml,
            base_dir: PathBuf::new(),
        }
    }
}

/// Reads at most one byte more than is accepted, so that a longer file is noticed without being
/// read to its end.
fn read_text(input: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    input
        .take(Source::LENGTH_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > Source::LENGTH_MAX {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}
