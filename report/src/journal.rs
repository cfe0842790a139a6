//! Keeps what the written reports need, in the shape of the JSON report.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use csi_harness::config::profile::Profile;
use csi_harness::resources::cleanup::LeftBehind;
use csi_harness::results::events::{Event, Reporter};
use csi_harness::results::outcome::{Counts, Crash, Halt, Leak, Summary, Tally, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::areas::{Area, Areas};
use crate::conclusion::{Conclusion, Facts, ProfileEntry};
use crate::entry::{
    CheckEntry, MachineEntry, PartEntry, RpcEntry, Selection, ShardEntry, TargetEntry, Tool, UntestedEntry,
    check_entry, ms, rpc_entry, target_entry,
};
use crate::statement::{Line, Statement};

/// The name and version of the report's format. Another version makes other promises.
pub const SCHEMA: &str = "csi-sanity/report/v3";
/// Versions before it that are still read.
pub(crate) const SCHEMAS_BEFORE: [&str; 2] = ["csi-sanity/report/v1", "csi-sanity/report/v2"];
/// The version of the specification that a driver is held to which shows nothing of a later one.
pub const SPECIFICATION: &str = "1.12";

/// A whole run. Fields may be added; none is removed or renamed, or changes its meaning, as long as `schema` is the same.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The form of the report: `csi-sanity/report/v3`.
    pub schema: String,
    /// The program that wrote the report.
    pub tool: Tool,
    /// The version of the CSI specification that the driver was held to, such as `1.12`, or `1.12 and 1.13` for one that offers what
    /// only either has.
    pub specification: String,
    /// The evidence for that version: a setting, or a feature that only a driver of that version has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub specification_by: String,
    /// The time at which the run began, in UTC as in RFC 3339.
    #[serde(default)]
    pub started: String,
    /// The command line.
    #[serde(default)]
    pub command: String,
    /// The selected checks.
    pub selection: Selection,
    /// The driver under test.
    pub target: TargetEntry,
    /// Seed of everything random; that of the first shard, where the run is put together.
    #[serde(default)]
    pub seed: u64,
    /// The duration of the run; of the longest shard, where the report was merged.
    #[serde(default)]
    pub duration_ms: u64,
    /// The part of a run that it is, if it is a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardEntry>,
    /// The parts that it was merged from, if it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<PartEntry>,
    /// The profile by which checks failed.
    #[serde(default)]
    pub profile: Profile,
    /// The verdict of each profile; empty in reports of versions that had no profiles.
    #[serde(default)]
    pub by_profile: Vec<ProfileEntry>,
    /// The runs of other suites against the same driver that it is joined of, if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<PartEntry>,
    /// The settings of the configuration, besides flags, as `name: value`; without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// The image that the driver was started of, if the user has named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_image: Option<String>,
    /// The machine that csi-sanity ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineEntry>,
    /// The verdict on the driver: the gravest that applies.
    pub verdict: Verdict,
    /// The verdict with its scope: a part of the checks or all, and with known failures or without.
    #[serde(default)]
    pub conclusion: Conclusion,
    /// True if the run was stopped before its end.
    pub interrupted: bool,
    /// Numbers of checks and of faults by outcome.
    pub summary: Counts,
    /// Every check, by id.
    pub checks: Vec<CheckEntry>,
    /// The statement on each area that users of a driver ask about.
    #[serde(default)]
    pub statement: Vec<Line>,
    /// The parts of the specification, by RPC.
    #[serde(default)]
    pub areas: Vec<Area>,
    /// Objects and mounts that stayed behind.
    pub leaks: Vec<Leak>,
    /// Objects that may have stayed behind besides those, and how to remove them.
    #[serde(default)]
    pub left_behind: Vec<LeftBehind>,
    /// Deaths of the driver.
    pub crashes: Vec<Crash>,
    /// The calls of all checks, by RPC.
    pub rpcs: Vec<RpcEntry>,
    /// Remarks of the run that are no verdict.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The requirements on drivers, of those that MUST or SHOULD be kept, that no check tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untested: Vec<UntestedEntry>,
}

/// The parts of a report that no event contains.
#[derive(Debug)]
pub struct Order {
    pub version: &'static str,
    /// The time at which the run began.
    pub started: SystemTime,
    pub command: String,
    pub selection: Selection,
    /// The part of them that runs here, if they are divided.
    pub shard: Option<ShardEntry>,
    /// The settings that differ from their defaults, without secrets.
    pub settings: Vec<String>,
    pub driver_image: Option<String>,
    /// The machine on which csi-sanity runs.
    pub machine: Option<MachineEntry>,
    /// The requirements that no check tests.
    pub untested: Vec<UntestedEntry>,
}

impl Run {
    /// The counts and troubles in the form that the runner uses.
    pub(crate) fn to_summary(&self) -> Summary {
        let mut checks = Tally::default();
        self.checks.iter().for_each(|check| checks.add(check.outcome()));
        let cut_short = |check: &CheckEntry| {
            check.cut_short.iter().map(|work| (check.id.clone(), work.clone())).collect::<Vec<_>>()
        };
        Summary {
            profile: self.profile,
            under: self.by_profile.iter().map(|entry| (entry.profile, entry.faults)).collect(),
            counts: Counts { checks, ..self.summary },
            faults: Default::default(),
            crashes: self.crashes.clone(),
            gone: None,
            leaks: self.leaks.clone(),
            left_behind: self.left_behind.clone(),
            cut_short: self.checks.iter().flat_map(cut_short).collect(),
            halt: match (self.interrupted, self.verdict) {
                (false, _) => Halt::None,
                (true, Verdict::Interrupted) => Halt::Interrupted,
                (true, _) => Halt::TimeUp,
            },
            duration: Duration::from_millis(self.duration_ms),
            calls: Vec::new(),
            judged: None,
        }
    }

    /// The conclusion about the driver. A report of an old version that has none gets it here.
    pub fn conclude(&self) -> Conclusion {
        self.facts(&self.to_summary()).conclude()
    }

    /// The conclusion in the words of the badge, the history and `verify`, which do not say that no check applied.
    pub fn conclude_briefly(&self) -> Conclusion {
        Facts { says_nothing: false, ..self.facts(&self.to_summary()) }.conclude()
    }

    /// Enters what is said of the driver, by this run and by each profile.
    pub(crate) fn conclude_from(&mut self, summary: &Summary) {
        let facts = self.facts(summary);
        (self.conclusion, self.by_profile) = (facts.conclude(), facts.under_each(summary));
    }

    fn facts(&self, summary: &Summary) -> Facts<'_> {
        Facts::of(summary, self.verdict, &self.selection, self.shard.as_ref())
    }
}

/// Listens to a run and keeps it.
#[derive(Debug)]
pub struct Journal {
    run: Run,
    areas: Areas,
    statement: Statement,
}

impl Journal {
    pub fn new(order: Order) -> Journal {
        let run = Run {
            schema: SCHEMA.to_owned(),
            tool: Tool { name: "csi-sanity".to_owned(), version: order.version.to_owned() },
            specification: SPECIFICATION.to_owned(),
            started: utc(order.started),
            command: order.command,
            selection: order.selection,
            shard: order.shard,
            settings: order.settings,
            driver_image: order.driver_image,
            machine: order.machine,
            untested: order.untested,
            ..Run::default()
        };
        Journal { run, areas: Areas::default(), statement: Statement::default() }
    }

    /// Everything that was kept, with the checks by id: they end in another order in each run.
    pub fn into_run(mut self) -> Run {
        self.run.checks.sort_by(|a, b| a.id.cmp(&b.id));
        Run { areas: self.areas.into_vec(), statement: self.statement.into_lines(), ..self.run }
    }
}

impl Reporter for Journal {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { target, seed, .. } => {
                self.run.target = target_entry(target);
                self.statement = Statement::begin(target);
                self.run.seed = *seed;
            }
            Event::Remark(remark) => self.run.remarks.push((*remark).to_owned()),
            Event::CheckStarted(_) | Event::CheckEnded(_) | Event::Waiting(_) | Event::Tick { .. } => {}
            Event::CheckFinished(report) => {
                let entry = check_entry(report);
                self.areas.add(entry.area(), entry.counts_as());
                self.statement.add(&entry);
                self.run.checks.push(entry);
            }
            Event::Crashed(crash) => self.run.crashes.push((*crash).clone()),
            Event::Leaked(leaks) => self.run.leaks.extend_from_slice(leaks),
            Event::Finished(summary) => {
                self.run.summary = summary.counts;
                self.run.left_behind.clone_from(&summary.left_behind);
                self.run.duration_ms = ms(summary.duration);
                self.run.verdict = summary.verdict();
                self.run.interrupted = summary.halt != Halt::None;
                self.run.profile = summary.profile;
                if let Some(judged) = &summary.judged {
                    self.run.specification = judged.name();
                    self.run.specification_by.clone_from(&judged.sign);
                }
                self.run.conclude_from(summary);
                self.run.rpcs = summary.calls.iter().map(rpc_entry).collect();
            }
        }
    }
}

/// The time to the second, in UTC.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    prost_types::Timestamp { seconds: i64::try_from(seconds).unwrap_or_default(), nanos: 0 }.to_string()
}
