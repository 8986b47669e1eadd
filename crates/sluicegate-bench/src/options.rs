//! The options that all benches have in common.

use std::path::PathBuf;

use clap::Args;

use crate::callgrind_server::InstructionCounter;
use crate::event_counts::CountableEvents;

/// The last lines of every `--help`.
pub const EXIT_CODES: &str = "\
exit code: 0 when everything ran, whatever the figures; 1 when something could not be measured; 2 for the command line";

/// The extent of a run.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RunOptions {
    /// Three short rounds, for a first impression
    #[arg(long = "quick")]
    pub is_quick: bool,
    /// Rounds per load, at most 20 (7, or 3 when quick)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=ROUNDS_MAX))]
    rounds: Option<u8>,
    /// Loads and sections whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Print the tables and leave docs/performance-targets.md alone
    #[arg(long)]
    no_write: bool,
}

/// With more, the buckets of the loads that must pass would run empty.
const ROUNDS_MAX: i64 = 20;
const ROUNDS: u8 = 7;
const ROUNDS_QUICK: u8 = 3;

impl RunOptions {
    /// Rounds per load.
    pub fn rounds(&self) -> usize {
        let default = if self.is_quick { ROUNDS_QUICK } else { ROUNDS };
        usize::from(self.rounds.unwrap_or(default))
    }

    /// True when a load or section of this name is to be measured.
    pub fn includes(&self, name: &str) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase()))
    }

    /// True when the run may replace figures in the page: a part of the loads never does.
    pub fn may_write(&self) -> bool {
        !self.no_write && self.only.is_none()
    }
}

/// The options of benches that start servers.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ServerBenchOptions {
    #[command(flatten)]
    pub run: RunOptions,
    /// Our program, otherwise the one beside this bench
    #[arg(long, value_name = "PATH")]
    pub sluicegate: Option<PathBuf>,
    /// Do not count instructions with callgrind where the processor's counter cannot be read; a quick run never does
    #[arg(long)]
    no_callgrind: bool,
}

impl ServerBenchOptions {
    /// True when the run may replace figures in the page: a quick one is too short for that.
    pub fn may_write(&self) -> bool {
        self.run.may_write() && !self.run.is_quick
    }

    /// Callgrind, where it is wanted and the processor's own counter cannot be read.
    pub fn instruction_counter(&self, events: &CountableEvents) -> InstructionCounter {
        if events.has_instructions() || !self.counts_by_callgrind() {
            return InstructionCounter::Unneeded;
        }
        InstructionCounter::find()
    }

    fn counts_by_callgrind(&self) -> bool {
        !self.no_callgrind && !self.run.is_quick
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct ServerBench {
        #[command(flatten)]
        options: ServerBenchOptions,
    }

    fn parsed(line: &str) -> Result<ServerBenchOptions, ErrorKind> {
        let command = ServerBench::try_parse_from(line.split_whitespace());
        command
            .map(|command| command.options)
            .map_err(|error| error.kind())
    }

    fn options(line: &str) -> ServerBenchOptions {
        parsed(line).unwrap_or_else(|kind| panic!("{line}: {kind}"))
    }

    #[test]
    fn without_words_everything_is_measured_and_written() {
        let options = options("");
        assert_eq!((options.run.rounds(), options.may_write()), (7, true));
        assert!(options.run.includes("1 hot key"));
        assert_eq!(options.sluicegate, None);
    }

    #[test]
    fn quick_is_short_unless_rounds_are_given() {
        assert_eq!(options("--quick").run.rounds(), 3);
        assert_eq!(options("--rounds 9 --quick").run.rounds(), 9);
    }

    #[test]
    fn only_a_whole_run_replaces_the_page() {
        for part in ["--quick", "--only h2", "--no-write"] {
            assert!(!options(part).may_write(), "{part}");
        }
        assert!(options("--rounds 5 --sluicegate x").may_write());
    }

    #[test]
    fn instructions_are_counted_unless_there_is_no_time_for_it() {
        assert!(options("").counts_by_callgrind());
        assert!(!options("--quick").counts_by_callgrind());
        assert!(!options("--no-callgrind").counts_by_callgrind());
    }

    #[test]
    fn a_part_of_a_name_chooses_loads() {
        let options = options("--only zipf");
        assert!(options.run.includes("1 M Zipf 1.1"));
        assert!(!options.run.includes("1 hot key"));
    }

    #[test]
    fn a_program_can_be_named() {
        let program = Some(PathBuf::from("b"));
        assert_eq!(options("--sluicegate b").sluicegate, program);
    }

    #[test]
    fn mistakes_are_refused() {
        let cases = [
            ("--rounds 0", ErrorKind::ValueValidation),
            ("--rounds 21", ErrorKind::ValueValidation),
            ("--only", ErrorKind::InvalidValue),
            ("--sluicegate", ErrorKind::InvalidValue),
            ("--fast", ErrorKind::UnknownArgument),
            ("--help", ErrorKind::DisplayHelp),
        ];
        for (line, kind) in cases {
            assert_eq!(parsed(line).unwrap_err(), kind, "{line}");
        }
    }
}
