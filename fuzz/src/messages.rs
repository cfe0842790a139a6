//! Checks that a decoded message of csi.proto survives encoding and decoding, and is printed without its secrets.

use std::fmt::Debug;
use std::sync::LazyLock;

use csi_proto::reflect;
use csi_proto::reflect::prost_reflect::ReflectMessage as _;
use csi_proto::{Call, hidden, redact, v1};
use prost::{Message, Name};

use crate::{CANARY, Target};

/// The first byte selects the type of the message; the others are the message.
pub const TARGET: Target = Target { name: "messages", run, seeds, tokens: &[] };

/// Replaces every secret. No message contains it elsewhere, and no escape sequence begins with its first character.
const SECRET: &str = "zq3d9ac5f17b";

/// A message type of the protocol.
#[derive(Clone, Copy)]
struct Kind {
    name: fn() -> String,
    check: fn(&[u8]),
    example: fn() -> Vec<u8>,
}

impl Kind {
    const fn plain<M: Name + Default + Debug + PartialEq>() -> Kind {
        Kind { name: M::full_name, check: |bytes| check::<M>(bytes, |_| false), example: example::<M> }
    }

    const fn request<M: Call + Debug + PartialEq>() -> Kind {
        Kind { name: M::full_name, check: |bytes| check::<M>(bytes, hide), example: example::<M> }
    }
}

macro_rules! kinds {
    ($($other:path,)*) => { &[$(Kind::plain::<$other>(),)*] };
}

/// Messages that are fields of others.
const PARTS: &[Kind] = kinds! {
    v1::PluginCapability, v1::plugin_capability::Service, v1::plugin_capability::VolumeExpansion,
    v1::VolumeContentSource, v1::volume_content_source::SnapshotSource, v1::volume_content_source::VolumeSource,
    v1::VolumeCapability, v1::volume_capability::BlockVolume, v1::volume_capability::MountVolume,
    v1::volume_capability::AccessMode, v1::CapacityRange, v1::Volume, v1::TopologyRequirement, v1::Topology,
    v1::validate_volume_capabilities_response::Confirmed, v1::list_volumes_response::VolumeStatus,
    v1::list_volumes_response::Entry, v1::controller_get_volume_response::VolumeStatus,
    v1::ControllerServiceCapability, v1::controller_service_capability::Rpc, v1::Snapshot,
    v1::list_snapshots_response::Entry, v1::VolumeUsage, v1::VolumeCondition, v1::NodeServiceCapability,
    v1::node_service_capability::Rpc, v1::GroupControllerServiceCapability,
    v1::group_controller_service_capability::Rpc, v1::VolumeGroupSnapshot, v1::BlockMetadata,
    v1::VolumeHealth, v1::volume_health::VolumeHealthEntry,
    v1::node_get_storage_health_response::StorageBackendHealth,
};

macro_rules! add_kinds {
    ($service:ident to $kinds:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        $kinds.extend([$(Kind::request::<v1::$request>(), Kind::plain::<v1::$response>()),*])
    };
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut kinds = Vec::new();
    csi_proto::rpcs!(Identity add_kinds to kinds);
    csi_proto::rpcs!(Controller add_kinds to kinds);
    csi_proto::rpcs!(GroupController add_kinds to kinds);
    csi_proto::rpcs!(SnapshotMetadata add_kinds to kinds);
    csi_proto::rpcs!(Node add_kinds to kinds);
    kinds.extend(PARTS);
    kinds
});

fn run(bytes: &[u8]) {
    if let Some((kind, bytes)) = bytes.split_first() {
        (KINDS[usize::from(*kind) % KINDS.len()].check)(bytes);
    }
}

/// Checks one type. `hide` replaces the secrets with [`SECRET`] and returns whether there are any.
fn check<M: Name + Default + Debug + PartialEq>(bytes: &[u8], hide: fn(&mut M) -> bool) {
    let Ok(mut message) = M::decode(bytes) else { return };
    let encoded = message.encode_to_vec();
    assert_eq!(encoded.len(), message.encoded_len(), "{}", M::NAME);
    assert_eq!(M::decode(&*encoded).as_ref(), Ok(&message), "{} is another one once it was encoded", M::NAME);
    let dynamic = reflect::message(&message).expect("every message has a descriptor");
    assert_eq!(M::decode(&*dynamic.encode_to_vec()).as_ref(), Ok(&message), "{} by its descriptor", M::NAME);
    if bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
        return;
    }
    let has_secrets = hide(&mut message);
    for text in printed(&message) {
        assert!(!text.ends_with("null"), "{}: nothing is printed of {encoded:?}", M::NAME);
        assert!(!text.contains(SECRET), "a secret is shown: {text}");
        assert!(!has_secrets || text.contains(hidden::STRIPPED), "no secret is seen in {text}");
    }
}

fn hide<M: Call>(message: &mut M) -> bool {
    let Some(secrets) = message.secrets_mut() else { return false };
    secrets.values_mut().for_each(|value| SECRET.clone_into(value));
    !secrets.is_empty()
}

/// Returns the message in every printed form.
fn printed<M: Name + Debug>(message: &M) -> Vec<String> {
    let mut texts = vec![redact::json(message).to_string(), format!("{message:?}")];
    if CANARY && texts[0].contains("\"\":") {
        texts.push(format!("{:?}", reflect::message(message)));
    }
    texts
}

/// Returns one message of each type with every field set.
fn seeds() -> Vec<Vec<u8>> {
    (0..).zip(&*KINDS).map(|(number, kind)| [vec![number], (kind.example)()].concat()).collect()
}

fn example<M: Name + Default>() -> Vec<u8> {
    let empty = reflect::message(&M::default()).expect("every message has a descriptor");
    example::of(&empty.descriptor(), 0).encode_to_vec()
}

/// Returns the names of all types, for a test.
pub fn names() -> impl Iterator<Item = String> {
    KINDS.iter().map(|kind| (kind.name)())
}

/// Makes messages from their descriptors.
mod example {
    use csi_proto::reflect::prost_reflect::{
        DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
    };

    /// Messages at this depth stay empty, because some types contain themselves.
    const DEPTH_MAX: usize = 4;

    pub(super) fn of(descriptor: &MessageDescriptor, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        for field in descriptor.fields().filter(|_| depth < DEPTH_MAX) {
            message.set_field(&field, value(&field, depth));
        }
        message
    }

    fn value(field: &FieldDescriptor, depth: usize) -> Value {
        if field.is_map() {
            return Value::Map(
                [(MapKey::String("key".to_owned()), Value::String("value".to_owned()))].into(),
            );
        }
        let one = match field.kind() {
            Kind::Message(message) => Value::Message(of(&message, depth + 1)),
            Kind::Enum(values) => Value::EnumNumber(values.values().last().map_or(0, |last| last.number())),
            Kind::Bool => Value::Bool(true),
            Kind::Int32 => Value::I32(1),
            Kind::Int64 => Value::I64(1 << 30),
            _ => Value::String(field.name().to_owned()),
        };
        if field.is_list() { Value::List(vec![one]) } else { one }
    }
}
