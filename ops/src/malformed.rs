//! Requests with one mistake in each, for every operation.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use v1::VolumeContentSource as Source;

use crate::operation::{Operation, Request};
use crate::volume::{TrackedVolume, at_least};

/// A size that no storage has.
const TOO_LARGE_BYTES: i64 = i64::MAX - (i64::MAX % (1 << 30));

/// A request with one mistake.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// The mistake; reads after the name of the RPC.
    pub what: &'static str,
    /// True if the specification has the driver reject it. Otherwise a driver may accept it, such as a parameter that it ignores.
    pub must_be_rejected: bool,
    pub request: Request,
}

struct Row {
    operation: Operation,
    what: &'static str,
    must_be_rejected: bool,
    needs: Option<Capability>,
    alter: fn(&Cx, &TrackedVolume, &mut Request),
}

/// The right request with each of the mistakes that are possible for this driver.
pub fn malformed(cx: &Cx, volume: &TrackedVolume, right: &Request) -> Vec<Malformed> {
    let is_possible = |row: &&Row| {
        row.operation == right.operation()
            && row.needs.is_none_or(|capability| cx.target().capabilities().has(capability))
    };
    let rows = ROWS.iter().filter(is_possible);
    rows.map(|row| {
        let mut request = right.clone();
        (row.alter)(cx, volume, &mut request);
        Malformed { what: row.what, must_be_rejected: row.must_be_rejected, request }
    })
    .collect()
}

macro_rules! rows {
    (@must_be_rejected must) => { true };
    (@must_be_rejected may) => { false };
    (@needs) => { None };
    (@needs $capability:ident) => { Some(Capability::$capability) };
    ($($operation:ident {
        $($what:literal $level:ident $(if $capability:ident)? => |$cx:pat_param, $volume:pat_param, $request:ident| $alter:expr;)+
    })+) => {
        static ROWS: &[Row] = &[$($(Row {
            operation: Operation::$operation,
            what: $what,
            must_be_rejected: rows!(@must_be_rejected $level),
            needs: rows!(@needs $($capability)?),
            alter: |$cx, $volume, request| {
                if let Request::$operation($request) = request {
                    $alter;
                }
            },
        },)+)+];
    };
}

// A driver must reject a request, or may reject it.
rows! {
    CreateVolume {
        "without name" must => |_, _, request| request.name.clear();
        "without volume_capabilities" must => |_, _, request| request.volume_capabilities.clear();
        "without access mode" must => |cx, _, request| request.volume_capabilities = vec![without_mode(cx)];
        "with a file system that does not exist" may =>
            |cx, _, request| request.volume_capabilities = vec![unknown_fs_type(cx)];
        "with limit_bytes below required_bytes" must =>
            |cx, _, request| request.capacity_range = Some(limit_below(cx.volume_size_bytes()));
        "with a size that no storage has" may =>
            |_, _, request| request.capacity_range = Some(at_least(TOO_LARGE_BYTES));
        "with a parameter that does not exist" may => |_, _, request| add_unknown_key(&mut request.parameters);
        "with a mutable parameter that does not exist" may if ModifyVolume =>
            |_, _, request| add_unknown_key(&mut request.mutable_parameters);
        "in a place that does not exist" may if VolumeAccessibilityConstraints => |_, _, request| {
            let mut nowhere = v1::Topology::default();
            add_unknown_key(&mut nowhere.segments);
            request.accessibility_requirements =
                Some(v1::TopologyRequirement { requisite: vec![nowhere], preferred: Vec::new() });
        };
        "from a snapshot that does not exist" must if CreateDeleteSnapshot =>
            |cx, _, request| request.volume_content_source = Some(Source::snapshot(cx.unknown_snapshot_id()));
        "from a volume that does not exist" must if CloneVolume =>
            |cx, _, request| request.volume_content_source = Some(Source::volume(cx.unknown_volume_id()));
        "from a volume that is larger than limit_bytes" may if CloneVolume => |_, volume, request| {
            let source = &volume.volume;
            let limit_bytes = (source.size_bytes / 2).max(1);
            request.volume_content_source = Some(Source::volume(&source.id));
            request.capacity_range = Some(v1::CapacityRange { required_bytes: 0, limit_bytes });
        };
    }
    DeleteVolume {
        "without volume_id" must => |_, _, request| request.volume_id.clear();
    }
    ControllerExpandVolume {
        "without capacity_range" must => |_, _, request| request.capacity_range = None;
        "with limit_bytes below required_bytes" must => |_, volume, request|
            request.capacity_range = Some(limit_below(volume.expand_to_bytes));
        "to less than the volume has" may => |_, _, request|
            request.capacity_range = Some(v1::CapacityRange { required_bytes: 0, limit_bytes: 1 });
        "to a size that no storage has" may =>
            |_, _, request| request.capacity_range = Some(at_least(TOO_LARGE_BYTES));
        "with an access type that the volume was not made for" may =>
            |cx, _, request| request.volume_capability = Some(other_access(cx));
    }
    ControllerModifyVolume {
        "without mutable_parameters" must => |_, _, request| request.mutable_parameters.clear();
        "with a parameter that does not exist" may =>
            |_, _, request| add_unknown_key(&mut request.mutable_parameters);
    }
    ControllerPublishVolume {
        "without node_id" must => |_, _, request| request.node_id.clear();
        "without volume_capability" must => |_, _, request| request.volume_capability = None;
        "without access mode" must => |cx, _, request| request.volume_capability = Some(without_mode(cx));
        "with an access type that the volume was not made for" may =>
            |cx, _, request| request.volume_capability = Some(other_access(cx));
        "to a node that does not exist" must => |cx, _, request| request.node_id = cx.unknown_node_id();
    }
    ControllerUnpublishVolume {
        "without volume_id" must => |_, _, request| request.volume_id.clear();
    }
    NodeStageVolume {
        "without volume_id" must => |_, _, request| request.volume_id.clear();
        "without volume_capability" must => |_, _, request| request.volume_capability = None;
        "without access mode" must => |cx, _, request| request.volume_capability = Some(without_mode(cx));
        "with a file system that does not exist" may =>
            |cx, _, request| request.volume_capability = Some(unknown_fs_type(cx));
        "with an access type that the volume was not made for" may =>
            |cx, _, request| request.volume_capability = Some(other_access(cx));
        "without staging_target_path" must => |_, _, request| request.staging_target_path.clear();
    }
    NodeUnstageVolume {
        "without staging_target_path" must => |_, _, request| request.staging_target_path.clear();
    }
    NodePublishVolume {
        "without volume_id" must => |_, _, request| request.volume_id.clear();
        "without volume_capability" must => |_, _, request| request.volume_capability = None;
        "without access mode" must => |cx, _, request| request.volume_capability = Some(without_mode(cx));
        "with an access type that the volume was not made for" may =>
            |cx, _, request| request.volume_capability = Some(other_access(cx));
        "without target_path" must => |_, _, request| request.target_path.clear();
        "without staging_target_path" must if StageUnstageVolume =>
            |_, _, request| request.staging_target_path.clear();
        "with a staging_target_path where nothing is staged" may if StageUnstageVolume =>
            |_, _, request| request.staging_target_path.push_str("-elsewhere");
    }
    NodeUnpublishVolume {
        "without target_path" must => |_, _, request| request.target_path.clear();
    }
    NodeExpandVolume {
        "without volume_path" must => |_, _, request| request.volume_path.clear();
        "with a volume_path where nothing is published" may =>
            |_, _, request| request.volume_path.push_str("-elsewhere");
        "with limit_bytes below required_bytes" must => |_, _, request| {
            let required_bytes = request.capacity_range.map_or(1 << 30, |range| range.required_bytes);
            request.capacity_range = Some(limit_below(required_bytes));
        };
        "to a size that no storage has" may =>
            |_, _, request| request.capacity_range = Some(at_least(TOO_LARGE_BYTES));
    }
    CreateSnapshot {
        "of a volume that does not exist" must => |cx, _, request| request.source_volume_id = cx.unknown_volume_id();
        "without source_volume_id" must => |_, _, request| request.source_volume_id.clear();
        "without name" must => |_, _, request| request.name.clear();
    }
    DeleteSnapshot {
        "without snapshot_id" must => |_, _, request| request.snapshot_id.clear();
    }
    CreateVolumeGroupSnapshot {
        "of a volume that does not exist" must =>
            |cx, _, request| request.source_volume_ids.push(cx.unknown_volume_id());
        "without source_volume_ids" must => |_, _, request| request.source_volume_ids.clear();
    }
}

/// A range in which no size lies.
fn limit_below(required_bytes: i64) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes, limit_bytes: (required_bytes - 1).max(1) }
}

fn other_access(cx: &Cx) -> v1::VolumeCapability {
    cx.capability_for(cx.access().other(), Mode::SingleNodeWriter)
}

fn without_mode(cx: &Cx) -> v1::VolumeCapability {
    v1::VolumeCapability { access_mode: None, ..cx.capability() }
}

/// Mount access with a file system that does not exist.
pub fn unknown_fs_type(cx: &Cx) -> v1::VolumeCapability {
    use v1::volume_capability::{AccessType as Access, MountVolume};
    let mount = MountVolume { fs_type: "csi-sanity-no-such-fs".to_owned(), ..Default::default() };
    v1::VolumeCapability {
        access_type: Some(Access::Mount(mount)),
        ..cx.capability_for(AccessType::Mount, Mode::SingleNodeWriter)
    }
}

fn add_unknown_key(pairs: &mut Pairs) {
    pairs.insert("csi-sanity-no-such-key".to_owned(), "x".to_owned());
}
