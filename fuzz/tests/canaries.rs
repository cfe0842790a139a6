//! Checks that a search finds the canary, a known bug, of every target from its seeds. This search knows no coverage,
//! so that it needs only a compiler; libFuzzer searches better.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use csi_fuzz::{TARGETS, Target};
use csi_test_support::run::from_environment;
use fastrand::Rng;

/// Limits the search for one canary.
const SEARCH_LIMIT: Duration = Duration::from_secs(60);
const BYTES_MAX: usize = 4096;
/// Limits the changes of a seed.
const CHANGES_MAX: usize = 6;

fn main() {
    let seed = from_environment("SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("SEED={seed}");
    let only = std::env::args().nth(1);
    let show = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let unfound: Vec<&str> = TARGETS
        .iter()
        .filter(|target| only.as_deref().is_none_or(|name| name == target.name))
        .filter(|target| !is_found(target, &mut Rng::with_seed(seed)))
        .map(|target| target.name)
        .collect();
    panic::set_hook(show);
    assert!(unfound.is_empty(), "not found: {unfound:?}");
}

fn is_found(target: &Target, rng: &mut Rng) -> bool {
    let seeds = (target.seeds)();
    if let Some(number) = seeds.iter().position(|seed| breaks(target, seed)) {
        eprintln!("{:<18} seed {number} alone finds it, which shows nothing", target.name);
        return false;
    }
    let began = Instant::now();
    for tries in 1.. {
        if breaks(target, &changed(&seeds, target.tokens, rng)) {
            eprintln!("{:<18} found by input {tries}, after {:?}", target.name, began.elapsed());
            return true;
        }
        if began.elapsed() > SEARCH_LIMIT {
            eprintln!("{:<18} not found by {tries} inputs", target.name);
            break;
        }
    }
    false
}

fn breaks(target: &Target, bytes: &[u8]) -> bool {
    panic::catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err()
}

/// Returns a seed with some changes.
fn changed(seeds: &[Vec<u8>], tokens: &[&str], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.choice(seeds).cloned().unwrap_or_default();
    for _ in 0..rng.usize(1..=CHANGES_MAX) {
        let at = rng.usize(0..=bytes.len());
        let end = (at + rng.usize(0..=8)).min(bytes.len());
        let new: Vec<u8> = match rng.u8(0..6) {
            0 => Vec::new(),
            1 => (at..end).map(|_| rng.u8(..)).collect(),
            2 => vec![rng.u8(..)],
            3 => vec![*rng.choice(b"\0\x01\xff\n 019azAZ/:-=").unwrap_or(&0)],
            4 => rng.choice(tokens).map_or_else(Vec::new, |token| token.as_bytes().to_vec()),
            _ => {
                let other = rng.choice(seeds).map_or(&[][..], Vec::as_slice);
                let from = rng.usize(0..=other.len());
                other[from..(from + rng.usize(0..=64)).min(other.len())].to_vec()
            }
        };
        // Some changes replace bytes, and others insert bytes.
        let end = if rng.bool() { at } else { end };
        bytes.splice(at..end, new);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}
