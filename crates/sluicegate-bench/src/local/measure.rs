//! Times contestants in turns, so that whatever else the machine does hits all of them alike.

use std::sync::Barrier;
use std::time::Instant;

use super::contestants::{BenchLimiter, LocalContestant};
use super::keys::Key;
use super::loads::{DENIED_FILL, KeyPattern, KeyStream, LocalLoad};
use super::results::{LocalCell, LocalRow, LocalSample};
use crate::cpu;
use crate::rate::ExpectedAnswer;

/// All rows of one load for one type of key.
pub fn rows<K: Key>(
    load: &LocalLoad,
    rounds: usize,
    mut on_row: impl FnMut(&str),
) -> Vec<LocalRow> {
    let stream = load.stream::<K>();
    if load.pattern == KeyPattern::New {
        on_row(&label::<K>(load, ExpectedAnswer::Allowed));
        return vec![new_key_row(load, &stream, rounds)];
    }
    let mut rows = Vec::new();
    for answer in [ExpectedAnswer::Allowed, ExpectedAnswer::Denied] {
        on_row(&label::<K>(load, answer));
        let line_up = line_up::<K>(load, answer);
        line_up
            .iter()
            .for_each(|(_, limiter)| fill(&**limiter, load, answer));
        rows.extend(
            [1, 2].map(|threads| steady_row(load, answer, threads, &line_up, &stream, rounds)),
        );
    }
    rows
}

type Lineup<K> = Vec<(LocalContestant, Box<dyn BenchLimiter<K>>)>;

fn label<K: Key>(load: &LocalLoad, answer: ExpectedAnswer) -> String {
    format!("{}, {} keys, {}", load.name, K::KIND.name(), answer.name())
}

fn line_up<K: Key>(load: &LocalLoad, answer: ExpectedAnswer) -> Lineup<K> {
    let runs = |contestant: &LocalContestant| {
        *contestant != LocalContestant::FullPath || ["hot", "1m"].contains(&load.id)
    };
    let build = |contestant: LocalContestant| {
        Some((
            contestant,
            contestant.build::<K>(load.rate(answer), load.keys as usize)?,
        ))
    };
    LocalContestant::ALL
        .into_iter()
        .filter(runs)
        .filter_map(build)
        .collect()
}

/// Brings every key's bucket into its steady state.
pub fn fill<K: Key>(limiter: &dyn BenchLimiter<K>, load: &LocalLoad, answer: ExpectedAnswer) {
    let cost = match answer {
        ExpectedAnswer::Allowed => 1,
        ExpectedAnswer::Denied => DENIED_FILL,
    };
    for index in 0..load.keys {
        limiter.spend(&K::nth(index), cost);
    }
}

/// Decisions on keys that are all known; the table is warm from the rounds before.
fn steady_row<K: Key>(
    load: &LocalLoad,
    answer: ExpectedAnswer,
    threads: usize,
    line_up: &Lineup<K>,
    stream: &KeyStream<K>,
    rounds: usize,
) -> LocalRow {
    let mut cells: Vec<LocalCell> = line_up
        .iter()
        .map(|(contestant, _)| LocalCell::new(*contestant))
        .collect();
    for round in 0..rounds {
        for place in 0..line_up.len() {
            let turn = (place + round) % line_up.len();
            let chunks: Vec<&[K]> = (0..threads)
                .map(|thread| stream.chunk(round * threads + thread))
                .collect();
            let sample = timed(&*line_up[turn].1, &chunks, stream.passes, answer);
            cells[turn].samples.push(sample);
        }
    }
    LocalRow {
        load: load.name,
        key: K::KIND,
        answer,
        threads,
        cells,
    }
}

/// Decisions on keys that were never seen, each round in a fresh instance.
fn new_key_row<K: Key>(load: &LocalLoad, stream: &KeyStream<K>, rounds: usize) -> LocalRow {
    let answer = ExpectedAnswer::Allowed;
    let mut cells: Vec<LocalCell> = line_up::<K>(load, answer)
        .iter()
        .map(|(contestant, _)| LocalCell::new(*contestant))
        .collect();
    for round in 0..rounds {
        for place in 0..cells.len() {
            let turn = (place + round) % cells.len();
            let fresh = cells[turn]
                .contestant
                .build::<K>(load.rate(answer), load.keys as usize);
            let fresh = fresh.expect("it took part in the line-up");
            cells[turn]
                .samples
                .push(timed(&*fresh, &[stream.chunk(0)], stream.passes, answer));
        }
    }
    LocalRow {
        load: load.name,
        key: K::KIND,
        answer,
        threads: 1,
        cells,
    }
}

/// One walk on each thread, all of them on the same contestant. The cost is the mean of the threads.
fn timed<K: Key>(
    limiter: &dyn BenchLimiter<K>,
    chunks: &[&[K]],
    passes: usize,
    answer: ExpectedAnswer,
) -> LocalSample {
    if let [only] = chunks {
        return timed_walk(limiter, only, passes, answer);
    }
    let start = Barrier::new(chunks.len());
    let samples: Vec<LocalSample> = std::thread::scope(|scope| {
        let walk = |chunk| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                timed_walk(limiter, chunk, passes, answer)
            })
        };
        let walks: Vec<_> = chunks.iter().copied().map(walk).collect();
        walks
            .into_iter()
            .map(|walk| walk.join().expect("no contestant panics"))
            .collect()
    });
    LocalSample::mean(&samples)
}

fn timed_walk<K: Key>(
    limiter: &dyn BenchLimiter<K>,
    chunk: &[K],
    passes: usize,
    answer: ExpectedAnswer,
) -> LocalSample {
    let (cpu_start, wall_start) = (cpu::of_this_thread(), Instant::now());
    let allowed = limiter.walk(chunk, passes);
    let (cpu, wall) = (cpu::of_this_thread() - cpu_start, wall_start.elapsed());
    let decisions = (chunk.len() * passes) as f64;
    let wrong = match answer {
        ExpectedAnswer::Allowed => decisions - allowed as f64,
        ExpectedAnswer::Denied => allowed as f64,
    };
    LocalSample {
        cpu_ns: cpu.as_nanos() as f64 / decisions,
        wall_ns: wall.as_nanos() as f64 / decisions,
        wrong_share: wrong / decisions,
    }
}

#[cfg(test)]
mod tests {
    use super::super::loads::LOADS;
    use super::*;

    #[test]
    fn every_small_load_is_answered_as_it_says() {
        for load in LOADS
            .map(|load| load.shortened(1_000))
            .into_iter()
            .filter(|load| load.keys <= 10_000)
        {
            for row in rows::<String>(&load, 2, |_| {}) {
                let exact = row.cells.iter().filter(|cell| cell.contestant.is_exact());
                let wrong: Vec<_> = exact
                    .filter(|cell| cell.wrong_share() > 0.0)
                    .map(|cell| cell.contestant)
                    .collect();
                assert_eq!(wrong, [], "{} {:?} {}", row.load, row.answer, row.threads);
            }
        }
    }

    #[test]
    fn each_contestant_is_timed_once_a_round() {
        let load = LOADS[0].shortened(1_000);
        for row in rows::<u64>(&load, 3, |_| {}) {
            assert!(row.cells.iter().all(|cell| cell.samples.len() == 3));
        }
    }
}
