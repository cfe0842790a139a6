//! The tests cut the power of the device below file systems of the kernel, on right drivers and on mistakes. They need device-mapper, as a
//! virtual machine has it (`.ci/run vm`); without it, they print that they are skipped.

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
    let mistakes = SHOWN_BY.iter().map(|(id, fault)| {
        let file_system = fault.rsplit('/').next().unwrap_or_default();
        libtest_mimic::Trial::test(format!("power_device/{file_system}/{id}"), || is_found(id, fault))
    });
    let right = RIGHT.iter().map(|(name, file_system)| {
        let title = format!("power_device/{file_system}/right/{name}");
        libtest_mimic::Trial::test(title, || passes(name, file_system))
    });
    mistakes.chain(right).collect()
}

fn is_found(id: &str, fault: &str) -> Result<(), Failed> {
    let (played, tries) = (Played::wrong(id)?, Tries::new([fault], BUDGET_MS, SETTLES_MS));
    let mut missed = String::new();
    for _ in 0..PLAYS {
        let Some(run) = bench::play(played, &tries)? else { return Ok(()) };
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
    let only: Vec<String> = PLACES.iter().map(|place| format!("power/{place}/{file_system}")).collect();
    let tries = Tries::new(only.iter().map(String::as_str), BUDGET_MS, SETTLES_MS);
    let Some(run) = bench::play(Played::right(name), &tries)? else { return Ok(()) };
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
