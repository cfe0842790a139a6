//! How long it takes to judge a history, by its calls, its objects and how many of them are under way at once, beside the
//! straightforward search of Wing and Gong.
//!
//! ```text
//! cargo bench -p csi-suite-stateful
//! ```
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

#[path = "../tests/it/plain.rs"]
mod plain;
#[path = "../tests/it/simulation.rs"]
mod simulation;
#[path = "../tests/it/story.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod story;
#[path = "../tests/it/toy.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod toy;

use csi_suite_stateful::history::{History, Parts, check};
use divan::Bencher;
use divan::counter::ItemsCount;

use crate::simulation::{Plan, simulate};

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

/// A hundred volumes, sixteen workers.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn by_calls(bencher: Bencher<'_, '_>, calls: usize) {
    judge(bencher, &history(calls, 100, 16));
}

/// Ten thousand calls of sixteen workers.
#[divan::bench(args = [10, 100, 1_000], sample_count = 5, sample_size = 1)]
fn by_volumes(bencher: Bencher<'_, '_>, volumes: u16) {
    judge(bencher, &history(10_000, volumes, 16));
}

/// Ten thousand calls about a hundred volumes.
#[divan::bench(args = [1, 16, 64, 128], sample_count = 5, sample_size = 1)]
fn by_workers(bencher: Bencher<'_, '_>, workers: u16) {
    judge(bencher, &history(10_000, 100, workers));
}

/// The straightforward search, of two volumes and four workers.
#[divan::bench(args = [4, 8, 12, 16], sample_count = 5, sample_size = 1)]
fn plainly(bencher: Bencher<'_, '_>, calls: usize) {
    let volumes = small(calls);
    bencher.counter(ItemsCount::new(calls)).bench_local(|| plain::has_order(&volumes.volumes));
}

/// The same histories, judged as usual.
#[divan::bench(args = [4, 8, 12, 16], sample_count = 5, sample_size = 1)]
fn not_plainly(bencher: Bencher<'_, '_>, calls: usize) {
    let history = small_history(calls);
    bencher.counter(ItemsCount::new(calls)).bench_local(|| check(&history));
}

/// A history that has no order, so that the straightforward search has to try everything.
fn small_history(calls: usize) -> History {
    let of = |seed| {
        simulate(&Plan {
            calls,
            volumes: 2,
            workers: 4,
            races: [simulation::Race::OnNames].into(),
            ..Plan::new(seed)
        })
    };
    (0..).map(of).find(|history| !check(history).unordered.is_empty()).unwrap()
}

fn small(calls: usize) -> Parts {
    Parts::of(&small_history(calls))
}
