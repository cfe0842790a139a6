//! Checks the content of volumes through sequences of calls: calls about the source of a copy before, while and after
//! the copy is made, calls about one volume while another one is in use, and changes by others. The model judges every
//! read.
//!
//! Each sequence is played once without disruptions. Then some of them are played again, with random calls in between
//! and disruptions at random moments: equal ones in every run, and others with `--budget`. The property suite makes
//! sequences that depend on the seed.

mod copies;
mod ended;
mod places;
mod script;
mod undisturbed;

use std::sync::Arc;

use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_model::generate::{Op, Verb};
use csi_nemesis::restart::driver;

use crate::budget::Budget;
use crate::case_runner::CaseRunner;
use crate::how::CallMode;
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::property::stored;
use crate::sequence::{PlannedStep, Step};

use crate::restart;
use script::ScriptContext;
use undisturbed::{Changes, Undisturbed};

/// Sequences that are played again with something random in between.
const DISTURBED: u32 = 2;
/// Largest number of random calls in a sequence.
const CALLS_MAX: usize = 6;

/// Checks that copies hold the data of their sources, whatever is done to these before, meanwhile and afterwards.
///
/// # Errors
/// A violation of the driver; skip if the tests do not see what it publishes.
pub async fn copies(cx: &Cx) -> CheckResult {
    play(cx, copies::all).await
}

/// Plays two volumes, each of which is used, given back and used again while the other one is in use.
pub async fn two_volumes(cx: &Cx) -> CheckResult {
    play(cx, places::two_volumes).await
}

/// Stages and publishes a volume again, at several paths, at one that exists, and after others have removed its mounts.
pub async fn used_again(cx: &Cx) -> CheckResult {
    play(cx, places::used_again).await
}

/// Plays devices and file systems of sizes that are no multiples of usual units.
pub async fn sizes(cx: &Cx) -> CheckResult {
    play(cx, places::sizes).await
}

/// Looks at volumes in use while the driver is killed, before anything is repeated and afterwards. Copies that were
/// being made are requested again.
pub async fn driver_killed(cx: &Cx) -> CheckResult {
    let driver = driver(cx)?;
    needs_memory(driver)?;
    let ended = async {
        let probed = probed_with_workloads(cx).await?;
        let undisturbed = Undisturbed::measured(cx, &probed).await?;
        let changes = Changes::counted(cx, &probed).await?;
        let context = ScriptContext { changes: &changes, ..ScriptContext::new(&probed, *undisturbed) };
        play_all(cx, &probed, &context, &ended::all(&context)).await
    };
    restart::unless_forgotten(driver, ended.await)
}

/// The calls that are made at random between the calls of a sequence.
const VERBS: [Verb; 13] = [
    Verb::Write,
    Verb::Write,
    Verb::Read,
    Verb::Read,
    Verb::CopySnapshot,
    Verb::CopyVolume,
    Verb::CreateSnapshot,
    Verb::DeleteSnapshot,
    Verb::GiveBack,
    Verb::NodeStageVolume,
    Verb::NodePublishVolume,
    Verb::NodeUnpublishVolume,
    Verb::ControllerExpandVolume,
];

async fn play(cx: &Cx, sequences: fn(&ScriptContext<'_>) -> Vec<Vec<PlannedStep>>) -> CheckResult {
    let probed = probed_with_workloads(cx).await?;
    let undisturbed = Undisturbed::measured(cx, &probed).await?;
    let context = ScriptContext::new(&probed, *undisturbed);
    play_all(cx, &probed, &context, &sequences(&context)).await
}

async fn probed_with_workloads(cx: &Cx) -> CheckResult<Arc<ProbedDriver>> {
    let probed = ProbedDriver::probe(cx).await?;
    if !probed.has_workloads {
        return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
    }
    Ok(probed)
}

/// Plays each sequence as it is, and then some of them with something random in between.
async fn play_all(
    cx: &Cx,
    probed: &Arc<ProbedDriver>,
    context: &ScriptContext<'_>,
    plain: &[Vec<PlannedStep>],
) -> CheckResult {
    let disturbed_ones = DISTURBED.min(cx.config().effort.cases);
    let fixed = plain.len() + usize::try_from(disturbed_ones).unwrap_or(usize::MAX);
    let budget = Budget::new(cx, fixed, Budget::more(cx, disturbed_ones));
    let mut trial = CaseRunner::new(cx, probed, budget.seed());
    stored::try_again(cx, &mut trial, &budget).await?;
    let mut done = 0;
    while trial.begins(&budget, done) {
        let mut rng = budget.rng(done);
        let items = match plain.get(usize::try_from(done).unwrap_or(usize::MAX)) {
            Some(items) => items.clone(),
            None => disturbed(plain[rng.usize(..plain.len())].clone(), context, &mut rng),
        };
        trial.next(&items, &budget, done).await?;
        done += 1;
    }
    budget.end(cx, done, "sequences");
    trial.end()
}

/// The sequence, with calls at random in between, and disrupted at random points.
fn disturbed(
    mut items: Vec<PlannedStep>,
    context: &ScriptContext<'_>,
    rng: &mut fastrand::Rng,
) -> Vec<PlannedStep> {
    for item in &mut items {
        if let PlannedStep::Copy(_, _, _, how) | PlannedStep::Step(Step { how, .. }) = item {
            *how = match *how {
                CallMode::Once | CallMode::Retried => *how,
                CallMode::Disrupted(disrupted) => disrupted.by.after(context.undisturbed.any(rng)).into(),
                CallMode::KilledAtChange(nth) => {
                    CallMode::KilledAtChange(context.changes.any(rng).unwrap_or(nth))
                }
            };
        }
    }
    let verbs: Vec<Verb> = VERBS.into_iter().filter(|verb| verb.is_enabled(context.profile)).collect();
    for _ in 0..rng.usize(1..=CALLS_MAX) {
        let op = Op { verb: verbs[rng.usize(..verbs.len())], pick: rng.u32(..) };
        items.insert(rng.usize(..=items.len()), PlannedStep::Op(op));
    }
    items
}
