//! A volume that CreateVolume makes and DeleteVolume ends.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation::*;

use super::Walk;

/// The number of times that each request is sent by a caller that never hears the answer.
const REPEATS: u32 = 5;

/// The rule about the whole way: there is one for drivers that stage and one for those that do not.
pub(super) fn rule_of_the_way(cx: &Cx) -> &'static Requirement {
    match cx.target().capabilities().has(Capability::StageUnstageVolume) {
        true => &req::GEN_LIFE_002,
        false => &req::GEN_LIFE_001,
    }
}

fn about_the_way(cx: &Cx, walked: CheckResult) -> CheckResult {
    walked.map_err(|stop| stop.of(rule_of_the_way(cx)))
}

async fn whole(cx: &Cx, times: u32) -> CheckResult {
    let lifecycle = Lifecycle::of(cx);
    let mut walk = Walk::new(cx, times, NodeVolume::default());
    walk.steps(lifecycle.setup().iter().copied()).await?;
    walk.steps(lifecycle.teardown()).await
}

async fn again(cx: &Cx) -> CheckResult {
    let mut walk = Walk::new(cx, 1, NodeVolume::default());
    walk.step(CreateVolume).await?;
    walk.publish().await?;
    walk.steps([NodeUnpublishVolume, NodePublishVolume]).await?;
    walk.give_back().await?;
    walk.publish().await?;
    walk.give_back().await?;
    walk.step(DeleteVolume).await
}

async fn partial(cx: &Cx) -> CheckResult {
    let new = || Walk::new(cx, 1, NodeVolume::default());
    new().steps([CreateVolume, DeleteVolume]).await?;
    let mut walk = new();
    walk.steps([CreateVolume, ControllerPublishVolume, ControllerUnpublishVolume]).await?;
    walk.steps([ControllerPublishVolume, NodeStageVolume]).await?;
    walk.steps([NodeUnstageVolume, ControllerUnpublishVolume, DeleteVolume]).await
}

check! {
    /// Every pod with a volume goes through these steps from its start to its end.
    WHOLE {
        id: "lifecycle/created-volume/forth-and-back",
        title: "a volume can be made, attached, staged, published, and all of it undone in reverse order",
        spec: [req::GEN_LIFE_002, req::GEN_LIFE_001],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-unpublish-keeps-publication"],
        replaces: ["Node Service should work"],
        access: Each,
    }
    async |cx| { about_the_way(cx, whole(cx, 1).await) }
}

check! {
    /// A caller that never gets an answer repeats each step.
    REPEATED {
        id: "lifecycle/created-volume/each-step-repeated",
        title: "a volume can be made, used and deleted with each request sent several times",
        spec: [req::GEN_LIFE_002, req::GEN_LIFE_001],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: [
            "controller-publish-refuses-repeats",
            "node-stage-refuses-repeats",
            "node-publish-refuses-repeats",
            "node-unpublish-refuses-repeats",
            "node-unstage-refuses-repeats",
            "controller-unpublish-refuses-repeats",
        ],
        replaces: ["Node Service should be idempotent"],
        access: Each,
    }
    async |cx| { about_the_way(cx, whole(cx, REPEATS).await) }
}

check! {
    /// The pod restarts on the node, leaves it, and comes back.
    AGAIN {
        id: "lifecycle/created-volume/forth-again",
        title: "a volume that was used and released can be used again",
        spec: [req::GEN_LIFE_002, req::GEN_LIFE_001],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-unpublish-unstages", "node-unpublish-keeps-publication"],
        access: Each,
    }
    async |cx| { about_the_way(cx, again(cx).await) }
}

check! {
    /// A pod can be deleted after any of the calls that prepare its volume.
    PARTIAL {
        id: "lifecycle/created-volume/turned-back",
        title: "a volume can be released and deleted after each step of its life",
        spec: [req::GEN_LIFE_002, req::GEN_LIFE_001],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-unstage-keeps-staging"],
        access: Each,
    }
    async |cx| { about_the_way(cx, partial(cx).await) }
}

pub(crate) static CHECKS: &[&Check] = &[&WHOLE, &REPEATED, &AGAIN, &PARTIAL];
