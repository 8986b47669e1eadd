//! Times contestants in turns, so that whatever else the machine does hits all of them alike.

use std::sync::Barrier;
use std::time::Instant;

use super::contestants::{Contestant, Who};
use super::keys::Key;
use super::loads::{DENIED_FILL, Load, Pattern, Stream};
use super::results::{Cell, Row, Sample};
use crate::cpu;
use crate::rate::Answer;

/// All rows of one load for one type of key.
pub fn rows<K: Key>(load: &Load, rounds: usize, mut on_row: impl FnMut(&str)) -> Vec<Row> {
    let stream = load.stream::<K>();
    if load.pattern == Pattern::New {
        on_row(&label::<K>(load, Answer::Allowed));
        return vec![new_key_row(load, &stream, rounds)];
    }
    let mut rows = Vec::new();
    for answer in [Answer::Allowed, Answer::Denied] {
        on_row(&label::<K>(load, answer));
        let line_up = line_up::<K>(load, answer);
        line_up
            .iter()
            .for_each(|(_, contestant)| fill(&**contestant, load, answer));
        rows.extend(
            [1, 2].map(|threads| steady_row(load, answer, threads, &line_up, &stream, rounds)),
        );
    }
    rows
}

type LineUp<K> = Vec<(Who, Box<dyn Contestant<K>>)>;

fn label<K: Key>(load: &Load, answer: Answer) -> String {
    format!("{}, {} keys, {}", load.name, K::KIND.name(), answer.name())
}

fn line_up<K: Key>(load: &Load, answer: Answer) -> LineUp<K> {
    let runs = |who: &Who| *who != Who::FullPath || ["hot", "1m"].contains(&load.id);
    let build = |who: Who| Some((who, who.build::<K>(load.rate(answer), load.keys as usize)?));
    Who::ALL
        .into_iter()
        .filter(runs)
        .filter_map(build)
        .collect()
}

/// Brings every key's bucket into its steady state.
pub fn fill<K: Key>(contestant: &dyn Contestant<K>, load: &Load, answer: Answer) {
    let cost = match answer {
        Answer::Allowed => 1,
        Answer::Denied => DENIED_FILL,
    };
    for index in 0..load.keys {
        contestant.spend(&K::nth(index), cost);
    }
}

/// Decisions on keys that are all known; the table is warm from the rounds before.
fn steady_row<K: Key>(
    load: &Load,
    answer: Answer,
    threads: usize,
    line_up: &LineUp<K>,
    stream: &Stream<K>,
    rounds: usize,
) -> Row {
    let mut cells: Vec<Cell> = line_up.iter().map(|(who, _)| Cell::new(*who)).collect();
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
    Row {
        load: load.name,
        key: K::KIND,
        answer,
        threads,
        cells,
    }
}

/// Decisions on keys that were never seen, each round in a fresh instance.
fn new_key_row<K: Key>(load: &Load, stream: &Stream<K>, rounds: usize) -> Row {
    let answer = Answer::Allowed;
    let mut cells: Vec<Cell> = line_up::<K>(load, answer)
        .iter()
        .map(|(who, _)| Cell::new(*who))
        .collect();
    for round in 0..rounds {
        for place in 0..cells.len() {
            let turn = (place + round) % cells.len();
            let fresh = cells[turn]
                .who
                .build::<K>(load.rate(answer), load.keys as usize);
            let fresh = fresh.expect("it took part in the line-up");
            cells[turn]
                .samples
                .push(timed(&*fresh, &[stream.chunk(0)], stream.passes, answer));
        }
    }
    Row {
        load: load.name,
        key: K::KIND,
        answer,
        threads: 1,
        cells,
    }
}

/// One walk on each thread, all of them on the same contestant. The cost is the mean of the threads.
fn timed<K: Key>(
    contestant: &dyn Contestant<K>,
    chunks: &[&[K]],
    passes: usize,
    answer: Answer,
) -> Sample {
    if let [only] = chunks {
        return timed_walk(contestant, only, passes, answer);
    }
    let start = Barrier::new(chunks.len());
    let samples: Vec<Sample> = std::thread::scope(|scope| {
        let walk = |chunk| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                timed_walk(contestant, chunk, passes, answer)
            })
        };
        let walks: Vec<_> = chunks.iter().copied().map(walk).collect();
        walks
            .into_iter()
            .map(|walk| walk.join().expect("no contestant panics"))
            .collect()
    });
    Sample::mean(&samples)
}

fn timed_walk<K: Key>(
    contestant: &dyn Contestant<K>,
    chunk: &[K],
    passes: usize,
    answer: Answer,
) -> Sample {
    let (cpu_start, wall_start) = (cpu::of_this_thread(), Instant::now());
    let allowed = contestant.walk(chunk, passes);
    let (cpu, wall) = (cpu::of_this_thread() - cpu_start, wall_start.elapsed());
    let decisions = (chunk.len() * passes) as f64;
    let wrong = match answer {
        Answer::Allowed => decisions - allowed as f64,
        Answer::Denied => allowed as f64,
    };
    Sample {
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
                let exact = row.cells.iter().filter(|cell| cell.who.is_exact());
                let wrong: Vec<_> = exact
                    .filter(|cell| cell.wrong_share() > 0.0)
                    .map(|cell| cell.who)
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
