//! Checks that undone operations stay undone when a driver ends.

use csi_harness::client::unmet::needs_memory;
use csi_harness::prelude::*;
use csi_nemesis::disruption::KILLED;
use csi_nemesis::restart::driver;

use crate::rules::RESTART_002;

check! {
    /// A record that is written late, or in the wrong order, restores a former state: a volume that counts as
    /// attached again can neither be deleted nor attached elsewhere.
    pub(super) UNDONE {
        id: "restart/undone",
        title: "a volume that was detached before the driver was killed can be deleted afterwards",
        spec: [RESTART_002],
        needs: [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE, RESTARTS],
        refuted_by: ["restart-forgets-last-write"],
        duplicate_of: "restart/under-load",
        varies: true,
    }
    async |cx| {
        needs_memory(driver(cx)?)?;
        let volume = cx.node_volume().await?;
        let attached = cx.attached(volume.clone()).await?;
        cx.controller_unpublish(&attached.volume.id, &cx.node_id().await?).setup("a detached volume").await?;
        KILLED.inject_and_heal(cx).await?;
        if let Err(refused) = cx.delete_volume(&volume.id).await.any_answer()? {
            return Err(Violation::new("a volume that was detached before the driver was killed cannot be deleted afterwards")
                .expected("OK: nothing uses it")
                .actual(refused)
                .into());
        }
        Ok(())
    }
}
