//! Chooses the faults that a check tries, puts them in order, and confirms failures.
//!
//! The plain faults come first, in one order in every run; the seed chooses those that are added to them. Most lives of
//! a volume show nothing, so one life has a fault in each of its steps. A life that goes wrong is led again, divided,
//! until one fault alone leads to the failure; that fault is then repeated once more before the failure counts.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_nemesis::fault::Fault;
use csi_nemesis::injector::Injector;
use csi_nemesis::restart::kill_and_start;
use csi_nemesis::step::Step;

use crate::case::{self, Case};
use crate::left::Places;
use crate::life::Plan;
use crate::neighbour::Neighbour;
use crate::rules::{FAULT_LEFT_001, FAULT_MOUNT_001};
use crate::trial::{Bench, Finding, FullWaits, Lived, Patience, Reported, without_fault};

/// Part of the time limit of a check that is left for undoing.
const SPARE: f64 = 0.2;
/// Times that a single fault is tried again before its failure counts as flaky.
const REPLAYS_MAX: u32 = 3;
/// Times that the driver is killed to be sure that its mounts end with it.
const KILLS_TO_BE_SURE: u32 = 2;
/// Lives in which several faults led to something that none of them led to alone, and that are led again for that.
const UNRESOLVED_MAX: usize = 4;

/// The heading of several faults that have led to one failure twice, and none of which can be left out.
const ONLY_TOGETHER: &str = "only these faults together, in one life of a volume, lead to this:";
/// The heading of several faults that have led to one failure twice, if there was no time to leave out others.
const TOGETHER: &str =
    "these faults together, in one life of a volume, lead to this; some of them may not be needed:";
/// The heading of several faults of which one or more may be to blame.
const ANY_OF_THEM: &str =
    "one or more of these faults, in one life of a volume, led to this, and nothing could be tried after it:";

/// The reason for which nothing more can be tried.
const NO_LONGER_STARTS: &str = "the driver no longer starts";

/// A fault that is to be tried.
#[derive(Clone)]
pub(crate) struct Try {
    fault: Fault,
    /// The file in which an earlier run has stored it.
    stored_in: Option<PathBuf>,
}

impl From<(PathBuf, Case)> for Try {
    fn from((path, case): (PathBuf, Case)) -> Try {
        Try { fault: case.fault, stored_in: Some(path) }
    }
}

impl From<Fault> for Try {
    fn from(fault: Fault) -> Try {
        Try { fault, stored_in: None }
    }
}

/// The search of one check, with one injector or with several, one after another.
pub(crate) struct Search<'a> {
    pub(crate) cx: &'a Cx,
    /// The faults that --fault names, of this check; `None` if it names none.
    wanted: Option<Vec<Fault>>,
    stored: Vec<(PathBuf, Case)>,
    /// The time after which no new life begins, however many are left.
    ceiling: Duration,
    begun: Instant,
    /// The life without faults, as the first injector has seen it.
    pub(crate) learnt: Option<(Plan, Places)>,
    reported: Reported,
}

impl<'a> Search<'a> {
    /// Skips if `--fault` names only faults of other injectors, and is broken if it cannot be parsed.
    pub(crate) async fn new(cx: &'a Cx, name: &str) -> CheckResult<Search<'a>> {
        let texts = &cx.config().effort.only_faults;
        let wanted: Vec<Fault> =
            texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(Stop::broken)?;
        let is_named = !wanted.is_empty();
        let wanted: Vec<Fault> = wanted.into_iter().filter(|fault| fault.injector == name).collect();
        if is_named && wanted.is_empty() {
            return Err(Stop::skip("--fault names others"));
        }
        let (stored, wanted) = (case::of_check(cx)?, is_named.then_some(wanted));
        let (ceiling, begun, reported) = (cx.config().effort.ceiling(), Instant::now(), Reported::default());
        Ok(Search { cx, wanted, stored, ceiling, begun, learnt: None, reported })
    }

    /// True if --fault, or the case that is replayed, names the faults.
    pub(crate) fn is_named(&self) -> bool {
        self.wanted.is_some() || self.cx.config().effort.replay.is_some()
    }

    /// True if an injector that knows such faults may have something to try.
    pub(crate) fn is_for(&self, knows: impl Fn(&Fault) -> bool) -> bool {
        let stored = self.stored.iter().map(|(_, case)| &case.fault);
        !self.is_named() || self.wanted.iter().flatten().chain(stored).any(knows)
    }

    /// Tries what an injector can break of a driver whose life without faults is known: `more` faults beside the plain ones, by default.
    pub(crate) async fn try_all(
        &mut self,
        injector: &dyn Injector,
        more: u32,
        nothing: fn() -> Stop,
    ) -> CheckResult {
        let cx = self.cx;
        let Some((plan, places)) = self.learnt.clone() else {
            return Err(Stop::broken("the run without faults did not take place"));
        };
        let stored = self.stored.iter().filter(|(_, case)| injector.knows(&case.fault)).cloned();
        let mut first: Vec<Try> = stored.map(Try::from).collect();
        let (mut plain, mut random) = (Vec::new(), Vec::new());
        match &self.wanted {
            _ if cx.config().effort.replay.is_some() => {}
            Some(wanted) => {
                let wanted = wanted.iter().filter(|fault| injector.knows(fault)).cloned();
                first.extend(wanted.map(Try::from));
            }
            None => {
                let is_plain = |fault: &Fault| injector.is_plain(fault) && !fault.step.is_repetition();
                (plain, random) = injector.faults().into_iter().partition(is_plain);
            }
        }
        let is_stored = |fault: &Fault| first.iter().any(|known| known.fault == *fault);
        plain.retain(|fault| !is_stored(fault));
        random.retain(|fault| !is_stored(fault));
        // A caller waits longest for what hangs.
        plain.sort_by_key(|fault| injector.traits(fault).hangs);
        in_random_order(cx, injector, &mut random);
        let all = first.len() + plain.len() + random.len();
        let added = cx.config().effort.scaled(more) as usize / cx.config().access_types.len().max(1);
        random.truncate(added);
        let (first, left_out): (Vec<Try>, _) =
            first.into_iter().partition(|one| plan.steps.contains(&one.fault.step));
        note_untried(cx, &left_out, "the driver cannot do this step even without a fault");
        let planned = first.len() + plain.len() + random.len();
        if planned == 0 {
            return Err(match left_out.is_empty() {
                true => nothing(),
                false => Stop::skip("the driver does not do the step of the fault"),
            });
        }
        let scope = cx.scope();
        let mounts_end = mounts_end(cx, plan.sees).await?;
        let may_kill = remembers(cx) && mounts_end.0.is_none();
        if let (true, Some(actual)) = (injector.kills(), &mounts_end.0) {
            return Err(without_mounts(actual).into());
        }
        let neighbour = Neighbour::begin(&scope, plan.sees).await?;
        let waits = cx.learn(async { Ok(FullWaits::default()) }).await?;
        let mut bench = Bench { cx: &scope, neighbour, may_kill, plan, places, ruined_more: 0, waits };
        let deadline = Instant::now() + cx.remaining().mul_f64(1.0 - SPARE);
        let until = if self.is_named() { deadline } else { deadline.min(self.begun + self.ceiling) };
        let mut tries = Tries {
            bench: &mut bench,
            injector,
            reported: &mut self.reported,
            until,
            deadline,
            planned,
            all,
            unresolved: Vec::new(),
            tried: 0,
            met: 0,
            longest: Duration::ZERO,
            ended: None,
        };
        let ended = tries.run(first, plain, random).await;
        let (met, tried) = (tries.met, tries.tried);
        self.ceiling = tries.until.saturating_duration_since(self.begun);
        bench.end();
        // Undoing is tried once more at the end of the check.
        let _ = scope.undo().await;
        ended?;
        if self.wanted.is_some() && met == 0 {
            return Err(Stop::broken(
                "no fault of --fault was met: the driver did not reach any of these places",
            ));
        }
        if tried == 0 {
            return Err(Stop::broken(format!(
                "none of {planned} faults was tried within the time limit; --budget DURATION allows more time"
            )));
        }
        Ok(())
    }

    pub(crate) fn end(self) {
        self.reported.end(self.cx);
    }
}

/// Describes the path of a workload after the driver was killed and started again, if its volume is not mounted there any more.
struct MountsEnd(Option<String>);

/// Finds out once for all checks whether mounts end with the driver's process. If they do, the driver is not killed for anything else.
async fn mounts_end(cx: &Cx, sees: bool) -> CheckResult<Arc<MountsEnd>> {
    cx.learn(async {
        let mut found = None;
        for _ in 0..KILLS_TO_BE_SURE {
            if !sees || !remembers(cx) || cx.target().driver().is_none() {
                break;
            }
            let scope = cx.scope();
            let neighbour = Neighbour::begin(&scope, sees).await?;
            without_fault(kill_and_start(cx).await)?;
            found = neighbour.lost_mount().await?;
            // Leftovers are reported with those of the check.
            let _ = scope.undo_best_effort().await;
            if found.is_none() {
                break;
            }
        }
        Ok(MountsEnd(found))
    })
    .await
}

/// True if killing the driver can show something new: no other check has reported that it forgets everything.
fn remembers(cx: &Cx) -> bool {
    cx.target().driver().is_none_or(|driver| needs_memory(driver).is_ok())
}

fn without_mounts(actual: &str) -> Violation {
    let message =
        "volumes that are in use are not mounted any more after the driver was killed and started again";
    Violation::new(message)
        .of(&FAULT_MOUNT_001)
        .expected(
            "the mounts of workloads outlive the driver: pods keep running when it crashes or is updated",
        )
        .actual(format!("{actual}; no fault that kills the driver was tried"))
        .replayed(KILLS_TO_BE_SURE, KILLS_TO_BE_SURE)
}

/// Number of different failures after which no random faults are tried any more. A user who gives a budget wants all of them.
fn reports_max(cx: &Cx) -> usize {
    let effort = &cx.config().effort;
    if effort.budget_ms.is_some() { usize::MAX } else { effort.faults as usize * 2 }
}

/// Puts the faults into an order that depends on the seed. Each call and each place has its turn before any has a second one, and slow faults
/// come last.
fn in_random_order(cx: &Cx, injector: &dyn Injector, faults: &mut [Fault]) {
    cx.rng().shuffle(faults);
    let mut times = BTreeMap::<(&str, String), u32>::new();
    faults.sort_by_cached_key(|fault| {
        let place = fault.counted_place().map_or(fault.place.as_str(), |(name, _)| name);
        let turn = times.entry((fault.step.rpc(), place.to_owned())).or_default();
        *turn += 1;
        (injector.traits(fault).hangs, *turn)
    });
}

/// Divides faults among lives, each with at most one in a step: the first life has the first one of each step.
fn lives(faults: Vec<Fault>) -> VecDeque<Vec<Try>> {
    let mut of_steps = BTreeMap::<Step, VecDeque<Fault>>::new();
    for fault in faults {
        of_steps.entry(fault.step).or_default().push_back(fault);
    }
    let mut lives = VecDeque::new();
    loop {
        let life: Vec<Try> = of_steps.values_mut().filter_map(VecDeque::pop_front).map(Try::from).collect();
        if life.is_empty() {
            return lives;
        }
        lives.push_back(life);
    }
}

/// A failure of a life with several faults, to which none of them has led alone so far.
struct Unresolved {
    finding: Finding,
    faults: Vec<Fault>,
}

/// The faults of one injector while they are tried.
struct Tries<'a, 'b> {
    bench: &'a mut Bench<'b>,
    injector: &'a dyn Injector,
    reported: &'a mut Reported,
    /// The time after which no new life begins. Confirming a failure may take longer, up to the deadline.
    until: Instant,
    deadline: Instant,
    /// Number of faults to try, and of all faults that the driver can meet.
    planned: usize,
    all: usize,
    unresolved: Vec<Unresolved>,
    tried: usize,
    met: usize,
    longest: Duration,
    /// The reason why it ended before everything was tried.
    ended: Option<&'static str>,
}

impl Tries<'_, '_> {
    async fn run(&mut self, first: Vec<Try>, plain: Vec<Fault>, random: Vec<Fault>) -> CheckResult {
        let first: VecDeque<Vec<Try>> = first.into_iter().map(|one| vec![one]).collect();
        let mut rest = Vec::new();
        let mut ended = Ok(());
        for (mut queue, is_random) in [(first, false), (lives(plain), false), (lives(random), true)] {
            while let Some(life) = queue.pop_front() {
                if ended.is_err() || self.is_over(is_random) {
                    rest.extend(life);
                    continue;
                }
                let begun = Instant::now();
                match self.try_life(life, &mut queue).await {
                    Ok(true) => self.until = self.deadline.min(self.until + begun.elapsed()),
                    Ok(false) => {}
                    Err(stop) => {
                        self.ended.get_or_insert("a fault could not be judged");
                        ended = Err(stop);
                    }
                }
            }
        }
        let resolved = self.resolve().await;
        self.say(&rest);
        ended.and(resolved)
    }

    fn is_over(&mut self, is_random: bool) -> bool {
        let cx = self.bench.cx;
        if self.ended.is_none() && Instant::now() >= self.until {
            self.ended = Some("the time limit was met");
            cx.cut_short(self.tried as u64, self.planned as u64, "faults");
        } else if self.ended.is_none() && is_random && self.reported.len() >= reports_max(cx) {
            self.ended = Some("enough failures are reported; --budget DURATION continues the search");
        }
        self.ended.is_some()
    }

    /// Notes how many faults were tried, and why there were not more.
    fn say(&self, rest: &[Try]) {
        let (cx, tried, all) = (self.bench.cx, self.tried, self.all);
        note_untried(cx, rest, self.ended.unwrap_or_default());
        let why = match self.ended {
            Some(why) if tried < self.planned => format!(", since {why}"),
            _ if tried < all => "; --budget DURATION tries more of them".to_owned(),
            _ => String::new(),
        };
        cx.note(format!(
            "{tried} of {all} faults tried{why}; once a fault was over, the call that had met it succeeded within {} ms",
            self.longest.as_millis()
        ));
        if self.met < tried {
            let unmet = tried - self.met;
            cx.note(format!("{unmet} of these not met: the driver did not reach that place again"));
        }
    }

    /// Leads a life, and says whether something went wrong in it. What it leaves open is put into the queue.
    async fn try_life(&mut self, life: Vec<Try>, queue: &mut VecDeque<Vec<Try>>) -> CheckResult<bool> {
        // A fault that is known to leave something behind would hide leftovers of the others.
        let leaves = |one: &Try| self.reported.has(one.fault.step, &FAULT_LEFT_001);
        let (leaving, others): (Vec<Try>, Vec<Try>) = life.into_iter().partition(leaves);
        let life = match (leaving.is_empty(), others.is_empty()) {
            (false, false) => {
                queue.push_front(others);
                leaving
            }
            (true, _) => others,
            (_, true) => leaving,
        };
        let cx = self.bench.cx;
        if let Some(one) = life.first() {
            cx.stage(one.fault.step.stage(), self.tried as u64 + 1, Some(self.planned as u64));
        }
        let faults: Vec<Fault> = life.iter().map(|one| one.fault.clone()).collect();
        let patience = if faults.len() == 1 { Patience::Full } else { Patience::Brief };
        let lived = match self.lead(&faults, patience).await {
            // Something other than a fault interfered, which must not hide the faults of this life.
            Err(Stop::Broken(_)) if life.len() > 1 && self.can_replay() => {
                let (one, other) = halves(life);
                queue.push_front(other);
                queue.push_front(one);
                return Ok(true);
            }
            lived => lived?,
        };
        self.longest = self.longest.max(lived.took);
        match &life[..] {
            [one] => self.judge_one(one, lived).await,
            _ => Ok(self.judge_several(life, lived, queue)),
        }
    }

    /// Judges a life with one fault, and reports what is new. Returns true if something was wrong.
    async fn judge_one(&mut self, one: &Try, lived: Lived) -> CheckResult<bool> {
        self.tried += 1;
        self.met += usize::from(lived.unmet.is_empty());
        let is_wrong = !lived.findings.is_empty();
        if let Some(path) = &one.stored_in {
            let result = match (lived.unmet.is_empty(), is_wrong) {
                (false, _) => "not met: the driver did not reach that place again",
                (true, true) => "still failing",
                (true, false) => "fixed",
            };
            self.bench.cx.note(format!("{}: {result}", path.display()));
        }
        for finding in lived.findings {
            if !self.reported.knows(&finding.key()) {
                let violation = self.confirmed(&finding).await?;
                self.bench.cx.blame(violation);
            }
            self.settle(&finding);
            self.reported.count(finding.key());
        }
        Ok(is_wrong)
    }

    /// Drops failures of several faults that the failure of one of them explains.
    fn settle(&mut self, finding: &Finding) {
        let explains = |open: &Unresolved| {
            open.finding.key() == finding.key()
                || open.finding.ends && finding.ends && open.faults.contains(&finding.fault)
        };
        self.unresolved.retain(|open| !explains(open));
    }

    /// Plays the fault again until the failure comes again, unless a life with several faults has shown it before.
    async fn confirmed(&mut self, finding: &Finding) -> CheckResult<Violation> {
        let (mut failed, mut plays) = (1, 1);
        if self.unresolved.iter().any(|open| open.finding.key() == finding.key()) {
            (failed, plays) = (2, 2);
        }
        while failed < 2 && plays <= REPLAYS_MAX && self.can_replay() {
            plays += 1;
            failed += u32::from(
                self.leads_to(std::slice::from_ref(&finding.fault), |found| found.key() == finding.key())
                    .await?
                    .is_some(),
            );
        }
        let violation = finding.clone().full(self.bench.cx, self.injector);
        Ok(if plays > 1 { violation.replayed(failed, plays) } else { violation })
    }

    fn can_replay(&self) -> bool {
        self.ended != Some(NO_LONGER_STARTS) && Instant::now() < self.deadline
    }

    /// Leads a life again, and returns the failure if it comes again.
    async fn leads_to(
        &mut self,
        faults: &[Fault],
        is_it: impl Fn(&Finding) -> bool,
    ) -> CheckResult<Option<Finding>> {
        let lived = match self.lead(faults, Patience::Full).await {
            // A life that could not be judged says nothing.
            Err(Stop::Broken(_)) => return Ok(None),
            lived => lived?,
        };
        Ok(lived.findings.into_iter().find(is_it))
    }

    /// Leaves out each fault, one after another, without which the failure still comes.
    async fn reduce(&mut self, finding: &mut Finding, faults: &mut Vec<Fault>) -> CheckResult<&'static str> {
        let mut at = 0;
        while at < faults.len() && faults.len() > 1 {
            if !self.can_replay() {
                return Ok(TOGETHER);
            }
            let mut fewer = faults.clone();
            fewer.remove(at);
            match self.leads_to(&fewer, |found| found.is_like(finding)).await? {
                Some(again) => (*finding, *faults) = (again, fewer),
                None => at += 1,
            }
        }
        Ok(ONLY_TOGETHER)
    }

    /// Judges a life with several faults, and puts into the queue what has to be tried in another one.
    fn judge_several(&mut self, life: Vec<Try>, lived: Lived, queue: &mut VecDeque<Vec<Try>>) -> bool {
        let faults: Vec<Fault> = life.iter().map(|one| one.fault.clone()).collect();
        let (mut alone, mut end) = (Vec::new(), None);
        let is_wrong = !lived.findings.is_empty();
        for finding in lived.findings {
            let is_known = self.reported.knows(&finding.key());
            if finding.ends {
                end = Some((finding.fault.clone(), finding.is_left(), is_known));
            } else if !is_known {
                alone.push(finding.fault.clone());
            }
            match is_known {
                true => self.reported.count(finding.key()),
                false => {
                    self.reported.note_seen(finding.key());
                    self.unresolved.push(Unresolved { finding, faults: faults.clone() });
                }
            }
        }
        if let Some((last, is_left, false)) = end {
            let (one, other) = match is_left {
                true => halves(life),
                false => life.into_iter().partition(|one| one.fault == last),
            };
            queue.push_front(other);
            queue.push_front(one);
            return is_wrong;
        }
        // Up to where it ended, each fault was tried; what a fault may not have met because of another one is tried alone.
        let reached = end.map(|(last, ..)| last.step);
        let (mut again, mut later) = (VecDeque::new(), Vec::new());
        for one in life {
            if reached.is_some_and(|reached| one.fault.step > reached) {
                later.push(one);
            } else if alone.contains(&one.fault) || lived.unmet.contains(&one.fault) {
                again.push_back(vec![one]);
            } else {
                (self.tried, self.met) = (self.tried + 1, self.met + 1);
            }
        }
        if !later.is_empty() {
            queue.push_front(later);
        }
        queue.append(&mut again);
        is_wrong
    }

    /// Repeats the lives in which several faults together have led to a finding, and none of them alone. The finding either needs several faults,
    /// or does not come again. If no life can be repeated any more, the last fault is blamed without confirmation, or all faults of the life for a
    /// finding that only shows at its end.
    async fn resolve(&mut self) -> CheckResult {
        let (cx, injector) = (self.bench.cx, self.injector);
        let mut unresolved = std::mem::take(&mut self.unresolved);
        // A life that was divided has led to one failure with more faults before, and with fewer later.
        unresolved.sort_by_key(|open| open.faults.len());
        let mut resolved: Vec<Finding> = Vec::new();
        for Unresolved { finding, mut faults } in unresolved {
            let is_known =
                self.reported.knows(&finding.key()) || resolved.iter().any(|known| known.is_like(&finding));
            if is_known || resolved.len() >= UNRESOLVED_MAX {
                continue;
            }
            resolved.push(finding.clone());
            let mut plays = 1;
            let mut again = None;
            while again.is_none() && plays <= REPLAYS_MAX && self.can_replay() {
                plays += 1;
                again = self.leads_to(&faults, |found| found.key() == finding.key()).await?;
            }
            match again {
                Some(mut again) => {
                    let heading = self.reduce(&mut again, &mut faults).await?;
                    match faults.len() {
                        1 => cx.blame(again.full(cx, injector).replayed(2, plays)),
                        _ => cx.warn(again.of_several(injector, &faults, heading)),
                    }
                }
                None if plays == 1 && finding.is_left() && faults.len() > 1 => {
                    cx.blame(finding.of_several(injector, &faults, ANY_OF_THEM));
                }
                None if plays == 1 => cx.blame(finding.full(cx, injector)),
                None => cx.blame(finding.full(cx, injector).replayed(1, plays)),
            }
        }
        Ok(())
    }

    /// Leads a life, once more where it could not be judged, and has the driver run afterwards.
    async fn lead(&mut self, faults: &[Fault], patience: Patience) -> CheckResult<Lived> {
        let mut lived = self.bench.lead(self.injector, faults, self.reported, patience).await;
        self.is_up_again(faults).await?;
        if matches!(lived, Err(Stop::Broken(_))) && faults.len() == 1 && self.can_replay() {
            lived = self.bench.lead(self.injector, faults, self.reported, patience).await;
            self.is_up_again(faults).await?;
        }
        lived
    }

    async fn is_up_again(&mut self, faults: &[Fault]) -> CheckResult {
        if !self.bench.is_up_again(self.injector, faults).await? {
            self.ended = Some(NO_LONGER_STARTS);
        }
        Ok(())
    }
}

fn halves(mut life: Vec<Try>) -> (Vec<Try>, Vec<Try>) {
    let other = life.split_off(life.len() / 2);
    (life, other)
}

/// Says of which stored cases nothing is known now.
fn note_untried(cx: &Cx, tries: &[Try], why: &str) {
    for path in tries.iter().filter_map(|one| one.stored_in.as_ref()) {
        cx.note(format!("{}: not tried: {why}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_have_one_fault_in_each_step() {
        let fault = |step, place: &str| Fault::new("commands", step, place, "late");
        let faults = vec![
            fault(Step::Stage, "mount:1"),
            fault(Step::Create, "truncate:1"),
            fault(Step::Stage, "mkfs:1"),
            fault(Step::Stage, "losetup:1"),
            fault(Step::Delete, "rm:1"),
        ];
        let lives = lives(faults);
        let places: Vec<Vec<&str>> =
            lives.iter().map(|life| life.iter().map(|one| one.fault.place.as_str()).collect()).collect();
        assert_eq!(places, [vec!["truncate:1", "mount:1", "rm:1"], vec!["mkfs:1"], vec!["losetup:1"]]);
    }
}
