//! Uses volumes of CreateVolume and DeleteVolume.

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use super::Walk;

/// The number of times that a caller without answers sends each request.
const REPEATS: u32 = 5;

impl Walk<'_> {
    async fn create(&self) -> CheckResult<NodeVolume> {
        let request = self.cx.create_node_volume_request().await?;
        let mut volume = self.cx.create_volume(request.clone()).setup("a volume for this node").await?;
        for nth in 1..self.times {
            let reply = self.cx.create_volume(request.clone()).await;
            volume = self.at(nth, reply.must("answer for the volume again"))?.unwrap_or(volume);
        }
        Ok(volume.into())
    }

    async fn delete(&self, volume: NodeVolume) -> CheckResult {
        for nth in 0..self.times {
            let reply = self.cx.delete_volume(&volume.id).await;
            self.at(nth, reply.must("delete a volume that is nowhere in use"))?;
        }
        Ok(())
    }
}

/// Returns the rule about the whole walk, which depends on whether the driver stages volumes.
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
    let walk = Walk { cx, times };
    let published = walk.forth(walk.create().await?).await?;
    walk.delete(walk.back(published).await?).await
}

async fn again(cx: &Cx) -> CheckResult {
    let walk = Walk { cx, times: 1 };
    let volume = walk.create().await?;
    let staged = walk.unpublish(walk.forth(volume).await?).await?;
    let published = walk.publish(staged).await?;
    let volume = walk.back(published).await?;
    let published = walk.forth(volume).await?;
    walk.delete(walk.back(published).await?).await
}

async fn partial(cx: &Cx) -> CheckResult {
    let walk = Walk { cx, times: 1 };
    walk.delete(walk.create().await?).await?;
    let attached = walk.attach(walk.create().await?).await?;
    let volume = walk.detach(attached).await?;
    let staged = walk.stage(walk.attach(volume).await?).await?;
    walk.delete(walk.detach(walk.unstage(staged).await?).await?).await
}

check! {
    /// Every pod with a volume does this.
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
    /// A caller without answers repeats each step.
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
        title: "a volume that was used and given back can be used again",
        spec: [req::GEN_LIFE_002, req::GEN_LIFE_001],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-unpublish-unstages", "node-unpublish-keeps-publication"],
        access: Each,
    }
    async |cx| { about_the_way(cx, again(cx).await) }
}

check! {
    /// Workloads are cancelled at any time.
    PARTIAL {
        id: "lifecycle/created-volume/turned-back",
        title: "a volume can be given back at each step of its way",
        spec: [req::GEN_LIFE_002, req::GEN_LIFE_001],
        needs: [NODE, CREATE_DELETE_VOLUME],
        refuted_by: ["node-unstage-keeps-staging"],
        access: Each,
    }
    async |cx| { about_the_way(cx, partial(cx).await) }
}

pub(crate) static CHECKS: &[&Check] = &[&WHOLE, &REPEATED, &AGAIN, &PARTIAL];
