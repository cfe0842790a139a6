//! Shows messages as text without their secrets.
//!
//! The protocol marks secret fields with the `csi_secret` option. All code that prints a message goes through this
//! module, and so does the `Debug` of messages with secrets, so that no log, error or report can show one.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use prost::Message as _;
use prost_reflect::{DynamicMessage, ExtensionDescriptor, FieldDescriptor, Value};

use crate::hidden::{self, STRIPPED};
use crate::reflect::{self, POOL};

static CSI_SECRET: LazyLock<ExtensionDescriptor> =
    LazyLock::new(|| POOL.get_extension_by_name("csi.v1.csi_secret").expect("csi.proto declares csi_secret"));

/// Returns the message as JSON with the field names of csi.proto and without default values. [`STRIPPED`] replaces
/// each secret value, whose key stays, and every text that [`hidden`](crate::hidden) hides.
pub fn json<M: prost::Name>(message: &M) -> serde_json::Value {
    reflect::message(message).map_or(serde_json::Value::Null, dynamic)
}

/// Does what [`json`] does, for a message whose type only its descriptor names.
pub fn dynamic(message: DynamicMessage) -> serde_json::Value {
    let mut json = shown(&stripped(message));
    strip_hidden(&mut json);
    json
}

/// Returns the message with [`STRIPPED`] in place of each secret value.
pub fn stripped(mut message: DynamicMessage) -> DynamicMessage {
    strip(&mut message);
    message
}

/// Strips hidden texts from every field, because a reply may repeat a secret of the request in a field that is not
/// marked as secret.
fn strip_hidden(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::String(text) => {
            if let Cow::Owned(stripped) = hidden::strip(text) {
                *text = stripped;
            }
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(strip_hidden),
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(strip_hidden);
            let names = fields.keys().filter(|name| matches!(hidden::strip(name), Cow::Owned(_)));
            for name in names.cloned().collect::<Vec<_>>() {
                if let Some(value) = fields.remove(&name) {
                    fields.insert(hidden::strip(&name).into_owned(), value);
                }
            }
        }
        _ => {}
    }
}

/// Serialises a message. The JSON form of protobuf rejects times outside the calendar; then the fields are shown as
/// they are.
fn shown(message: &DynamicMessage) -> serde_json::Value {
    let options =
        prost_reflect::SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    let serialized = message.serialize_with_options(serde_json::value::Serializer, &options);
    serialized.unwrap_or_else(|_| {
        message.fields().map(|(field, value)| (field.name().to_owned(), shown_value(value))).collect()
    })
}

fn shown_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Message(message) => shown(message),
        Value::List(values) => values.iter().map(shown_value).collect(),
        Value::String(text) => text.as_str().into(),
        Value::Bool(bit) => (*bit).into(),
        Value::I32(number) | Value::EnumNumber(number) => (*number).into(),
        Value::I64(number) => (*number).into(),
        other => format!("{other:?}").into(),
    }
}

/// Writes a message for `{:?}` as its name and [`json`].
pub fn debug<M: prost::Name>(message: &M, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} {}", M::NAME, json(message))
}

fn strip(message: &mut DynamicMessage) {
    let fields: Vec<FieldDescriptor> = message.fields().map(|(field, _)| field).collect();
    for field in fields {
        let secret = is_secret(&field);
        let value = message.get_field_mut(&field);
        if secret { blank(value) } else { descend(value) }
    }
}

fn is_secret(field: &FieldDescriptor) -> bool {
    matches!(*field.options().get_extension(&CSI_SECRET), Value::Bool(true))
}

/// Strips secrets from the messages inside a value that is not secret itself.
fn descend(value: &mut Value) {
    match value {
        Value::Message(message) => strip(message),
        Value::List(values) => values.iter_mut().for_each(descend),
        Value::Map(entries) => entries.values_mut().for_each(descend),
        _ => {}
    }
}

/// Replaces the contents of a secret value; types that cannot hold the text become empty.
fn blank(value: &mut Value) {
    match value {
        Value::String(text) => *text = STRIPPED.to_owned(),
        Value::Map(entries) => entries.values_mut().for_each(blank),
        Value::List(values) => values.iter_mut().for_each(blank),
        Value::Message(message) => message.clear(),
        Value::Bytes(bytes) => bytes.clear(),
        Value::Bool(bit) => *bit = false,
        Value::I32(n) => *n = 0,
        Value::I64(n) => *n = 0,
        Value::U32(n) => *n = 0,
        Value::U64(n) => *n = 0,
        Value::F32(n) => *n = 0.0,
        Value::F64(n) => *n = 0.0,
        Value::EnumNumber(n) => *n = 0,
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;
    use crate::v1;

    #[test]
    fn a_secret_never_shows_and_the_rest_does() {
        let request = v1::CreateVolumeRequest {
            name: "data".into(),
            secrets: [("password".into(), "hunter2".into())].into(),
            parameters: [("tier".into(), "gold".into())].into(),
            ..Default::default()
        };
        let text = json(&request).to_string();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains(r#""password":"***stripped***""#), "{text}");
        assert!(text.contains(r#""tier":"gold""#), "{text}");
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn a_hidden_text_does_not_show_in_any_field() {
        hidden::hide("hunter2-of-the-hidden");
        let volume = v1::Volume {
            volume_id: "id of hunter2-of-the-hidden".into(),
            volume_context: [("hunter2-of-the-hidden".into(), "aHVudGVyMi1vZi10aGUtaGlkZGVu".into())].into(),
            ..Default::default()
        };
        let text = json(&v1::CreateVolumeResponse { volume: Some(volume) }).to_string();
        assert_eq!(
            text,
            r#"{"volume":{"volume_context":{"***stripped***":"***stripped***"},"volume_id":"id of ***stripped***"}}"#
        );
    }

    #[test]
    fn a_time_that_no_calendar_has_hides_nothing() {
        let time = prost_types::Timestamp { seconds: i64::MAX, nanos: -1 };
        let snapshot = |creation_time| v1::Snapshot {
            snapshot_id: "a".into(),
            size_bytes: 5,
            creation_time: Some(creation_time),
            ..Default::default()
        };
        let text = json(&v1::CreateSnapshotResponse { snapshot: Some(snapshot(time)) }).to_string();
        assert!(text.contains(r#""creation_time":{"nanos":-1,"seconds":9223372036854775807}"#), "{text}");
        assert!(text.contains(r#""snapshot_id":"a""#) && text.contains(r#""size_bytes":5"#), "{text}");
        let text = json(&snapshot(prost_types::Timestamp::default())).to_string();
        assert!(text.contains(r#""creation_time":"1970-01-01T00:00:00Z""#), "{text}");
    }

    /// A protobuf file with secrets in places where csi.proto has none so far: nested, in lists, in maps, and of
    /// other types.
    const OTHER_FILE: &str = r#"{
        "name": "other.proto", "package": "other", "syntax": "proto3", "dependency": ["csi.proto"],
        "messageType": [{
            "name": "Inner",
            "field": [
                {"name": "open", "number": 1, "type": "TYPE_STRING", "label": "LABEL_OPTIONAL"},
                {"name": "token", "number": 2, "type": "TYPE_STRING", "label": "LABEL_OPTIONAL",
                 "options": {"[csi.v1.csi_secret]": true}},
                {"name": "pin", "number": 3, "type": "TYPE_INT64", "label": "LABEL_OPTIONAL",
                 "options": {"[csi.v1.csi_secret]": true}},
                {"name": "keys", "number": 4, "type": "TYPE_BYTES", "label": "LABEL_REPEATED",
                 "options": {"[csi.v1.csi_secret]": true}}
            ]
        }, {
            "name": "Outer",
            "field": [
                {"name": "one", "number": 1, "type": "TYPE_MESSAGE", "typeName": ".other.Inner", "label": "LABEL_OPTIONAL"},
                {"name": "many", "number": 2, "type": "TYPE_MESSAGE", "typeName": ".other.Inner", "label": "LABEL_REPEATED"},
                {"name": "named", "number": 3, "type": "TYPE_MESSAGE", "typeName": ".other.Outer.NamedEntry",
                 "label": "LABEL_REPEATED"},
                {"name": "whole", "number": 4, "type": "TYPE_MESSAGE", "typeName": ".other.Inner", "label": "LABEL_OPTIONAL",
                 "options": {"[csi.v1.csi_secret]": true}}
            ],
            "nestedType": [{
                "name": "NamedEntry", "options": {"mapEntry": true},
                "field": [
                    {"name": "key", "number": 1, "type": "TYPE_STRING", "label": "LABEL_OPTIONAL"},
                    {"name": "value", "number": 2, "type": "TYPE_MESSAGE", "typeName": ".other.Inner", "label": "LABEL_OPTIONAL"}
                ]
            }]
        }]
    }"#;

    fn from_json(pool: &DescriptorPool, name: &str, json: &str) -> DynamicMessage {
        let descriptor = pool.get_message_by_name(name).expect("a known message");
        let mut json = serde_json::Deserializer::from_str(json);
        DynamicMessage::deserialize(descriptor, &mut json).expect("it fits the message")
    }

    #[test]
    fn secrets_go_from_nested_messages_lists_and_maps() {
        let mut pool = POOL.clone();
        let file = from_json(&pool, "google.protobuf.FileDescriptorProto", OTHER_FILE);
        pool.decode_file_descriptor_proto(file.encode_to_vec().as_slice()).expect("a valid file");
        // `aHVudGVyMg==` is `hunter2` in base64.
        let inner = r#"{"open": "seen", "token": "hunter2", "pin": "68756", "keys": ["aHVudGVyMg=="]}"#;
        let outer = format!(
            r#"{{"one": {inner}, "many": [{inner}], "named": {{"key": {inner}}}, "whole": {inner}}}"#
        );
        let mut message = from_json(&pool, "other.Outer", &outer);
        let before = serde_json::to_string(&message).expect("it serialises");
        assert_eq!(before.matches("hunter2").count(), 4);

        strip(&mut message);
        let text = serde_json::to_string(&message).expect("it serialises");
        for secret in ["hunter2", "68756", "aHVudGVyMg"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(text.matches("seen").count(), 3, "{text}");
        assert_eq!(text.matches(STRIPPED).count(), 3, "{text}");
    }
}
