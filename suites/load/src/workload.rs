//! The description of a load: a YAML file, or one of the presets, which are such files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_harness::checks::shard::Shard;
use csi_harness::config::{ConfigError, parse_yaml, read_yaml};
use csi_harness::text::message::did_you_mean;
use serde::Deserialize;

use crate::cycle::Cycle;
use crate::threshold::Threshold;

const CALLERS_MAX: u32 = 1_024;
const VOLUMES_MAX: u32 = 100_000;
const STAGES_MAX: usize = 100;
/// Life cycles for each second.
const RATE_MAX: f64 = 100_000.0;
const BURST_MAX: u64 = 1_000_000;
const DAYS_MAX: u64 = 30;
const STAGE_MAX: Duration = Duration::from_secs(DAYS_MAX * 24 * 3_600);

/// The presets: names, and files.
const PRESETS: &[(&str, &str)] = &[
    ("smoke", include_str!("presets/smoke.yaml")),
    ("attach-storm", include_str!("presets/attach-storm.yaml")),
    ("256-on-a-node", include_str!("presets/256-on-a-node.yaml")),
    ("polling", include_str!("presets/polling.yaml")),
    ("soak", include_str!("presets/soak.yaml")),
    ("10k-volumes", include_str!("presets/10k-volumes.yaml")),
    ("snapshot-tree", include_str!("presets/snapshot-tree.yaml")),
    ("node-restart", include_str!("presets/node-restart.yaml")),
    ("rejections", include_str!("presets/rejections.yaml")),
    ("breakpoint", include_str!("presets/breakpoint.yaml")),
    ("1000-publications", include_str!("presets/1000-publications.yaml")),
    ("100k-names", include_str!("presets/100k-names.yaml")),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// The last part of the id of its check.
    pub name: String,
    /// Volumes that are there while the stages run.
    #[serde(default)]
    pub volumes: u32,
    /// The number of them that are published while the stages run.
    #[serde(default)]
    pub published: u32,
    /// The time in which the statistics of each published volume are read once, as kubelet does each minute.
    #[serde(default, deserialize_with = "period")]
    pub poll: Option<Duration>,
    /// The most life cycles at the same time.
    pub callers: u32,
    /// Life cycles, each with its share of all that begin.
    pub mix: BTreeMap<Cycle, u32>,
    /// Parts of the load, one after another.
    pub stages: Vec<Stage>,
    /// Limits that the driver has to keep.
    #[serde(default)]
    pub thresholds: Vec<Threshold>,
    /// The part of the load that this process makes.
    #[serde(skip)]
    pub part: Option<Part>,
}

/// A part of a load that several processes share.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its place among the parts.
    pub shard: Shard,
    /// Directory that all parts share, in which they meet before the stages begin.
    pub meeting_dir: Option<PathBuf>,
}

/// The number of things with a number from 0 up to this one that fall to a part.
fn share(all: u64, shard: Shard) -> u64 {
    let first = u64::from(shard.index() - 1);
    all.saturating_sub(first).div_ceil(shard.of().into())
}

/// A part of the load.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "StageText")]
pub struct Stage {
    /// Its name in reports.
    pub name: String,
    /// The course that it takes.
    pub course: Course,
    /// True if the driver is killed halfway, and started again.
    pub kills: bool,
}

/// The course of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Course {
    /// Life cycles start at a rate that changes linearly from `from` to `to`, whether or not earlier ones have ended.
    Rate {
        /// The length of the stage.
        duration: Duration,
        /// Life cycles for each second at its beginning; the first ramp begins at 0.
        from: f64,
        /// Life cycles for each second at its end.
        to: f64,
    },
    /// Each caller begins a life cycle when its last one has ended.
    Callers {
        /// The length of the stage.
        duration: Duration,
        /// True if the callers begin one after another, evenly over the stage.
        is_ramp: bool,
    },
    /// So many life cycles are due at once, and the stage ends with the last of them.
    Burst(u64),
}

/// A stage as it stands in a file: one of `ramp`, `hold` and `burst` says which course it takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StageText {
    name: Option<String>,
    ramp: Option<String>,
    hold: Option<String>,
    burst: Option<u64>,
    rate: Option<f64>,
    #[serde(default)]
    kill: bool,
}

impl TryFrom<StageText> for Stage {
    type Error = String;

    fn try_from(text: StageText) -> Result<Stage, String> {
        let StageText { name, ramp, hold, burst, rate, kill } = text;
        if kill && hold.is_none() {
            return Err("kill: the driver can be killed in a stage that has hold".to_owned());
        }
        if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && *rate <= RATE_MAX)) {
            return Err(format!(
                "rate: {rate} is out of range; write life cycles for each second, up to {RATE_MAX}"
            ));
        }
        let (usual, course) = match (ramp, hold, burst) {
            (Some(text), None, None) => {
                let duration = duration("ramp", &text)?;
                (
                    "ramp",
                    match rate {
                        // The first rate is that of the stage before, which `Workload::connect` enters.
                        Some(to) => Course::Rate { duration, from: 0.0, to },
                        None => Course::Callers { duration, is_ramp: true },
                    },
                )
            }
            (None, Some(text), None) => {
                let duration = duration("hold", &text)?;
                (
                    "hold",
                    match rate {
                        Some(rate) => Course::Rate { duration, from: rate, to: rate },
                        None => Course::Callers { duration, is_ramp: false },
                    },
                )
            }
            (None, None, Some(cycles)) if rate.is_some() || !(1..=BURST_MAX).contains(&cycles) => {
                return Err(format!(
                    "burst: write how many life cycles are due at once, 1 to {BURST_MAX}, without a rate"
                ));
            }
            (None, None, Some(cycles)) => ("burst", Course::Burst(cycles)),
            _ => {
                return Err(
                    "a stage has one of ramp (a duration), hold (a duration) and burst (a number)".to_owned()
                );
            }
        };
        Ok(Stage { name: name.unwrap_or_else(|| usual.to_owned()), course, kills: kill })
    }
}

fn period<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    duration("poll", &text).map(Some).map_err(serde::de::Error::custom)
}

fn duration(key: &str, text: &str) -> Result<Duration, String> {
    let duration = csi_driver_definitions::parse_duration(text).map_err(|error| format!("{key}: {error}"))?;
    match duration.is_zero() || duration > STAGE_MAX {
        true => Err(format!("{key}: {text:?} is out of range; write for example 20s")),
        false => Ok(duration),
    }
}

impl Course {
    /// The length of the stage, if it does not depend on the driver.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Course::Rate { duration, .. } | Course::Callers { duration, .. } => Some(duration),
            Course::Burst(_) => None,
        }
    }

    /// The number of life cycles that are due in it, if it does not depend on the driver.
    pub fn planned(self) -> Option<u64> {
        match self {
            Course::Rate { duration, from, to } => {
                Some(((from + to) / 2.0 * duration.as_secs_f64()).round() as u64)
            }
            Course::Burst(cycles) => Some(cycles),
            Course::Callers { .. } => None,
        }
    }

    /// The time from the beginning of the stage at which a life cycle is due, by its number from 0; `None` after the last one.
    pub fn due(self, number: u64) -> Option<Duration> {
        if self.planned().is_some_and(|planned| number >= planned) {
            return None;
        }
        let Course::Rate { duration, from, to } = self else { return Some(Duration::ZERO) };
        // After t seconds, from·t + growth·t²/2 life cycles were due.
        let growth = (to - from) / duration.as_secs_f64();
        let number = number as f64;
        let seconds = match growth.abs() < 1e-9 {
            true => number / from,
            false => {
                2.0 * number
                    / (from + (from * from + 2.0 * growth * number).max(0.0).sqrt()).max(f64::MIN_POSITIVE)
            }
        };
        Some(Duration::from_secs_f64(seconds.clamp(0.0, duration.as_secs_f64())))
    }
}

/// Changes to a workload that the command line asks for.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The highest rate; all others are changed in proportion, and stages without one get it.
    pub rate: Option<f64>,
    /// The length of all stages together, except bursts.
    pub duration: Option<Duration>,
    /// Volumes; those that are published are changed in proportion.
    pub volumes: Option<u32>,
    /// The most life cycles at the same time.
    pub callers: Option<u32>,
    pub thresholds: Vec<Threshold>,
}

impl Workload {
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The text of a preset.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn preset_text(name: &str) -> Result<&'static str, String> {
        let found = PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| *text);
        found.ok_or_else(|| {
            let all: Vec<&str> = Workload::presets().collect();
            let near = did_you_mean(name, Workload::presets());
            format!("{name:?} is not a preset{near}; the presets are {}", all.join(", "))
        })
    }

    /// A preset.
    ///
    /// # Errors
    /// There is none of this name, or its file is wrong.
    pub fn preset(name: &str, changes: Changes) -> Result<Workload, String> {
        let file = format!("{name}.yaml");
        let workload = Workload::preset_text(name).and_then(|text| {
            parse_yaml::<Workload>(Path::new(&file), text).map_err(|error| error.to_string())
        })?;
        workload.changed(changes)
    }

    /// The workload in a file.
    ///
    /// # Errors
    /// The file cannot be read, or a value is wrong.
    pub fn load(path: &Path, changes: Changes) -> Result<Workload, ConfigError> {
        let workload: Workload = read_yaml(path)?;
        workload.changed(changes).map_err(|problem| ConfigError::Invalid { path: path.to_owned(), problem })
    }

    fn changed(mut self, changes: Changes) -> Result<Workload, String> {
        if let Some(volumes) = changes.volumes {
            let share = f64::from(self.published) / f64::from(self.volumes.max(1));
            self.published = (share * f64::from(volumes)).round() as u32;
            self.volumes = volumes;
        }
        self.callers = changes.callers.unwrap_or(self.callers);
        let idle = self.volumes.saturating_sub(self.published);
        if changes.volumes.is_some() && changes.callers.is_none() && self.mix.contains_key(&Cycle::Attachment)
        {
            self.callers = self.callers.min(idle.max(1));
        }
        self.thresholds.extend(changes.thresholds);
        if let Some(rate) = changes.rate {
            self.set_rate(rate);
        }
        if let Some(duration) = changes.duration {
            let whole = self.duration().as_secs_f64();
            let factor = if whole > 0.0 { duration.as_secs_f64() / whole } else { 1.0 };
            for stage in &mut self.stages {
                match &mut stage.course {
                    Course::Rate { duration, .. } | Course::Callers { duration, .. } => {
                        *duration = duration.mul_f64(factor).min(STAGE_MAX);
                    }
                    Course::Burst(_) => {}
                }
            }
        }
        self.connect();
        self.validate()?;
        Ok(self)
    }

    fn set_rate(&mut self, rate: f64) {
        let rates = self.stages.iter().filter_map(|stage| match stage.course {
            Course::Rate { to, .. } => Some(to),
            _ => None,
        });
        let highest = rates.fold(0.0, f64::max);
        for stage in &mut self.stages {
            match &mut stage.course {
                Course::Rate { from, to, .. } => {
                    (*from, *to) = (*from * rate / highest, *to * rate / highest);
                }
                Course::Callers { duration, is_ramp } => {
                    let from = if *is_ramp { 0.0 } else { rate };
                    stage.course = Course::Rate { duration: *duration, from, to: rate };
                }
                Course::Burst(_) => {}
            }
        }
    }

    /// Lets each ramp begin at the rate of the stage before.
    fn connect(&mut self) {
        let mut last = 0.0;
        for stage in &mut self.stages {
            if let Course::Rate { from, to, .. } = &mut stage.course {
                if *from != *to {
                    *from = last;
                }
                last = *to;
            }
        }
    }

    fn validate(&self) -> Result<(), String> {
        let fits = |key: &str, value: u32, min: u32, max: u32| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(format!("{key}: {value} is out of range; allowed are {min} to {max}")),
        };
        fits("callers", self.callers, 1, CALLERS_MAX)?;
        fits("volumes", self.volumes, 0, VOLUMES_MAX)?;
        fits("published", self.published, 0, self.volumes)?;
        if self.name.is_empty()
            || !self.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        {
            return Err(format!("name: {:?} needs lower-case letters, digits and dashes", self.name));
        }
        if self.stages.is_empty() || self.stages.len() > STAGES_MAX {
            return Err(format!("stages: there have to be 1 to {STAGES_MAX}"));
        }
        if self.duration() > STAGE_MAX {
            return Err(format!("stages: together they take longer than {DAYS_MAX} days"));
        }
        if self.mix.values().all(|share| *share == 0) {
            return Err("mix: at least one life cycle needs a share above 0".to_owned());
        }
        let idle = self.volumes - self.published;
        for cycle in self.mix.keys() {
            let needed = match cycle {
                Cycle::Attachment => self.callers,
                Cycle::Snapshot | Cycle::Restore | Cycle::Group => 1,
                _ => 0,
            };
            if idle < needed && *cycle == Cycle::Attachment {
                return Err(format!(
                    "mix: attachment needs a volume that is not published for each of {needed} callers, and there are {idle}"
                ));
            }
            if self.volumes < needed {
                return Err(format!("mix: {} needs a volume, but volumes is 0", cycle.name()));
            }
            if *cycle == Cycle::Statistics && self.published == 0 {
                return Err("mix: statistics needs published volumes, but published is 0".to_owned());
            }
        }
        Ok(())
    }

    /// The part of this load that one process makes: its share of volumes and callers, and the life cycles whose numbers fall to it.
    ///
    /// # Errors
    /// There is too little of something for each part to have a share.
    pub fn part(self, part: Part) -> Result<Workload, String> {
        let shard = part.shard;
        let of = |key: &str, all: u32| match all {
            0 => Ok(0),
            few if few < shard.of() => {
                Err(format!("{key}: {few} cannot be divided among {} parts", shard.of()))
            }
            _ => Ok(u32::try_from(share(all.into(), shard)).unwrap_or(all)),
        };
        let (volumes, published) = (of("volumes", self.volumes)?, of("published", self.published)?);
        let callers = of("callers", self.callers)?;
        Ok(Workload { volumes, published, callers, part: Some(part), ..self })
    }

    /// The number in the whole load of a life cycle of this part; both count from 0.
    pub(crate) fn number(&self, own: u64) -> u64 {
        self.part.as_ref().map_or(own, |Part { shard, .. }| {
            own.saturating_mul(shard.of().into()).saturating_add(u64::from(shard.index() - 1))
        })
    }

    /// The number of life cycles of this part that are due in a stage, if it does not depend on the driver.
    pub(crate) fn planned(&self, course: Course) -> Option<u64> {
        let planned = course.planned()?;
        Some(self.part.as_ref().map_or(planned, |part| share(planned, part.shard)))
    }

    /// The kind of a life cycle, by its number. Each kind has its share of any part of the numbers, so that loads that are compared, and
    /// parts that are merged, have the same mix.
    pub(crate) fn cycle(&self, number: u64) -> Cycle {
        /// Multiples of this, without what stands before the point, are spread evenly.
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let shares: u32 = self.mix.values().sum();
        let mut left = (number as f64 * GOLDEN).fract() * f64::from(shares);
        for (cycle, share) in &self.mix {
            left -= f64::from(*share);
            if left < 0.0 {
                return *cycle;
            }
        }
        Cycle::Rejection
    }

    /// Takes out the limits on changes, which only a comparison can judge.
    pub fn take_changes(&mut self) -> Vec<Threshold> {
        self.thresholds.extract_if(.., |threshold| threshold.is_change()).collect()
    }

    /// The length of all stages together, except bursts.
    pub fn duration(&self) -> Duration {
        self.stages.iter().filter_map(|stage| stage.course.duration()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Workload, String> {
        let parsed: Result<Workload, _> = parse_yaml(Path::new("load.yaml"), text);
        parsed.map_err(|error| error.to_string())?.changed(Changes::default())
    }

    #[test]
    fn every_preset_is_right_and_has_its_own_name() {
        for name in Workload::presets() {
            assert_eq!(
                Workload::preset(name, Changes::default()).map(|workload| workload.name),
                Ok(name.to_owned())
            );
        }
        assert_eq!(
            Workload::preset("smoke", Changes::default()).unwrap().duration(),
            Duration::from_secs(20)
        );
        assert!(Workload::preset_text("attach-strom").unwrap_err().contains("did you mean attach-storm?"));
    }

    #[test]
    fn an_error_names_file_line_and_key() {
        let right = "name: x\ncallers: 2\nmix: {volume: 1}\nstages:\n- hold: 5s\n";
        assert!(parsed(right).is_ok());
        for (from, to, expected) in [
            ("callers: 2", "calers: 2", "calers"),
            ("volume: 1", "volum: 1", "volum"),
            ("hold: 5s", "hold: 5 parsecs", "hold"),
            ("hold: 5s", "{hold: 5s, rate: -1}", "rate"),
            ("hold: 5s", "{hold: 5s, ramp: 5s}", "ramp"),
            ("hold: 5s", "{burst: 5, rate: 1}", "burst"),
            ("hold: 5s", "{ramp: 5s, kill: true}", "kill"),
            ("name: x", "name: x\npoll: soon", "poll"),
        ] {
            let error = parsed(&right.replace(from, to)).unwrap_err();
            assert!(
                error.contains("load.yaml") && error.contains("line") && error.contains(expected),
                "{to}: {error}"
            );
        }
        for (from, to, expected) in [
            ("callers: 2", "callers: 0", "callers"),
            ("name: x", "name: A b", "name"),
            ("volume: 1", "statistics: 1", "published is 0"),
            ("volume: 1", "attachment: 1", "for each of 2 callers"),
            ("volume: 1", "volume: 0", "mix"),
            ("hold: 5s", "{hold: 400h}\n- {hold: 400h}", "longer than 30 days"),
        ] {
            let error = parsed(&right.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }

    #[test]
    fn life_cycles_are_due_at_the_rate_of_the_stage() {
        let seconds = Duration::from_secs;
        let hold = Course::Rate { duration: seconds(10), from: 5.0, to: 5.0 };
        assert_eq!((hold.planned(), hold.due(5), hold.due(50)), (Some(50), Some(seconds(1)), None));
        let ramp = Course::Rate { duration: seconds(10), from: 0.0, to: 20.0 };
        // A quarter of the 100 life cycles is due in the first half.
        assert_eq!(
            (ramp.planned(), ramp.due(0), ramp.due(25)),
            (Some(100), Some(seconds(0)), Some(seconds(5)))
        );
        let down = Course::Rate { duration: seconds(10), from: 20.0, to: 0.0 };
        assert_eq!(down.due(75), Some(seconds(5)));
        assert_eq!((Course::Burst(3).due(2), Course::Burst(3).due(3)), (Some(seconds(0)), None));
    }

    #[test]
    fn parts_have_together_what_the_whole_has() {
        let text = "name: x\ncallers: 16\nvolumes: 21\npublished: 10\nmix: {volume: 3, list: 1, pod: 2}\nstages:\n- {burst: 1003}\n";
        let whole = parsed(text).unwrap();
        let part = |index| {
            let shard = Shard::new(index, 10).unwrap();
            whole.clone().part(Part { shard, meeting_dir: None }).unwrap()
        };
        let parts: Vec<Workload> = (1..=10).map(part).collect();
        let sum = |of: fn(&Workload) -> u32| parts.iter().map(of).sum::<u32>();
        assert_eq!([sum(|one| one.volumes), sum(|one| one.published), sum(|one| one.callers)], [21, 10, 16]);
        let course = whole.stages[0].course;
        let mut numbers: Vec<u64> = parts
            .iter()
            .flat_map(|part| (0..part.planned(course).unwrap()).map(|own| part.number(own)))
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1_003).collect::<Vec<_>>());
        let volumes = numbers.iter().filter(|number| whole.cycle(**number) == Cycle::Volume).count();
        assert!((499..=504).contains(&volumes), "half of them: {volumes}");
        let error = Workload { published: 9, ..whole }
            .part(Part { shard: Shard::new(1, 10).unwrap(), meeting_dir: None });
        assert!(error.unwrap_err().contains("published"));
    }

    #[test]
    fn flags_change_all_stages_in_proportion() {
        let text = "name: x\ncallers: 8\nvolumes: 20\npublished: 10\nmix: {volume: 1}\nstages:\n- {ramp: 5s, rate: 10}\n- {hold: 15s, rate: 20}\n";
        let workload: Workload = parse_yaml(Path::new("load.yaml"), text).unwrap();
        let duration = Some(Duration::from_secs(40));
        let changes = Changes { rate: Some(100.0), duration, volumes: Some(100), ..Changes::default() };
        let changed = workload.changed(changes).unwrap();
        assert_eq!((changed.published, changed.duration()), (50, Duration::from_secs(40)));
        let ramp = Course::Rate { duration: Duration::from_secs(10), from: 0.0, to: 50.0 };
        assert_eq!(changed.stages[0].course, ramp);
    }
}
