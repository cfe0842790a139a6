//! The tests cut the power of the device below file systems of the kernel, on right drivers and on mistakes. They need device-mapper, as a
//! virtual machine has it (`.ci/run vm`); without it, they print that they are skipped.

use csi_harness::config::AccessType;
use csi_harness::results::outcome::Outcome;
use csi_harness::run::refutation::{Trial, on_a_defect, on_a_right_driver};
use libtest_mimic::Failed;

use crate::bench::{self, Played, Tries};

const CHECK: &str = "faults/power";
/// The check tries all faults within this time, because most machines without device-mapper of their own are slow.
const BUDGET_MS: u64 = 3_600_000;
/// The driver may take this time to recover.
const SETTLES_MS: u64 = 60_000;

/// A mistake counts as not found only after this number of plays, because a file system may make anything durable at any time.
const PLAYS: u32 = 3;

/// Each entry has a mistake, and the fault and the file system that show it.
const SHOWN_BY: &[(&str, &str)] = &[
    ("plain/syncs-no-directory", "power/create-volume/answer/ext4"),
    ("plain/syncs-no-copy", "power/create-snapshot/answer/ext4"),
    ("plain/remembers-mounts", "power/node-publish/answer/ext4"),
    ("plain/syncs-nothing", "power/create-volume/answer/xfs"),
    ("plain/syncs-no-contents", "power/create-volume/answer/xfs"),
];

/// Each entry has a right driver, and the file system below it.
const RIGHT: &[(&str, &str)] =
    &[("plain", "ext4"), ("plain", "xfs"), ("directory", "xfs"), ("image", "ext4")];

/// The power of right drivers is cut at these places.
const PLACES: &[&str] = &[
    "create-volume/call:4",
    "create-volume/answer",
    "node-publish/answer",
    "create-snapshot/answer",
    "create-volume-from-snapshot/answer",
    "delete-volume/answer",
];

pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
    let trial = |name: String, run: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        libtest_mimic::Trial::test(format!("power_device/{name}"), run)
    };
    let mistakes = SHOWN_BY.iter().map(|(id, fault)| {
        let file_system = fault.rsplit('/').next().unwrap_or_default();
        trial(format!("{file_system}/{id}"), Box::new(|| is_found(id, fault)))
    });
    let right = RIGHT.iter().map(|(name, file_system)| {
        trial(format!("{file_system}/right/{name}"), Box::new(|| passes(name, file_system)))
    });
    mistakes.chain(right).collect()
}

fn tries(only: Vec<String>) -> Tries {
    let access = vec![AccessType::Mount];
    Tries { only, budget_ms: BUDGET_MS, settle_ms: SETTLES_MS, seed: 1, access, ..Tries::default() }
}

fn is_found(id: &str, fault: &str) -> Result<(), Failed> {
    let mistake = bench::mistake(id)?;
    let mut missed = String::new();
    for _ in 0..PLAYS {
        let tries = tries(vec![fault.to_owned()]);
        let Some(run) = bench::play(Played::Plain(Some(mistake)), &tries)? else { return Ok(()) };
        match on_a_defect(&run.outcomes_of(CHECK)) {
            Trial::Good => return Ok(()),
            Trial::Skipped(why) => {
                bench::skip(&why);
                return Ok(());
            }
            Trial::Bad(why) => missed = why,
        }
    }
    Err(Failed::from(format!("in {PLAYS} plays, {fault} does not show {id}: {missed}")))
}

fn passes(name: &'static str, file_system: &str) -> Result<(), Failed> {
    let played = if name == "plain" { Played::Plain(None) } else { Played::Reference(name) };
    let only = PLACES.iter().map(|place| format!("power/{place}/{file_system}")).collect();
    let Some(run) = bench::play(played, &tries(only))? else { return Ok(()) };
    let (mut wrong, outcomes): (Vec<String>, _) = (run.left().collect(), run.outcomes_of(CHECK));
    if let [Outcome::Skipped(why)] = outcomes[..] {
        bench::skip(why);
        return Ok(());
    }
    if let Trial::Bad(why) = on_a_right_driver(&outcomes) {
        wrong.push(why);
        wrong.extend(run.stories_of(CHECK));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}
