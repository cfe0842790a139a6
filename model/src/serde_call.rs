//! Calls in files: `{CreateVolume: {name: v1, …}}`, whichever kind of object they are about.

use std::fmt;

use serde::de::{Deserializer, EnumAccess, Error as _, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::call::{Call, GroupCall, List, SnapshotCall, VolumeCall};

impl Serialize for Call {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Call::Volume(call) => call.serialize(serializer),
            Call::Snapshot(call) => call.serialize(serializer),
            Call::Group(call) => call.serialize(serializer),
            Call::List(list) => serializer.serialize_unit_variant("Call", *list as u32, list.method()),
        }
    }
}

impl<'de> Deserialize<'de> for Call {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Call, D::Error> {
        deserializer.deserialize_enum("Call", &[], Calls)
    }
}

struct Calls;

impl<'de> Visitor<'de> for Calls {
    type Value = Call;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a call, such as {DeleteVolume: {volume: v1}} or ListVolumes")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Call, A::Error> {
        let (name, variant) = access.variant::<String>()?;
        if let Some(list) = List::ALL.into_iter().find(|list| list.method() == name) {
            serde::de::VariantAccess::unit_variant(variant)?;
            return Ok(Call::List(list));
        }
        // Read by way of a value, one code for all formats serves each of the many calls.
        let contents: Value = serde::de::VariantAccess::newtype_variant(variant)?;
        let named = Value::Object([(name.clone(), contents)].into_iter().collect());
        let call = match &name[..] {
            name if VolumeCall::NAMES.contains(&name) => VolumeCall::deserialize(named).map(Call::Volume),
            name if SnapshotCall::NAMES.contains(&name) => {
                SnapshotCall::deserialize(named).map(Call::Snapshot)
            }
            name if GroupCall::NAMES.contains(&name) => GroupCall::deserialize(named).map(Call::Group),
            name => return Err(A::Error::custom(format!("{name:?} is not a call; one is DeleteVolume"))),
        };
        call.map_err(A::Error::custom)
    }
}
