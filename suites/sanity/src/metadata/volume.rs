//! Makes block volumes and their snapshots, and writes to them if the tests see a device.

use std::ops::Range;

use csi_harness::prelude::*;
use csi_proto::Service;

use crate::controller::common::ready_snapshot;

/// The bytes of one write, and the alignment of its offset; it is as large as any block.
const PLACE_BYTES: i64 = 64 << 10;
/// The size of such volumes, if the driver accepts it, because many drivers read them byte by byte to list their
/// blocks.
const SMALL_BYTES: i64 = 16 << 20;
/// The number of parts of a volume, each of which may be written at its beginning.
const PARTS: i64 = 8;
/// The parts that are written before the first snapshot; others are written before the second one, some of them
/// again.
const FIRST: &[i64] = &[0, 3, 6];
const SECOND: &[i64] = &[0, 1, 3, 7];

pub(super) struct BlockVolume {
    /// The context of the check, with block access.
    cx: Cx,
    volume: v1::Volume,
}

impl BlockVolume {
    /// Makes a block volume; skips if the driver offers none.
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

    /// Makes a snapshot of the volume that is ready.
    pub(super) async fn snapshot(&self) -> CheckResult<String> {
        let request = self.cx.create_snapshot_request(&self.volume.volume_id);
        Ok(ready_snapshot(&self.cx, &request).await?.snapshot_id)
    }

    /// Writes as a workload does, before the first snapshot, and returns the ranges, or none if this is impossible
    /// from here.
    pub(super) async fn write_first(&self) -> CheckResult<Vec<Range<i64>>> {
        self.write(FIRST).await
    }

    /// Writes before the second snapshot.
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
            // Other checks report why a volume cannot be published.
            Ok(_) | Err(_) => false,
        };
        // Not all drivers take snapshots of volumes in use. A failure to undo this is reported at the end.
        let _ = user.undo().await;
        Ok(if written { places } else { Vec::new() })
    }

    async fn published(&self, user: &Cx) -> CheckResult<Published> {
        let attached = user.attached(self.volume.clone().into()).await?;
        user.published(user.staged(attached).await?).await
    }
}

/// Returns the request for a small volume with another name.
fn small(cx: &Cx, request: &v1::CreateVolumeRequest) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        name: cx.unique_name(),
        capacity_range: Some(v1::CapacityRange { required_bytes: SMALL_BYTES, limit_bytes: 0 }),
        ..request.clone()
    }
}

/// True if the driver makes small volumes, which is determined once.
struct TakesSmallOnes(bool);

async fn takes_small_ones(cx: &Cx, request: &v1::CreateVolumeRequest) -> CheckResult<bool> {
    let find = async {
        let tried = cx.create_volume(small(cx, request)).await;
        Ok(TakesSmallOnes(matches!(tried.answer(), Answer::Ok(_))))
    };
    Ok(cx.learn(find).await?.0)
}
