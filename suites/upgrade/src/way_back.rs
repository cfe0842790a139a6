//! The version before after the next one.

use csi_harness::prelude::*;

use crate::known::Known;
use crate::rules::{UPGRADE_001, UPGRADE_010};
use crate::{DOWNGRADE, NEXT_VERSION, Replacement, begin, upgrade};

check! {
    /// An update that goes wrong is rolled back. A version that cannot read the state has to report this, and
    /// must not begin with an empty state.
    pub(super) WAY_BACK {
        id: "upgrade/downgrade",
        title: "the version before has the objects of both versions when it returns after the next one",
        spec: [UPGRADE_010, UPGRADE_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION, DOWNGRADE],
        refuted_by: ["hostpath/downgrade-starts-empty", "hostpath/downgrade-loses-new-volumes"],
        duplicate_of: "upgrade/objects-known",
        runs: KillsUnderLoad,
    }
    async |cx| {
        begin(cx).await?;
        let old = Known::make(cx).await?;
        upgrade(cx).await?;
        let request = cx.create_node_volume_request().await?;
        let made = cx.create_volume(request.clone()).setup("a volume of the next version").await?;
        let new = Known::make(cx).await?;
        let old = old.again(cx).await?;
        Replacement::Downgrade.replace(cx).await?;
        old.judge(cx, &UPGRADE_010, "after the way back, the version before has lost something that it had made").await?;
        new.judge(cx, &UPGRADE_010, "after the way back, the version before lacks something of the next version").await?;
        let what = "repeat what the next version has done";
        let again = cx.create_volume(request).await.must(what).map_err(|stop| stop.of(&UPGRADE_010).of_a_plain_call())?;
        ensure!(
            again.volume_id == made.volume_id,
            "after the way back, a repeated CreateVolume makes another volume";
            of: &UPGRADE_010,
            expected: format!("volume_id {:?}", made.volume_id),
            actual: format!("volume_id {:?}", again.volume_id)
        );
        Ok(())
    }
}
