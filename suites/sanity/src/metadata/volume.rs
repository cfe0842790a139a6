//! Block volumes and their snapshots, written to where the tests see a device.

use std::ops::Range;

use csi_harness::prelude::*;
use csi_proto::Service;

use crate::controller::common::ready_snapshot;

/// Bytes written at once, and what they are a multiple of from the beginning of the volume: as large as any block.
const PLACE_BYTES: i64 = 64 << 10;
/// The size of such volumes, where the driver takes it: many drivers read them byte by byte to tell what is in them.
const SMALL_BYTES: i64 = 16 << 20;
/// Parts of a volume with a place at the beginning of each.
const PARTS: i64 = 8;
/// The parts written to before the first snapshot, and before the second one: some are new, some are written again.
const FIRST: &[i64] = &[0, 3, 6];
const SECOND: &[i64] = &[0, 1, 3, 7];

/// A block volume.
pub(super) struct BlockVolume {
    /// The check, with block access.
    cx: Cx,
    volume: v1::Volume,
}

impl BlockVolume {
    /// A new one; skips where the driver does not offer any.
    pub(super) async fn new(cx: &Cx) -> CheckResult<BlockVolume> {
        let cx = cx.with_access(AccessType::Block);
        let request = cx.create_node_volume_request().await?;
        if cx.config().volume_size_bytes.is_none() && takes_small_ones(&cx, &request).await? {
            let volume = cx.create_volume(small(&cx, &request)).setup("a small volume").await?;
            return Ok(BlockVolume { cx, volume });
        }
        let volume = cx.create_volume(request).await.or_skip("the driver offers no block volumes")?;
        Ok(BlockVolume { cx, volume })
    }

    /// A snapshot of it, ready to use.
    pub(super) async fn snapshot(&self) -> CheckResult<String> {
        let request = self.cx.create_snapshot_request(&self.volume.volume_id);
        Ok(ready_snapshot(&self.cx, &request).await?.snapshot_id)
    }

    /// Writes as a workload does, before its first snapshot, and tells where; nowhere if that cannot be done from here.
    pub(super) async fn write_first(&self) -> CheckResult<Vec<Range<i64>>> {
        self.write(FIRST).await
    }

    /// The same before its second snapshot.
    pub(super) async fn write_second(&self) -> CheckResult<Vec<Range<i64>>> {
        self.write(SECOND).await
    }

    async fn write(&self, parts: &[i64]) -> CheckResult<Vec<Range<i64>>> {
        if !self.cx.target().serves(Service::Node) {
            return Ok(Vec::new());
        }
        let user = self.cx.scope();
        let size_bytes = match self.volume.capacity_bytes {
            known @ 1.. => known,
            _ => user.volume_size_bytes(),
        };
        let part_bytes = size_bytes / PARTS / PLACE_BYTES * PLACE_BYTES;
        let place = |part: &i64| part * part_bytes..part * part_bytes + PLACE_BYTES;
        let places: Vec<Range<i64>> = parts.iter().map(place).collect();
        let written = match self.published(&user).await {
            Ok(published) if part_bytes > 0 => user.write_device(&published.target_path, &places).await?,
            // What keeps a volume from being published is for other checks to tell.
            Ok(_) | Err(_) => false,
        };
        // Not all drivers take snapshots of volumes in use. What cannot be undone now is told at the end.
        let _ = user.undo().await;
        Ok(if written { places } else { Vec::new() })
    }

    async fn published(&self, user: &Cx) -> CheckResult<Published> {
        let attached = user.attached(self.volume.clone().into()).await?;
        user.published(user.staged(attached).await?).await
    }
}

/// The request for a small volume of another name.
fn small(cx: &Cx, request: &v1::CreateVolumeRequest) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        name: cx.unique_name(),
        capacity_range: Some(v1::CapacityRange { required_bytes: SMALL_BYTES, limit_bytes: 0 }),
        ..request.clone()
    }
}

/// Whether the driver makes small volumes, found out once.
struct TakesSmallOnes(bool);

async fn takes_small_ones(cx: &Cx, request: &v1::CreateVolumeRequest) -> CheckResult<bool> {
    let find = async {
        let tried = cx.create_volume(small(cx, request)).await;
        Ok(TakesSmallOnes(matches!(tried.answer(), Answer::Ok(_))))
    };
    Ok(cx.learn(find).await?.0)
}
