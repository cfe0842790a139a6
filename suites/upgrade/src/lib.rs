//! The driver is replaced by its next version, with volumes, snapshots and attachments of the version before: they are known, usable and
//! given back as if there had been one version all the time. The checks run where `--next-driver-command` names the next version.

mod first_start;
mod given_back;
mod in_use;
mod known;
mod mixed_nodes;
mod new_objects;
mod repeated;
mod rolling;
mod rules;
mod used;
mod way_back;

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::client::unmet::needs_memory;
use csi_harness::driver::Version;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_nemesis::versions;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::volume::TrackedVolume;

use rules::{UPGRADE_001, UPGRADE_010};

/// Every check of upgrades.
pub const SUITE: Suite = Suite {
    name: "upgrade",
    checks: Checks::Declared(&[&[
        &known::KNOWN,
        &repeated::REPEATED,
        &given_back::GIVEN_BACK,
        &used::USED,
        &in_use::IN_USE,
        &new_objects::NEW_OBJECTS,
        &first_start::FIRST_START,
        &rolling::ROLLING,
        &mixed_nodes::MIXED_NODES,
        &way_back::WAY_BACK,
        &in_use::DOWNGRADE_IN_USE,
        &used::DOWNGRADE_USED,
        &given_back::DOWNGRADE_GIVEN_BACK,
    ]]),
    retired: &[],
};

/// The check runs where the user names a next version.
const NEXT_VERSION: Need = Need::Configured(Setting::NextDriverCommand);
/// The check runs where the user says that there is a way back.
const DOWNGRADE: Need = Need::Configured(Setting::Downgrade);

/// The version that makes the objects is replaced by the other one, which is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacement {
    Upgrade,
    Downgrade,
}

impl Replacement {
    /// Makes sure that the version runs that is to be replaced. Skips if the present version cannot be started, and
    /// fails with a violation if the next one does not answer.
    async fn begin(self, cx: &Cx) -> CheckResult {
        begin(cx).await?;
        match self {
            Replacement::Upgrade => Ok(()),
            Replacement::Downgrade => upgrade(cx).await,
        }
    }

    async fn replace(self, cx: &Cx) -> CheckResult {
        match self {
            Replacement::Upgrade => upgrade(cx).await,
            Replacement::Downgrade => {
                let replaced = versions::replace(cx, Version::Present).await;
                replaced.map(drop).map_err(|stop| stop.of(&UPGRADE_010))
            }
        }
    }

    /// The rule that is broken if the other version treats the objects wrongly. One rule covers all of that after a downgrade.
    fn rule(self, of_upgrade: &'static Requirement) -> &'static Requirement {
        match self {
            Replacement::Upgrade => of_upgrade,
            Replacement::Downgrade => &UPGRADE_010,
        }
    }

    /// The name of the version that makes the objects.
    fn maker(self) -> &'static str {
        match self {
            Replacement::Upgrade => "the version before",
            Replacement::Downgrade => "the next version",
        }
    }

    /// The name of the version that is judged.
    fn judged(self) -> &'static str {
        match self {
            Replacement::Upgrade => "the next version",
            Replacement::Downgrade => "the version before",
        }
    }
}

/// Makes sure that the present version runs, and keeps its objects when it ends.
async fn begin(cx: &Cx) -> CheckResult {
    needs_memory(versions::with_next_version(cx)?)?;
    versions::begin_with_present(cx).await
}

/// Replaces the present version by the next one.
async fn upgrade(cx: &Cx) -> CheckResult {
    versions::replace(cx, Version::Next).await.map(drop).map_err(|stop| stop.of(&UPGRADE_001))
}

/// Publishes a volume on the node, as far as the driver has steps for that. Fails with a violation if the driver
/// rejects one, and skips where the tests do not see what is mounted.
async fn publish(cx: &Cx, volume: NodeVolume) -> CheckResult<TrackedVolume> {
    let mut volume = TrackedVolume::new(cx, volume);
    for step in Lifecycle::of(cx).publication() {
        let request = volume.request(cx, step).await?;
        volume.record(request.send(cx).await.must("use a volume of the other version")?);
    }
    match cx.sees_published(&volume.target_path) {
        true => Ok(volume),
        false => Err(Stop::skip("these tests see nothing mounted where the driver publishes")),
    }
}
