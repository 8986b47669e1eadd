//! Processor time used so far.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub fn of_this_thread() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

pub fn of_this_process() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
