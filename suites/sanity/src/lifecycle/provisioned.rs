//! Uses volumes that an administrator made.

use csi_harness::prelude::*;

use super::Walk;

check! {
    /// An orchestrator uses volumes that it did not make like its own.
    FORTH_AND_BACK {
        id: "lifecycle/provisioned-volume/forth-and-back",
        title: "a volume provisioned outside CSI can be validated, attached, staged, published, and all of it undone",
        spec: [req::GEN_LIFE_003],
        needs: [NODE, Need::Configured(Setting::Volumes)],
        refuted_by: ["node-unpublish-keeps-publication"],
        access: Each,
    }
    async |cx| {
        let rule = match cx.target().capabilities().has(Capability::PublishUnpublishVolume) {
            true => &req::GEN_LIFE_003,
            false => &req::GEN_LIFE_004,
        };
        forth_and_back(cx).await.map_err(|stop| stop.of(rule))
    }
}

async fn forth_and_back(cx: &Cx) -> CheckResult {
    let volume = cx.provisioned_volume().await?;
    if cx.target().capabilities().has(Capability::ControllerService) {
        let request = cx.validate_request(&volume.id, &volume.context);
        cx.call(request).await.must("answer for a volume provisioned outside CSI")?;
    }
    let mut walk = Walk::new(cx, 1, volume);
    walk.publish().await?;
    walk.give_back().await
}

pub(crate) static CHECKS: &[&Check] = &[&FORTH_AND_BACK];
