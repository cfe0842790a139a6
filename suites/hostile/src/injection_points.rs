//! Finds the texts of a request through the descriptors of the protocol, so that no field is forgotten.

use std::fmt;

use csi_proto::reflect::prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as FieldKind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

/// The role of a text for a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRole {
    /// The caller's name of an object.
    Name,
    /// The driver's id of an object or a node.
    Id,
    Path,
    /// A parameter of a StorageClass or a similar class.
    Parameter,
    /// volume_context and publish_context, which come from the driver.
    Context,
    Secret,
    Token,
    FileSystem,
    MountFlag,
    Other,
}

/// The place of a text in a request.
#[derive(Clone, Debug)]
pub struct InjectionPoint {
    steps: Vec<PathStep>,
    kind: TextRole,
}

#[derive(Clone, Debug)]
enum PathStep {
    Field(FieldDescriptor),
    Item(usize),
    Key(String),
    /// The key of an additional entry.
    NewKey,
}

impl InjectionPoint {
    pub fn kind(&self) -> TextRole {
        self.kind
    }

    /// Returns the places of all texts: those that the message has, and those that it could have. For each of the
    /// keys, an entry is added to every map that accepts any key.
    pub fn all(message: &DynamicMessage, keys: &[&str]) -> Vec<InjectionPoint> {
        let mut found = Vec::new();
        collect(message, &[], keys, &mut found);
        found
    }

    /// Returns the places of additional keys in the maps of a message.
    pub fn of_keys(message: &DynamicMessage) -> Vec<InjectionPoint> {
        let descriptor = message.descriptor();
        let place = |field: FieldDescriptor| {
            let kind = TextRole::of(&field);
            InjectionPoint { steps: vec![PathStep::Field(field), PathStep::NewKey], kind }
        };
        descriptor.fields().filter(is_text_map).map(place).collect()
    }

    pub fn write(&self, message: &mut DynamicMessage, text: &str) {
        let Some((PathStep::Field(first), rest)) = self.steps.split_first() else { return };
        put(message.get_field_mut(first), rest, text);
    }
}

impl fmt::Display for InjectionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                PathStep::Field(field) if at == 0 => f.write_str(field.name())?,
                PathStep::Field(field) => write!(f, ".{}", field.name())?,
                PathStep::Item(item) => write!(f, "[{item}]")?,
                PathStep::Key(key) => write!(f, "[{key:?}]")?,
                PathStep::NewKey => f.write_str(", a key of it,")?,
            }
        }
        Ok(())
    }
}

fn collect(message: &DynamicMessage, above: &[PathStep], keys: &[&str], found: &mut Vec<InjectionPoint>) {
    for field in message.descriptor().fields() {
        let here = [above, &[PathStep::Field(field.clone())]].concat();
        let below = |step: PathStep| [&here[..], &[step]].concat();
        let kind = TextRole::of(&field);
        let value = message.get_field(&field);
        match (&*value, field.kind()) {
            (Value::Map(entries), _) if is_text_map(&field) => {
                let own = entries.keys().filter_map(|key| key.as_str());
                let keys = own.chain(keys.iter().copied());
                found.extend(
                    keys.map(|key| InjectionPoint { steps: below(PathStep::Key(key.to_owned())), kind }),
                );
            }
            (Value::List(items), FieldKind::String) => {
                // The last item is replaced, or the first one is added.
                let last = items.len().saturating_sub(1);
                found.push(InjectionPoint { steps: below(PathStep::Item(last)), kind });
            }
            (Value::List(items), FieldKind::Message(_)) => {
                for (at, item) in items.iter().enumerate() {
                    if let Value::Message(item) = item {
                        collect(item, &below(PathStep::Item(at)), keys, found);
                    }
                }
            }
            (Value::Message(inner), _) if message.has_field(&field) => collect(inner, &here, keys, found),
            (Value::String(_), _) => found.push(InjectionPoint { steps: here, kind }),
            _ => {}
        }
    }
}

pub(crate) fn is_text_map(field: &FieldDescriptor) -> bool {
    let entry = field.kind();
    let of_texts = |entry: &MessageDescriptor| entry.map_entry_value_field().kind() == FieldKind::String;
    field.is_map() && entry.as_message().is_some_and(of_texts)
}

fn put(value: &mut Value, steps: &[PathStep], text: &str) {
    match (value, steps) {
        (value, []) => *value = Value::String(text.to_owned()),
        (Value::Message(message), [PathStep::Field(field), rest @ ..]) => {
            put(message.get_field_mut(field), rest, text);
        }
        (Value::List(items), [PathStep::Item(at), rest @ ..]) => {
            if items.is_empty() {
                items.push(Value::String(String::new()));
            }
            if let Some(item) = items.get_mut(*at) {
                put(item, rest, text);
            }
        }
        (Value::Map(entries), [PathStep::Key(key), rest @ ..]) => {
            let entry = entries.entry(MapKey::String(key.clone()));
            put(entry.or_insert_with(|| Value::String(String::new())), rest, text);
        }
        (Value::Map(entries), [PathStep::NewKey]) => {
            entries.insert(MapKey::String(text.to_owned()), Value::String("a".to_owned()));
        }
        _ => {}
    }
}

impl TextRole {
    /// All roles except paths: the driver has to make files at any path that the caller names.
    pub const ALL_BUT_PATHS: &[TextRole] = &[
        TextRole::Name,
        TextRole::Id,
        TextRole::Parameter,
        TextRole::Context,
        TextRole::Secret,
        TextRole::Token,
        TextRole::FileSystem,
        TextRole::MountFlag,
        TextRole::Other,
    ];

    pub fn of(field: &FieldDescriptor) -> TextRole {
        match field.name() {
            "name" => TextRole::Name,
            "fs_type" => TextRole::FileSystem,
            "mount_flags" => TextRole::MountFlag,
            "starting_token" => TextRole::Token,
            "secrets" => TextRole::Secret,
            "parameters" | "mutable_parameters" => TextRole::Parameter,
            "volume_context" | "publish_context" => TextRole::Context,
            name if name.ends_with("path") => TextRole::Path,
            name if name.ends_with("_id") || name.ends_with("_ids") => TextRole::Id,
            _ => TextRole::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use csi_harness::prelude::v1;
    use csi_proto::reflect;

    use super::*;

    fn request() -> DynamicMessage {
        let request = v1::CreateVolumeRequest {
            name: "a".to_owned(),
            volume_capabilities: vec![v1::VolumeCapability {
                access_type: Some(v1::volume_capability::AccessType::Mount(Default::default())),
                ..Default::default()
            }],
            parameters: [("tier".to_owned(), "gold".to_owned())].into(),
            ..Default::default()
        };
        reflect::message(&request).unwrap()
    }

    #[test]
    fn every_text_is_found() {
        let found: Vec<String> =
            InjectionPoint::all(&request(), &["path"]).iter().map(InjectionPoint::to_string).collect();
        assert_eq!(
            found,
            [
                "name",
                "volume_capabilities[0].mount.fs_type",
                "volume_capabilities[0].mount.mount_flags[0]",
                "volume_capabilities[0].mount.volume_mount_group",
                "parameters[\"tier\"]",
                "parameters[\"path\"]",
                "secrets[\"path\"]",
                "mutable_parameters[\"path\"]",
            ]
        );
    }

    #[test]
    fn what_is_written_is_in_the_message() {
        let keys = InjectionPoint::of_keys(&request());
        assert_eq!(keys.len(), 3, "parameters, secrets and mutable_parameters");
        for place in InjectionPoint::all(&request(), &["path"]).into_iter().chain(keys) {
            let mut written = request();
            place.write(&mut written, "MARKER");
            let text = format!("{written:?}");
            assert_eq!(text.matches("MARKER").count(), 1, "{place}: {text}");
        }
    }
}
