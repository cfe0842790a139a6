//! accessibility_requirements: the volume lies where it was asked to.

use csi_harness::prelude::*;

use crate::topology::Segments;

/// Topologies from which volumes can be reached: those configured, or that of the node.
async fn known_topologies(cx: &Cx) -> CheckResult<Vec<Segments>> {
    if let Some(configured) = &cx.config().topology_requirement
        && !configured.requisite.is_empty()
    {
        return Ok(configured.requisite.clone());
    }
    if let Some(reason) = NODE.unmet(cx.target(), cx.access()) {
        return Err(Stop::skip(format!("no topology is configured, and {reason}")));
    }
    let node = cx.call(v1::NodeGetInfoRequest {}).setup("the topology of the node").await?;
    match node.accessible_topology {
        Some(topology) if !topology.segments.is_empty() => Ok(vec![topology.segments]),
        _ => Err(Stop::skip("no topology is configured, and the node reports none")),
    }
}

fn requirement(requisite: Vec<Segments>) -> Option<v1::TopologyRequirement> {
    let requisite = requisite.into_iter().map(|segments| v1::Topology { segments }).collect();
    Some(v1::TopologyRequirement { requisite, preferred: Vec::new() })
}

/// Whether all of the first segments are among the second, keys compared without case.
fn within(first: &Segments, second: &Segments) -> bool {
    first
        .iter()
        .all(|(key, value)| second.iter().any(|(other, its)| other.eq_ignore_ascii_case(key) && its == value))
}

/// Whether a place that a volume is reported at meets one that was asked for: it is the same, a wider one, or a part.
fn meets(reported: &Segments, asked: &Segments) -> bool {
    within(reported, asked) || within(asked, reported)
}

check! {
    /// A volume in the wrong zone keeps its workload from starting for ever.
    REQUISITE {
        id: "controller/create-volume/requisite-topology",
        title: "a volume can be reached from the requisite topology",
        spec: [
            req::MSG_TOPOREQ_003,
            req::MSG_TOPOREQ_005,
            req::MSG_TOPOREQ_006,
            req::MSG_TOPOREQ_007,
            req::MSG_TOPOREQ_008,
            req::CTRL_CREATEVOL_025,
        ],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["create-volume-ignores-requisite"],
    }
    async |cx| {
        for asked in known_topologies(cx).await? {
            let accessibility_requirements = requirement(vec![asked.clone()]);
            let request = v1::CreateVolumeRequest { accessibility_requirements, ..cx.create_volume_request() };
            let volume = cx.create_volume(request).setup("a volume in a known topology").await?;
            reachable(&volume, &[asked])?;
        }
        let all = known_topologies(cx).await?;
        if all.len() > 1 {
            let accessibility_requirements = requirement(all.clone());
            let request = v1::CreateVolumeRequest { accessibility_requirements, ..cx.create_volume_request() };
            let volume = cx.create_volume(request).setup("a volume in any known topology").await?;
            reachable(&volume, &all)?;
        }
        Ok(())
    }
}

fn reachable(volume: &v1::Volume, requisite: &[Segments]) -> CheckResult {
    let reported: Vec<_> = volume.accessible_topology.iter().map(|topology| &topology.segments).collect();
    if reported.is_empty() {
        // From everywhere.
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
    let judged = [
        (&req::MSG_TOPOREQ_003, "at least one", requisite.iter().any(covered)),
        (&req::MSG_TOPOREQ_006, "each", reported.len() != requisite.len() || requisite.iter().all(covered)),
        (
            &req::MSG_TOPOREQ_007,
            "no place but those",
            reported.len() >= requisite.len() || reported.iter().all(|place| asked_for(place)),
        ),
        (&req::MSG_TOPOREQ_008, "each", reported.len() <= requisite.len() || requisite.iter().all(covered)),
    ];
    for (rule, how_many, kept) in judged {
        ensure!(
            kept,
            "the volume does not lie where it was asked to";
            of: rule,
            expected: format!("accessible_topology with {how_many} of the requisite {requisite:?}"),
            actual: format!("{reported:?}")
        );
    }
    Ok(())
}

check! {
    /// It requires nothing and prefers nothing; callers in the field send it all the same.
    EMPTY {
        id: "controller/create-volume/empty-topology-requirement",
        title: "CreateVolume with empty accessibility_requirements is refused",
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

pub(crate) static CHECKS: &[&Check] = &[&REQUISITE, &EMPTY];
