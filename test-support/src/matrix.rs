//! What is tried each day of the whole matrix of checks and drivers, and what at night.

use csi_harness::checks::shard::Shard;

/// The part of the whole matrix that is tried, if `MATRIX=2/4` asks for one: the second quarter. `None` is what is tried each day.
///
/// # Panics
/// If the variable names no part.
pub fn part() -> Option<Shard> {
    let asked = std::env::var("MATRIX").ok()?;
    let part = asked.parse().unwrap_or_else(|problem| panic!("MATRIX={asked}: {problem}"));
    Some(part)
}

/// These ways of being right as drivers that have several of them each, but for those that are `alone`; neighbours, which tend to be
/// of one kind, are in different ones. In a part of the whole matrix each has a driver of its own.
pub(crate) fn in_company<T: Copy + PartialEq + ToString>(
    all: &[T],
    alone: &[T],
    drivers: usize,
) -> Vec<Vec<T>> {
    if let Some(part) = part() {
        let here = all.iter().filter(|one| part.has(&one.to_string()));
        return here.map(|one| vec![*one]).collect();
    }
    let others: Vec<T> = all.iter().filter(|one| !alone.contains(one)).copied().collect();
    let company = |first: usize| others.iter().skip(first).step_by(drivers).copied().collect();
    alone.iter().map(|one| vec![*one]).chain((0..drivers).map(company)).collect()
}
