//! Clocks that a test can step, for processes that know nothing of it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use crate::watchdog;

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
            Arc::new(
                Library::compile()
                    .unwrap_or_else(|error| panic!("compiling the clock shim: {error}")),
            )
        });
        *in_use = Arc::downgrade(&library);
        Self { library }
    }

    /// A new clock, not yet stepped. Processes that are given the same clock are stepped together.
    pub fn clock(&self) -> ShimClock {
        let directory = watchdog::temporary_directory("clock-");
        let file = File::create(directory.path().join(OFFSETS))
            .expect("a directory of ours can be written");
        let clock = ShimClock {
            shim: self.clone(),
            offsets: Arc::new(Offsets { file, directory }),
        };
        clock.set_realtime_offset(0);
        clock.set_monotonic_offset(0);
        clock
    }
}

/// The clock of one or more child processes. Keep it as long as they run.
#[derive(Clone, Debug)]
pub struct ShimClock {
    shim: ClockShim,
    offsets: Arc<Offsets>,
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
        let offsets = self.offsets.directory.path().join(OFFSETS);
        let variables = [
            ("LD_PRELOAD", library),
            ("SLUICEGATE_CLOCK_OFFSET_FILE", offsets),
        ];
        variables
            .map(|(name, path)| (name.to_owned(), path.display().to_string()))
            .to_vec()
    }

    /// Eight bytes in their place, so the process that maps the file sees the old or the new number.
    fn write(&self, at: u64, nanoseconds: i64) {
        let written = self
            .offsets
            .file
            .write_all_at(&nanoseconds.to_ne_bytes(), at);
        written.expect("an open file of sixteen bytes can be written");
    }
}

/// The file that the library maps.
#[derive(Debug)]
struct Offsets {
    file: File,
    directory: TempDir,
}

const OFFSETS: &str = "offsets";

static IN_USE: Mutex<Weak<Library>> = Mutex::new(Weak::new());

#[derive(Debug)]
struct Library {
    directory: TempDir,
}

impl Library {
    fn compile() -> io::Result<Self> {
        let library = Self {
            directory: watchdog::temporary_directory("shim-"),
        };
        let source = library.directory.path().join("shim.c");
        fs::write(&source, include_str!("shim.c"))?;
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
            .arg(library.path())
            .arg(&source)
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ));
        }
        Ok(library)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("shim.so")
    }
}
