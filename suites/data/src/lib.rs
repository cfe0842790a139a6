//! Checks of the content of volumes: they publish volumes and write, read and measure what is mounted, as a pod would.
//! They run as root where the driver's mounts can be seen, and are skipped elsewhere.

mod as_asked;
mod copies;
mod expansion;
mod files;
mod groups;
mod kept;
mod mount_group;
mod mounts;
mod readonly;
mod sequences;
mod sharing;
mod used;

use csi_harness::checks::registry::{Checks, Suite};

/// Every check of data.
pub const SUITE: Suite = Suite {
    name: "data",
    checks: Checks::Declared(&[
        kept::CHECKS,
        copies::CHECKS,
        files::CHECKS,
        groups::CHECKS,
        readonly::CHECKS,
        sharing::CHECKS,
        mount_group::CHECKS,
        mounts::CHECKS,
        as_asked::CHECKS,
        expansion::CHECKS,
        sequences::CHECKS,
    ]),
    retired: &[],
};

/// The verdicts of the checks on each defect of the reference driver, as the refutation tests have seen them.
///
/// The defect, then the checks, a line each, with the rule that they blame it for.
pub const PROVEN: &str = include_str!("proven/matrix.txt");
