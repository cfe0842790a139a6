//! The results of all shards of a load as those of one load. Times are added exactly: each histogram has one entry for each time.

use std::collections::{BTreeMap, BTreeSet};

use crate::recorder::Series;
use crate::report::{Report, RpcEntry, StageEntry, ThresholdEntry};
use crate::scaling::Cost;
use crate::threshold::Threshold;

/// The reasons why results cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("{0}")]
    Different(String),
    /// The results of some shards are missing.
    #[error("shard {} of {of} is missing", .missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))]
    Missing {
        /// Their places, from 1.
        missing: Vec<u32>,
        of: u32,
    },
}

/// Merges the results in these files.
///
/// # Errors
/// They are not of all shards of one load.
pub fn merge(parts: &[(String, Report)]) -> Result<Report, MergeError> {
    let different = |problem: String| Err(MergeError::Different(problem));
    let Some((first_file, first)) = parts.first() else {
        return different("there are no results".to_owned());
    };
    let mut seen = BTreeMap::new();
    let of = first.shard.map_or(1, |shard| shard.of);
    for (file, part) in parts {
        if (&part.workload, &part.driver) != (&first.workload, &first.driver) {
            return different(format!("{first_file} and {file} are results of different loads or drivers"));
        }
        let Some(shard) = part.shard.filter(|shard| shard.of == of) else {
            return different(format!("{file} is not a shard of the load that {first_file} is a shard of"));
        };
        if let Some(other) = seen.insert(shard.index, file) {
            return different(format!("{other} and {file} are both shard {} of {of}", shard.index));
        }
    }
    let missing: Vec<u32> = (1..=of).filter(|index| !seen.contains_key(index)).collect();
    if !missing.is_empty() {
        return Err(MergeError::Missing { missing, of });
    }
    let parts: Vec<&Report> = parts.iter().map(|(_, part)| part).collect();
    let mut whole = Report {
        shard: None,
        stages: stages(&parts),
        growth: parts.iter().flat_map(|part| part.growth.clone()).collect(),
        cost: cost(&parts),
        thresholds: Vec::new(),
        exit_code: parts
            .iter()
            .map(|part| part.exit_code)
            .max_by_key(|code| gravity(*code))
            .unwrap_or_default(),
        ..first.clone()
    };
    whole.thresholds = first.thresholds.iter().filter_map(|entry| evaluate(&whole, entry)).collect();
    if whole.thresholds.iter().any(|threshold| !threshold.is_met) && gravity(whole.exit_code) < gravity(1) {
        whole.exit_code = 1;
    }
    Ok(whole)
}

/// The order in which exit codes of the shards become the one of the whole: interrupted, failed, not judged, passed.
fn gravity(code: u8) -> u8 {
    match code {
        0 => 0,
        130 => 3,
        1 => 2,
        _ => 1,
    }
}

/// A limit is one on the whole, so that it is compared with that.
fn evaluate(whole: &Report, entry: &ThresholdEntry) -> Option<ThresholdEntry> {
    let threshold: Threshold = entry.threshold.parse().ok()?;
    let (series, elapsed) = whole.whole(threshold.rpc())?;
    let (value, is_met) = threshold.evaluate(&series, elapsed);
    Some(ThresholdEntry { threshold: entry.threshold.clone(), value, is_met })
}

/// The stages of all parts, in the order in which they came. Stages of one name are the same one in all parts.
fn stages(parts: &[&Report]) -> Vec<StageEntry> {
    let mut order: Vec<(&str, usize)> = Vec::new();
    let mut of_stage: BTreeMap<(&str, usize), Vec<&StageEntry>> = BTreeMap::new();
    for part in parts {
        for (key, stage) in part.numbered_stages() {
            let entries = of_stage.entry(key).or_default();
            if entries.is_empty() {
                order.push(key);
            }
            entries.push(stage);
        }
    }
    order.iter().filter_map(|key| of_stage.get(key)).map(|stages| stage(stages)).collect()
}

fn stage(parts: &[&StageEntry]) -> StageEntry {
    let longest = |of: fn(&StageEntry) -> f64| parts.iter().map(|stage| of(stage)).fold(0.0, f64::max);
    let sum =
        |of: fn(&StageEntry) -> u64| parts.iter().fold(0, |sum: u64, stage| sum.saturating_add(of(stage)));
    let (seconds, slice_seconds) = (longest(|stage| stage.seconds), longest(|stage| stage.slice_seconds));
    let rpcs: BTreeSet<&str> =
        parts.iter().flat_map(|stage| &stage.rpcs).map(|entry| entry.rpc.as_str()).collect();
    let whole = |rpc: &str| {
        let mut whole = Series::default();
        for stage in parts {
            for entry in stage.rpcs.iter().filter(|entry| entry.rpc == rpc) {
                let mut series = entry.series();
                // A part whose stage took longer has longer slices: each time, two became one.
                let mut length = stage.slice_seconds;
                while length > 0.0 && length * 1.5 < slice_seconds {
                    series.halve();
                    length *= 2.0;
                }
                whole.join(&series);
            }
        }
        RpcEntry::new(rpc, &whole, seconds)
    };
    StageEntry {
        name: parts[0].name.clone(),
        seconds,
        cycles_due: parts.iter().map(|stage| stage.cycles_due).sum(),
        cycles_begun: sum(|stage| stage.cycles_begun),
        cycles_ended: sum(|stage| stage.cycles_ended),
        slice_seconds,
        rpcs: rpcs.into_iter().map(whole).collect(),
        ..StageEntry::default()
    }
}

/// The times of lists that all parts have read: each list has the volumes of all. A part of a load does not know how many volumes there are
/// when it makes other calls.
fn cost(parts: &[&Report]) -> Vec<Cost> {
    let mut points: Vec<(usize, f64)> =
        parts.iter().flat_map(|part| &part.cost).flat_map(|cost| cost.points.iter().copied()).collect();
    points.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    Cost::new("ListVolumes", points).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::ShardEntry;

    fn part(index: u32, slice_seconds: f64, times_us: &[u64]) -> (String, Report) {
        let mut series = Series::default();
        for (slice, us) in times_us.iter().enumerate() {
            series.add(slice, Duration::from_micros(*us));
        }
        series.failed("ABORTED");
        let stage = StageEntry {
            name: "hold".to_owned(),
            seconds: 4.0,
            cycles_due: Some(2),
            cycles_begun: 2,
            cycles_ended: 1,
            slice_seconds,
            rpcs: vec![RpcEntry::new("CreateVolume", &series, 4.0)],
            ..StageEntry::default()
        };
        let limit = ThresholdEntry {
            threshold: "CreateVolume rate > 1".to_owned(),
            value: String::new(),
            is_met: false,
        };
        let report = Report {
            shard: Some(ShardEntry { index, of: 2 }),
            stages: vec![stage],
            thresholds: vec![limit],
            ..Report::default()
        };
        (format!("{index}.json"), report)
    }

    #[test]
    fn every_call_of_every_part_is_in_the_whole() {
        let (short, long) = ([1_000, 2_000, 3_000, 4_000], [5_000, 6_000]);
        let whole = merge(&[part(1, 0.25, &short), part(2, 0.5, &long)]).unwrap();
        let stage = &whole.stages[0];
        assert_eq!((stage.cycles_due, stage.cycles_begun, stage.cycles_ended), (Some(4), 4, 2));
        let entry = &stage.rpcs[0];
        assert_eq!((entry.done, entry.errors["ABORTED"], entry.slices.len()), (6, 2, 2));
        assert!((entry.mean_ms - 3.5).abs() < 0.01 && entry.max_ms > 5.9 && entry.per_second == 1.5);
        assert!(whole.thresholds[0].is_met, "the limit is one on the whole");
        assert_eq!((whole.exit_code, whole.shard), (0, None));
    }

    #[test]
    fn parts_of_different_loads_or_too_few_are_no_whole() {
        let error = |parts: &[(String, Report)]| merge(parts).unwrap_err().to_string();
        assert_eq!(error(&[part(1, 0.25, &[1])]), "shard 2 of 2 is missing");
        assert!(error(&[part(1, 0.25, &[1]), part(1, 0.25, &[1])]).contains("both shard 1"));
        let (file, other) = part(2, 0.25, &[1]);
        let other = Report { driver: "other".to_owned(), ..other };
        assert!(error(&[part(1, 0.25, &[1]), (file, other)]).contains("different loads or drivers"));
        let (file, failed) = part(2, 0.25, &[1]);
        let failed = Report { exit_code: 1, ..failed };
        assert_eq!(merge(&[part(1, 0.25, &[1]), (file, failed)]).unwrap().exit_code, 1);
    }
}
