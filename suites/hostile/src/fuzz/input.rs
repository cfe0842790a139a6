//! A request as it is made up, mutated and stored: with marks in place of what differs from driver to driver and from run to
//! run, so that it means the same everywhere.

use csi_proto::Rpc;
use csi_proto::reflect::prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value};
use prost::Message as _;

use super::stage::Stage;

/// Bytes of one request at the most; more than that a server refuses unseen, which one input is enough to show.
pub(crate) const BYTES_MAX: usize = 5 << 20;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) rpc: Rpc,
    /// What it says, with marks such as `{volume}`.
    pub(crate) message: DynamicMessage,
    /// What is done to its bytes.
    pub(crate) wire: Vec<Wire>,
}

/// Something that only bytes can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// These come behind it: unknown fields, broken text, another value for a field.
    Append(Vec<u8>),
    /// So many are missing at the end.
    Cut(usize),
    /// The whole comes twice, which protobuf takes for one message.
    Twice,
}

impl Input {
    /// The bytes that are sent where these things are there.
    pub(crate) fn bytes(&self, stage: &Stage) -> Vec<u8> {
        let mut bytes = self.filled(stage).encode_to_vec();
        for wire in &self.wire {
            match wire {
                Wire::Append(more) => bytes.extend(more),
                Wire::Cut(missing) => bytes.truncate(bytes.len().saturating_sub(*missing)),
                Wire::Twice => bytes.extend_from_within(..),
            }
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    /// The message with what the marks stand for.
    fn filled(&self, stage: &Stage) -> DynamicMessage {
        let mut message = self.message.clone();
        each_text(&mut message, &|text| stage.fill(text), &|key| stage.entries(key));
        message
    }
}

/// The entries that stand behind the key of a map, if it is a mark.
pub(crate) type Entries<'a> = dyn Fn(&str) -> Option<Vec<(String, String)>> + 'a;

/// Rewrites every text of a message, keys and values of maps included. An entry whose key stands for several is replaced by
/// them.
pub(crate) fn each_text(
    message: &mut DynamicMessage,
    text: &dyn Fn(&str) -> Option<String>,
    entries: &Entries<'_>,
) {
    let fields: Vec<_> = message.fields().map(|(field, _)| field).collect();
    for field in fields {
        rewrite(message.get_field_mut(&field), text, entries);
    }
}

fn rewrite(value: &mut Value, text: &dyn Fn(&str) -> Option<String>, entries: &Entries<'_>) {
    match value {
        Value::String(old) => {
            if let Some(new) = text(old) {
                *old = new;
            }
        }
        Value::Message(message) => each_text(message, text, entries),
        Value::List(items) => items.iter_mut().for_each(|item| rewrite(item, text, entries)),
        Value::Map(map) => {
            let before = std::mem::take(map);
            for (key, mut value) in before {
                if let Some(several) = key.as_str().and_then(entries) {
                    let several = several.into_iter();
                    map.extend(several.map(|(key, value)| (MapKey::String(key), Value::String(value))));
                    continue;
                }
                let new = key.as_str().and_then(text).map(MapKey::String);
                rewrite(&mut value, text, entries);
                map.insert(new.unwrap_or(key), value);
            }
        }
        _ => {}
    }
}

/// A message with nothing in it.
pub(crate) fn empty(message: &DynamicMessage) -> DynamicMessage {
    DynamicMessage::new(message.descriptor())
}
