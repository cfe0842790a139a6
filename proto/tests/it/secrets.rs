//! Checks that no form of printing shows a secret of a request.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

use csi_proto::{Call, DESCRIPTOR_SET, hidden, redact, v1};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, MessageDescriptor, Value};

const SECRET: &str = "hunter2";

fn pool() -> DescriptorPool {
    DescriptorPool::decode(DESCRIPTOR_SET).expect("the descriptor set decodes")
}

/// Returns the csi_secret fields of a message.
fn secret_fields(message: &MessageDescriptor) -> Vec<prost_reflect::FieldDescriptor> {
    let csi_secret = message.parent_pool().get_extension_by_name("csi.v1.csi_secret").expect("csi_secret");
    let marked = |field: &prost_reflect::FieldDescriptor| {
        *field.options().get_extension(&csi_secret) == Value::Bool(true)
    };
    message.fields().filter(marked).collect()
}

/// Fills the secrets of `M` through its descriptor, prints it in each form, and returns its name.
fn check<M: Call + Debug>() -> String {
    let descriptor = pool().get_message_by_name(&M::full_name()).expect("a message of csi.proto");
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in secret_fields(&descriptor) {
        let secrets = HashMap::from([(MapKey::String("password".into()), Value::String(SECRET.into()))]);
        message.set_field(&field, Value::Map(secrets));
    }
    let mut message = M::decode(message.encode_to_vec().as_slice()).expect("it decodes as itself");
    let secrets = message.secrets_mut().expect("its secrets are at hand");
    assert_eq!(secrets.values().collect::<Vec<_>>(), [SECRET], "{}", M::NAME);
    for text in [redact::json(&message).to_string(), format!("{message:?}"), format!("{message:#?}")] {
        assert!(!text.contains(SECRET), "{}: {text}", M::NAME);
        assert!(text.contains("password") && text.contains(hidden::STRIPPED), "{}: {text}", M::NAME);
    }
    M::NAME.to_owned()
}

#[test]
fn every_message_with_secrets_hides_them() {
    let checked = BTreeSet::from([
        check::<v1::CreateVolumeRequest>(),
        check::<v1::DeleteVolumeRequest>(),
        check::<v1::ControllerPublishVolumeRequest>(),
        check::<v1::ControllerUnpublishVolumeRequest>(),
        check::<v1::ValidateVolumeCapabilitiesRequest>(),
        check::<v1::ControllerModifyVolumeRequest>(),
        check::<v1::CreateSnapshotRequest>(),
        check::<v1::DeleteSnapshotRequest>(),
        check::<v1::ListSnapshotsRequest>(),
        check::<v1::GetSnapshotRequest>(),
        check::<v1::ControllerExpandVolumeRequest>(),
        check::<v1::NodeStageVolumeRequest>(),
        check::<v1::NodePublishVolumeRequest>(),
        check::<v1::NodeExpandVolumeRequest>(),
        check::<v1::CreateVolumeGroupSnapshotRequest>(),
        check::<v1::DeleteVolumeGroupSnapshotRequest>(),
        check::<v1::GetVolumeGroupSnapshotRequest>(),
        check::<v1::GetMetadataAllocatedRequest>(),
        check::<v1::GetMetadataDeltaRequest>(),
        check::<v1::ControllerListVolumeHealthRequest>(),
        check::<v1::ControllerGetVolumeHealthRequest>(),
        check::<v1::NodeGetStorageHealthRequest>(),
    ]);
    let secretive: BTreeSet<_> = pool()
        .all_messages()
        .filter(|message| message.package_name() == "csi.v1" && !secret_fields(message).is_empty())
        .map(|message| message.name().to_owned())
        .collect();
    assert_eq!(checked, secretive, "each message with a csi_secret field is checked above");
}

#[test]
fn no_secret_lies_outside_a_top_level_request() {
    // The `Debug` that prost generates for a message without secrets would print those of a message inside it.
    for message in pool().all_messages().filter(|message| message.package_name() == "csi.v1") {
        for field in message.fields() {
            if let prost_reflect::Kind::Message(inner) = field.kind() {
                assert!(
                    secret_fields(&inner).is_empty(),
                    "{} holds {}",
                    message.full_name(),
                    inner.full_name()
                );
            }
        }
    }
}
