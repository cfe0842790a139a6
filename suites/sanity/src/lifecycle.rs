//! Leads a volume through all its states, from creation to deletion.

pub(crate) mod created;
pub(crate) mod provisioned;

use csi_harness::prelude::*;

/// A walk through the states of a volume, in which each step has to succeed.
struct Walk<'a> {
    cx: &'a Cx,
    /// The number of times that each request is sent.
    times: u32,
}

impl Walk<'_> {
    /// Judges the request that is sent for the n-th time, counted from zero. If a repeated request is rejected, the
    /// walk continues, because its later steps are still possible.
    fn at<T>(&self, nth: u32, judged: CheckResult<T>) -> CheckResult<Option<T>> {
        match judged {
            Err(stop) if nth > 0 => {
                let stop = stop.of(created::rule_of_the_way(self.cx)).of_a_plain_call();
                self.cx.beyond(Err(stop)).map(|()| None)
            }
            judged => judged.map(Some),
        }
    }

    /// Calls ControllerPublishVolume if the driver attaches volumes.
    async fn attach(&self, volume: NodeVolume) -> CheckResult<Attached> {
        let cx = self.cx;
        if !cx.target().capabilities().has(Capability::PublishUnpublishVolume) {
            return cx.attached(volume).await;
        }
        let node_id = cx.node_id().await?;
        let request = cx.controller_publish_request(&volume, &node_id);
        let first = cx.controller_publish(request.clone()).setup("an attached volume").await?;
        let mut publish_context = first.publish_context;
        for nth in 1..self.times {
            let reply = cx.controller_publish(request.clone()).await;
            if let Some(again) = self.at(nth, reply.must("attach the volume to this node again"))? {
                publish_context = again.publish_context;
            }
        }
        Ok(Attached { volume, publish_context })
    }

    /// Calls NodeStageVolume if the driver stages volumes.
    async fn stage(&self, attached: Attached) -> CheckResult<Staged> {
        let cx = self.cx;
        if !cx.target().capabilities().has(Capability::StageUnstageVolume) {
            return Ok(Staged { attached, staging_path: String::new() });
        }
        let staging_path = cx.staging_path().await?;
        for nth in 0..self.times {
            let reply = cx.node_stage(cx.stage_request(&attached, &staging_path)).await;
            self.at(nth, reply.must("stage the volume"))?;
        }
        Ok(Staged { attached, staging_path })
    }

    /// Calls NodePublishVolume, and NodeGetVolumeStats if the driver has it.
    async fn publish(&self, staged: Staged) -> CheckResult<Published> {
        let cx = self.cx;
        let target_path = cx.target_path().await?;
        for nth in 0..self.times {
            let reply = cx.node_publish(cx.publish_request(&staged, &target_path)).await;
            self.at(nth, reply.must("publish the volume"))?;
        }
        if cx.target().capabilities().has(Capability::GetVolumeStats) {
            let request = v1::NodeGetVolumeStatsRequest {
                volume_id: staged.attached.volume.id.clone(),
                volume_path: target_path.clone(),
                staging_target_path: staged.staging_path.clone(),
            };
            cx.call(request).await.must("answer for the published volume")?;
        }
        Ok(Published { staged, target_path })
    }

    /// Publishes a volume that is not on the node.
    async fn forth(&self, volume: NodeVolume) -> CheckResult<Published> {
        self.publish(self.stage(self.attach(volume).await?).await?).await
    }

    async fn unpublish(&self, published: Published) -> CheckResult<Staged> {
        let Published { staged, target_path } = published;
        for nth in 0..self.times {
            let reply = self.cx.node_unpublish(&staged.attached.volume.id, &target_path).await;
            self.at(nth, reply.must("unpublish the volume"))?;
        }
        Ok(staged)
    }

    async fn unstage(&self, staged: Staged) -> CheckResult<Attached> {
        let Staged { attached, staging_path } = staged;
        if staging_path.is_empty() {
            return Ok(attached);
        }
        for nth in 0..self.times {
            let reply = self.cx.node_unstage(&attached.volume.id, &staging_path).await;
            self.at(nth, reply.must("unstage the volume"))?;
        }
        Ok(attached)
    }

    async fn detach(&self, attached: Attached) -> CheckResult<NodeVolume> {
        let volume = attached.volume;
        if !self.cx.target().capabilities().has(Capability::PublishUnpublishVolume) {
            return Ok(volume);
        }
        let node_id = self.cx.node_id().await?;
        for nth in 0..self.times {
            let reply = self.cx.controller_unpublish(&volume.id, &node_id).await;
            self.at(nth, reply.must("detach the volume from this node"))?;
        }
        Ok(volume)
    }

    /// Removes a published volume from the node.
    async fn back(&self, published: Published) -> CheckResult<NodeVolume> {
        self.detach(self.unstage(self.unpublish(published).await?).await?).await
    }
}

pub(crate) const CHECKS: &[&[&Check]] = &[created::CHECKS, provisioned::CHECKS];
