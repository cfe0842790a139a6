//! Reads the volume limit of a node again, periodically and as soon as the driver reports that the node is full.

use std::time::Duration;

use csi_proto::v1;

use super::Kubelet;
use crate::cluster::{Done, Pairs, Pod, PodPhase};
use crate::emulated_cluster::failure::Failure;
use crate::emulated_cluster::health;
use crate::emulated_cluster::shared::Shared;
use crate::scene::failed;

impl Kubelet {
    /// Reads the limit periodically without end, if the CSIDriver requests it. An invalid answer does not stop a test
    /// of something else.
    pub(super) async fn keep_limit_read(&self) {
        let Some(seconds) = self.shared.csi_driver.node_allocatable_update_period_seconds else { return };
        loop {
            tokio::time::sleep(Duration::from_secs(seconds.into())).await;
            health::remark(&self.cx, read_again(&self.shared, self.node).await);
        }
    }

    /// Handles a full node: the limit is read again, and the pod fails, so that its owner makes another one
    /// elsewhere.
    pub(super) async fn reject(&self, pod: &Pod, failure: &Failure) {
        health::remark(&self.cx, read_again(&self.shared, self.node).await);
        const REASON: &str = "VolumeAttachmentLimitExceeded";
        self.shared.store.event(&pod.spec.name, REASON, failure.to_string());
        self.change_pod(pod, |object| {
            object.pod.phase = PodPhase::Failed;
            object.pod.waiting = Some(format!("{REASON}: {failure}"));
        });
    }
}

/// Calls NodeGetInfo of a registered node, of which only the limit may differ. After a failure the former limit
/// stays.
pub(in crate::emulated_cluster) async fn read_again(shared: &Shared, node: usize) -> Done {
    let asked = shared.cx.at_node(node).call(v1::NodeGetInfoRequest::default()).once().await;
    let Ok(info) = shared.heard(&asked) else { return Ok(()) };
    let known = &shared.nodes[node];
    if info.node_id != known.id {
        return Err(failed(
            "a node has another node_id than it was registered with",
            &known.id,
            &info.node_id,
        ));
    }
    let limit = reported(&info);
    let topology: Pairs = info.accessible_topology.map(|place| place.segments).unwrap_or_default();
    if topology != known.node.topology {
        let (expected, actual) = (format!("{:?}", known.node.topology), format!("{topology:?}"));
        return Err(failed("a node is in another place than it was registered with", expected, actual));
    }
    shared.store.change(|objects| objects.volume_limits.insert(node, limit));
    Ok(())
}

/// Returns the limit of a driver, if it reports one.
pub(in crate::emulated_cluster) fn reported(info: &v1::NodeGetInfoResponse) -> Option<u64> {
    u64::try_from(info.max_volumes_per_node).ok().filter(|limit| *limit > 0)
}
