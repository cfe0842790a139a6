//! Makes kubelet's periodic calls: the health of volumes and of the back end, and the usage of volumes.

use std::time::Duration;

use csi_harness::prelude::{Cx, Violation};
use csi_proto::v1;

use super::{Kubelet, NodeCapability, can};
use crate::cluster::{Done, HealthOf};
use crate::emulated_cluster::health;
use crate::emulated_cluster::shared::{Shared, Watched};

/// The time between two rounds.
const PERIOD: Duration = Duration::from_secs(60);

impl Kubelet {
    /// Monitors health without end. An invalid answer does not stop a test of something else.
    pub(super) async fn watch_health(&self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            let ended = round(&self.shared, self.node).await;
            health::remark(&self.cx, ended);
        }
    }
}

/// Runs one round on a node: all volumes, one after the other, and concurrently the back end.
pub(in crate::emulated_cluster) async fn round(shared: &Shared, node: usize) -> Done {
    let cx = shared.cx.at_node(node);
    let volumes = async {
        for (of, watched) in shared.watched_on(node) {
            volume_health(shared, &cx, &of, &watched).await?;
            stats(shared, &cx, &watched).await;
        }
        Ok(())
    };
    let (volumes, storage) = tokio::join!(volumes, storage_health(shared, &cx, node));
    volumes.and(storage)
}

/// Calls NodeGetVolumeHealth for a volume. After a failure the former health stays.
async fn volume_health(shared: &Shared, cx: &Cx, of: &HealthOf, watched: &Watched) -> Done {
    if !shared.settings.version.asks_for_health()
        || !can(shared, cx, NodeCapability::GetVolumeHealth).await.unwrap_or(false)
    {
        return Ok(());
    }
    let mut found = None;
    for (staging, target) in &watched.asked {
        let request = v1::NodeGetVolumeHealthRequest {
            volume_id: watched.volume_id.clone(),
            volume_publish_path: target.clone(),
            staging_target_path: staging.clone(),
        };
        let Ok(reply) = shared.heard(&cx.call(request).once().await) else { continue };
        let conditions =
            health::of_volume("NodeGetVolumeHealth", &watched.volume_id, reply.volume_health.as_ref())?;
        found = Some(found.filter(|before: &Vec<_>| !before.is_empty()).unwrap_or(conditions));
    }
    if let Some(conditions) = found {
        shared.store.change(|objects| objects.health.insert(of.clone(), conditions));
    }
    Ok(())
}

/// Calls NodeGetStorageHealth. After a failure the former health stays.
async fn storage_health(shared: &Shared, cx: &Cx, node: usize) -> Done {
    if !shared.settings.version.asks_for_health()
        || !can(shared, cx, NodeCapability::GetStorageHealth).await.unwrap_or(false)
    {
        return Ok(());
    }
    let asked = cx.call(v1::NodeGetStorageHealthRequest::default()).once().await;
    let Ok(reply) = shared.heard(&asked) else { return Ok(()) };
    let conditions = health::of_storage(&reply.backend_health)?;
    let of = HealthOf::Node(shared.nodes[node].node.name.clone());
    shared.store.change(|objects| objects.health.insert(of, conditions));
    Ok(())
}

/// Calls NodeGetVolumeStats for a volume with a target path. Kubelet treats an answer without `usage` as a failure,
/// although the specification permits it.
async fn stats(shared: &Shared, cx: &Cx, watched: &Watched) {
    if watched.target.is_empty() || !can(shared, cx, NodeCapability::GetVolumeStats).await.unwrap_or(false) {
        return;
    }
    let request = v1::NodeGetVolumeStatsRequest {
        volume_id: watched.volume_id.clone(),
        volume_path: watched.target.clone(),
        ..Default::default()
    };
    let Ok(reply) = shared.heard(&cx.call(request).once().await) else { return };
    if reply.usage.is_empty() {
        cx.warn(
            Violation::new("kubelet has no statistics of a volume")
                .expected("usage in the reply of NodeGetVolumeStats")
                .actual("none"),
        );
    }
}
