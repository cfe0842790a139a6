//! The topology of a snapshot limits where volumes can be made from it.

use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

use crate::controller::common::ready_snapshot;
use crate::controller::create_volume::topology::{
    known_topologies, meets, request_in, requirement, two_places,
};
use crate::topology::{Segments, keys_well_formed};

fn places(topologies: &[v1::Topology]) -> Vec<Segments> {
    topologies.iter().map(|topology| topology.segments.clone()).collect()
}

/// Returns true if two lists contain equal topologies, in any order.
fn same(one: &[Segments], other: &[Segments]) -> bool {
    one.len() == other.len() && one.iter().all(|place| other.contains(place))
}

/// Returns a topology, and a request for a snapshot of a volume there that must be usable there.
async fn request_here(cx: &Cx) -> CheckResult<(Segments, v1::CreateSnapshotRequest)> {
    let here = known_topologies(cx).await?.swap_remove(0);
    let volume = cx
        .create_volume(request_in(cx, std::slice::from_ref(&here)))
        .setup("a volume in a known topology")
        .await?;
    let request = v1::CreateSnapshotRequest {
        accessibility_requirements: requirement(vec![here.clone()]),
        ..cx.create_snapshot_request(&volume.volume_id)
    };
    Ok((here, request))
}

check! {
    /// A usable snapshot guarantees that volumes made from it are reachable in the requested topology.
    ASKED_FOR {
        id: "controller/create-snapshot/topology",
        title: "a snapshot can be used from the requested topology",
        spec: [req::CTRL_CREATESNAP_028, req::MSG_SNAPSHOT_018],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["snapshot-topology-elsewhere", "snapshot-topology-empty-entry", "snapshot-topology-key-invalid"],
    }
    async |cx| {
        let (here, request) = request_here(cx).await?;
        let snapshot = cx.create_snapshot(request).await.must("take a snapshot of a volume in the volume's own topology")?;
        let reported = places(&snapshot.accessible_topology);
        ensure!(
            reported.iter().all(|place| !place.is_empty()),
            "accessible_topology of a snapshot has an entry without segments";
            of: &req::MSG_SNAPSHOT_018,
            expected: "segments in each entry",
            actual: format!("{reported:?}")
        );
        keys_well_formed(&reported).map_err(|stop| stop.of(&req::MSG_SNAPSHOT_018))?;
        ensure!(
            reported.is_empty() || reported.iter().any(|place| meets(place, &here)),
            "a snapshot is not accessible from the requested topology";
            expected: format!("accessible_topology with {here:?}, or none"),
            actual: format!("{reported:?}")
        );
        Ok(())
    }
}

check! {
    /// Orchestrators keep the first answer, and other callers read the snapshot later.
    SAME {
        id: "controller/create-snapshot/same-topology",
        title: "the topology of a snapshot is the same in each reply",
        spec: [req::CTRL_CREATESNAP_035, req::MSG_SNAPSHOT_019],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: [
            "create-snapshot-repeat-omits-topology",
            "list-snapshots-omits-topology",
            "get-snapshot-omits-topology",
        ],
    }
    async |cx| {
        let has = |capability| cx.target().capabilities().has(capability);
        let (_, request) = request_here(cx).await?;
        let snapshot = ready_snapshot(cx, &request).await?;
        let first = places(&snapshot.accessible_topology);
        let mut replies = vec![(
            "CreateSnapshot",
            &req::CTRL_CREATESNAP_035,
            Some(cx.create_snapshot(request.clone()).setup("the same snapshot again").await?),
        )];
        // ListSnapshots and GetSnapshot have capabilities of their own.
        let snapshot_id = snapshot.snapshot_id.clone();
        if has(Capability::ListSnapshots) {
            let request = v1::ListSnapshotsRequest { snapshot_id: snapshot_id.clone(), ..Default::default() };
            let listed = cx.list_snapshots(request).await?.into_iter().find(|one| one.snapshot_id == snapshot_id);
            replies.push(("ListSnapshots", &req::MSG_SNAPSHOT_019, listed));
        }
        if has(Capability::GetSnapshot) {
            let request = v1::GetSnapshotRequest { snapshot_id, ..Default::default() };
            let got = cx.call(request).setup("the current state of the snapshot").await?.snapshot;
            replies.push(("GetSnapshot", &req::MSG_SNAPSHOT_019, got));
        }
        for (rpc, rule, reply) in replies.into_iter().filter_map(|(rpc, rule, reply)| Some((rpc, rule, reply?))) {
            let reported = places(&reply.accessible_topology);
            ensure!(
                same(&reported, &first),
                "{rpc} returns another topology of a snapshot than the previous reply";
                of: rule,
                expected: format!("{first:?}"),
                actual: format!("{reported:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// A backup that cannot be restored anywhere is useless.
    USABLE {
        id: "controller/create-snapshot/usable-topology",
        title: "a snapshot can be restored in each topology from which it is usable, and is restored in one by default",
        spec: [req::MSG_SNAPSHOT_017, req::CTRL_CREATEVOL_050],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["snapshot-topology-elsewhere", "create-volume-restores-elsewhere"],
    }
    async |cx| {
        let (_, request) = request_here(cx).await?;
        let snapshot = ready_snapshot(cx, &request).await?;
        let usable = places(&snapshot.accessible_topology);
        let restore = |place: Option<&Segments>| v1::CreateVolumeRequest {
            accessibility_requirements: place.and_then(|place| requirement(vec![place.clone()])),
            ..cx.create_volume_request().copy_of(Source::snapshot(&snapshot.snapshot_id), snapshot.size_bytes)
        };
        for place in &usable {
            let reply = cx.create_volume(restore(Some(place))).await;
            let volume = reply.must("create a volume from a snapshot in a topology of the snapshot")?;
            let reported = places(&volume.accessible_topology);
            ensure!(
                reported.is_empty() || reported.iter().any(|one| meets(one, place)),
                "a volume created in a topology of its source snapshot is not accessible from there";
                expected: format!("accessible_topology with {place:?}, or none"),
                actual: format!("{reported:?}")
            );
        }
        let by_itself = cx.create_volume(restore(None)).setup("a volume made from a snapshot").await?;
        let reported = places(&by_itself.accessible_topology);
        let is_within = |place: &Segments| usable.iter().any(|usable| meets(place, usable));
        ensure!(
            usable.is_empty() || reported.is_empty() || reported.iter().any(is_within),
            "a volume created from a snapshot is outside the topology of the snapshot";
            of: &req::CTRL_CREATEVOL_050,
            expected: format!("accessible_topology with one of {usable:?}"),
            actual: format!("{reported:?}")
        );
        Ok(())
    }
}

check! {
    /// A caller that requests an unknown topology must not get a snapshot elsewhere.
    UNKNOWN {
        id: "controller/create-snapshot/unknown-topology",
        title: "CreateSnapshot for a topology that does not exist is rejected, and leaves nothing behind",
        spec: [req::CTRL_CREATESNAP_034, req::MSG_TOPOREQ_016],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: [
            "create-snapshot-ignores-topology",
            "create-snapshot-echoes-topology",
            "create-snapshot-unknown-topology-as-internal",
        ],
    }
    async |cx| {
        let (here, request) = request_here(cx).await?;
        let nowhere: Segments = here.keys().take(1).map(|key| (key.clone(), "csi-sanity-nowhere".to_owned())).collect();
        let asked = v1::CreateSnapshotRequest {
            accessibility_requirements: requirement(vec![nowhere.clone()]),
            ..request
        };
        match cx.create_snapshot(asked).await.any_answer()? {
            Err(Refused { code: Code::ResourceExhausted | Code::InvalidArgument, .. }) => Ok(()),
            Err(refused) => Err(Violation::new("a topology that does not exist is rejected with the wrong code")
                .expected("RESOURCE_EXHAUSTED or INVALID_ARGUMENT")
                .actual(refused.to_string())
                .into()),
            Ok(snapshot) => {
                let reported = places(&snapshot.accessible_topology);
                let elsewhere = !reported.is_empty() && !reported.iter().any(|place| meets(place, &nowhere));
                let rule = if elsewhere { &req::MSG_TOPOREQ_016 } else { &req::CTRL_CREATESNAP_034 };
                Err(Violation::new("a snapshot is created although the requested topology does not exist")
                    .of(rule)
                    .expected("an error")
                    .actual(format!("OK, with accessible_topology {reported:?}"))
                    .into())
            }
        }
    }
}

check! {
    /// The request requires no topology and prefers none.
    EMPTY {
        id: "controller/create-snapshot/empty-topology-requirement",
        title: "CreateSnapshot with accessibility_requirements without a topology is rejected",
        spec: [req::MSG_TOPOREQ_018, req::GEN_ERR_005],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-snapshot-accepts-empty-topology"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let request = v1::CreateSnapshotRequest {
            accessibility_requirements: requirement(Vec::new()),
            ..cx.create_snapshot_request(&volume.volume_id)
        };
        cx.create_snapshot(request).await.must_be_refused("without a topology", invalid_value())?;
        Ok(())
    }
}

check! {
    /// A name identifies one snapshot, in any topology.
    CONFLICT {
        id: "controller/create-snapshot/other-topology",
        title: "CreateSnapshot with a known name never returns a snapshot that the requested topology cannot use",
        spec: [req::CTRL_CREATESNAP_036],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-snapshot-ignores-topology"],
    }
    async |cx| {
        let [_, there] = two_places(cx).await?;
        let (_, request) = request_here(cx).await?;
        cx.create_snapshot(request.clone()).setup("a snapshot").await?;
        let again = v1::CreateSnapshotRequest { accessibility_requirements: requirement(vec![there.clone()]), ..request };
        match cx.create_snapshot(again).await.any_answer()? {
            Err(refused) if refused.code == Code::AlreadyExists => Ok(()),
            Err(refused) => {
                cx.warn(
                    Violation::new("a known name with another topology is rejected with the wrong code")
                        .expected("ALREADY_EXISTS")
                        .actual(refused.to_string()),
                );
                Ok(())
            }
            Ok(snapshot) => {
                let reported = places(&snapshot.accessible_topology);
                ensure!(
                    reported.is_empty() || reported.iter().any(|place| meets(place, &there)),
                    "a snapshot is not accessible from the requested topology";
                    expected: format!("ALREADY_EXISTS, or accessible_topology with {there:?}"),
                    actual: format!("OK, with {reported:?}")
                );
                Ok(())
            }
        }
    }
}

pub(crate) static CHECKS: &[&Check] = &[&ASKED_FOR, &SAME, &USABLE, &UNKNOWN, &EMPTY, &CONFLICT];
