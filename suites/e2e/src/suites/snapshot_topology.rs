use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;

use super::topology::{is_in, segments_of_nodes};
use crate::cluster::{
    Done, Feature, Pairs, Snapshot, SnapshotClass, SnapshotOrigin, SnapshotSpec, StorageClass,
};
use crate::pattern;
use crate::scene::{Content, Scene, Seen, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

/// Limits the topologies of one snapshot that are tried.
const TRIED_MAX: usize = 3;

/// Upstream has no tests of it yet.
pub(crate) static SUITE: Suite = Suite {
    name: "snapshot-topology",
    tags: &["FeatureGate:VolumeSnapshotTopology"],
    patterns: &[&pattern::TOPOLOGY_IMMEDIATE],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Can(Capability::Topology),
        Need::Says(
            |definition| !definition.driver_info.topology_keys.is_empty(),
            "the definition has no TopologyKeys",
        ),
        Need::Can(Capability::SnapshotDataSource),
        Need::SnapshotClass,
        Need::Offers(Feature::Snapshots),
        Need::Offers(Feature::SnapshotTopology),
    ],
    tests: &[&SAME, &OTHER],
    ..Suite::PLAIN
};

test! {
    /// A snapshot is taken in the segment of its volume, and volumes made from it are in each topology in which the
    /// driver reports it usable.
    SAME {
        name: "should restore a snapshot wherever its topology says that it can be used",
    }
    async |scene| {
        let here = segment(scene, 0).await?;
        let source = Source::new(scene, &here).await?;
        let class = snapshot_class(scene, &here).await?;
        let snapshot = scene.snapshot(&source.claim, &class).await?;
        is_usable_from(&snapshot, &here)?;
        source.is_restored(scene, &snapshot, &[]).await?;
        for place in snapshot.topology.iter().take(TRIED_MAX) {
            source.is_restored(scene, &snapshot, std::slice::from_ref(place)).await?;
        }
        Ok(())
    }
}

test! {
    /// A snapshot that must be usable in another segment than its volume's is usable there, or is rejected.
    OTHER {
        name: "should take a snapshot that can be used in another segment, or refuse it",
        needs: [Need::SpareSegments(1)],
    }
    async |scene| {
        let (here, there) = (segment(scene, 0).await?, segment(scene, 1).await?);
        let source = Source::new(scene, &here).await?;
        let class = snapshot_class(scene, &there).await?;
        let origin = SnapshotOrigin::Claim(source.claim.clone());
        let spec = SnapshotSpec { name: scene.name("snapshot"), class: class.name, origin };
        scene.cluster().create_snapshot(&spec).await?;
        let what = "the snapshot is taken or refused";
        let taken = scene.until(what, scene.timeouts().snapshot_create, || async {
            let found = scene.cluster().snapshot(&spec.name).await?;
            let found = found.ok_or_else(|| Stop::broken(format!("snapshot {} is gone", spec.name)))?;
            Ok(match found.ready {
                true => Seen::There(Some(found)),
                false if found.error.is_some() => Seen::There(None),
                false => Seen::NotYet("it is not ready to use".to_owned()),
            })
        });
        let Some(snapshot) = taken.await? else { return Ok(()) };
        is_usable_from(&snapshot, &there)?;
        source.is_restored(scene, &snapshot, &[there]).await
    }
}

/// Returns one of the segments of the nodes.
async fn segment(scene: &Scene, number: usize) -> Done<Pairs> {
    let segment = segments_of_nodes(scene).await?.into_iter().nth(number);
    segment.ok_or_else(|| Stop::broken("the nodes are in other segments than before"))
}

/// Creates a class of volumes in these topologies; empty means any.
async fn class_in(scene: &Scene, places: &[Pairs]) -> Done<StorageClass> {
    scene.class_with(|class| class.allowed_topologies = places.to_vec()).await
}

/// Creates a class of snapshots that must be usable in a segment.
async fn snapshot_class(scene: &Scene, segment: &Pairs) -> Done<SnapshotClass> {
    let class = scene.snapshot_class().await?;
    let here = SnapshotClass {
        name: scene.name("snapshot-class"),
        allowed_topologies: vec![segment.clone()],
        ..class
    };
    scene.cluster().create_snapshot_class(&here).await?;
    Ok(here)
}

/// Checks that a snapshot reports no topology, or one that includes the segment.
fn is_usable_from(snapshot: &Snapshot, segment: &Pairs) -> Done {
    match snapshot.topology.is_empty() || snapshot.topology.iter().any(|place| is_in(segment, place)) {
        true => Ok(()),
        false => Err(failed(
            "a snapshot cannot be used from where its class asks for",
            format!("{segment:?}"),
            format!("{:?}", snapshot.topology),
        )),
    }
}

/// A volume, with data if the driver keeps them.
struct Source {
    claim: String,
    content: Option<Content>,
}

impl Source {
    async fn new(scene: &Scene, segment: &Pairs) -> Done<Source> {
        let class = class_in(scene, std::slice::from_ref(segment)).await?;
        let spec = scene.claim_spec(&class);
        let volume = scene.claim(&spec, &class).await?;
        let content = scene.driver().can(Capability::Persistence).then(|| scene.content());
        if let Some(content) = &content {
            let pod = scene.run(scene.pod(&[&volume])).await?;
            pod.write(&path_of(0), false, content).await?;
            pod.delete().await?;
            scene.claim_detached(&spec.name).await?;
        }
        Ok(Source { claim: spec.name, content })
    }

    /// Checks that a volume made from the snapshot in these topologies, or in any if there are none, is where both
    /// can be used, and has the data.
    async fn is_restored(&self, scene: &Scene, snapshot: &Snapshot, places: &[Pairs]) -> Done {
        let class = class_in(scene, places).await?;
        let spec = scene.restored_spec(&class, snapshot);
        let volume = scene.claim(&spec, &class).await?;
        let (_, made) = scene.bound(&spec.name, scene.timeouts().data_source_provision).await?;
        for allowed in [places, &snapshot.topology] {
            if !meet(&made.topology, allowed) {
                return Err(failed(
                    "a volume restored from a snapshot is in a place where the snapshot cannot be used, or that was not requested",
                    format!("{allowed:?}"),
                    format!("{:?}", made.topology),
                ));
            }
        }
        let pod = scene.run_within(scene.pod(&[&volume]), scene.timeouts().pod_start_slow).await?;
        if let Some(content) = &self.content {
            pod.holds(&path_of(0), false, content).await?;
        }
        pod.delete().await
    }
}

/// Returns true if a topology of `ones` overlaps one of `others`. An empty list means everywhere.
fn meet(ones: &[Pairs], others: &[Pairs]) -> bool {
    let touch = |one: &Pairs, other: &Pairs| is_in(one, other) || is_in(other, one);
    ones.is_empty()
        || others.is_empty()
        || ones.iter().any(|one| others.iter().any(|other| touch(one, other)))
}
