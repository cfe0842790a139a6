//! Checks the keys and values of a volume's accessible_topology.

use csi_harness::prelude::*;

use crate::topology::{self, Segments};

/// Returns the segments of a new volume and, if it has any, of the node.
async fn segments(cx: &Cx) -> CheckResult<Vec<Segments>> {
    let volume = cx.new_volume().await?;
    let mut all: Vec<_> = volume.accessible_topology.into_iter().map(|topology| topology.segments).collect();
    if all.is_empty() {
        return Err(Stop::skip("the volume is accessible from everywhere"));
    }
    if NODE.unmet(cx.target(), cx.access()).is_none()
        && let Ok(node) = cx.call(v1::NodeGetInfoRequest::default()).await.any_answer()?
    {
        all.extend(node.accessible_topology.map(|topology| topology.segments));
    }
    Ok(all)
}

check! {
    /// Kubernetes makes labels of them, and rejects the whole node if one is invalid.
    KEYS {
        id: "controller/create-volume/topology-keys",
        title: "the topology keys of a volume are names with a domain before them",
        spec: [req::MSG_TOPOLOGY_001, req::MSG_TOPOLOGY_002, req::MSG_TOPOLOGY_004],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-key-invalid", "volume-topology-key-prefix-upper-case"],
    }
    async |cx| { topology::keys_well_formed(&segments(cx).await?) }
}

check! {
    /// Kubernetes makes label values of them.
    VALUES {
        id: "controller/create-volume/topology-values",
        title: "the topology values of a volume are short names",
        spec: [req::MSG_TOPOLOGY_009, req::MSG_TOPOLOGY_008],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-value-empty", "volume-topology-value-too-long"],
    }
    async |cx| { topology::values_well_formed(&segments(cx).await?) }
}

check! {
    /// Keys are compared without case, so two spellings are one key with two values.
    KEYS_DIFFER {
        id: "controller/create-volume/topology-keys-differ",
        title: "no two topology keys of a volume differ in case only",
        spec: [req::MSG_TOPOLOGY_007],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-keys-differ-in-case"],
    }
    async |cx| { topology::keys_differ(&segments(cx).await?) }
}

check! {
    /// The prefix shows an orchestrator which keys belong to which driver.
    ONE_PREFIX {
        id: "controller/create-volume/one-topology-prefix",
        title: "all topology keys of a plugin have the same prefix",
        spec: [req::MSG_TOPOLOGY_006],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-key-prefix-differs"],
        duplicate_of: "node/node-get-info/topology-form",
    }
    async |cx| { topology::one_prefix(&segments(cx).await?) }
}

pub(crate) static CHECKS: &[&Check] = &[&KEYS, &VALUES, &KEYS_DIFFER, &ONE_PREFIX];
