//! Emulates the sidecar of the SnapshotMetadata service, which streams the driver's answers to a client, here the
//! test.

use csi_harness::prelude::Stop;
use csi_proto::v1;

use super::shared::Shared;
use super::snapshotter;
use crate::cluster::{Block, Done, SecretUse};

/// Calls GetMetadataAllocated, or GetMetadataDelta if there is an earlier snapshot, from the beginning.
pub(super) async fn blocks(shared: &Shared, snapshot: &str, earlier: Option<&str>) -> Done<Vec<Block>> {
    let cx = snapshotter::with_secret(shared, snapshot, SecretUse::Snapshotter);
    let cx = cx.map_err(|failure| Stop::broken(failure.to_string()))?;
    let target = handle(shared, snapshot)?;
    let blocks: Vec<v1::BlockMetadata> = match earlier {
        None => {
            let request = v1::GetMetadataAllocatedRequest { snapshot_id: target, ..Default::default() };
            let parts =
                cx.stream(request).await.must("the blocks of a snapshot that hold data can be listed")?;
            parts.into_iter().flat_map(|part| part.block_metadata).collect()
        }
        Some(earlier) => {
            let request = v1::GetMetadataDeltaRequest {
                base_snapshot_id: handle(shared, earlier)?,
                target_snapshot_id: target,
                ..Default::default()
            };
            let parts = cx
                .stream(request)
                .await
                .must("the blocks that differ between two snapshots can be listed")?;
            parts.into_iter().flat_map(|part| part.block_metadata).collect()
        }
    };
    blocks.iter().map(|block| Block::reported(block.byte_offset, block.size_bytes)).collect()
}

/// Returns the snapshot_id of a VolumeSnapshot.
fn handle(shared: &Shared, name: &str) -> Done<String> {
    let found = shared.store.look(|objects| objects.snapshots.get(name)?.snapshot.handle.clone());
    found.ok_or_else(|| Stop::broken(format!("there is no snapshot behind VolumeSnapshot {name}")))
}
