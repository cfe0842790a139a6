//! Describes the fields of answers beyond their types, for code that handles any message.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor};

use crate::call::Rpc;

pub use prost_reflect;

/// The limit on the bytes of a string, unless the field has its own limit.
pub const TEXT_BYTES_MAX: usize = 128;
/// The limit on the bytes of a string map, keys and values together.
pub const MAP_BYTES_MAX: usize = 4 << 10;

/// The fields with their own limit.
const OTHER_TEXT_BYTES_MAX: &[(&str, usize)] = &[
    ("csi.v1.NodeGetInfoResponse.node_id", 256),
    ("csi.v1.ListVolumesResponse.VolumeStatus.published_node_ids", 256),
    ("csi.v1.ControllerGetVolumeResponse.VolumeStatus.published_node_ids", 256),
];

/// The messages in answers that return data of the caller.
const SENT_BY_THE_CALLER: &[&str] = &["csi.v1.VolumeCapability"];

/// The REQUIRED fields of answers for which an empty value can be recognised; for numbers and booleans it cannot.
const REQUIRED: &[&str] = &[
    "csi.v1.ControllerGetVolumeHealthResponse.volume_health",
    "csi.v1.ControllerGetVolumeResponse.status",
    "csi.v1.ControllerGetVolumeResponse.volume",
    "csi.v1.CreateSnapshotResponse.snapshot",
    "csi.v1.CreateVolumeGroupSnapshotResponse.group_snapshot",
    "csi.v1.CreateVolumeResponse.volume",
    "csi.v1.GetPluginInfoResponse.name",
    "csi.v1.GetPluginInfoResponse.vendor_version",
    "csi.v1.GetSnapshotResponse.snapshot",
    "csi.v1.GetVolumeGroupSnapshotResponse.group_snapshot",
    "csi.v1.ListSnapshotsResponse.Entry.snapshot",
    "csi.v1.ListVolumesResponse.Entry.volume",
    "csi.v1.NodeGetInfoResponse.node_id",
    "csi.v1.NodeGetStorageHealthResponse.StorageBackendHealth.reason",
    "csi.v1.NodeGetStorageHealthResponse.StorageBackendHealth.status",
    "csi.v1.NodeGetVolumeHealthResponse.volume_health",
    "csi.v1.Snapshot.creation_time",
    "csi.v1.Snapshot.snapshot_id",
    "csi.v1.Snapshot.source_volume_id",
    "csi.v1.ValidateVolumeCapabilitiesResponse.Confirmed.volume_capabilities",
    "csi.v1.Volume.volume_id",
    "csi.v1.VolumeCondition.message",
    "csi.v1.VolumeGroupSnapshot.creation_time",
    "csi.v1.VolumeGroupSnapshot.group_snapshot_id",
    "csi.v1.VolumeGroupSnapshot.snapshots",
    "csi.v1.VolumeHealth.VolumeHealthEntry.reason",
    "csi.v1.VolumeHealth.VolumeHealthEntry.status",
    "csi.v1.VolumeHealth.volume_id",
];

pub(crate) static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::DESCRIPTOR_SET).expect("the committed descriptor set decodes")
});

/// Returns the message with its descriptor.
pub fn message<M: prost::Name>(message: &M) -> Option<DynamicMessage> {
    let descriptor = POOL.get_message_by_name(&M::full_name())?;
    DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).ok()
}

/// Decodes a request of an RPC; returns `None` if the bytes are no such message.
pub fn request(rpc: Rpc, bytes: &[u8]) -> Option<DynamicMessage> {
    DynamicMessage::decode(request_of(rpc)?, bytes).ok()
}

/// Decodes a response of an RPC; returns `None` if the bytes are no such message.
pub fn response(rpc: Rpc, bytes: &[u8]) -> Option<DynamicMessage> {
    DynamicMessage::decode(response_of(rpc)?, bytes).ok()
}

/// Returns the descriptor of an RPC's request; it is `None` only for an RPC of another protocol.
pub fn request_of(rpc: Rpc) -> Option<MessageDescriptor> {
    method_of(rpc).map(|method| method.input())
}

/// Returns the descriptor of an RPC's response; it is `None` only for an RPC of another protocol.
pub fn response_of(rpc: Rpc) -> Option<MessageDescriptor> {
    method_of(rpc).map(|method| method.output())
}

fn method_of(rpc: Rpc) -> Option<MethodDescriptor> {
    let (service, method) = rpc.path.strip_prefix('/')?.split_once('/')?;
    let service = POOL.get_service_by_name(service)?;
    service.methods().find(|found| found.name() == method)
}

/// Returns the limit on the bytes of a string in this field.
pub fn text_bytes_max(field: &FieldDescriptor) -> usize {
    let limit = OTHER_TEXT_BYTES_MAX.iter().find(|(name, _)| *name == field.full_name());
    limit.map_or(TEXT_BYTES_MAX, |(_, bytes_max)| *bytes_max)
}

/// Returns whether the field repeats data of the caller, for which the plugin is not responsible.
pub fn is_sent_by_the_caller(field: &FieldDescriptor) -> bool {
    field.kind().as_message().is_some_and(|kind| SENT_BY_THE_CALLER.contains(&kind.full_name()))
}

/// Returns whether a field of an answer is REQUIRED, and of a type whose empty value can be recognised.
pub fn is_required(field: &FieldDescriptor) -> bool {
    REQUIRED.contains(&field.full_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(full_name: &str) -> Option<FieldDescriptor> {
        let (message, field) = full_name.rsplit_once('.')?;
        POOL.get_message_by_name(message)?.get_field_by_name(field)
    }

    #[test]
    fn every_name_is_one_of_the_protocol() {
        for name in REQUIRED.iter().chain(OTHER_TEXT_BYTES_MAX.iter().map(|(name, _)| name)) {
            assert!(field(name).is_some(), "{name}");
        }
        for name in SENT_BY_THE_CALLER {
            assert!(POOL.get_message_by_name(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_rpc_has_a_request_and_a_response() {
        for rpc in crate::RPCS {
            let forms = [request_of(rpc), response_of(rpc)].map(|form| form.expect("it is in csi.proto"));
            let names = ["Request", "Response"].map(|kind| format!("csi.v1.{}{kind}", rpc.method));
            assert_eq!(forms.map(|form| form.full_name().to_owned()), names);
        }
    }

    #[test]
    fn required_fields_are_called_so_in_the_protocol() {
        let text = include_str!("../csi.proto");
        for name in REQUIRED {
            let field = field(name).expect("a field of the protocol");
            let declared = format!(" {} = {};", field.name(), field.number());
            let mut befores = text.match_indices(&declared).map(|(at, _)| &text[..at]);
            let above = befores.any(|before| before.rfind("// REQUIRED") > before.rfind(";\n"));
            assert!(above, "{name}");
        }
    }
}
