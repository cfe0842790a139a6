//! The checks: one for each lever.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::lifecycle::memory::needs_memory;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::lock::Mutex;
use rustix::process::geteuid;

use crate::case::{self, Case};
use crate::fault::Fault;
use crate::left::{Look, Places};
use crate::lever::Lever;
use crate::lever::backend_network::{self, BackendNetwork};
use crate::lever::commands::{self, Commands};
use crate::lever::crash_points::{self, CrashPoints};
use crate::lever::hooks::{self, Hooks};
use crate::lever::power::{self, FILE_SYSTEMS, FileSystem, Machine, OnDevice, Power};
use crate::lever::resources::{self, Resources};
use crate::lever::system_calls::{self, SystemCalls};
use crate::life::{Life, Plan, Step};
use crate::neighbour::Neighbour;
use crate::rules::*;
use crate::trial::{Bench, Told, Went, plainly, without_fault};

/// What a fault can show of a driver.
static RULES: &[&Requirement] = &[
    &FAULT_DATA_001,
    &FAULT_DONE_001,
    &FAULT_HEAL_001,
    &FAULT_CODE_001,
    &FAULT_TIME_001,
    &FAULT_OTHERS_001,
    &FAULT_LEFT_001,
    &req::CTRL_CREATEVOL_004,
    &req::NODE_PUBLISH_026,
    &req::NODE_PUBLISH_027,
    &req::NODE_UNPUBLISH_002,
    &req::NODE_UNSTAGE_002,
    &req::GEN_ERR_001,
];

/// Time for the faults of one check where the user gives none.
const CHECK_LIMIT: Duration = Duration::from_secs(6);
/// Part of the time of a check that is left for undoing.
const SPARE: f64 = 0.2;
/// Part of that for each file system of the kernel's of which the power is lost besides.
const DEVICE_SHARE: f64 = 0.15;
/// Checks that `--budget` is divided among.
const SHARES: u32 = 5;
/// Commands of the user that break things.
const HOOKS: Need = Need::Configured(Setting::Faults);
/// A way to the back end that leads through the run.
const PROXY: Need = Need::Configured(Setting::BackendProxy);

check! {
    /// mkfs, mount, umount, blkid, cp and their like fail, hang and are killed on machines that go wrong. A driver that goes by what they
    /// say has to tell "no" from "I cannot know": a device that cannot be read is no blank one, and a mount that stays is not gone.
    COMMANDS {
        id: "faults/commands",
        title: "a command that fails, hangs or is killed costs no data and no volume, and the same call is done once it works again",
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
        runs: Erases,
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut commands = Commands::begin(cx).await?;
        try_all(cx, commands::NAME, &mut commands, Commands::nothing).await
    }
}

check! {
    /// A driver is killed at any time: by an update, the kernel, a liveness probe. Between two changes of what it keeps there is a moment
    /// in which one is made and the other is not; each of these moments is met here, and none by chance.
    CRASH_POINTS {
        id: "faults/crash-points",
        title: "a driver that is killed before any change it makes, or right after its answer, knows what it has answered for and can be asked again",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["plain/writes-in-place", "plain/answers-before-writing", "plain/cleans-at-start"],
        runs: EndsAtWork,
        access: Each,
        varies: true,
    }
    async |cx| {
        cx.target().driver().map_or(Ok(()), needs_memory)?;
        let mut points = CrashPoints::begin(cx).await?;
        let ended = try_all(cx, crash_points::NAME, &mut points, CrashPoints::nothing).await;
        points.end().await?;
        ended
    }
}

check! {
    /// A write that fails with EIO, a rename without room, a mount that is busy: what a driver keeps and what it has told others part
    /// where it does not look at what its calls come to.
    SYSTEM_CALLS {
        id: "faults/system-calls",
        title: "a system call that fails or is late costs no data and no volume, and the same call is done once it works again",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["plain/ignores-failed-write"],
        runs: Erases,
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut calls = SystemCalls::begin(cx).await?;
        let ended = try_all(cx, system_calls::NAME, &mut calls, SystemCalls::nothing).await;
        calls.end().await?;
        ended
    }
}

check! {
    /// A node without memory stops a process for minutes, a disk is full, a file system with errors is mounted again for reading, a leak has
    /// used up what a process may open. Callers give up meanwhile, and come again.
    RESOURCES {
        id: "faults/resources",
        title: "a driver that is frozen, finds every disk full or for reading only, or can open nothing, loses nothing, and goes on when that is over",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["plain/ends-on-error", "plain/keeps-lock-after-error"],
        runs: Erases,
        access: Each,
        varies: true,
    }
    async |cx| {
        let mut resources = Resources::begin(cx).await?;
        let ended = try_all(cx, resources::NAME, &mut resources, Resources::nothing).await;
        resources.end().await?;
        ended
    }
}

check! {
    /// A path is unplugged, a storage node stops, a cloud has an outage: only its vendor, or its user, can make that happen on purpose.
    BY_HOOKS {
        id: "faults/hooks",
        title: "what the user's own commands break costs no data and no volume, and the same call is done once it is healed",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, HOOKS],
        refuted_by: ["plain/stays-offline", "plain/takes-offline-for-gone"],
        runs: Erases,
        access: Each,
        varies: true,
    }
    async |cx| {
        try_all(cx, hooks::NAME, &mut Hooks::new(cx), Hooks::nothing).await
    }
}

check! {
    /// A node loses its power, a hypervisor its host. What was written and not made durable is lost, in part or as a whole, and nothing that
    /// was mounted is mounted any more. What a driver has answered for has to be durable by then.
    POWER {
        id: "faults/power",
        title: "what a driver has answered for outlives a loss of power, whatever is lost of what it has not made durable",
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
        runs: EndsAtWork,
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
            Ok((plan, places)) => match Machine::of(&seen, &places) {
                Ok(machine) => lose_power(search, &devices, &machine, (plan, places)).await,
                Err(stop) => Err(stop),
            },
            Err(stop) => Err(stop),
        };
        seen.end().await?;
        ended
    }
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
        if !search.is_named() {
            search.share = devices.iter().fold(1.0, |rest, _| rest - DEVICE_SHARE);
        }
        ended = search.try_all(&mut power, Power::nothing).await;
        power.end().await?;
    } else {
        search.learnt = Some(without_leftovers(search.cx, lived).await?);
    }
    if !search.is_named() {
        search.share = DEVICE_SHARE;
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
    let told = |why: String| {
        format!(
            "no power is lost of file systems of the kernel's, which takes device-mapper and dmsetup: {why}"
        )
    };
    match lacks.is_empty() {
        true => {}
        false if search.is_named() => return Err(Stop::skip(told(lacks.join("; ")))),
        false => search.cx.note(told(lacks.join("; "))),
    }
    Ok(devices)
}

async fn lose_power_of(
    search: &mut Search<'_>,
    machine: &Machine<'_>,
    file_system: &'static FileSystem,
) -> CheckResult {
    let mut device = OnDevice::begin(machine, file_system).await?;
    let ended = search.try_all(&mut device, Power::nothing).await;
    device.end().await?;
    ended
}

check! {
    /// A storage node is late, a switch loses packets, a firewall forgets a connection. A driver that waits without a limit, or keeps a
    /// connection that is dead, does not come right when the network does.
    BACKEND_NETWORK {
        id: "faults/backend-network",
        title: "a network to the back end that is slow, silent or cut costs no data and no volume, and the same call is done once it works again",
        spec: RULES,
        needs: [NODE, CREATE_DELETE_VOLUME, PROXY],
        refuted_by: [
            "plain/keeps-dead-connection",
            "plain/waits-without-limit",
            "plain/never-forgets-timeout",
            "plain/lists-nothing-unreached",
            "plain/believes-half-an-answer",
        ],
        runs: Erases,
        access: Each,
        varies: true,
    }
    async |cx| {
        try_all(cx, backend_network::NAME, &mut BackendNetwork::new(cx), BackendNetwork::nothing).await
    }
}

/// Those that take longest come last, since they get what the others leave of --budget.
pub(crate) const CHECKS: &[&Check] =
    &[&RESOURCES, &SYSTEM_CALLS, &BACKEND_NETWORK, &BY_HOOKS, &COMMANDS, &CRASH_POINTS, &POWER];

/// Leads a volume through its life without any fault, and then once for each fault that there is time for.
async fn try_all(cx: &Cx, name: &str, lever: &mut dyn Lever, nothing: fn() -> Stop) -> CheckResult {
    let mut search = Search::new(cx, name).await?;
    let ended = search.try_all(lever, nothing).await;
    search.end();
    ended
}

/// What a check tries of a driver, by one lever or by several, one after another.
struct Search<'a> {
    cx: &'a Cx,
    /// The faults that --fault names, of this check; `None` if it names none.
    wanted: Option<Vec<Fault>>,
    stored: Vec<(PathBuf, Case)>,
    /// In which new faults are begun, and how much of that was needed.
    time: Duration,
    used: Duration,
    /// The part of the time in which the lever may begin them.
    share: f64,
    left_over: Arc<LeftOver>,
    /// What the first lever has learnt.
    learnt: Option<(Plan, Places)>,
    told: Told,
}

impl<'a> Search<'a> {
    /// # Errors
    /// Skip if others are wanted; broken if what is wanted cannot be read.
    async fn new(cx: &'a Cx, name: &str) -> CheckResult<Search<'a>> {
        let texts = &cx.config().effort.only_faults;
        let wanted: Vec<Fault> =
            texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(Stop::broken)?;
        let is_named = !wanted.is_empty();
        let wanted: Vec<Fault> = wanted.into_iter().filter(|fault| fault.lever == name).collect();
        if is_named && wanted.is_empty() {
            return Err(Stop::skip("--fault names others"));
        }
        let stored = case::of_check(cx)?;
        let wanted = is_named.then_some(wanted);
        let left_over = cx.learn(async { Ok(LeftOver::default()) }).await?;
        let time = limit(cx, &left_over);
        Ok(Search {
            cx,
            wanted,
            stored,
            time,
            used: Duration::ZERO,
            share: 1.0,
            left_over,
            learnt: None,
            told: Told::default(),
        })
    }

    /// Whether --fault, or the case that is replayed, says what is tried.
    fn is_named(&self) -> bool {
        self.wanted.is_some() || self.cx.config().effort.replay.is_some()
    }

    /// Whether there may be something to try for a lever that knows such faults.
    fn is_for(&self, knows: impl Fn(&Fault) -> bool) -> bool {
        let stored = self.stored.iter().map(|(_, case)| &case.fault);
        !self.is_named() || self.wanted.iter().flatten().chain(stored).any(knows)
    }

    /// # Errors
    /// It cannot be judged, or there is nothing to break.
    async fn try_all(&mut self, lever: &mut dyn Lever, nothing: fn() -> Stop) -> CheckResult {
        let cx = self.cx;
        let (plan, places) = match &self.learnt {
            Some(learnt) => learnt.clone(),
            None => self.learnt.insert(plain_lives(cx, lever).await?).clone(),
        };
        let stored: Vec<_> =
            self.stored.iter().filter(|(_, case)| lever.knows(&case.fault)).cloned().collect();
        let mut faults = match &self.wanted {
            _ if cx.config().effort.replay.is_some() => Vec::new(),
            None => lever.faults(),
            Some(wanted) => wanted.iter().filter(|fault| lever.knows(fault)).cloned().collect(),
        };
        faults.retain(|fault| !stored.iter().any(|(_, case)| case.fault == *fault));
        in_order_of_time(cx, lever, &mut faults);
        let mut tries: Vec<Try> = stored.into_iter().map(Try::from).collect();
        tries.extend(faults.into_iter().map(|fault| Try { fault, stored_in: None }));
        let (tries, left_out): (Vec<Try>, _) =
            tries.into_iter().partition(|one| plan.steps.contains(&one.fault.step));
        note_untried(cx, &left_out, "the driver cannot do this step even without a fault");
        if tries.is_empty() {
            return Err(match left_out.is_empty() {
                true => nothing(),
                false => Stop::skip("the driver does not do the step of the fault"),
            });
        }
        let scope = cx.scope();
        let neighbour = Neighbour::begin(&scope, plan.sees).await?;
        let mut bench = Bench { cx: &scope, neighbour, plan, places, ruined_more: 0 };
        let limit = self.time.mul_f64(self.share).min(most(cx));
        let begun = Instant::now();
        let met = try_each(&mut bench, lever, &tries, limit, &mut self.told).await;
        self.used += begun.elapsed();
        bench.end();
        // What cannot be undone now is tried once more at the end of the check.
        let _ = scope.undo().await;
        let met = met?;
        match self.wanted.is_some() && met == 0 {
            true => {
                Err(Stop::broken("no fault of --fault was met: the driver did not reach any of these places"))
            }
            false => Ok(()),
        }
    }

    fn end(self) {
        self.left_over.add(self.time.saturating_sub(self.used));
        self.told.end(self.cx);
    }
}

/// What the checks so far have not used of --budget.
#[derive(Default)]
struct LeftOver(Mutex<Duration>);

impl LeftOver {
    fn add(&self, unused: Duration) {
        *self.0.lock() += unused;
    }

    /// For one check, which gives back what it does not use.
    fn take(&self) -> Duration {
        std::mem::take(&mut self.0.lock())
    }
}

/// Why nobody but root can lead a life, once a check has found that out: the others need not wait for it.
#[derive(Default)]
struct Obstacle(Mutex<Option<String>>);

/// A fault that is to be tried.
struct Try {
    fault: Fault,
    /// Where an earlier run has stored it.
    stored_in: Option<PathBuf>,
}

impl From<(PathBuf, Case)> for Try {
    fn from((path, case): (PathBuf, Case)) -> Try {
        Try { fault: case.fault, stored_in: Some(path) }
    }
}

/// A seeded order, in which no call and no place comes again before all others have come, and what takes long comes last.
fn in_order_of_time(cx: &Cx, lever: &dyn Lever, faults: &mut [Fault]) {
    cx.rng().shuffle(faults);
    let mut times = BTreeMap::<(&str, String), u32>::new();
    faults.sort_by_cached_key(|fault| {
        let place = fault.counted_place().map_or(fault.place.as_str(), |(name, _)| name);
        let turn = times.entry((fault.step.rpc(), place.to_owned())).or_default();
        *turn += 1;
        (lever.traits(fault).hangs, *turn)
    });
}

/// Tries one after another. Returns how many the driver has met.
async fn try_each(
    bench: &mut Bench<'_>,
    lever: &dyn Lever,
    tries: &[Try],
    limit: Duration,
    told: &mut Told,
) -> CheckResult<usize> {
    let cx = bench.cx;
    let until = Instant::now() + limit;
    let (mut tried, mut unmet, mut longest) = (0_usize, 0_usize, Duration::ZERO);
    let mut ended = None;
    for Try { fault, stored_in } in tries {
        if Instant::now() >= until {
            ended = Some("the time for it was over");
        } else if told.len() >= most_told(cx) {
            ended = Some("enough faults are reported; --budget DURATION continues the search");
        }
        if ended.is_some() {
            break;
        }
        cx.stage(fault.step.told(), tried as u64 + 1, Some(tries.len() as u64));
        let told_before = told.times();
        let went = bench.try_one(lever, fault, told).await?;
        if let Some(path) = stored_in {
            cx.note(format!("{}: {}", path.display(), came_of(went, told.times() > told_before)));
        }
        match went {
            Went::Unmet => unmet += 1,
            Went::Through(took) => longest = longest.max(took),
            Went::Wrong => {}
        }
        tried += 1;
        if !bench.is_up_again(lever, fault).await? {
            ended = Some("the driver no longer starts");
            break;
        }
    }
    note_untried(cx, &tries[tried..], ended.unwrap_or_default());
    let why = ended.filter(|_| tried < tries.len()).map(|why| format!(", since {why}")).unwrap_or_default();
    cx.note(format!(
        "{tried} of {} faults tried{why}; once healed, the same call succeeded within {} ms",
        tries.len(),
        longest.as_millis()
    ));
    if unmet > 0 {
        cx.note(format!("{unmet} of these not met: the driver did not reach that place again"));
    }
    Ok(tried - unmet)
}

/// How many different things are told before a check ends. Who gives it time wants all of them.
fn most_told(cx: &Cx) -> usize {
    let effort = &cx.config().effort;
    if effort.budget_ms.is_some() { usize::MAX } else { effort.faults as usize * 2 }
}

/// Says of which stored cases nothing is known now.
fn note_untried(cx: &Cx, tries: &[Try], why: &str) {
    for path in tries.iter().filter_map(|one| one.stored_in.as_ref()) {
        cx.note(format!("{}: not tried: {why}", path.display()));
    }
}

/// What has become of a stored case.
fn came_of(went: Went, is_told: bool) -> &'static str {
    match went {
        Went::Unmet => "not met: the driver did not reach that place again",
        _ if is_told => "still failing",
        _ => "fixed",
    }
}

/// How long new faults are begun.
fn limit(cx: &Cx, left_over: &LeftOver) -> Duration {
    let effort = &cx.config().effort;
    let accesses = u32::try_from(cx.config().access_types.len()).unwrap_or(1).max(1);
    match effort.budget_ms {
        Some(budget_ms) => {
            let config = cx.config();
            let optional = [!config.faults.is_empty(), !config.backend_proxies.is_empty()];
            let shares = SHARES + optional.into_iter().map(u32::from).sum::<u32>();
            Duration::from_millis(budget_ms) / shares / accesses + left_over.take()
        }
        None => CHECK_LIMIT.min(Duration::from_millis(effort.check_budget_ms)) / accesses,
    }
}

/// What the time limit of the check has room for.
fn most(cx: &Cx) -> Duration {
    cx.remaining().mul_f64(1.0 - SPARE)
}

/// Sees what a driver does, and where, while nothing is broken, and what it leaves.
async fn plain_lives(cx: &Cx, lever: &mut dyn Lever) -> CheckResult<(Plan, Places)> {
    let obstacle = cx.learn(async { Ok(Obstacle::default()) }).await?;
    if let Some(why) = obstacle.0.lock().clone() {
        return Err(Stop::broken(why));
    }
    let lived = match plain_life(cx, lever).await {
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
async fn plain_life(cx: &Cx, lever: &mut dyn Lever) -> CheckResult<(Plan, Places)> {
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
        lever.begin_step()?;
        let made = match step.is_optional() {
            true => once(&mut life, step).await,
            false => plainly(&mut life, step, &plan).await,
        };
        match made {
            Err(Stop::Broken(_)) if step.is_optional() => {
                left_out.push(step);
                continue;
            }
            made => made?,
        }
        lever.end_step(step)?;
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
            _ => {}
        }
    }
    scope.undo().await?;
    places.learn_paths(lever.paths());
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|step| step.id()).collect();
        cx.note(format!(
            "left out, since the driver cannot do it even without a fault: {}",
            names.join(", ")
        ));
    }
    Ok((plan, places))
}

/// What a life without any fault leaves, now that it is known where to look.
async fn left_of_a_plain_life(cx: &Cx, plan: &Plan, places: &Places) -> CheckResult<Vec<String>> {
    let before = Look::take(cx, places).await;
    let scope = cx.scope();
    let mut life = Life::begin(&scope).await?;
    for step in plan.steps.iter().copied() {
        plainly(&mut life, step, plan).await?;
    }
    scope.undo().await?;
    Ok(Look::take(cx, places).await.since(&before))
}

/// Makes a call that a driver need not do.
async fn once(life: &mut Life, step: Step) -> CheckResult {
    match life.call(step).await? {
        Answer::Ok(()) => Ok(()),
        Answer::Refused(refused) => Err(Stop::broken(refused.to_string())),
        Answer::Unknown(why) => Err(Stop::broken(why.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_check_gets_what_was_left_and_the_one_after_it_does_not() {
        let left_over = LeftOver::default();
        for unused_s in [2, 3] {
            left_over.add(Duration::from_secs(unused_s));
        }
        assert_eq!(left_over.take(), Duration::from_secs(5));
        assert_eq!(left_over.take(), Duration::ZERO);
    }
}
