//! The process itself: CPU time, memory, threads and descriptors, by the names that Prometheus'
//! client libraries use.
//!
//! Everything is read from `/proc` at a scrape and at no other time. Where there is none, as on
//! macOS, there are no series. There are no `process_network_…` series either: the kernel counts
//! bytes for a network namespace, so those of other processes of the container or the machine are
//! among them.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::collectors::gauge;

/// Memory of this process that is in RAM; `None` where the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    static PAGE_BYTES: OnceLock<u64> = OnceLock::new();
    let stat = read("/proc/self/stat")?;
    let pages = Stat::parse(&stat)?.resident_pages;
    Some(pages.saturating_mul(*PAGE_BYTES.get_or_init(page_bytes)))
}

/// Reads the process at each scrape.
#[derive(Debug, Default)]
pub(super) struct ProcessCollector {
    /// What does not change while the process runs, read at the first scrape.
    constants: OnceLock<Constants>,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let constants = self.constants.get_or_init(Constants::read);
        let encoder = &mut encoder;
        if let Some(stat) = read("/proc/self/stat").as_deref().and_then(Stat::parse) {
            encode_stat(&stat, constants, encoder)?;
        }
        let descriptors = [
            ("process_open_fds", "Open file descriptors.", open_fds()),
            (
                "process_max_fds",
                "The most file descriptors that may be open.",
                read("/proc/self/limits").as_deref().and_then(max_fds),
            ),
        ];
        for (name, help, count) in descriptors {
            if let Some(count) = count {
                let series = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                gauge(count).encode(series)?;
            }
        }
        Ok(())
    }
}

fn encode_stat(
    stat: &Stat,
    constants: &Constants,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let help = "CPU time of all threads, in user and system mode.";
    let (name, unit) = ("process_cpu", Some(&Unit::Seconds));
    let cpu = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    ConstCounter::new(constants.seconds(stat.cpu_ticks)).encode(cpu)?;
    if let Some(boot) = constants.boot {
        let help = "When the process started, in seconds since 1970.";
        let (name, unit) = ("process_start_time", Some(&Unit::Seconds));
        let start = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        ConstGauge::new(boot + constants.seconds(stat.start_ticks)).encode(start)?;
    }
    let resident = stat.resident_pages.saturating_mul(constants.page_bytes);
    for (name, help, bytes) in [
        (
            "process_virtual_memory",
            "Virtual memory.",
            stat.virtual_bytes,
        ),
        ("process_resident_memory", "Resident memory.", resident),
    ] {
        let series =
            encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
        gauge(bytes).encode(series)?;
    }
    let threads =
        encoder.encode_descriptor("process_threads", "Threads.", None, MetricType::Gauge)?;
    gauge(stat.threads).encode(threads)
}

/// Units of the kernel, and the time from which it counts.
#[derive(Debug)]
struct Constants {
    ticks_per_second: u64,
    page_bytes: u64,
    /// Seconds since 1970; `None` where it cannot be read.
    boot: Option<f64>,
}

impl Constants {
    fn read() -> Self {
        const CLOCK_TICK: usize = 17;
        let auxiliary = read_bytes("/proc/self/auxv").unwrap_or_default();
        Self {
            ticks_per_second: auxiliary_value(&auxiliary, CLOCK_TICK).unwrap_or(100),
            page_bytes: page_bytes(),
            boot: read("/proc/stat").as_deref().and_then(boot_time),
        }
    }

    fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_second as f64
    }
}

/// The numbers of `/proc/self/stat` that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name of the program is in brackets, and may hold brackets and spaces itself.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The manual of proc(5) counts the fields from 1; the third one is the first here.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// The number of open descriptors. Since Linux 6.2 it is the size of the directory; before, the
/// entries have to be counted, among which is the one that counts them.
fn open_fds() -> Option<u64> {
    const DIRECTORY: &str = "/proc/self/fd";
    match fs::metadata(DIRECTORY).ok()?.len() {
        0 => Some((fs::read_dir(DIRECTORY).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

/// The soft limit; `None` when there is none.
fn max_fds(limits: &str) -> Option<u64> {
    let line = |line: &str| line.strip_prefix("Max open files").map(str::to_owned);
    let line = limits.lines().find_map(line)?;
    line.split_whitespace().next()?.parse().ok()
}

fn boot_time(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// Linux gives every program this number; 4,096 is the usual one.
fn page_bytes() -> u64 {
    const PAGE_SIZE: usize = 6;
    let auxiliary = read_bytes("/proc/self/auxv").unwrap_or_default();
    auxiliary_value(&auxiliary, PAGE_SIZE).unwrap_or(4_096)
}

/// A number of the auxiliary vector: pairs of a type and a value, each of the size of a pointer.
fn auxiliary_value(vector: &[u8], wanted: usize) -> Option<u64> {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.try_into().ok().map(usize::from_ne_bytes);
    let mut pairs = vector.chunks_exact(2 * WORD);
    let value = pairs.find_map(|pair| {
        let (kind, value) = pair.split_at(WORD);
        (word(kind)? == wanted).then(|| word(value))?
    })?;
    u64::try_from(value).ok().filter(|value| *value > 0)
}

/// A file of `/proc` as text, whatever the name of the program holds.
fn read(path: &str) -> Option<String> {
    read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The beginning of a file. That of `/proc/stat` is the longest: it grows with CPUs and interrupts.
fn read_bytes(path: &str) -> Option<Vec<u8>> {
    const LENGTH_MAX: u64 = 1 << 20;
    let mut bytes = Vec::new();
    let mut file = File::open(path).ok()?.take(LENGTH_MAX);
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let rest =
            "S 1 2 3 0 -1 4 5 6 7 8 250 50 0 0 20 0 9 0 1234 4096000 77 18446744073709551615";
        let expected = Stat {
            cpu_ticks: 300,
            threads: 9,
            start_ticks: 1_234,
            virtual_bytes: 4_096_000,
            resident_pages: 77,
        };
        for name in ["sluicegate", "a) S 1 (b", "", "\u{fffd}"] {
            let text = format!("42 ({name}) {rest}\n");
            assert_eq!(Stat::parse(&text), Some(expected), "{name}");
        }
        for broken in [
            "",
            "42 (a",
            "42 (a) S 1 2",
            "42 (a) S x x x x x x x x x x x x x",
        ] {
            assert_eq!(Stat::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn other_files_are_read_or_left_out() {
        let limits =
            "Limit   Soft Limit   Hard Limit   Units\nMax open files   1024   4096   files\n";
        assert_eq!(max_fds(limits), Some(1_024));
        assert_eq!(max_fds(&limits.replace("1024", "unlimited")), None);
        assert_eq!(max_fds("Max open files"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1.7e9));
        assert_eq!(boot_time("cpu 1 2\n"), None);
        let vector: Vec<u8> = [6_usize, 65_536, 17, 250, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(auxiliary_value(&vector, 6), Some(65_536));
        assert_eq!(auxiliary_value(&vector, 17), Some(250));
        assert_eq!(auxiliary_value(&vector[..20], 17), None);
    }

    /// Other tests may run beside it in one process: the differences are larger than theirs.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_numbers_are_those_of_this_process() {
        use std::sync::{Arc, Barrier};
        use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

        let metrics = super::super::Metrics::new();
        let value = |name: &str| -> f64 {
            let text = metrics.encode();
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.expect("it is there").trim().parse().unwrap()
        };
        let started = value("process_start_time_seconds ");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!((0.0..3_600.0).contains(&(now.as_secs_f64() - started + 1.0)));

        let open = value("process_open_fds ");
        let files: Vec<File> = (0..300).map(|_| File::open("/dev/null").unwrap()).collect();
        assert!(value("process_open_fds ") >= open + 200.0);
        assert!(value("process_max_fds ") >= value("process_open_fds "));
        drop(files);

        let resident = value("process_resident_memory_bytes ");
        let memory = vec![1_u8; 64 << 20];
        assert!(value("process_resident_memory_bytes ") > resident + f64::from(48 << 20));
        assert!(value("process_virtual_memory_bytes ") > memory.len() as f64);

        let threads = value("process_threads ");
        let barrier = Arc::new(Barrier::new(51));
        let more: Vec<_> = (0..50)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                std::thread::spawn(move || barrier.wait())
            })
            .collect();
        assert!(value("process_threads ") >= threads + 25.0);
        barrier.wait();
        more.into_iter().for_each(|thread| drop(thread.join()));

        let busy = value("process_cpu_seconds_total ");
        let begun = Instant::now();
        while value("process_cpu_seconds_total ") < busy + 0.05 {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        assert_eq!(value("process_start_time_seconds "), started);
    }
}
