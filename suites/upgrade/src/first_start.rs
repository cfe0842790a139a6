//! A first start of the next version that is interrupted again and again.

use csi_harness::prelude::*;
use csi_nemesis::versions;

use crate::known::Known;
use crate::rules::UPGRADE_008;
use crate::{NEXT_VERSION, begin};

check! {
    /// A new version converts the existing state at its first start. A node that runs out of memory, or an
    /// impatient probe, may kill it in the middle.
    pub(super) FIRST_START {
        id: "upgrade/killed-in-first-start",
        title: "the next version has all objects although it was killed during its first start",
        spec: [UPGRADE_008],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION],
        refuted_by: ["hostpath/upgrade-migration-is-not-crash-safe", "hostpath/upgrade-starts-once"],
        duplicate_of: "upgrade/objects-known",
        runs: KillsUnderLoad,
        varies: true,
    }
    async |cx| {
        begin(cx).await?;
        let known = Known::make(cx).await?;
        let kills = versions::replace_with_kills(cx).await.map_err(|stop| stop.of(&UPGRADE_008))?;
        cx.note(match kills {
            1 => "the next version was killed once while it started".to_owned(),
            kills => format!("the next version was killed {kills} times while it started"),
        });
        let message = "the next version was killed during its first start, and has lost something of the version before";
        known.judge(cx, &UPGRADE_008, message).await
    }
}
