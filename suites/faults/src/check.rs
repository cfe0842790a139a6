//! The checks: one for each injector.

use std::path::Path;

use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_harness::protocol::effect;
use csi_harness::spec::requirements::Requirement;
use csi_nemesis::injector::Injector;
use csi_nemesis::injector::backend_network::{self, BackendNetwork};
use csi_nemesis::injector::commands::{self, Commands};
use csi_nemesis::injector::crash_points::{self, CrashPoints};
use csi_nemesis::injector::hooks::{self, Hooks};
use csi_nemesis::injector::power::{self, FILE_SYSTEMS, FileSystem, Machine, OnDevice, Power};
use csi_nemesis::injector::resources::{self, Resources};
use csi_nemesis::injector::seen_calls::SeenCalls;
use csi_nemesis::injector::system_calls::{self, SystemCalls};
use csi_nemesis::step::Step;
use csi_proto::lock::Mutex;
use rustix::process::geteuid;

use crate::left::{Look, Places};
use crate::life::{Life, Plan};
use crate::rules::*;
use crate::search::Search;
use crate::trial::{plainly, without_fault};

/// The rules that a driver may break because of a fault.
static RULES: &[&Requirement] = &[
    &FAULT_DATA_001,
    &FAULT_DONE_001,
    &FAULT_HEAL_001,
    &FAULT_CODE_001,
    &FAULT_TIME_001,
    &FAULT_OTHERS_001,
    &FAULT_MOUNT_001,
    &FAULT_LEFT_001,
    &req::CTRL_CREATEVOL_004,
    &req::NODE_PUBLISH_026,
    &req::NODE_PUBLISH_027,
    &req::NODE_UNPUBLISH_002,
    &req::NODE_UNSTAGE_002,
    &req::GEN_ERR_001,
];

/// Commands of the user that break things.
const HOOKS: Need = Need::Configured(Setting::Faults);
/// A way to the back end that leads through the run.
const PROXY: Need = Need::Configured(Setting::BackendProxy);

check! {
    /// mkfs, mount, umount, blkid, cp and similar commands fail, hang and are killed on a machine with problems. A driver that relies on
    /// their answers has to distinguish "no" from "unknown": a device that cannot be read is not blank, and a mount that stays is not gone.
    COMMANDS {
        id: "faults/commands",
        title: "a command that fails, hangs or is killed loses no data and no volume, and the call can be repeated",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: [
            "plain/formats-what-it-cannot-read",
            "plain/formats-what-it-cannot-repair",
            "plain/formats-what-it-cannot-mount",
            "plain/formats-what-it-cannot-grow",
            "plain/ignores-failed-umount",
            "plain/believes-umount",
            "plain/removes-below-a-mount",
            "plain/ignores-failed-mount",
            "plain/ignores-failed-resize",
            "plain/ignores-failed-copy",
            "plain/takes-half-a-copy-for-all",
            "plain/leaves-temporary-files",
            "plain/keeps-lock-after-error",
            "plain/locks-everything",
            "plain/leaks-loop-devices",
            "plain/ignores-failed-detach",
            "plain/takes-first-loop-device",
            "plain/notes-published-too-early",
            "plain/refuses-half-formatted",
            "plain/formats-again-each-time",
            "plain/forgets-before-removing",
            "plain/makes-another-each-time",
            "plain/needs-every-image",
            "plain/ends-on-error",
            "plain/says-unknown",
            "plain/says-not-found",
            "plain/takes-unreadable-for-unmounted",
            "plain/gives-up-on-mount",
            "plain/notes-grown-too-early",
            "plain/takes-corrected-for-broken",
        ],
        runs: LosesData,
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut commands = Commands::begin(cx).await?;
        try_all(cx, commands::NAME, commands::MORE, &mut commands, Commands::nothing).await
    }
}

check! {
    /// A driver can be killed at any time: by an update, the kernel, or a liveness probe. Between two changes
    /// of its records there is a moment when one is made and the other is not; the test kills the driver at
    /// each of these moments, not by chance.
    CRASH_POINTS {
        id: "faults/crash-points",
        title: "a driver that is killed at any change keeps what it answered with OK, and accepts the call again",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: [
            "plain/writes-in-place",
            "plain/answers-before-writing",
            "plain/cleans-at-start",
            "plain/unmounts-at-start",
        ],
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        cx.target().driver().map_or(Ok(()), needs_memory)?;
        let mut points = CrashPoints::begin(cx).await?;
        let ended = try_all(cx, crash_points::NAME, crash_points::MORE, &mut points, CrashPoints::nothing).await;
        let undone = points.end().await;
        ended.and(undone)
    }
}

check! {
    /// A write fails with EIO, a rename finds no room, a mount is busy. A driver that ignores such a result answers OK for work that it has
    /// not done.
    SYSTEM_CALLS {
        id: "faults/system-calls",
        title: "a system call that fails or is late loses no data and no volume, and the call can be repeated",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["plain/ignores-failed-write"],
        runs: LosesData,
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut calls = SystemCalls::begin(cx).await?;
        let ended = try_all(cx, system_calls::NAME, system_calls::MORE, &mut calls, SystemCalls::nothing).await;
        let undone = calls.end().await;
        ended.and(undone)
    }
}

check! {
    /// A node without memory stops a process for minutes, a disk is full, a file system with errors is
    /// remounted read-only, or a leak has used up the file descriptors. Callers give up meanwhile, and repeat
    /// their calls.
    RESOURCES {
        id: "faults/resources",
        title: "a driver that is frozen, or finds disks full or read-only or no file descriptors, recovers without loss",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["plain/ends-on-error", "plain/keeps-lock-after-error"],
        runs: LosesData,
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut resources = Resources::begin(cx).await?;
        let ended = try_all(cx, resources::NAME, 0, &mut resources, Resources::nothing).await;
        let undone = resources.end().await;
        ended.and(undone)
    }
}

check! {
    /// A path is unplugged, a storage node stops, or a cloud has an outage: only the vendor or the user can
    /// cause this on purpose.
    BY_HOOKS {
        id: "faults/hooks",
        title: "faults caused by the user's own commands lose no data and no volume, and the calls can be repeated",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, HOOKS],
        refuted_by: ["plain/stays-offline", "plain/takes-offline-for-gone"],
        runs: LosesData,
        access: Each,
        varies: true,
    }
    async |cx| {
        try_all(cx, hooks::NAME, 0, &mut Hooks::new(cx), Hooks::nothing).await
    }
}

check! {
    /// A node or its hypervisor loses power. Data that were written but not made durable are lost, in part or
    /// as a whole, and nothing is mounted any more. The driver has to make its results durable before it
    /// answers.
    POWER {
        id: "faults/power",
        title: "results that a driver answered with OK survive a loss of power, whatever unsynced data are lost",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: [
            "plain/syncs-nothing",
            "plain/syncs-no-contents",
            "plain/syncs-no-directory",
            "plain/syncs-no-copy",
            "plain/writes-one-late",
            "plain/remembers-mounts",
        ],
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        power::try_it()?;
        cx.target().driver().map_or(Ok(()), needs_memory)?;
        let search = Search::new(cx, power::NAME).await?;
        let devices = devices_for(&search).await?;
        let mut points = CrashPoints::begin(cx).await?;
        let lived = plain_life(cx, &mut points).await;
        let seen = points.into_seen();
        let ended = match lived {
            Ok((plan, places)) => match machine(&seen, &places) {
                Ok(machine) => lose_power(search, &devices, &machine, (plan, places)).await,
                Err(stop) => Err(stop),
            },
            Err(stop) => Err(stop),
        };
        let undone = seen.end().await;
        ended.and(undone)
    }
}

/// The machine of a driver that was seen to keep its files somewhere.
fn machine<'a>(seen: &'a SeenCalls<'a>, places: &Places) -> CheckResult<Machine<'a>> {
    let mounts = places.mounts().map(Path::to_owned).collect();
    Machine::of(seen, places.own_directory(seen.written()), mounts, &FAULT_HEAL_001)
}

/// Loses the power of one disk after another.
async fn lose_power(
    mut search: Search<'_>,
    devices: &[&'static FileSystem],
    machine: &Machine<'_>,
    lived: (Plan, Places),
) -> CheckResult {
    let mut ended = Ok(());
    if search.is_for(Power::is_of) {
        let mut power = Power::begin(machine).await?;
        search.learnt = Some(plain_lives(search.cx, &mut power).await?);
        ended = search.try_all(&power, power::MORE, Power::nothing).await;
        let undone = power.end().await;
        ended = ended.and(undone);
    } else {
        search.learnt = Some(without_leftovers(search.cx, lived).await?);
    }
    for file_system in devices {
        if ended.is_ok() {
            ended = match lose_power_of(&mut search, machine, file_system).await {
                // The driver may need what this file system lacks.
                Err(Stop::Skip(why) | Stop::Broken(why)) if !search.is_named() => {
                    search.cx.note(why);
                    Ok(())
                }
                tried => tried,
            };
        }
    }
    search.end();
    ended
}

/// The file systems of which the power can be lost besides, and is to be.
async fn devices_for(search: &Search<'_>) -> CheckResult<Vec<&'static FileSystem>> {
    let (mut devices, mut lacks) = (Vec::new(), Vec::new());
    for file_system in FILE_SYSTEMS {
        if search.is_for(|fault| OnDevice::is_of(fault, file_system)) {
            match OnDevice::try_it(file_system).await {
                Ok(()) => devices.push(file_system),
                Err(why) => lacks.push(why),
            }
        }
    }
    lacks.dedup();
    let message = |why: String| {
        format!(
            "kernel file systems are not tested for a loss of power, which needs device-mapper and dmsetup: {why}"
        )
    };
    match lacks.is_empty() {
        true => {}
        false if search.is_named() => return Err(Stop::skip(message(lacks.join("; ")))),
        false => search.cx.note(message(lacks.join("; "))),
    }
    Ok(devices)
}

async fn lose_power_of(
    search: &mut Search<'_>,
    machine: &Machine<'_>,
    file_system: &'static FileSystem,
) -> CheckResult {
    let mut device = OnDevice::begin(machine, file_system).await?;
    let ended = search.try_all(&device, power::on_device::MORE, Power::nothing).await;
    let undone = device.end().await;
    ended.and(undone)
}

check! {
    /// A storage node is late, a switch loses packets, or a firewall forgets a connection. A driver that
    /// waits without a limit, or keeps a dead connection, does not recover when the network does.
    BACKEND_NETWORK {
        id: "faults/backend-network",
        title: "a slow, silent or cut network to the back end loses no data and no volume; calls can be repeated",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, PROXY],
        refuted_by: [
            "plain/keeps-dead-connection",
            "plain/waits-without-limit",
            "plain/never-forgets-timeout",
            "plain/lists-nothing-unreached",
            "plain/believes-half-an-answer",
        ],
        runs: LosesData,
        access: Each,
        varies: true,
    }
    async |cx| {
        try_all(cx, backend_network::NAME, 0, &mut BackendNetwork::new(cx), BackendNetwork::nothing).await
    }
}

/// The order matters: if a fault keeps the driver from starting for good, the later checks cannot run.
pub(crate) const CHECKS: &[&Check] =
    &[&RESOURCES, &SYSTEM_CALLS, &BACKEND_NETWORK, &BY_HOOKS, &COMMANDS, &CRASH_POINTS, &POWER];

/// Leads a volume through its life without any fault, and then again and again with faults: `more` beside the plain ones, unless the user
/// says otherwise.
async fn try_all(
    cx: &Cx,
    name: &str,
    more: u32,
    injector: &mut dyn Injector,
    nothing: fn() -> Stop,
) -> CheckResult {
    let mut search = Search::new(cx, name).await?;
    search.learnt = Some(plain_lives(cx, injector).await?);
    let ended = search.try_all(injector, more, nothing).await;
    search.end();
    ended
}

/// The reason why only root can lead a life, once a check has found that out, so that other checks fail at once.
#[derive(Default)]
struct Obstacle(Mutex<Option<String>>);

/// Sees what a driver does, and where, while nothing is broken, and what it leaves.
async fn plain_lives(cx: &Cx, injector: &mut dyn Injector) -> CheckResult<(Plan, Places)> {
    let obstacle = cx.learn(async { Ok(Obstacle::default()) }).await?;
    if let Some(why) = obstacle.0.lock().clone() {
        return Err(Stop::broken(why));
    }
    let lived = match plain_life(cx, injector).await {
        Err(Stop::Broken(why)) if !geteuid().is_root() => {
            let why = format!(
                "{why}; neither csi-sanity nor the driver that it starts is root, and mounting needs root"
            );
            *obstacle.0.lock() = Some(why.clone());
            return Err(Stop::broken(why));
        }
        lived => lived?,
    };
    without_leftovers(cx, lived).await
}

/// Looks away from where a life leaves something without any fault.
async fn without_leftovers(cx: &Cx, (plan, mut places): (Plan, Places)) -> CheckResult<(Plan, Places)> {
    places.forget(&left_of_a_plain_life(cx, &plan, &places).await?);
    Ok((plan, places))
}

/// Sees what a driver does, and where, while nothing is broken.
async fn plain_life(cx: &Cx, injector: &mut dyn Injector) -> CheckResult<(Plan, Places)> {
    let scope = cx.scope();
    let mut life = Life::begin(&scope).await?;
    let mut plan = Plan::default();
    let mut places = Places::of_tests(cx, life.staging_path());
    let mut left_out = Vec::new();
    for step in Step::ALL.iter().copied().filter(|step| step.is_offered(cx)) {
        let needs_missing = matches!(step, Step::Restore | Step::DeleteSnapshot)
            && left_out.contains(&Step::Snapshot)
            || step == Step::DeleteRestored
                && (left_out.contains(&Step::Restore) || left_out.contains(&Step::Snapshot))
            || step == Step::ExpandNode && left_out.contains(&Step::ExpandController);
        if needs_missing {
            left_out.push(step);
            continue;
        }
        injector.begin_step()?;
        let made = match step.is_optional() {
            true => optionally(&mut life, step).await,
            false => plainly(&mut life, step, &plan).await,
        };
        match made {
            Err(Stop::Broken(_)) if step.is_optional() => {
                left_out.push(step);
                continue;
            }
            made => made?,
        }
        injector.end_step(step)?;
        plan.steps.push(step);
        match step {
            Step::Stage => plan.mounts_staging = cx.mounts_at(life.staging_path()) > 0,
            Step::Publish => {
                plan.sees = cx.shares_files_with_driver().await && cx.sees_published(life.target_path());
                places.learn_behind(life.target_path());
                // The workload writes.
                without_fault(life.is_done(step, &plan).await)?;
            }
            Step::PublishAgain => plan.grows_by = life.has_grown_by().await,
            Step::Restore => match without_fault(life.restored_holds().await) {
                Err(Stop::Broken(why)) => cx.note(format!(
                    "volumes restored from snapshots are not checked for their data, since that fails even without a fault: {why}"
                )),
                held => {
                    held?;
                    plan.uses_copies = true;
                }
            },
            _ => {}
        }
    }
    scope.undo().await?;
    places.learn_paths(injector.paths());
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|step| step.id()).collect();
        cx.note(format!("left out, since it fails here even without a fault: {}", names.join(", ")));
    }
    Ok((plan, places))
}

/// The remains of a life without faults, now that it is known where to look.
async fn left_of_a_plain_life(cx: &Cx, plan: &Plan, places: &Places) -> CheckResult<Vec<String>> {
    let before = Look::take(cx, places).await;
    let scope = cx.scope();
    let mut life = Life::begin(&scope).await?;
    for step in plan.steps.iter().copied() {
        plainly(&mut life, step, plan).await?;
        if step == Step::Restore && plan.uses_copies {
            without_fault(life.restored_holds().await)?;
        }
    }
    scope.undo().await?;
    Ok(Look::take(cx, places).await.since(&before))
}

/// Makes a call that a driver need not do. It is repeated only while the driver says that the call has to wait.
async fn optionally(life: &mut Life, step: Step) -> CheckResult {
    match life.call(step).await? {
        Answer::Ok(()) => Ok(()),
        Answer::Refused(refused) if effect::is_not_now(step.rpc(), refused.code) => {
            let done = life.converge(step, life.converges_in(None)).await?;
            done.map(drop).map_err(|last| Stop::broken(last.to_string()))
        }
        Answer::Refused(refused) => Err(Stop::broken(refused.to_string())),
        Answer::Unknown(why) => Err(Stop::broken(why.to_string())),
    }
}
