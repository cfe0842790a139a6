//! Everything that was wrong during a load. Each fault is reported once, with the number of times that it was met.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use csi_harness::client::answer::{NoAnswer, Refused};
use csi_harness::prelude::*;
use csi_harness::spec::requirements::{Level, Requirement};
use csi_harness::text::message;
use csi_proto::Rpc;
use csi_proto::lock::Mutex;

/// Faults that are reported.
const FAULTS_MAX: usize = 20;
/// Correct calls that are rejected without one that is done between them, after which the load ends.
const IN_VAIN_MAX: u64 = 1_000;

/// RPCs without which no volume gets to a workload and back.
const ESSENTIAL: [&str; 8] = [
    "CreateVolume",
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
    "DeleteVolume",
];

const fn rule(id: &'static str, level: Level, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own("csi-sanity's own rules, docs/load.md", id, level, when, expect)
}

/// A volume is lost.
pub static LOAD_001: Requirement = rule(
    "LOAD-001",
    Level::Must,
    "many calls are made at once",
    "each volume that was created is known, and its contents stay, until it is deleted",
);

/// A call that succeeded before is rejected.
pub static LOAD_002: Requirement = rule(
    "LOAD-002",
    Level::Must,
    "a correct call is made among many others",
    "the call succeeds, at the latest when an orchestrator would have repeated it",
);

/// Resources grow.
pub static LOAD_003: Requirement = rule(
    "LOAD-003",
    Level::Must,
    "the load and the number of volumes are constant",
    "the driver's use of resources levels off",
);

/// A node takes fewer volumes than it names.
pub static LOAD_004: Requirement = rule(
    "LOAD-004",
    Level::Must,
    "NodeGetInfo reports no limit of volumes, or a limit that is not reached",
    "a volume can be published to the node",
);

/// A limit of the user is exceeded.
pub static LOAD_005: Requirement =
    rule("LOAD-005", Level::Must, "the user has set a threshold", "the measurement stays within it");

/// Calls become slower.
pub static LOAD_006: Requirement = rule(
    "LOAD-006",
    Level::Should,
    "the load is constant, or the number of volumes grows",
    "the time of calls does not grow, or grows at most in proportion to the number of volumes",
);

/// Calls on one volume wait for those on another one.
pub static LOAD_007: Requirement = rule(
    "LOAD-007",
    Level::Should,
    "a call for one volume takes long",
    "calls for other volumes do not wait for it",
);

pub static RULES: &[&Requirement] =
    &[&LOAD_001, &LOAD_002, &LOAD_003, &LOAD_004, &LOAD_005, &LOAD_006, &LOAD_007, &req::GEN_ERR_001];

/// A fault, and how often it was met.
#[derive(Debug)]
struct Fault {
    violation: Violation,
    times: u64,
}

/// Collects what was wrong.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    faults: Mutex<BTreeMap<(&'static str, String), Fault>>,
    /// Codes with which correct calls are rejected again and again.
    known: Mutex<BTreeSet<(&'static str, i32)>>,
    /// RPCs that this load has seen done, with the access type of the volume.
    done: Mutex<BTreeSet<(&'static str, AccessType)>>,
    /// Calls of RPCs that the driver has never done for volumes of an access type, which cannot be judged: the first answer for each.
    impossible: Mutex<BTreeMap<(&'static str, AccessType), String>>,
    /// Operations that were given up because the driver put them off or did not answer, by RPC and answer.
    given_up: Mutex<BTreeMap<(&'static str, String), u64>>,
    /// Parts of the load that could not be made.
    lacking: Mutex<Vec<String>>,
    is_dead: AtomicBool,
    /// Correct calls that were rejected since the last one that was done.
    in_vain: AtomicU64,
}

impl Judge {
    /// Adds a fault. The first one of its kind is reported, with the number of all.
    pub(crate) fn blame(&self, violation: Violation) {
        let rule = violation.requirement.map_or("", |rule| rule.id);
        let mut faults = self.faults.lock();
        let is_full = faults.len() >= FAULTS_MAX;
        match faults.get_mut(&(rule, violation.message.clone())) {
            Some(fault) => fault.times += 1,
            None if is_full => {}
            None => {
                let key = (rule, violation.message.clone());
                faults.insert(key, Fault { violation, times: 1 });
            }
        }
    }

    /// Takes in that a correct call was rejected each time.
    pub(crate) fn rejected(&self, cx: &Cx, rpc: Rpc, refused: &Refused, volume_id: &str) {
        self.in_vain.fetch_add(1, Ordering::Relaxed);
        self.known.lock().insert((rpc.method, refused.code.into()));
        if !self.has_done(cx, rpc) {
            let key = (rpc.method, cx.access());
            self.impossible.lock().entry(key).or_insert_with(|| refused.to_string());
            return;
        }
        let is_lost = refused.code == Code::NotFound && !volume_id.is_empty();
        self.blame(match is_lost {
            true => Violation::new(format!("{rpc} does not know a volume that was created and not deleted"))
                .of(&LOAD_001)
                .expected("the volume is known")
                .actual(format!("{volume_id}: {refused}"))
                .damage(Damage::DataLoss),
            false => Violation::new(format!(
                "{rpc} repeatedly rejects a correct call with {}",
                refused.code_name()
            ))
            .of(&LOAD_002)
            .expected("OK, as for the same call before")
            .actual(refused),
        });
    }

    /// Takes in that an operation was given up after several tries without a definite answer: that proves nothing.
    pub(crate) fn gave_up(&self, rpc: Rpc, answer: String) {
        *self.given_up.lock().entry((rpc.method, answer)).or_default() += 1;
    }

    /// Takes in how a call was left without an answer, which may mean that the driver has died, unless the load restarts it.
    pub(crate) async fn unanswered(&self, cx: &Cx, rpc: Rpc, no_answer: &NoAnswer, is_restarting: bool) {
        let answer = match no_answer {
            NoAnswer::GivenUp(refused) => refused.code_name(),
            _ => "no answer",
        };
        self.gave_up(rpc, answer.to_owned());
        if matches!(no_answer, NoAnswer::Broken(_)) && !is_restarting && !cx.target().is_alive().await {
            self.is_dead.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the driver has died, so that nothing more is begun.
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    /// Takes in that a call was done.
    pub(crate) fn was_done(&self, cx: &Cx, rpc: Rpc) {
        self.in_vain.store(0, Ordering::Relaxed);
        self.done.lock().insert((rpc.method, cx.access()));
    }

    /// Returns true if the driver has done the RPC before. One that it has done for the other access type alone may not exist for this one.
    fn has_done(&self, cx: &Cx, rpc: Rpc) -> bool {
        let done = self.done.lock();
        done.contains(&(rpc.method, cx.access()))
            || (!done.iter().any(|(method, _)| *method == rpc.method) && cx.target().has_done(rpc))
    }

    /// Returns true if the driver rejects whatever is asked of it, so that more life cycles show nothing.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.in_vain.load(Ordering::Relaxed) >= IN_VAIN_MAX
    }

    /// Returns true if it is known that the driver rejects the RPC with this code again and again.
    pub(crate) fn is_known(&self, rpc: Rpc, code: Code) -> bool {
        self.known.lock().contains(&(rpc.method, code.into()))
    }

    /// Returns true if it is known that volumes are missing in lists.
    pub(crate) fn has_lost_volumes(&self) -> bool {
        self.faults
            .lock()
            .keys()
            .any(|(rule, message)| *rule == LOAD_001.id && message.starts_with("ListVolumes"))
    }

    /// Returns true if something went wrong before, so that something else may be left that uses a volume.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.given_up.lock().is_empty() || !self.faults.lock().is_empty()
    }

    /// Takes in that part of the load could not be made.
    pub(crate) fn lacks(&self, what: String) {
        self.lacking.lock().push(what);
    }

    /// Returns true if it is known that part of the load cannot be made.
    pub(crate) fn lacks_anything(&self) -> bool {
        !self.lacking.lock().is_empty()
    }

    /// Reports everything. Is broken if nothing is wrong, but part of the load could not be made, and skips if the load
    /// is one check among others, some of which judge what the driver does not do.
    pub(crate) fn conclude(&self, cx: &Cx, is_one_of_many: bool) -> CheckResult {
        if self.is_in_vain() {
            cx.note(format!("the load ended early: {IN_VAIN_MAX} correct calls in a row were rejected"));
        }
        for ((rpc, answer), times) in &*self.given_up.lock() {
            let times = message::times(*times);
            cx.note(format!("{rpc} was given up {times}, after tries that ended with {answer}"));
        }
        let faults = std::mem::take(&mut *self.faults.lock());
        let has_failed = faults.values().any(|fault| is_binding(&fault.violation));
        for Fault { violation, times } in faults.into_values() {
            let binds = is_binding(&violation);
            let actual = match times {
                1 => violation.actual.clone(),
                _ => format!("{times} times, the first time {}", violation.actual),
            };
            // Each fault was met again before it was reported.
            let violation = Violation { actual, ..violation }.replayed(2, 2);
            if binds { cx.blame(violation) } else { cx.warn(violation) }
        }
        let mut lacking = std::mem::take(&mut *self.lacking.lock());
        for ((rpc, access), how) in &*self.impossible.lock() {
            let missing = match access {
                AccessType::Mount => format!("{rpc} has never succeeded: {how}"),
                AccessType::Block => format!("{rpc} of a block volume has never succeeded: {how}"),
            };
            match ESSENTIAL.contains(rpc) {
                true => lacking.push(missing),
                false => cx.note(format!("the load was judged without one RPC: {missing}")),
            }
        }
        if lacking.is_empty() || has_failed {
            return Ok(());
        }
        let lacking = lacking.join("; ");
        match is_one_of_many && !self.is_dead() {
            true => Err(Stop::skip(format!("the driver cannot be put under load: {lacking}"))),
            false => Err(Stop::broken(lacking)),
        }
    }
}

fn is_binding(violation: &Violation) -> bool {
    violation.requirement.is_none_or(Requirement::is_binding)
}
