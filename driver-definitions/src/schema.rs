//! The JSON schema of a definition, for editors and for the warnings about unknown keys.

use std::sync::LazyLock;

use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{Schema, schema_for};
use serde_json::{Value, json};

use crate::definition::DriverDefinition;

/// The keys of every Kubernetes object, which a definition may leave out.
pub(crate) const TOLERATED: [&str; 2] = ["apiVersion", "kind"];

/// Returns the schema of a definition, which is committed as `driver-definitions/schema.json`. It is stricter than
/// Kubernetes, so that an editor marks unknown keys.
pub fn schema() -> Schema {
    let mut schema = schema_for!(DriverDefinition);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for key in TOLERATED {
            properties.insert(key.to_owned(), json!({ "type": "string" }));
        }
    }
    let close = |schema: &mut Schema| {
        if schema.get("properties").is_some() {
            schema.insert("additionalProperties".to_owned(), false.into());
        }
    };
    RecursiveTransform(close).transform(&mut schema);
    schema
}

/// The keys of a type, and those below them.
#[derive(Clone, Copy)]
pub(crate) struct Keys(&'static Value);

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema_for!(DriverDefinition).to_value());

impl Keys {
    /// Returns the keys of a definition.
    pub(crate) fn of_definition() -> Keys {
        Keys(&SCHEMA)
    }

    /// Returns the keys of a type with a fixed set of them, and none for any other type.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        self.properties().into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// Returns whether the type has a fixed set of keys.
    pub(crate) fn are_fixed(self) -> bool {
        self.properties().is_some()
    }

    /// Returns the type of a key's value.
    pub(crate) fn below(self, name: &str) -> Option<Keys> {
        let known = self.properties().and_then(|properties| properties.get(name));
        known.or_else(|| self.0.get("additionalProperties")).map(Keys::resolved)
    }

    /// Returns the type of a list's items.
    pub(crate) fn items(self) -> Option<Keys> {
        self.0.get("items").map(Keys::resolved)
    }

    /// Returns every path from here to a key of this name, in any case.
    pub(crate) fn ways_to(self, wanted: &str) -> Vec<String> {
        let mut ways = Vec::new();
        for name in self.names() {
            if name.eq_ignore_ascii_case(wanted) {
                ways.push(name.to_owned());
            }
            let below = self.below(name).map(|below| below.ways_to(wanted)).unwrap_or_default();
            ways.extend(below.into_iter().map(|way| format!("{name}.{way}")));
        }
        ways
    }

    fn properties(self) -> Option<&'static serde_json::Map<String, Value>> {
        self.0.get("properties")?.as_object()
    }

    /// Resolves a reference to a type, even of an optional value.
    fn resolved(schema: &'static Value) -> Keys {
        let choice = schema.get("anyOf").and_then(|choices| choices.get(0)).unwrap_or(schema);
        let reference = choice.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
        Keys(reference.and_then(|path| SCHEMA.pointer(path)).unwrap_or(choice))
    }
}
