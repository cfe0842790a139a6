//! The report of a load, for programs: JSON and CSV. It has every time that was measured, so that reports can be compared and merged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::resources::trend::slope;
use csi_harness::resources::usage::Resource;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::judge::LOAD_006;
use crate::load::Results;
use crate::recorder::{Series, Slice, StageRecord};
use crate::threshold::Time;

/// The version of the form of the JSON report. It changes when a field changes its meaning or goes; fields may be added.
pub const VERSION: u32 = 1;
/// Bytes of a report that is read.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// An exponent from which on the cost counts as more than proportional.
const EXPONENT_MAX: f64 = 1.5;
/// Times below this depend on the machine more than on the driver.
const WORTH_A_WORD: Duration = Duration::from_millis(20);
/// Times from which on a cost that has become so many times as high has a number.
const WORTH_A_NUMBER: Duration = Duration::from_millis(2);
const HAS_GROWN: f64 = 4.0;
/// An exponent below which the cost counts as constant.
const EXPONENT_MIN: f64 = 0.2;
/// Time for which a number of callers has to be there, and life cycles that have to end meanwhile, so that their rate means something.
const KNEE_SECONDS_MIN: f64 = 0.5;
const KNEE_CYCLES_MIN: u64 = 5;
/// Numbers of callers of which the rate is known, and how many times the lowest the highest one has to be.
const KNEE_NUMBERS_MIN: usize = 5;
const KNEE_CALLERS_TIMES: u64 = 4;
/// The part of the highest rate from which on more callers mostly wait.
const KNEE_OF_HIGHEST: f64 = 0.9;
/// Calls are slower if they take this many times as long at the end of a stage as at its beginning.
const SLOWER: u32 = 4;
/// Parts of a stage with calls, and calls in each of them, that this needs.
const PARTS_MIN: usize = 8;
const CALLS_MIN: u64 = 4;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The version of the form.
    pub version: u32,
    /// The workload.
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
    /// The number of parts.
    pub of: u32,
}

/// A part of the load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageEntry {
    /// Its name.
    pub name: String,
    /// Its length in seconds.
    pub seconds: f64,
    /// Life cycles that were due; `null` if that depended on the driver.
    pub cycles_due: Option<u64>,
    /// Life cycles that began.
    pub cycles_begun: u64,
    /// Life cycles that ended.
    pub cycles_ended: u64,
    /// By the number of life cycles under way: that number, the seconds with so many, and how many ended in them. Empty in merged results,
    /// since no part knows what others have under way.
    #[serde(default)]
    pub under_way: Vec<(u64, f64, u64)>,
    /// The number of callers from which on more of them mostly wait; `null` unless the stage has shown it.
    #[serde(default)]
    pub knee: Option<Knee>,
    /// The length of a slice of it, in seconds.
    #[serde(default)]
    pub slice_seconds: f64,
    /// Calls by RPC.
    pub rpcs: Vec<RpcEntry>,
}

/// Calls of one RPC in one stage. Times are in milliseconds, of calls that were done, from the moment at which they were due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RpcEntry {
    /// Its name.
    pub rpc: String,
    /// Calls that were done.
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
    /// The resource.
    #[serde(serialize_with = "resource_name", deserialize_with = "resource_of_name")]
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

fn resource_name<S: Serializer>(resource: &Resource, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&name_of(*resource))
}

fn resource_of_name<'de, D: Deserializer<'de>>(from: D) -> Result<Resource, D::Error> {
    let name = String::deserialize(from)?;
    let found = Resource::ALL.into_iter().find(|resource| name_of(*resource) == name);
    found.ok_or_else(|| D::Error::custom(format!("{name:?} is no resource")))
}

fn name_of(resource: Resource) -> String {
    format!("{resource:?}").to_lowercase()
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

/// The time that a call takes beside so many volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The RPC; a list with all its pages.
    pub rpc: String,
    /// The power of the number of volumes with which the time grows; `null` if it is too short to say.
    pub exponent: Option<f64>,
    /// The number of volumes, and the time in milliseconds.
    pub points: Vec<(usize, f64)>,
}

impl Cost {
    /// The cost by calls, or lists, beside so many volumes, which took so many milliseconds.
    pub(crate) fn new(rpc: &str, points: Vec<(usize, f64)>) -> Option<Cost> {
        let (first, last) = (points.first()?.1, points.last()?.1);
        let logs: Vec<(f64, f64)> =
            points.iter().map(|(volumes, ms)| (((*volumes).max(1) as f64).ln(), ms.max(1e-3).ln())).collect();
        // At first, most of the time goes into the call itself.
        let large = &logs[logs.len().saturating_sub(4)..];
        let has_grown = last >= milliseconds(WORTH_A_NUMBER) && last >= first * HAS_GROWN;
        let exponent = (large.len() >= 3 && (last >= milliseconds(WORTH_A_WORD) || has_grown))
            .then(|| slope(large).max(0.0));
        Some(Cost { rpc: rpc.to_owned(), exponent, points })
    }

    /// The cost in words.
    pub(crate) fn text(&self) -> String {
        let (volumes, ms) = self.points.last().copied().unwrap_or_default();
        let time = Time(Duration::from_secs_f64(ms / 1e3));
        match self.exponent {
            Some(exponent) if exponent >= EXPONENT_MIN => {
                format!("{} grows with n^{exponent:.1}: {time} for {volumes} volumes", self.rpc)
            }
            _ => format!("{} takes {time} for {volumes} volumes", self.rpc),
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        let last = self.points.last()?.1;
        self.exponent.filter(|exponent| *exponent > EXPONENT_MAX && last >= milliseconds(WORTH_A_WORD))?;
        let points =
            self.points.iter().map(|(volumes, ms)| format!("{volumes}: {ms:.1} ms")).collect::<Vec<_>>();
        Some(
            Violation::new(format!("the time of {} grows more than the number of volumes", self.rpc))
                .of(&LOAD_006)
                .expected("time in proportion to the number of volumes")
                .actual(format!("{} ({})", self.text(), points.join(", "))),
        )
    }
}

/// The rate of life cycles by the number of callers, as far as a stage with more and more callers shows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Callers from which on the rate hardly rises: most of what others add is waiting.
    pub callers: u64,
    /// Life cycles that ended in each second with so many callers.
    pub per_second: f64,
    /// Callers with which the rate was highest.
    pub callers_at_highest: u64,
    /// The highest rate.
    pub highest_per_second: f64,
}

impl Knee {
    /// Finds it by the number of life cycles under way, the seconds with so many, and how many ended in them. `None` if their number did
    /// not rise enough to say.
    pub(crate) fn of(under_way: &[(u64, f64, u64)]) -> Option<Knee> {
        // Neighbouring numbers are joined until they were there for long enough: callers, seconds, life cycles that ended.
        let mut joined: Vec<(u64, f64, u64)> = Vec::new();
        for (callers, seconds, ended) in under_way.iter().copied().filter(|(callers, ..)| *callers > 0) {
            match joined.last_mut().filter(|last| last.1 < KNEE_SECONDS_MIN || last.2 < KNEE_CYCLES_MIN) {
                Some(last) => *last = (callers, last.1 + seconds, last.2 + ended),
                None => joined.push((callers, seconds, ended)),
            }
        }
        // The last ones may be too few.
        joined.retain(|(_, seconds, ended)| *seconds >= KNEE_SECONDS_MIN && *ended >= KNEE_CYCLES_MIN);
        let rate = |(_, seconds, ended): &(u64, f64, u64)| *ended as f64 / seconds;
        let (first, last) = (joined.first()?, joined.last()?);
        if joined.len() < KNEE_NUMBERS_MIN || last.0 < first.0 * KNEE_CALLERS_TIMES {
            return None;
        }
        let highest = joined.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
        let knee = joined.iter().find(|one| rate(one) >= rate(highest) * KNEE_OF_HIGHEST)?;
        Some(Knee {
            callers: knee.0,
            per_second: rate(knee),
            callers_at_highest: highest.0,
            highest_per_second: rate(highest),
        })
    }
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

pub(crate) fn milliseconds(time: Duration) -> f64 {
    // Microseconds are enough.
    time.as_micros() as f64 / 1e3
}

impl Results {
    /// The report, also of a load that was stopped.
    pub fn report(&self, workload: &str) -> Report {
        let findings = self.findings.lock().clone();
        Report {
            version: VERSION,
            workload: workload.to_owned(),
            driver: findings.driver,
            shard: findings.shard,
            stages: self.recorder.stages().iter().map(stage_entry).collect(),
            growth: findings.growth,
            cost: findings.cost,
            thresholds: findings.thresholds,
            exit_code: 0,
        }
    }
}

fn stage_entry(stage: &StageRecord) -> StageEntry {
    let seconds = stage.elapsed.as_secs_f64();
    let under_way: Vec<(u64, f64, u64)> =
        stage.under_way.iter().map(|(count, (time, ended))| (*count, time.as_secs_f64(), *ended)).collect();
    StageEntry {
        name: stage.name.clone(),
        seconds,
        cycles_due: stage.planned,
        cycles_begun: stage.begun,
        cycles_ended: stage.ended,
        // How many callers there are says nothing where life cycles are due at a rate.
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
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has another form.
    #[error("{}: not the results of a load, which `csi-sanity load --results json=FILE` writes: {problem}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: String,
    },
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

    /// The report as JSON.
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

    fn cost(time_us: impl Fn(u64) -> u64) -> Cost {
        let points = [31, 62, 125, 250, 500, 1_000].map(|n| (n as usize, time_us(n) as f64 / 1e3));
        Cost::new("ListVolumes", points.to_vec()).unwrap()
    }

    #[test]
    fn only_a_cost_above_the_proportion_is_remarked_on() {
        let quadratic = cost(|n| 300 + n * n / 5);
        assert!(quadratic.text().starts_with("ListVolumes grows with n^2.0"), "{}", quadratic.text());
        assert!(quadratic.violation().is_some());
        assert_eq!(cost(|n| 500 + 40 * n).violation(), None);
        let short = cost(|n| 500 + n * n / 200);
        assert!(short.exponent > Some(1.0), "{short:?}");
        assert_eq!(short.violation(), None, "5 ms depend on the machine");
        assert_eq!(cost(|n| 300 + n / 2).exponent, None);
        assert_eq!(cost(|_| 30_000).text(), "ListVolumes takes 30.0ms for 1000 volumes");
        assert_eq!(Cost::new("ListVolumes", Vec::new()), None);
    }

    /// Each number of callers is there for a second, and no more than 40 life cycles end in one.
    #[test]
    fn callers_that_only_wait_begin_at_the_knee() {
        let under_way = |callers: u64| (callers, 1.0, (callers * 10).min(40));
        let all: Vec<_> = (0..=32).map(under_way).collect();
        let knee = Knee::of(&all).unwrap();
        assert_eq!((knee.callers, knee.per_second, knee.highest_per_second), (4, 40.0, 40.0));
        assert_eq!(Knee::of(&all[..4]), None, "three callers say nothing of more");
        let short: Vec<_> = all.iter().map(|(callers, _, ended)| (*callers, 0.01, *ended)).collect();
        assert_eq!(Knee::of(&short), None);
    }

    #[test]
    fn names_are_quoted_in_csv() {
        assert_eq!((quoted("hold"), quoted("a,\"b\"")), ("hold".to_owned(), "\"a,\"\"b\"\"\"".to_owned()));
    }
}
