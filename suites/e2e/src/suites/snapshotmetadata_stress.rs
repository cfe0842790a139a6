use csi_driver_definitions::Capability;

use super::snapshotmetadata::{allocated, delta, device};
use crate::cluster::{Done, Feature};
use crate::pattern;
use crate::scene::{Scene, all};
use crate::test;
use crate::test::{Need, Suite};

/// Upstream has it from Kubernetes 1.37 on.
pub(crate) static SUITE: Suite = Suite {
    name: "snapshot-metadata-stress",
    tags: &["Feature:snapshotmetadata"],
    patterns: &[&pattern::SNAPSHOT_METADATA],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Can(Capability::SnapshotMetadata),
        Need::Says(
            |definition| match &definition.driver_info.snapshot_metadata_stress_test_options {
                Some(options) => options.num_pods > 0 && options.num_snapshot_pairs > 0,
                None => false,
            },
            "the definition has no SnapshotMetadataStressTestOptions with numbers above 0",
        ),
        Need::SnapshotClass,
        Need::BlockIfAsked,
        Need::Offers(Feature::Snapshots),
        Need::Offers(Feature::SnapshotMetadata),
    ],
    tests: &[&DELTA, &ALLOCATED],
    ..Suite::PLAIN
};

test! {
    /// Many pods concurrently read the changes of their own volumes between two snapshots.
    DELTA {
        name: "should stress GetMetadataDelta with concurrent pods",
        tags: ["Slow", "Serial"],
    }
    async |scene| { stress(scene, Call::Delta).await }
}

test! {
    /// Many pods concurrently read the allocated blocks of their own snapshots.
    ALLOCATED {
        name: "should stress GetAllocatedMetadata with concurrent pods",
        tags: ["Slow", "Serial"],
    }
    async |scene| { stress(scene, Call::Allocated).await }
}

/// The RPC that all pods call concurrently.
#[derive(Clone, Copy)]
enum Call {
    Delta,
    Allocated,
}

async fn stress(scene: &Scene, call: Call) -> Done {
    let options =
        scene.driver().driver_info.snapshot_metadata_stress_test_options.clone().unwrap_or_default();
    let (class, snapshots) = (scene.class().await?, scene.snapshot_class().await?);
    let devices = all((0..options.num_pods).map(|_| device(scene, &class))).await?;
    let asked = devices.iter().map(async |device| {
        for _ in 0..options.num_snapshot_pairs {
            match call {
                Call::Delta => delta(scene, &class, &snapshots, device).await?,
                Call::Allocated => allocated(scene, &class, &snapshots, device).await?,
            }
        }
        Ok(())
    });
    all(asked).await?;
    all(devices.into_iter().map(|device| device.writer.delete())).await.map(drop)
}
