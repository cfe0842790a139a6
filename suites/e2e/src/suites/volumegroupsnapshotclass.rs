use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;

use crate::cluster::Feature;
use crate::pattern;
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volumegroupsnapshotclass",
    tags: &["Feature:volumegroupsnapshot"],
    context: "VolumeGroupSnapshotClass",
    patterns: &[&pattern::GROUP_DELETE],
    size_min_bytes: 1 << 20,
    needs: &[
        Need::Can(Capability::GroupSnapshot),
        Need::GroupSnapshotClass,
        Need::Offers(Feature::GroupSnapshots),
    ],
    tests: &[&DEFAULT, &NO_DEFAULT, &TWO_DEFAULTS],
    ..Suite::PLAIN
};

test! {
    /// Snapshots of a pod's two volumes are taken together, which is the driver's part. Here the class is named, so
    /// the controller's search for a default class is not tested.
    DEFAULT {
        name: "should use default VolumeGroupSnapshotClass when no className is specified",
        tags: ["Serial"],
    }
    async |scene| {
        let class = scene.class().await?;
        let (_, first) = scene.labelled_claim(&class).await?;
        let (_, second) = scene.labelled_claim(&class).await?;
        let pod = scene.run(scene.pod(&[&first, &second])).await?;
        let group = scene.group_snapshot(&scene.group_snapshot_class().await?).await?;
        scene.members(&group, 2).await?;
        scene.delete_group_snapshot(&group).await?;
        pod.delete().await
    }
}

/// The reason why the tests of the controller's errors do nothing.
const CONTROLLER: &str = "the snapshot controller chooses the class; the driver is not involved";

test! {
    /// The controller reports that there is no default class.
    NO_DEFAULT {
        name: "should report error when VolumeGroupSnapshot is created without className and no default class exists",
        tags: ["Serial"],
        needs: [Need::Never(CONTROLLER)],
    }
    async |_scene| {
        Err(Stop::skip(CONTROLLER))
    }
}

test! {
    /// The controller reports that there are several default classes.
    TWO_DEFAULTS {
        name: "should report error when VolumeGroupSnapshot is created without className and multiple default classes exist",
        tags: ["Serial"],
        needs: [Need::Never(CONTROLLER)],
    }
    async |_scene| {
        Err(Stop::skip(CONTROLLER))
    }
}
