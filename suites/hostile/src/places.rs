//! Where texts are in a request: found by the descriptors of the protocol, so that no field is forgotten.

use std::fmt;

use csi_proto::reflect::prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as FieldKind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

/// What a text is to a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The name that the caller has for a thing.
    Name,
    /// The id that a driver has for a thing, or a node.
    Id,
    /// A path on the node.
    Path,
    /// A parameter of a StorageClass or its siblings.
    Parameter,
    /// volume_context and publish_context, which come from the driver.
    Context,
    /// A value of a secret.
    Secret,
    /// A token of a list.
    Token,
    /// fs_type.
    FileSystem,
    /// A flag for mount.
    MountFlag,
    /// Everything else.
    Other,
}

/// One text of a request.
#[derive(Clone, Debug)]
pub struct Place {
    steps: Vec<Step>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Step {
    Field(FieldDescriptor),
    Item(usize),
    Key(String),
    /// The key itself, of an entry that comes to the others.
    NewKey,
}

impl Place {
    /// What the text there is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Every text of the message: those it has, and those it could have beside them. To maps that are open to any key an
    /// entry comes for each of the keys.
    pub fn all(message: &DynamicMessage, keys: &[&str]) -> Vec<Place> {
        let mut found = Vec::new();
        collect(message, &[], keys, &mut found);
        found
    }

    /// The keys that maps of the message could have beside theirs.
    pub fn of_keys(message: &DynamicMessage) -> Vec<Place> {
        let descriptor = message.descriptor();
        let place = |field: FieldDescriptor| {
            let kind = Kind::of(&field);
            Place { steps: vec![Step::Field(field), Step::NewKey], kind }
        };
        descriptor.fields().filter(is_text_map).map(place).collect()
    }

    /// Writes a text there.
    pub fn write(&self, message: &mut DynamicMessage, text: &str) {
        let Some((Step::Field(first), rest)) = self.steps.split_first() else { return };
        put(message.get_field_mut(first), rest, text);
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Field(field) if at == 0 => f.write_str(field.name())?,
                Step::Field(field) => write!(f, ".{}", field.name())?,
                Step::Item(item) => write!(f, "[{item}]")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::NewKey => f.write_str(", a key of it,")?,
            }
        }
        Ok(())
    }
}

fn collect(message: &DynamicMessage, above: &[Step], keys: &[&str], found: &mut Vec<Place>) {
    for field in message.descriptor().fields() {
        let here = [above, &[Step::Field(field.clone())]].concat();
        let below = |step: Step| [&here[..], &[step]].concat();
        let kind = Kind::of(&field);
        let value = message.get_field(&field);
        match (&*value, field.kind()) {
            (Value::Map(entries), _) if is_text_map(&field) => {
                let own = entries.keys().filter_map(|key| key.as_str());
                let keys = own.chain(keys.iter().copied());
                found.extend(keys.map(|key| Place { steps: below(Step::Key(key.to_owned())), kind }));
            }
            (Value::List(items), FieldKind::String) => {
                // One that is there, or the first one.
                let last = items.len().saturating_sub(1);
                found.push(Place { steps: below(Step::Item(last)), kind });
            }
            (Value::List(items), FieldKind::Message(_)) => {
                for (at, item) in items.iter().enumerate() {
                    if let Value::Message(item) = item {
                        collect(item, &below(Step::Item(at)), keys, found);
                    }
                }
            }
            (Value::Message(inner), _) if message.has_field(&field) => collect(inner, &here, keys, found),
            (Value::String(_), _) => found.push(Place { steps: here, kind }),
            _ => {}
        }
    }
}

/// Whether the field is a map of texts.
pub(crate) fn is_text_map(field: &FieldDescriptor) -> bool {
    let entry = field.kind();
    let of_texts = |entry: &MessageDescriptor| entry.map_entry_value_field().kind() == FieldKind::String;
    field.is_map() && entry.as_message().is_some_and(of_texts)
}

fn put(value: &mut Value, steps: &[Step], text: &str) {
    match (value, steps) {
        (value, []) => *value = Value::String(text.to_owned()),
        (Value::Message(message), [Step::Field(field), rest @ ..]) => {
            put(message.get_field_mut(field), rest, text);
        }
        (Value::List(items), [Step::Item(at), rest @ ..]) => {
            if items.is_empty() {
                items.push(Value::String(String::new()));
            }
            if let Some(item) = items.get_mut(*at) {
                put(item, rest, text);
            }
        }
        (Value::Map(entries), [Step::Key(key), rest @ ..]) => {
            let entry = entries.entry(MapKey::String(key.clone()));
            put(entry.or_insert_with(|| Value::String(String::new())), rest, text);
        }
        (Value::Map(entries), [Step::NewKey]) => {
            entries.insert(MapKey::String(text.to_owned()), Value::String("a".to_owned()));
        }
        _ => {}
    }
}

impl Kind {
    /// All but paths: what a driver is told to make somewhere it makes there, wherever that is.
    pub const ALL_BUT_PATHS: &[Kind] = &[
        Kind::Name,
        Kind::Id,
        Kind::Parameter,
        Kind::Context,
        Kind::Secret,
        Kind::Token,
        Kind::FileSystem,
        Kind::MountFlag,
        Kind::Other,
    ];

    /// What the texts of a field are.
    pub fn of(field: &FieldDescriptor) -> Kind {
        match field.name() {
            "name" => Kind::Name,
            "fs_type" => Kind::FileSystem,
            "mount_flags" => Kind::MountFlag,
            "starting_token" => Kind::Token,
            "secrets" => Kind::Secret,
            "parameters" | "mutable_parameters" => Kind::Parameter,
            "volume_context" | "publish_context" => Kind::Context,
            name if name.ends_with("path") => Kind::Path,
            name if name.ends_with("_id") || name.ends_with("_ids") => Kind::Id,
            _ => Kind::Other,
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
        let found: Vec<String> = Place::all(&request(), &["path"]).iter().map(Place::to_string).collect();
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
        let keys = Place::of_keys(&request());
        assert_eq!(keys.len(), 3, "parameters, secrets and mutable_parameters");
        for place in Place::all(&request(), &["path"]).into_iter().chain(keys) {
            let mut written = request();
            place.write(&mut written, "MARKER");
            let text = format!("{written:?}");
            assert_eq!(text.matches("MARKER").count(), 1, "{place}: {text}");
        }
    }
}
