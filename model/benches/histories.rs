//! Measures the time to judge a history, by the number of its calls, of its objects and of the calls under way at once, and compares it
//! with the straightforward search of Wing and Gong.
//!
//! ```text
//! cargo bench -p csi-model
//! ```

use std::fmt;

use csi_model::history::{History, Parts, check};
use csi_test_support::histories::plain;
use csi_test_support::histories::simulation::{Plan, Race, simulate};
use divan::Bencher;
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

fn history(calls: usize, volumes: u16, workers: u16) -> History {
    simulate(&Plan { calls, volumes, workers, ..Plan::new(1) })
}

fn judge(bencher: Bencher<'_, '_>, history: &History) {
    let report = check(history);
    assert!(report.unordered.is_empty() && report.undecided.is_empty(), "{report:?}");
    bencher.counter(ItemsCount::new(history.entries.len())).bench_local(|| check(history));
}

/// The histories have a hundred volumes and sixteen workers.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn by_calls(bencher: Bencher<'_, '_>, calls: usize) {
    judge(bencher, &history(calls, 100, 16));
}

/// The histories have ten thousand calls of sixteen workers.
#[divan::bench(args = [10, 100, 1_000], sample_count = 5, sample_size = 1)]
fn by_volumes(bencher: Bencher<'_, '_>, volumes: u16) {
    judge(bencher, &history(10_000, volumes, 16));
}

/// The histories have ten thousand calls about a hundred volumes.
#[divan::bench(args = [1, 16, 64, 128], sample_count = 5, sample_size = 1)]
fn by_workers(bencher: Bencher<'_, '_>, workers: u16) {
    judge(bencher, &history(10_000, 100, workers));
}

/// Measures the straightforward search on histories of a hundred volumes and sixteen workers.
#[divan::bench(args = small(), sample_count = 3, sample_size = 1)]
fn plainly(bencher: Bencher<'_, '_>, small: &Small) {
    bencher.bench_local(|| plain::has_order(&small.parts.volumes, PLAIN_STEPS_MAX));
}

/// Measures the usual judgement on the histories of `plainly`.
#[divan::bench(args = small(), sample_count = 3, sample_size = 1)]
fn not_plainly(bencher: Bencher<'_, '_>, small: &Small) {
    bencher.bench_local(|| check(&small.history));
}

/// The straightforward search gives up after this number of steps.
const PLAIN_STEPS_MAX: u64 = 10_000;

/// A small history is shown as the number of its calls, with what the searches find.
struct Small {
    history: History,
    parts: Parts,
}

impl fmt::Display for Small {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_right = check(&self.history).unordered.is_empty();
        let gave_up = plain::has_order(&self.parts.volumes, PLAIN_STEPS_MAX).is_none();
        let (right, gave_up) =
            (if is_right { "right" } else { "wrong" }, if gave_up { ", gave up" } else { "" });
        write!(f, "{} {right}{gave_up}", self.history.entries.len())
    }
}

/// Returns histories of a right driver, and of a driver with a race.
fn small() -> impl Iterator<Item = Small> {
    [None, Some(Race::OnNames)].into_iter().flat_map(|race| {
        [20, 50, 100, 200].into_iter().map(move |calls| {
            let races = race.into_iter().collect();
            let history = simulate(&Plan { calls, volumes: 100, workers: 16, races, ..Plan::new(1) });
            let parts = Parts::of(&history);
            Small { history, parts }
        })
    })
}
