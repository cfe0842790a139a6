//! Selects the part of the matrix of checks and drivers that a run tries: a small one every day, a shard of the whole
//! matrix at night.

use csi_harness::checks::shard::Shard;

/// Returns the shard that `MATRIX` names, such as `MATRIX=2/4` for the second quarter of the whole matrix, or `None`
/// for the daily selection.
///
/// # Panics
/// Panics if the variable is no shard.
pub fn part() -> Option<Shard> {
    let text = std::env::var("MATRIX").ok()?;
    let part = text.parse().unwrap_or_else(|problem| panic!("MATRIX={text}: {problem}"));
    Some(part)
}

/// Distributes variants of correct drivers over a number of drivers, so that each driver has several of them; those
/// in `alone` get a driver of their own. Neighbours in the list tend to be alike, so they go to different drivers. In
/// a shard of the whole matrix each variant has its own driver.
pub(crate) fn distribute<T: Copy + PartialEq + ToString>(
    all: &[T],
    alone: &[T],
    drivers: usize,
) -> Vec<Vec<T>> {
    if let Some(part) = part() {
        let here = all.iter().filter(|one| part.has(&one.to_string()));
        return here.map(|one| vec![*one]).collect();
    }
    let others: Vec<T> = all.iter().filter(|one| !alone.contains(one)).copied().collect();
    let shared = |first: usize| others.iter().skip(first).step_by(drivers).copied().collect();
    alone.iter().map(|one| vec![*one]).chain((0..drivers).map(shared)).collect()
}
