//! The life of a volume through all RPCs, from its creation to its deletion.

pub(crate) mod created;

use csi_harness::prelude::*;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;

/// A walk through the states of a volume, where each step has to succeed.
struct Walk<'a> {
    cx: &'a Cx,
    /// The number of times that each request is sent.
    times: u32,
    volume: TrackedVolume,
}

impl<'a> Walk<'a> {
    fn new(cx: &'a Cx, times: u32, volume: NodeVolume) -> Walk<'a> {
        Walk { cx, times, volume: TrackedVolume::new(cx, volume) }
    }

    /// Sends the request of an operation, where the driver has it.
    async fn step(&mut self, operation: Operation) -> CheckResult {
        let (cx, what) = (self.cx, required(operation));
        if !operation.is_offered(cx) {
            return Ok(());
        }
        let request = self.volume.request(cx, operation).await?;
        let is_setup = matches!(operation, Operation::CreateVolume | Operation::ControllerPublishVolume);
        let what_again = if is_setup { what.to_owned() } else { format!("{what} when the call is repeated") };
        for nth in 0..self.times {
            let what = if nth == 0 { what } else { &what_again };
            let done = match nth == 0 && is_setup {
                true => request.send(cx).setup(operation.product()).await,
                false => request.send(cx).await.must(what),
            };
            match done {
                Ok(response) => self.volume.record(response),
                // The volume has reached the state after this step all the same, so the walk goes on.
                Err(stop) if nth > 0 => {
                    let stop = stop.of(created::rule_of_the_way(cx)).of_a_plain_call();
                    cx.beyond(Err(stop))?;
                }
                Err(stop) => return Err(stop),
            }
        }
        match operation {
            // The next pod has another path.
            Operation::NodeUnpublishVolume => self.volume.target_path.clear(),
            Operation::NodePublishVolume if cx.target().capabilities().has(Capability::GetVolumeStats) => {
                let Published { staged, target_path } = self.volume.published();
                let request = cx.stats_request(&staged, &target_path);
                cx.call(request).await.must("return statistics of the published volume")?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn steps(&mut self, operations: impl IntoIterator<Item = Operation>) -> CheckResult {
        for operation in operations {
            self.step(operation).await?;
        }
        Ok(())
    }

    /// Does all steps until the volume is published.
    async fn publish(&mut self) -> CheckResult {
        self.steps(Lifecycle::of(self.cx).publication()).await
    }

    /// Undoes the steps of a published volume until the node does not have it any more.
    async fn give_back(&mut self) -> CheckResult {
        let down = Lifecycle::of(self.cx);
        self.steps(down.teardown().filter(|operation| *operation != Operation::DeleteVolume)).await
    }
}

/// The success that a request needs; reads after "the driver has to".
fn required(operation: Operation) -> &'static str {
    match operation {
        Operation::CreateVolume => "return the existing volume",
        Operation::ControllerPublishVolume => "attach the volume to this node again",
        Operation::NodeStageVolume => "stage the volume",
        Operation::NodePublishVolume => "publish the volume",
        Operation::NodeUnpublishVolume => "unpublish the volume",
        Operation::NodeUnstageVolume => "unstage the volume",
        Operation::ControllerUnpublishVolume => "detach the volume from this node",
        Operation::DeleteVolume => "delete an unused volume",
        _ => "do it",
    }
}

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
        cx.call(request).await.must("validate a volume provisioned outside CSI")?;
    }
    let mut walk = Walk::new(cx, 1, volume);
    walk.publish().await?;
    walk.give_back().await
}

pub(crate) const CHECKS: &[&[&Check]] = &[created::CHECKS, &[&FORTH_AND_BACK]];
