//! Volumes, snapshots and group snapshots of the version before, as the next version reports them.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_nemesis::disruption::STOPPED;
use csi_suite_stateful::facts::{Change, Facts, Objects};

use crate::rules::{UPGRADE_001, UPGRADE_003};
use crate::{NEXT_VERSION, begin, upgrade};

check! {
    /// An orchestrator stores ids, sizes and contexts in its own objects, and does not check whether the
    /// driver has a new format for them. A fact that changes with a restart of the present version is left
    /// out, because it does not depend on the version.
    pub(super) KNOWN {
        id: "upgrade/objects-known",
        title: "the next version reports volumes and snapshots of the version before as that version did",
        spec: [UPGRADE_003, UPGRADE_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION],
        refuted_by: [
            "hostpath/upgrade-lists-new-volumes-only",
            "hostpath/upgrade-changes-volume-ids",
            "hostpath/upgrade-loses-snapshots",
            "hostpath/upgrade-deletes-unknown-volumes",
            "hostpath/upgrade-rounds-sizes-anew",
            "hostpath/upgrade-does-not-start",
        ],
        runs: KillsUnderLoad,
    }
    async |cx| {
        begin(cx).await?;
        let known = Known::make(cx).await?;
        upgrade(cx).await?;
        known.judge(cx, &UPGRADE_003, "the next version reports something else than the version before").await
    }
}

/// Objects, and what the version that made them reports.
#[derive(Debug)]
pub(crate) struct Known {
    objects: Objects,
    facts: Facts,
    driver: Facts,
}

impl Known {
    /// Makes an object of each kind with the version that runs, which is started again once.
    pub(crate) async fn make(cx: &Cx) -> CheckResult<Known> {
        let objects = Objects::make(cx).await?;
        if let Some(volume) = objects.volumes.first() {
            cx.attached(volume.clone()).await?;
        }
        let before = Facts::of_objects(cx, &objects).await?;
        STOPPED.inject_and_heal(cx).await?;
        let facts = before.that_stay(&Facts::of_objects(cx, &objects).await?);
        Ok(Known { objects, facts, driver: Facts::of_driver(cx).await? })
    }

    /// The facts that are reported now, of those that were reported before.
    pub(crate) async fn again(self, cx: &Cx) -> CheckResult<Known> {
        let facts = Facts::of_objects(cx, &self.objects).await?;
        Ok(Known { facts, driver: Facts::of_driver(cx).await?, ..self })
    }

    /// Judges whether the driver still reports what it did.
    pub(crate) async fn judge(&self, cx: &Cx, rule: &'static Requirement, message: &str) -> CheckResult {
        // A driver may read its objects in the background after its start.
        let same = cx.eventually(Settles::Everything, || async {
            Ok(self.changes(cx).await?.is_empty().then_some(()))
        });
        if same.await?.is_some() {
            return Ok(());
        }
        Change::must_be_none(&self.changes(cx).await?, message).map_err(|stop| stop.of(rule))
    }

    /// The facts that are others now. A version without the calls of the other one, which is another question, reports less.
    async fn changes(&self, cx: &Cx) -> CheckResult<Vec<Change>> {
        let mut changes = self.facts.changed(&Facts::of_objects(cx, &self.objects).await?);
        if changes.iter().any(|change| change.now.is_none()) {
            let of_driver = self.driver.changed(&Facts::of_driver(cx).await?);
            if of_driver.iter().any(|change| change.what.contains("GetCapabilities")) {
                changes.retain(|change| change.now.is_some());
            }
        }
        Ok(changes)
    }
}
