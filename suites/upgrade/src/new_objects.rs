//! New volumes of the next version beside those of the version before.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_suite_stateful::facts::{Change, Facts};

use crate::rules::{UPGRADE_001, UPGRADE_007};
use crate::{NEXT_VERSION, begin, upgrade};

check! {
    /// Storage classes, node affinities of volumes and limits of nodes outlive a version. A change of them
    /// may be intended, so it is a warning: users who update the driver have to know it.
    pub(super) NEW_OBJECTS {
        id: "upgrade/new-objects",
        title: "new volumes, nodes and capabilities of the next version are like those of the version before",
        spec: [UPGRADE_007, UPGRADE_001],
        needs: [CREATE_DELETE_VOLUME, RESTARTS, NEXT_VERSION],
        refuted_by: [
            "hostpath/upgrade-has-new-topology-key",
            "hostpath/upgrade-makes-larger-volumes",
            "hostpath/upgrade-drops-clones",
        ],
        runs: KillsUnderLoad,
    }
    async |cx| {
        begin(cx).await?;
        let before = Facts::of_driver(cx).await?.that_stay(&Facts::of_driver(cx).await?);
        let request = cx.create_node_volume_request().await?;
        let old = cx.create_volume(request.clone()).setup("a volume").await?;
        upgrade(cx).await?;
        let now = Facts::of_driver(cx).await?;
        let changes: Vec<Change> = before.changed(&now).into_iter().filter(|change| !is_of_version(change)).collect();
        if !changes.is_empty() {
            let (expected, actual) = Change::described(&changes);
            warn(cx, "the next version describes the driver and its nodes differently", expected, actual);
        }
        let again = v1::CreateVolumeRequest { name: cx.unique_name(), ..request };
        match cx.create_volume(again).await.any_answer()? {
            Ok(new) => compare(cx, &old, &new),
            Err(refused) => warn(
                cx,
                "the next version rejects a request for a volume that the version before took",
                "a volume".to_owned(),
                refused.to_string(),
            ),
        }
        Ok(())
    }
}

/// Returns true for facts that every version changes.
fn is_of_version(change: &Change) -> bool {
    change.what.starts_with("vendor_version ") || change.what.starts_with("manifest ")
}

/// Compares volumes of equal requests.
fn compare(cx: &Cx, old: &v1::Volume, new: &v1::Volume) {
    let listed = |keys: BTreeSet<&String>| format!("{keys:?}");
    let of_context = |volume: &v1::Volume| listed(volume.volume_context.keys().collect());
    let of_topology = |volume: &v1::Volume| {
        listed(volume.accessible_topology.iter().flat_map(|one| one.segments.keys()).collect())
    };
    let facts = [
        ("capacity_bytes", old.capacity_bytes.to_string(), new.capacity_bytes.to_string()),
        ("the keys of volume_context", of_context(old), of_context(new)),
        ("the keys of accessible_topology", of_topology(old), of_topology(new)),
    ];
    for (field, before, now) in facts {
        if before != now {
            let message = "a new volume of the next version differs from one that the version before made by an equal request";
            warn(cx, message, format!("{field}: {before}"), format!("{field}: {now}"));
        }
    }
}

fn warn(cx: &Cx, message: &str, expected: String, actual: String) {
    cx.warn(Violation::new(message).of(&UPGRADE_007).expected(expected).actual(actual));
}
