//! Checks that a volume satisfies its accessibility_requirements.

use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

use super::recognised;
use crate::controller::common::ready_snapshot;
use crate::topology::{Segments, within};

/// Returns the configured topologies from which volumes can be reached, or those of the nodes, starting with the
/// first node.
pub(crate) async fn known_topologies(cx: &Cx) -> CheckResult<Vec<Segments>> {
    if let Some(configured) = &cx.config().topology_requirement
        && !configured.requisite.is_empty()
    {
        return Ok(configured.requisite.clone());
    }
    if let Some(reason) = NODE.unmet(cx.target(), cx.access()) {
        return Err(Stop::skip(format!("no topology is configured, and {reason}")));
    }
    let mut known = Vec::new();
    for number in 0..cx.target().nodes().len() {
        let node = cx
            .at_node(number)
            .call(v1::NodeGetInfoRequest::default())
            .setup("the topology of the node")
            .await?;
        let topology = node.accessible_topology.unwrap_or_default();
        if !topology.segments.is_empty() && !known.contains(&topology.segments) {
            known.push(topology.segments);
        }
    }
    match known.is_empty() {
        true => Err(Stop::skip("no topology is configured, and the node reports none")),
        false => Ok(known),
    }
}

/// Returns two topologies of which neither includes the other.
pub(crate) async fn two_places(cx: &Cx) -> CheckResult<[Segments; 2]> {
    let known = known_topologies(cx).await?;
    let apart = |one: &Segments| known.iter().find(|other| !meets(one, other)).cloned();
    let found = known.iter().find_map(|one| Some([one.clone(), apart(one)?]));
    found.ok_or_else(|| Stop::skip("needs two topologies, of two nodes or of --config: topology-requirement"))
}

/// Returns a request for a volume that is reachable from these topologies.
pub(crate) fn request_in(cx: &Cx, places: &[Segments]) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        accessibility_requirements: requirement(places.to_vec()),
        ..cx.create_volume_request()
    }
}

/// Makes a volume in a topology, to show that this is possible.
async fn needs_storage(cx: &Cx, place: &Segments) -> CheckResult {
    let reply = cx.create_volume(request_in(cx, std::slice::from_ref(place))).await;
    reply.or_skip("there may be no storage for another node").map(drop)
}

pub(crate) fn requirement(requisite: Vec<Segments>) -> Option<v1::TopologyRequirement> {
    let requisite = requisite.into_iter().map(|segments| v1::Topology { segments }).collect();
    Some(v1::TopologyRequirement { requisite, preferred: Vec::new() })
}

/// Returns whether a reported topology meets a requested one: one includes the other.
pub(crate) fn meets(reported: &Segments, asked: &Segments) -> bool {
    within(reported, asked) || within(asked, reported)
}

check! {
    /// If a volume is in the wrong zone, its workload never starts.
    REQUISITE {
        id: "controller/create-volume/requisite-topology",
        title: "a volume can be reached from the requisite topology",
        spec: [
            req::MSG_TOPOREQ_003,
            req::MSG_TOPOREQ_005,
            req::MSG_TOPOREQ_006,
            req::MSG_TOPOREQ_008,
        ],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-volume-ignores-requisite", "volume-topology-empty-entry"],
    }
    async |cx| {
        let known = known_topologies(cx).await?;
        let asked = known.get(..1).unwrap_or_default();
        let volume = cx.create_volume(request_in(cx, asked)).setup("a volume in a known topology").await?;
        reachable(&volume, asked)
    }
}

check! {
    /// Replicas in zones that were not requested are useless to the workload.
    SEVERAL_REQUISITES {
        id: "controller/create-volume/several-requisite-topologies",
        title: "a volume can be reached from one of the required topologies, and from all of them if it spans that many",
        spec: [
            req::MSG_TOPOREQ_003,
            req::MSG_TOPOREQ_005,
            req::MSG_TOPOREQ_006,
            req::MSG_TOPOREQ_007,
            req::MSG_TOPOREQ_008,
        ],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: [
            "create-volume-ignores-several-requisites",
            "volume-topology-of-replicas",
            "volume-topology-twice",
        ],
        duplicate_of: "controller/create-volume/requisite-topology",
    }
    async |cx| {
        let known = two_places(cx).await?;
        for asked in known.chunks(1).chain([&known[..]]) {
            let reply = cx.create_volume(request_in(cx, asked)).await;
            reachable(&reply.or_skip("there may be no storage for another node")?, asked)?;
        }
        Ok(())
    }
}

fn reachable(volume: &v1::Volume, requisite: &[Segments]) -> CheckResult {
    let reported: Vec<_> = volume.accessible_topology.iter().map(|topology| &topology.segments).collect();
    if reported.is_empty() {
        // The volume is reachable from everywhere.
        return Ok(());
    }
    ensure!(
        reported.iter().all(|place| !place.is_empty()),
        "accessible_topology has an entry without segments";
        of: &req::MSG_TOPOREQ_005,
        expected: "segments in each entry",
        actual: format!("{reported:?}")
    );
    let asked_for = |place: &Segments| requisite.iter().any(|asked| meets(place, asked));
    let covered = |asked: &Segments| reported.iter().any(|place| meets(place, asked));
    // The rules for several topologies are more specific than the rule for any number.
    let judged = [
        (
            &req::MSG_TOPOREQ_007,
            "no other place",
            reported.len() >= requisite.len() || reported.iter().all(|place| asked_for(place)),
        ),
        (&req::MSG_TOPOREQ_008, "each", reported.len() <= requisite.len() || requisite.iter().all(covered)),
        (&req::MSG_TOPOREQ_003, "at least one", requisite.iter().any(covered)),
        (&req::MSG_TOPOREQ_006, "each", reported.len() != requisite.len() || requisite.iter().all(covered)),
    ];
    for (rule, how_many, kept) in judged {
        ensure!(
            kept,
            "the volume is not in the requested topology";
            of: rule,
            expected: format!("accessible_topology with {how_many} of the requisite {requisite:?}"),
            actual: format!("{reported:?}")
        );
    }
    Ok(())
}

check! {
    /// The zone may be misspelt, or belong to another cluster. With one node and one topology every volume satisfies
    /// its requirements; only an unknown topology shows whether the driver reads them.
    UNREACHABLE {
        id: "controller/create-volume/unreachable-requisite",
        title: "CreateVolume for a topology that no node has is rejected, or makes a volume that can be reached from there",
        spec: [req::MSG_TOPOREQ_003],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-volume-ignores-requisite"],
        duplicate_of: "controller/create-volume/requisite-topology",
        runs: UnusualInput,
    }
    async |cx| {
        let known = known_topologies(cx).await?;
        let nowhere: Segments =
            known.into_iter().flatten().map(|(key, _)| (key, "csi-sanity-nowhere".to_owned())).collect();
        let reply = cx.create_volume(request_in(cx, std::slice::from_ref(&nowhere))).await;
        // The specification names no code for an unknown topology.
        let Ok(volume) = reply.any_answer()? else { return Ok(()) };
        let places = &volume.accessible_topology;
        ensure!(
            places.is_empty() || places.iter().any(|place| meets(&place.segments, &nowhere)),
            "a volume was created that is not accessible from the requested topology";
            expected: format!("a rejection, or accessible_topology with the requisite {nowhere:?}"),
            actual: format!("OK with {:?}", places.iter().map(|place| &place.segments).collect::<Vec<_>>())
        );
        Ok(())
    }
}

check! {
    /// The request has no requirement and no preference; real callers send it.
    EMPTY {
        id: "controller/create-volume/empty-topology-requirement",
        title: "CreateVolume with empty accessibility_requirements is rejected",
        spec: [req::MSG_TOPOREQ_002],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-volume-accepts-empty-topology-requirement"],
    }
    async |cx| {
        let accessibility_requirements = requirement(Vec::new());
        let request = v1::CreateVolumeRequest { accessibility_requirements, ..cx.create_volume_request() };
        let reply = cx.create_volume(request).await;
        reply.must_be_refused("with empty accessibility_requirements", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

check! {
    /// The reported topology is only useful if nodes there can use the volume.
    REACHABLE {
        id: "controller/create-volume/reachable-from-requisite",
        title: "a volume that requires the topology of another node can be published to that node",
        spec: [req::CTRL_CREATEVOL_025],
        needs: [
            CREATE_DELETE_VOLUME,
            VOLUME_ACCESSIBILITY_CONSTRAINTS,
            PUBLISH_UNPUBLISH_VOLUME,
            NODE,
            TWO_NODES,
        ],
        refuted_by: ["create-volume-echoes-requisite"],
        duplicate_of: "controller/controller-publish-volume/other-node",
    }
    async |cx| {
        let here = cx.call(v1::NodeGetInfoRequest::default()).setup("the topology of the node").await?;
        let here = here.accessible_topology.unwrap_or_default().segments;
        for number in 1..cx.target().nodes().len() {
            let node = cx.at_node(number).call(v1::NodeGetInfoRequest::default()).setup("the topology of a node").await?;
            let place = node.accessible_topology.unwrap_or_default().segments;
            if meets(&place, &here) {
                continue;
            }
            let reply = cx.create_volume(request_in(cx, &[place])).await;
            let volume = reply.or_skip("there may be no storage for another node")?;
            let publish = cx.controller_publish_request(&volume.into(), &node.node_id);
            let reply = cx.controller_publish(publish).await;
            if reply.code()? == Code::ResourceExhausted {
                return Err(Stop::skip("the node has no room for another volume"));
            }
            reply.must("publish a volume to the node whose topology was required")?;
            return Ok(());
        }
        Err(Stop::skip("needs a node with another topology"))
    }
}

check! {
    /// The caller would use a volume that its node cannot reach.
    OTHER_TOPOLOGY {
        id: "controller/create-volume/taken-in-another-topology",
        title: "CreateVolume with a known name and a topology that the volume cannot be reached from is ALREADY_EXISTS",
        spec: [req::CTRL_CREATEVOL_044],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-volume-ignores-topology-conflict"],
        duplicate_of: "controller/create-volume/requisite-topology",
    }
    async |cx| {
        let [one, other] = two_places(cx).await?;
        needs_storage(cx, &other).await?;
        let request = request_in(cx, &[one]);
        let volume = recognised(cx, &request).await?;
        let places = &volume.accessible_topology;
        if places.is_empty() || places.iter().any(|place| meets(&place.segments, &other)) {
            return Err(Stop::skip("the volume can be reached from both topologies"));
        }
        let accessibility_requirements = requirement(vec![other]);
        let reply = cx.create_volume(v1::CreateVolumeRequest { accessibility_requirements, ..request }).await;
        let what = "with a known name and another topology";
        reply.must_be_refused(what, refused_with(Code::AlreadyExists))?;
        Ok(())
    }
}

check! {
    /// The workload waits in the requested topology and cannot use a copy elsewhere. A driver that cannot copy there
    /// has to reject the request.
    COPY_ELSEWHERE {
        id: "controller/create-volume/copy-in-another-topology",
        title: "a copy of a source in another topology is in the requested topology, or is rejected",
        spec: [
            req::MSG_TOPOREQ_003,
            req::MSG_TOPOREQ_005,
            req::MSG_TOPOREQ_006,
            req::MSG_TOPOREQ_007,
            req::MSG_TOPOREQ_008,
        ],
        needs: [
            CREATE_DELETE_VOLUME,
            VOLUME_ACCESSIBILITY_CONSTRAINTS,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
        ],
        refuted_by: ["create-volume-ignores-topology-of-copies"],
        duplicate_of: "controller/create-volume/requisite-topology",
    }
    async |cx| {
        let [here, there] = two_places(cx).await?;
        needs_storage(cx, &there).await?;
        let origin = cx.create_volume(request_in(cx, &[here])).setup("a volume in a known topology").await?;
        let has = |capability| cx.target().capabilities().has(capability);
        let from = match has(Capability::CreateDeleteSnapshot) {
            true => {
                let request = cx.create_snapshot_request(&origin.volume_id);
                Source::snapshot(&ready_snapshot(cx, &request).await?.snapshot_id)
            }
            false => Source::volume(&origin.volume_id),
        };
        let request = v1::CreateVolumeRequest {
            accessibility_requirements: requirement(vec![there.clone()]),
            ..cx.create_volume_request().copy_of(from, origin.capacity_bytes)
        };
        match cx.create_volume(request).await.any_answer()? {
            Ok(copy) => reachable(&copy, &[there]),
            Err(refused) => {
                cx.note(format!("a copy in another topology is rejected: {refused}"));
                Ok(())
            }
        }
    }
}

check! {
    /// Schedulers put the topology of the chosen node first.
    PREFERRED {
        id: "controller/create-volume/preferred-topology",
        title: "a volume is in the preferred topology, if possible in the first of several",
        spec: [req::MSG_TOPOREQ_014],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-volume-ignores-preferred", "create-volume-reverses-preferred"],
        duplicate_of: "controller/create-volume/requisite-topology",
    }
    async |cx| {
        let places = two_places(cx).await?;
        for place in &places {
            needs_storage(cx, place).await?;
        }
        let [one, other] = places.clone();
        for preferred in [[one.clone(), other.clone()], [other, one]] {
            let [first, _] = &preferred;
            let mut request = request_in(cx, &places);
            if let Some(wanted) = &mut request.accessibility_requirements {
                wanted.preferred = preferred.iter().cloned().map(|segments| v1::Topology { segments }).collect();
            }
            let volume = cx.create_volume(request).setup("a volume in either of two topologies").await?;
            let reported: Vec<_> = volume.accessible_topology.into_iter().map(|place| place.segments).collect();
            ensure!(
                reported.is_empty() || reported.iter().any(|place| meets(place, first)),
                "the volume is not in the preferred topology";
                expected: format!("accessible_topology with {first:?}, unless there is no room"),
                actual: format!("{reported:?}")
            );
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &REQUISITE,
    &SEVERAL_REQUISITES,
    &UNREACHABLE,
    &EMPTY,
    &REACHABLE,
    &OTHER_TOPOLOGY,
    &COPY_ELSEWHERE,
    &PREFERRED,
];
