//! The sections of a report that all benches of servers have: figures by load, and targets.

use crate::report::{Report, or_dash, three_digits};
use crate::samples::{ServerCell, ServerContestant, ServerRow, ServerSample, ServerTarget};
use crate::table::TextTable;

impl Report {
    /// Adds the figures of every contestant under every load; `unit` is what is counted, and
    /// `sharing` names those who share the machine's cores with it.
    pub fn add_server_rows<W: ServerContestant>(
        &mut self,
        title: &'static str,
        rows: &[ServerRow<W>],
        unit: &str,
        sharing: &str,
    ) {
        let (cpu, speed) = (format!("CPU µs per {unit}"), format!("{unit}s/s"));
        let headings = [
            "load",
            "contestant",
            &cpu,
            "user",
            "system",
            "ours over it",
            "system calls",
            "user instructions",
            &speed,
            "p50 ms",
            "p99 ms",
            "memory MiB",
        ];
        let mut table = TextTable::new(2, &headings);
        for row in rows {
            row.cells
                .iter()
                .for_each(|cell| table.push(fields(row, cell)));
        }
        let explanation = format!(
            "Medians of the rounds. Processor time is that of all processes of the contestant, the sum and its parts in user mode \
             and in the kernel; the kernel knows the sum exactly and divides it by samples. System calls and instructions in user \
             mode are per {unit} too, counted apart from the measured time; `–` where this machine cannot count them. The speed and the \
             time to an answer are those of the machine as a whole, whose cores {sharing}."
        );
        self.add(title, explanation, table);
    }

    /// Adds the targets that were measured; `unit` is what the time is counted per.
    pub fn add_cpu_targets<W: ServerContestant>(
        &mut self,
        rows: &[ServerRow<W>],
        targets: &[ServerTarget<W>],
        unit: &str,
    ) {
        let headings = ["load", "peer", "verdict", "ours over theirs", "at most"];
        let mut table = TextTable::new(3, &headings);
        for ServerTarget {
            load,
            peer,
            ratio_max,
        } in targets
        {
            let row = rows.iter().find(|row| row.name == *load);
            let Some(ratio) = row.and_then(|row| row.cpu_ratio_to(*peer)) else {
                continue;
            };
            let verdict = self.verdict(ratio, *ratio_max, || {
                format!(
                    "{load}, CPU per {unit}: {ratio:.3} of {}, at most {ratio_max}",
                    peer.name()
                )
            });
            let words = [load, peer.name(), &verdict].map(str::to_string);
            table.push(
                words
                    .into_iter()
                    .chain([three_digits(ratio), ratio_max.to_string()])
                    .collect(),
            );
        }
        let explanation = format!(
            "For each round our processor time per {unit} over the peer's, and of these the median."
        );
        self.add("Cost beside the peers", explanation, table);
    }
}

/// The line of one contestant under one load.
fn fields<W: ServerContestant>(row: &ServerRow<W>, cell: &ServerCell<W>) -> Vec<String> {
    let reconnects = cell.median(ServerSample::reconnect_share);
    let closes = if reconnects > 0.01 {
        format!(" (closes {:.0} %)", reconnects * 100.0)
    } else {
        String::new()
    };
    let peer = Some(cell.contestant).filter(|contestant| *contestant != W::OURS);
    let ratio = peer.and_then(|peer| row.cpu_ratio_to(peer));
    let calls = cell.counted(|counts| counts.system_calls);
    let numbers = [
        microseconds(cell.median(ServerSample::cpu_us)),
        microseconds(cell.median(ServerSample::user_us)),
        microseconds(cell.median(ServerSample::system_us)),
        or_dash(ratio.map(|ratio| format!("{ratio:.2}"))),
        or_dash(calls.map(|calls| format!("{calls:.2}"))),
        or_dash(cell.instructions().map(|count| format!("{count:.0}"))),
        format!("{:.0}", cell.median(ServerSample::requests_per_second)),
        format!("{:.2}", cell.median(ServerSample::p50_ms)),
        format!("{:.2}", cell.median(ServerSample::p99_ms)),
        format!("{:.1}", cell.median(ServerSample::memory_mib)),
    ];
    let words = [
        row.name.to_string(),
        format!("{}{closes}", cell.contestant.name()),
    ];
    words.into_iter().chain(numbers).collect()
}

/// Pipelined decisions cost less than a microsecond.
fn microseconds(us: f64) -> String {
    if us < 10.0 {
        format!("{us:.2}")
    } else {
        format!("{us:.1}")
    }
}
