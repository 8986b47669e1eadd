//! Clocks that a test can step, for processes that know nothing of it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::{NamedTempFile, TempDir};

/// The shared library that is preloaded, compiled by `cc`. Clones share it; its file goes with the last of them.
#[derive(Clone, Debug)]
pub struct ClockShim {
    library: Arc<Library>,
}

impl ClockShim {
    /// Compiles the library, or returns the one in use in this process.
    #[track_caller]
    pub fn build() -> Self {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let library = in_use.upgrade().unwrap_or_else(|| {
            Arc::new(Library::compile().unwrap_or_else(|error| panic!("compiling the clock shim: {error}")))
        });
        *in_use = Arc::downgrade(&library);
        Self { library }
    }

    /// A new clock, not yet stepped. Processes that are given the same clock are stepped together.
    pub fn clock(&self) -> ShimClock {
        let offsets =
            NamedTempFile::with_prefix("tollgate-clock-").expect("the directory for temporary files can be written");
        let clock = ShimClock { shim: self.clone(), offsets: Arc::new(offsets) };
        clock.set_realtime_offset(0);
        clock.set_monotonic_offset(0);
        clock
    }
}

/// The clock of one or more child processes. Keep it as long as they run.
#[derive(Clone, Debug)]
pub struct ShimClock {
    shim: ClockShim,
    offsets: Arc<NamedTempFile>,
}

impl ShimClock {
    /// Puts the wall clock so many nanoseconds off, from now on.
    pub fn set_realtime_offset(&self, nanoseconds: i64) {
        self.write(0, nanoseconds);
    }

    /// Puts the monotonic clocks so many nanoseconds off, from now on.
    pub fn set_monotonic_offset(&self, nanoseconds: i64) {
        self.write(8, nanoseconds);
    }

    /// The environment by which a child process lives by this clock.
    pub fn env(&self) -> Vec<(String, String)> {
        let library = self.shim.library.path();
        let variables = [("LD_PRELOAD", library.as_path()), ("TOLLGATE_CLOCK_OFFSET_FILE", self.offsets.path())];
        variables.map(|(name, path)| (name.to_owned(), path.display().to_string())).to_vec()
    }

    /// Eight bytes in their place, so the process that maps the file sees the old or the new number.
    fn write(&self, at: u64, nanoseconds: i64) {
        let file: &File = self.offsets.as_file();
        file.write_all_at(&nanoseconds.to_ne_bytes(), at).expect("an open file of sixteen bytes can be written");
    }
}

static IN_USE: Mutex<Weak<Library>> = Mutex::new(Weak::new());

#[derive(Debug)]
struct Library {
    directory: TempDir,
}

impl Library {
    fn compile() -> io::Result<Self> {
        let library = Self { directory: tempfile::Builder::new().prefix("tollgate-shim-").tempdir()? };
        let source = library.directory.path().join("shim.c");
        fs::write(&source, include_str!("shim.c"))?;
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
            .arg(library.path())
            .arg(&source)
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(library)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("shim.so")
    }
}
