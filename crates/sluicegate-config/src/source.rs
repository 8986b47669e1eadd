//! A configuration as text, and where it came from: a file, or the built-in default.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::mistakes::Mistakes;

/// A configuration as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name that messages use, such as that of the file.
    pub name: String,
    /// The YAML.
    pub text: String,
    /// The directory that relative file names start from.
    pub base_dir: PathBuf,
}

impl Source {
    /// The longest text that is read, in bytes.
    pub(crate) const LENGTH_MAX: usize = 1 << 20;

    /// Reads a file; names in it are relative to the directory it is in.
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
            base_dir,
        })
    }

    /// Reads an open file or a pipe under a name for messages; names in it are relative to the
    /// working directory.
    pub fn read_from(name: &str, input: impl Read) -> Result<Self, Mistakes> {
        let text = read_text(input)
            .map_err(|error| Mistakes::whole(name, format!("cannot be read: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            text,
            base_dir: PathBuf::new(),
        })
    }

    /// The configuration that runs without a file: the proxy at 127.0.0.1:8080 in front of an echo,
    /// ten requests a second for each client.
    pub fn embedded() -> Self {
        Self {
            name: "built-in default".to_owned(),
            text: include_str!("default.yaml").to_owned(),
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
