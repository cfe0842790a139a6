//! Checks that a driver reports equal facts about itself, its nodes and objects before it is killed and after.

use std::time::Duration;

use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_nemesis::disruption::KILLED;
use csi_nemesis::restart::driver;

use crate::facts::{Change, Facts, Objects};
use crate::rules::RESTART_001;

/// After this time, the time of day differs even for a driver that rounds it.
const ANOTHER_SECOND: Duration = Duration::from_millis(2_100);

check! {
    /// Orchestrators store some answers and do not ask again: the node's id and topology as long as the node
    /// is registered, and sizes and sources in objects of their own.
    pub(super) IDENTITY_STABLE {
        id: "restart/told-again",
        title: "a driver that was killed reports unchanged facts about itself, its nodes, volumes and snapshots",
        spec: [RESTART_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: [
            "restart-changes-node-id",
            "restart-forgets-node-topology",
            "restart-forgets-sizes",
            "restart-forgets-snapshot-sizes",
            "restart-forgets-sources",
            "restart-shifts-creation-times",
            "restart-dates-snapshots-anew",
        ],
        duplicate_of: "restart/remembers",
        varies: true,
    }
    async |cx| {
        needs_memory(driver(cx)?)?;
        let objects = Objects::make(cx).await?;
        let [of_driver, of_objects] = facts(cx, &objects).await?;
        let [driver_again, objects_again] = facts(cx, &objects).await?;
        let before = [of_driver.that_stay(&driver_again), of_objects.that_stay(&objects_again)];
        if !objects.snapshots.is_empty() {
            // A time that depends on the start of the driver differs then; times are compared by the second.
            cx.wait(Settles::Everything, ANOTHER_SECOND, ANOTHER_SECOND).await;
        }
        KILLED.inject_and_heal(cx).await?;
        // A driver may read some facts again in the background.
        let same = cx.eventually(Settles::Everything, || async {
            let changes = changed(cx, &objects, &before).await?;
            Ok(changes.is_empty().then_some(()))
        });
        if same.await?.is_some() {
            return Ok(());
        }
        let message = "the driver reports something else after it was killed and started than before";
        Change::must_be_none(&changed(cx, &objects, &before).await?, message)
    }
}

async fn facts(cx: &Cx, objects: &Objects) -> CheckResult<[Facts; 2]> {
    Ok([Facts::of_driver(cx).await?, Facts::of_objects(cx, objects).await?])
}

async fn changed(cx: &Cx, objects: &Objects, before: &[Facts; 2]) -> CheckResult<Vec<Change>> {
    let now = facts(cx, objects).await?;
    Ok(before.iter().zip(&now).flat_map(|(before, now)| before.changed(now)).collect())
}
