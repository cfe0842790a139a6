//! The report of a load, for programs: JSON and CSV. It has every time that was measured, so that reports can be compared and merged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::usage::Resource;
use csi_proto::lock::Mutex;
use serde::{Deserialize, Serialize};

use crate::judge::LOAD_006;
use crate::recorder::milliseconds;
use crate::recorder::{Recorder, Series, Slice, StageRecord};
use crate::scaling::{Cost, Knee, WORTH_A_WORD};
use crate::threshold::Time;

/// The version of the form of the JSON report. It changes when a field changes its meaning or goes; fields may be added.
pub const VERSION: u32 = 1;
/// Bytes of a report that is read.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Calls are slower if they take this many times as long at the end of a stage as at its beginning.
const SLOWER: u32 = 4;
/// Parts of a stage with calls, and calls in each of them, that this needs.
const PARTS_MIN: usize = 8;
const CALLS_MIN: u64 = 4;

/// The measurements of a load, while it runs and afterwards.
#[derive(Clone, Debug, Default)]
pub struct Results {
    pub(crate) recorder: Arc<Recorder>,
    /// The parts of the report beside the measurements of calls.
    pub(crate) findings: Arc<Mutex<Report>>,
}

impl Results {
    /// The report, also of a load that was stopped.
    pub fn report(&self, workload: &str) -> Report {
        Report {
            version: VERSION,
            workload: workload.to_owned(),
            stages: self.recorder.stages().iter().map(stage_entry).collect(),
            ..self.findings.lock().clone()
        }
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The version of the form.
    pub version: u32,
    pub workload: String,
    /// The driver, with its version.
    pub driver: String,
    /// The part of a load that this is; `null` for a whole load.
    #[serde(default)]
    pub shard: Option<ShardEntry>,
    /// The parts of the load, those that create, check and delete the volumes included.
    pub stages: Vec<StageEntry>,
    /// Resources of the driver, if its process is seen.
    pub growth: Vec<GrowthEntry>,
    /// Times that depend on the number of volumes.
    pub cost: Vec<Cost>,
    /// Limits of the user.
    pub thresholds: Vec<ThresholdEntry>,
    /// The exit code of the load, or of the merged one.
    #[serde(default)]
    pub exit_code: u8,
}

/// A part of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Its place, from 1.
    pub index: u32,
    pub of: u32,
}

/// A part of the load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StageEntry {
    pub name: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// Life cycles that were due; `null` if that depended on the driver.
    pub cycles_due: Option<u64>,
    /// Life cycles that began.
    pub cycles_begun: u64,
    /// Life cycles that ended.
    pub cycles_ended: u64,
    /// A row for each number of life cycles that were under way at once: that number, the seconds in which it was so, and the number of life
    /// cycles that ended in these seconds. Empty in merged results, since no part knows how many others had under way.
    #[serde(default)]
    pub under_way: Vec<(u64, f64, u64)>,
    /// The number of callers from which on more of them mostly wait; `null` unless the stage has shown it.
    #[serde(default)]
    pub knee: Option<Knee>,
    /// The length of a slice of it, in seconds.
    #[serde(default)]
    pub slice_seconds: f64,
    pub rpcs: Vec<RpcEntry>,
}

/// Calls of one RPC in one stage. Times are in milliseconds, of calls that were done, from the moment at which they were due.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RpcEntry {
    /// Its name.
    pub rpc: String,
    pub done: u64,
    /// The number of them for each second.
    pub per_second: f64,
    /// Tries that were not done, by gRPC code, or `no answer`. Most were made again.
    pub errors: BTreeMap<String, u64>,
    /// Their mean time.
    pub mean_ms: f64,
    /// The time that 50 % did not exceed.
    pub p50_ms: f64,
    /// The time that 90 % did not exceed.
    pub p90_ms: f64,
    /// The time that 95 % did not exceed.
    pub p95_ms: f64,
    /// The time that 99 % did not exceed.
    pub p99_ms: f64,
    /// The time that 99.9 % did not exceed.
    pub p99_9_ms: f64,
    /// The longest time.
    pub max_ms: f64,
    /// Times by the slice of the stage in which the call ended: pairs of a time in microseconds, and the number of calls that took about
    /// as long.
    #[serde(default)]
    pub slices: Vec<Vec<(u64, u64)>>,
}

/// A resource of the driver over the longest stage of constant load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrowthEntry {
    pub resource: Resource,
    /// The amount at the beginning.
    pub before: u64,
    /// The amount at the end.
    pub after: u64,
    /// The amount that came with each life cycle, if it grew steadily.
    pub per_cycle: Option<f64>,
    /// Life cycles that had ended before each look, and the amount.
    #[serde(default)]
    pub points: Vec<(u64, u64)>,
}

impl GrowthEntry {
    /// Returns true if the amount is another one at the end than at the beginning.
    pub fn has_changed(&self) -> bool {
        self.before != self.after || self.per_cycle.is_some()
    }
}

/// A limit of the user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ThresholdEntry {
    /// The limit, as it was given.
    pub threshold: String,
    /// The value that was measured.
    pub value: String,
    /// True if the limit was kept.
    pub is_met: bool,
}

/// The remark on an RPC whose calls become slower while the load stays the same.
pub(crate) fn slower(stage: &StageRecord, rpc: &str, series: &Series) -> Option<Violation> {
    let medians = series.medians(CALLS_MIN);
    if medians.len() < PARTS_MIN {
        return None;
    }
    let third = medians.len() / 3;
    let mut first = medians[..third].to_vec();
    first.sort();
    // One slow part at the end, as on a machine that was busy, is no trend.
    let last = medians[medians.len() - third..].iter().copied().min()?;
    let first = first[third / 2];
    (last >= first * SLOWER && last - first >= WORTH_A_WORD).then(|| {
        Violation::new(format!("{rpc} becomes slower while the load stays the same"))
            .of(&LOAD_006)
            .expected("calls that take as long at the end of a stage as at its beginning")
            .actual(format!(
                "a median of {} in the first third of {:?}, and of {} or more in its last third",
                Time(first),
                stage.name,
                Time(last)
            ))
    })
}

pub(crate) fn stage_entry(stage: &StageRecord) -> StageEntry {
    let seconds = stage.elapsed.as_secs_f64();
    let under_way: Vec<(u64, f64, u64)> =
        stage.under_way.iter().map(|(count, (time, ended))| (*count, time.as_secs_f64(), *ended)).collect();
    StageEntry {
        name: stage.name.clone(),
        seconds,
        cycles_due: stage.planned,
        cycles_begun: stage.begun,
        cycles_ended: stage.ended,
        // At a rate, a driver that is slow has more life cycles under way, so that their number says nothing about callers.
        knee: Knee::of(&under_way).filter(|_| stage.planned.is_none()),
        under_way,
        slice_seconds: stage.slice.as_secs_f64(),
        rpcs: stage.rpcs.iter().map(|(rpc, series)| RpcEntry::new(rpc, series, seconds)).collect(),
    }
}

impl RpcEntry {
    pub(crate) fn new(rpc: &str, series: &Series, seconds: f64) -> RpcEntry {
        let percentile = |percent| milliseconds(series.percentile(percent));
        RpcEntry {
            rpc: rpc.to_owned(),
            done: series.done,
            per_second: series.done as f64 / seconds.max(1e-6),
            errors: series.codes.iter().map(|(code, tries)| (code.to_string(), *tries)).collect(),
            mean_ms: milliseconds(series.mean()),
            p50_ms: percentile(50.0),
            p90_ms: percentile(90.0),
            p95_ms: percentile(95.0),
            p99_ms: percentile(99.0),
            p99_9_ms: percentile(99.9),
            max_ms: percentile(100.0),
            slices: series.slices().iter().map(|slice| slice.clone().into_iter().collect()).collect(),
        }
    }

    /// The calls, with every time that was measured.
    pub fn series(&self) -> Series {
        let slices = self.slices.iter().map(|slice| slice.iter().copied().collect::<Slice>()).collect();
        let mean = Duration::try_from_secs_f64(self.mean_ms / 1e3).unwrap_or_default();
        let codes = self.errors.iter().map(|(code, tries)| (code.clone().into(), *tries)).collect();
        let mut series = Series::of_slices(slices, mean);
        series.codes = codes;
        series
    }
}

/// The reasons why a file is no report of a load.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("failed to read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: not the results of a load, which `csi-sanity load --results json=FILE` writes: {problem}", path.display())]
    Form { path: PathBuf, problem: String },
}

/// The part of a file by which the report of a load is known.
#[derive(Deserialize)]
struct Kind {
    version: Option<u32>,
    workload: Option<String>,
}

impl Report {
    /// Reads the report in a file; `None` if the file has JSON of another kind.
    ///
    /// # Errors
    /// The file cannot be read, or is the report of a load in a form that this version does not know.
    pub fn read(path: &Path) -> Result<Option<Report>, ReadError> {
        let failed = |source| ReadError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        File::open(path).map_err(failed)?.take(REPORT_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let Ok(Kind { version: Some(version), workload: Some(_) }) = serde_json::from_str(&text) else {
            return Ok(None);
        };
        let form = |problem| ReadError::Form { path: path.to_owned(), problem };
        if version != VERSION {
            return Err(form(format!("its version is {version}, and this program knows version {VERSION}")));
        }
        serde_json::from_str(&text).map(Some).map_err(|error| form(error.to_string()))
    }

    /// The stages, each with its name, and its number among those of this name.
    pub(crate) fn numbered_stages(&self) -> impl Iterator<Item = ((&str, usize), &StageEntry)> {
        let mut seen = BTreeMap::<&str, usize>::new();
        self.stages.iter().map(move |stage| {
            let number = seen.entry(&stage.name).or_default();
            *number += 1;
            ((stage.name.as_str(), *number), stage)
        })
    }

    /// All calls of an RPC, and the time of the stages in which there were any.
    pub fn whole(&self, rpc: &str) -> Option<(Series, Duration)> {
        Series::whole(self.stages.iter().filter_map(|stage| {
            let entry = stage.rpcs.iter().find(|one| one.rpc == rpc)?;
            Some((entry.series(), Duration::try_from_secs_f64(stage.seconds).unwrap_or_default()))
        }))
    }

    pub fn json(&self) -> String {
        // It has nothing in it that JSON cannot say.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// A line for each RPC in each stage.
    pub fn csv(&self) -> String {
        let mut lines = vec![
            "stage,rpc,done,per_second,errors,mean_ms,p50_ms,p90_ms,p95_ms,p99_ms,p99_9_ms,max_ms".to_owned(),
        ];
        for stage in &self.stages {
            for one in &stage.rpcs {
                let errors: u64 = one.errors.values().sum();
                lines.push(format!(
                    "{},{},{},{:.3},{errors},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3}",
                    quoted(&stage.name),
                    one.rpc,
                    one.done,
                    one.per_second,
                    one.mean_ms,
                    one.p50_ms,
                    one.p90_ms,
                    one.p95_ms,
                    one.p99_ms,
                    one.p99_9_ms,
                    one.max_ms
                ));
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_in_csv() {
        assert_eq!((quoted("hold"), quoted("a,\"b\"")), ("hold".to_owned(), "\"a,\"\"b\"\"\"".to_owned()));
    }
}
