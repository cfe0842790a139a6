use csi_driver_definitions::Capability;

use crate::cluster::{Block, Done, Feature, SnapshotClass, StorageClass};
use crate::pattern;
use crate::scene::{RunningPod, Scene, Volume, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "snapshotmetadata",
    tags: &["Feature:snapshotmetadata"],
    patterns: &[&pattern::SNAPSHOT_METADATA],
    // Upstream does not require block, and fails without it.
    needs: &[
        Need::Can(Capability::SnapshotMetadata),
        Need::SnapshotClass,
        Need::BlockIfAsked,
        Need::Offers(Feature::Snapshots),
        Need::Offers(Feature::SnapshotMetadata),
    ],
    tests: &[&DELTA, &ALLOCATED],
    ..Suite::PLAIN
};

/// The bytes of one write, from the beginning of the device.
const PAGE_BYTES: u32 = 4096;
/// The number of pages written before the first snapshot.
const WRITTEN: u32 = 6;
/// The number of pages written again before the second snapshot.
const REWRITTEN: u32 = 3;
/// Limits the blocks that one script copies.
const BLOCKS_PER_SCRIPT: usize = 256;
/// The largest unit of copying, as a power of two: 1 MiB.
const COPY_UNIT_LOG2: u32 = 20;

test! {
    /// The blocks of GetMetadataDelta suffice to turn the earlier snapshot of a volume into the later one.
    ///
    /// Upstream crashes with drivers that a definition file describes.
    DELTA {
        name: "should verify GetMetadataDelta",
    }
    async |scene| {
        let class = scene.class().await?;
        let device = device(scene, &class).await?;
        delta(scene, &class, &scene.snapshot_class().await?, &device).await?;
        device.writer.delete().await
    }
}

test! {
    /// The blocks of GetMetadataAllocated suffice to copy a snapshot to an empty volume.
    ///
    /// Upstream crashes with drivers that a definition file describes.
    ALLOCATED {
        name: "should verify GetAllocatedMetadata",
    }
    async |scene| {
        let class = scene.class().await?;
        let device = device(scene, &class).await?;
        allocated(scene, &class, &scene.snapshot_class().await?, &device).await?;
        device.writer.delete().await
    }
}

/// A block volume, and a pod that writes to it.
pub(super) struct Device<'a> {
    claim: String,
    pub(super) writer: RunningPod<'a>,
}

/// Makes a block volume and a pod that has it.
pub(super) async fn device<'a>(scene: &'a Scene, class: &StorageClass) -> Done<Device<'a>> {
    let volume = scene.volume_of(class).await?;
    Ok(Device { claim: volume.claim().to_owned(), writer: scene.run(scene.pod(&[&volume])).await? })
}

/// Takes two snapshots of a device that is written in between, and checks that their difference turns the earlier one
/// into the later one.
pub(super) async fn delta(
    scene: &Scene,
    class: &StorageClass,
    snapshots: &SnapshotClass,
    device: &Device<'_>,
) -> Done {
    fill(&device.writer, WRITTEN).await?;
    let earlier = scene.snapshot(&device.claim, snapshots).await?;
    fill(&device.writer, REWRITTEN).await?;
    let later = scene.snapshot(&device.claim, snapshots).await?;

    let (from_spec, to_spec) = (scene.restored_spec(class, &later), scene.restored_spec(class, &earlier));
    let from = scene.claim(&from_spec, class).await?;
    let to = scene.claim(&to_spec, class).await?;
    let blocks = scene.cluster().snapshot_blocks(&later.spec.name, Some(&earlier.spec.name)).await?;
    become_equal(scene, &from, &to, &blocks).await
}

/// Takes a snapshot of a written device, and checks that its allocated blocks suffice to copy it to an empty volume.
pub(super) async fn allocated(
    scene: &Scene,
    class: &StorageClass,
    snapshots: &SnapshotClass,
    device: &Device<'_>,
) -> Done {
    fill(&device.writer, WRITTEN).await?;
    let snapshot = scene.snapshot(&device.claim, snapshots).await?;

    let from_spec = scene.restored_spec(class, &snapshot);
    let from = scene.claim(&from_spec, class).await?;
    let mut to_spec = scene.claim_spec(class);
    to_spec.request_bytes = from_spec.request_bytes;
    let to = scene.claim(&to_spec, class).await?;
    let blocks = scene.cluster().snapshot_blocks(&snapshot.spec.name, None).await?;
    become_equal(scene, &from, &to, &blocks).await
}

/// Writes random data to the beginning of the device.
async fn fill(pod: &RunningPod<'_>, pages: u32) -> Done {
    let device = path_of(0);
    let script =
        format!("dd if=/dev/urandom of={device} bs={PAGE_BYTES} count={pages} oflag=direct 2>&1 && sync");
    pod.sh(&script).await.map(drop)
}

/// Copies the blocks from one device to the other, and checks that they are equal afterwards.
async fn become_equal(scene: &Scene, from: &Volume, to: &Volume, blocks: &[Block]) -> Done {
    let pod = scene.run_within(scene.pod(&[from, to]), scene.timeouts().pod_start_slow).await?;
    let (from, to) = (path_of(0), path_of(1));
    let from_bytes = pod.size_bytes(&from, true).await?;
    for blocks in blocks.chunks(BLOCKS_PER_SCRIPT) {
        let lies_outside = |block: &&Block| {
            block.offset_bytes.checked_add(block.size_bytes).is_none_or(|end_bytes| end_bytes > from_bytes)
        };
        if let Some(block) = blocks.iter().find(lies_outside) {
            let expected = format!("an end within {from_bytes} bytes");
            let actual = format!("{} bytes from byte {}", block.size_bytes, block.offset_bytes);
            return Err(failed("a block lies outside of its snapshot", expected, actual));
        }
        let copies: Vec<String> = blocks.iter().map(|block| copy(&from, &to, *block)).collect();
        pod.sh(&copies.join(" && ")).await?;
    }
    let compared = pod.output(&format!("cmp {from} {to} 2>&1")).await?;
    match compared.code {
        0 => pod.delete().await,
        _ => Err(failed(
            format!("copying the {} blocks that the driver lists does not copy all data", blocks.len()),
            "two devices with the same content",
            compared.stdout.trim_end(),
        )),
    }
}

/// Returns the command that copies a block, in the largest unit that divides both its ends.
fn copy(from: &str, to: &str, block: Block) -> String {
    let Block { offset_bytes, size_bytes } = block;
    let unit_log2 = (offset_bytes | size_bytes).trailing_zeros().min(COPY_UNIT_LOG2);
    let (unit_bytes, skip, count) = (1 << unit_log2, offset_bytes >> unit_log2, size_bytes >> unit_log2);
    format!(
        "dd if={from} of={to} bs={unit_bytes} skip={skip} seek={skip} count={count} conv=notrunc,fsync 2>&1"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_copied_in_the_largest_unit_that_fits() {
        let copy = |offset_bytes, size_bytes| copy("a", "b", Block { offset_bytes, size_bytes });
        assert!(copy(0, 4096).contains("bs=4096 skip=0 seek=0 count=1 "));
        assert!(copy(8192, 12288).contains("bs=4096 skip=2 seek=2 count=3 "));
        assert!(copy(4 << 20, 2 << 20).contains("bs=1048576 skip=4 seek=4 count=2 "));
        assert!(copy(512, 1).contains("bs=1 skip=512 seek=512 count=1 "));
    }
}
