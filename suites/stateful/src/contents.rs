//! What is in volumes, through sequences of calls: what is done to the source of a copy before, while and after it is made, what
//! is done to one volume while another one is in use, and what others do. Every read is judged by the model.
//!
//! Each sequence is played as it is, and then again and again with calls at random in between, for as long as there is time.

mod copies;
mod ended;
mod places;
mod script;
mod sizes;

use std::time::{Duration, Instant};

use csi_harness::lifecycle::memory::needs_memory;
use csi_harness::prelude::*;

use crate::budget::Budget;
use crate::case_runner::{Came, CaseRunner};
use crate::model::generate::{Op, Verb};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::property::stored;
use crate::sequence::Item;
use crate::{disruption, restart};
use script::Ground;

/// How long sequences are played again with calls at random in between, unless the user has given a time.
const AT_RANDOM: Duration = Duration::from_millis(1_500);
/// Calls at random in a sequence, at the most.
const CALLS_MAX: usize = 6;

/// Copies hold what their sources held, whatever is done to these before, meanwhile and afterwards.
///
/// # Errors
/// What the driver does wrong; skip where the tests do not see what it publishes.
pub async fn copies(cx: &Cx) -> CheckResult {
    play(cx, copies::all).await
}

/// Two volumes, each of which is used, given back and used again while the other one is in use.
///
/// # Errors
/// The same.
pub async fn two_volumes(cx: &Cx) -> CheckResult {
    play(cx, places::two_volumes).await
}

/// A volume is staged and published again, at several paths, at one that exists, and after others have taken its mounts away.
///
/// # Errors
/// The same.
pub async fn used_again(cx: &Cx) -> CheckResult {
    play(cx, places::used_again).await
}

/// Devices and file systems of sizes that are multiples of nothing.
///
/// # Errors
/// The same.
pub async fn sizes(cx: &Cx) -> CheckResult {
    play(cx, sizes::all).await
}

/// Volumes in use while the driver is killed are looked at before anything is done again, and afterwards; copies that were being
/// made are asked for again.
///
/// # Errors
/// The same.
pub async fn driver_killed(cx: &Cx) -> CheckResult {
    let driver = disruption::driver(cx)?;
    needs_memory(driver)?;
    restart::unless_forgotten(driver, play(cx, ended::all).await)
}

/// What comes at random between the calls of a sequence.
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

async fn play(cx: &Cx, sequences: fn(&Ground<'_>, &mut fastrand::Rng) -> Vec<Vec<Item>>) -> CheckResult {
    let probed = ProbedDriver::probe(cx).await?;
    if !probed.has_workloads {
        return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
    }
    let mut rng = cx.rng();
    let seed = rng.u64(..);
    let mut trial = CaseRunner::new(cx, &probed, seed);
    let budget = Budget::new(cx, u32::MAX);
    stored::try_again(cx, &probed, &mut trial, &budget).await?;
    let ground = Ground::new(&probed);
    let plain = sequences(&ground, &mut rng);
    let (mut tries, mut at_random_since) = (0, None);
    while budget.goes_on(tries) && trial.told().goes_on() {
        let nth = usize::try_from(tries).unwrap_or(usize::MAX);
        let items = match plain.get(nth) {
            Some(items) => items.clone(),
            None if !goes_on_at_random(
                cx,
                nth - plain.len(),
                *at_random_since.get_or_insert_with(Instant::now),
            ) =>
            {
                break;
            }
            None => {
                let mut again = sequences(&ground, &mut rng);
                disturbed(again.swap_remove(nth % again.len()), &ground, &mut rng)
            }
        };
        budget.tell_stage(cx, "sequence", tries);
        tries += 1;
        let is_first = trial.told().is_all_right();
        let came = trial.run(items, &budget).await?;
        if is_first && came != Came::Right {
            cx.note(format!("sequence {tries} of this seed was the first to go wrong"));
        }
    }
    let planned = u32::try_from(plain.len()).unwrap_or(u32::MAX);
    if tries < planned && trial.told().goes_on() {
        cx.note(format!("{tries} of {planned} sequences: the time for it was over"));
    }
    trial.end()
}

fn goes_on_at_random(cx: &Cx, tries: usize, since: Instant) -> bool {
    let effort = &cx.config().effort;
    let is_enough =
        u32::try_from(tries).is_ok_and(|tries| tries >= effort.cases) || since.elapsed() >= AT_RANDOM;
    effort.budget_ms.is_some() || !is_enough
}

/// The sequence, with calls at random in between.
fn disturbed(mut items: Vec<Item>, ground: &Ground<'_>, rng: &mut fastrand::Rng) -> Vec<Item> {
    let verbs: Vec<Verb> = VERBS.into_iter().filter(|verb| verb.is_enabled(ground.profile)).collect();
    for _ in 0..rng.usize(1..=CALLS_MAX) {
        let op = Op { verb: verbs[rng.usize(..verbs.len())], pick: rng.u32(..) };
        items.insert(rng.usize(..=items.len()), Item::Op(op));
    }
    items
}
