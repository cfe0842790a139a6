//! A request with placeholders for the values that differ from driver to driver and from run to run, so that it can
//! be mutated and stored.

use csi_proto::Rpc;
use csi_proto::reflect::prost_reflect::{DynamicMessage, MapKey, ReflectMessage as _, Value};
use prost::Message as _;

use super::case::Wire;
use super::stage::Stage;

/// The limit on the bytes of one request. A server rejects larger ones without reading them, which one input is
/// enough to show.
pub(crate) const BYTES_MAX: usize = 5 << 20;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) rpc: Rpc,
    /// The message, with placeholders such as `{volume}`.
    pub(crate) message: DynamicMessage,
    /// The changes of its bytes.
    pub(crate) wire: Vec<Wire>,
}

impl Input {
    /// Returns the bytes that are sent on this stage.
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

    /// Returns the message with its placeholders replaced.
    fn filled(&self, stage: &Stage) -> DynamicMessage {
        let mut message = self.message.clone();
        each_text(&mut message, &|text| stage.fill(text), &|key| stage.entries(key));
        message
    }
}

/// Returns the entries that replace a map entry, if its key is a placeholder.
pub(crate) type Entries<'a> = dyn Fn(&str) -> Option<Vec<(String, String)>> + 'a;

/// Rewrites every text of a message, including keys and values of maps. An entry whose key is a placeholder for
/// several entries is replaced by them.
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

pub(crate) fn empty(message: &DynamicMessage) -> DynamicMessage {
    DynamicMessage::new(message.descriptor())
}
