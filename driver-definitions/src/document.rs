//! A YAML or JSON document as Kubernetes reads it, with the place of each value in the file.
//!
//! Kubernetes converts YAML to JSON and then reads JSON into its types: a number is no string, a quoted `"true"` is
//! no boolean, and null leaves a field unchanged. [`Node`] does that as well, and keeps the place of each value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    self, Deserialize, DeserializeOwned, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};

/// Limits the nesting. Definitions and classes need six levels, and each level takes tens of kilobytes of stack.
const DEPTH_MAX: usize = 16;
/// Limits the values, including those that aliases repeat.
const NODES_MAX: usize = 100_000;
/// Limits the wrong values that are reported, because each costs another pass over the document.
const ERRORS_MAX: usize = 20;

/// A place in a file. Lines and columns start at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the line.
    pub line: u64,
    /// The number of the character in the line.
    pub column: u64,
}

impl From<Location> for Position {
    fn from(location: Location) -> Position {
        Position { line: location.line(), column: location.column() }
    }
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Position,
    pub(crate) value: Value,
}

/// A JSON value. Maps keep the order and the duplicate keys of the file.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) place: Position,
    pub(crate) name: String,
}

/// An error, with its place if that is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DocumentError {
    pub(crate) place: Option<Position>,
    pub(crate) message: String,
}

/// The first document of a text, and the place of a second one.
pub(crate) struct Documents {
    pub(crate) first: Node,
    pub(crate) second: Option<Position>,
}

impl Documents {
    /// Reads YAML or JSON. The library limits the nesting and the expansion of aliases.
    pub(crate) fn read(text: &str) -> Result<Documents, DocumentError> {
        let mut bytes = text.as_bytes();
        let mut documents = serde_saphyr::read_with_options::<_, Node>(&mut bytes, options());
        let empty = || DocumentError { place: None, message: "the file is empty".to_owned() };
        let first = documents.next().ok_or_else(empty)?.map_err(|error| DocumentError::of_yaml(&error))?;
        let second = documents.next().and_then(|next| match next {
            Ok(node) => Some(node.place),
            // The second document is not used, so it may have errors.
            Err(error) => error.location().map(Position::from),
        });
        Ok(Documents { first, second })
    }

    /// Reads each document of a text.
    pub(crate) fn all(text: &str) -> Result<Vec<Node>, DocumentError> {
        let mut bytes = text.as_bytes();
        let documents = serde_saphyr::read_with_options::<_, Node>(&mut bytes, options());
        documents.map(|document| document.map_err(|error| DocumentError::of_yaml(&error))).collect()
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX, max_nodes: NODES_MAX },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: NODES_MAX },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

impl DocumentError {
    fn of_yaml(error: &serde_saphyr::Error) -> DocumentError {
        let place = error.location().map(Position::from);
        let message = error.render();
        // The message leaves the place out, because the caller shows it.
        let suffix = place.map(|Position { line, column }| format!(" at line {line}, column {column}"));
        let message =
            suffix.and_then(|suffix| message.strip_suffix(&suffix).map(str::to_owned)).unwrap_or(message);
        DocumentError { place, message }
    }

    /// Adds the keys that lead to the place in the document.
    fn below(mut self, root: &Node) -> DocumentError {
        let keys = self.place.and_then(|place| root.keys_to(place)).unwrap_or_default();
        if !keys.is_empty() {
            self.message = format!("{}: {}", keys.join("."), self.message);
        }
        self
    }

    fn at(mut self, place: Position) -> DocumentError {
        self.place.get_or_insert(place);
        self
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DocumentError {}

impl de::Error for DocumentError {
    fn custom<T: fmt::Display>(message: T) -> DocumentError {
        DocumentError { place: None, message: message.to_string() }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::deserialize(deserializer)?;
        Ok(Node { place: referenced.into(), value })
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        let Node { place, value } = Node::deserialize(deserializer)?;
        // All keys in JSON are strings, so Kubernetes converts others to strings.
        let name = match value {
            Value::Text(text) => text,
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Null => "null".to_owned(),
            Value::List(_) | Value::Map(_) => {
                return Err(de::Error::custom(
                    "a key has to be a string; is this a template that was not filled in?",
                ));
            }
        };
        Ok(Key { place, name })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

impl Node {
    /// Returns the value of a key in a map; the last one counts if the key is repeated.
    pub(crate) fn get(&self, name: &str) -> Option<(&Key, &Node)> {
        let Value::Map(map) = &self.value else { return None };
        map.iter().rev().find(|(key, _)| key.name == name).map(|(key, node)| (key, node))
    }

    /// Returns the value at a path of keys, with its own key.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<(&Key, &Node)> {
        let (first, rest) = keys.split_first()?;
        let found = self.get(first)?;
        if rest.is_empty() { Some(found) } else { found.1.at(rest) }
    }

    /// Returns the keys that lead to the value at a place.
    pub(crate) fn keys_to(&self, place: Position) -> Option<Vec<&str>> {
        if self.place == place {
            return Some(Vec::new());
        }
        match &self.value {
            Value::Map(map) => map.iter().find_map(|(key, node)| {
                let mut keys = node.keys_to(place)?;
                keys.insert(0, &key.name);
                Some(keys)
            }),
            Value::List(list) => list.iter().find_map(|node| node.keys_to(place)),
            _ => None,
        }
    }

    /// Removes the value at a place with its key, and the aliases of it, which have that place as well. Returns
    /// whether it removed a value.
    fn remove(&mut self, place: Position) -> bool {
        let mut removed = false;
        let mut stays = |node: &mut Node| {
            let is_there = node.place == place;
            removed |= is_there || node.remove(place);
            !is_there
        };
        match &mut self.value {
            Value::Map(map) => map.retain_mut(|(_, node)| stays(node)),
            Value::List(list) => list.retain_mut(stays),
            _ => {}
        }
        removed
    }

    /// Reads a type. A wrong value is removed before the next try, to find further errors; the errors are in the
    /// order in which they were found.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Vec<DocumentError>> {
        let mut errors = Vec::new();
        let mut rest = Cow::Borrowed(self);
        loop {
            let error = match T::deserialize(&*rest) {
                Ok(read) if errors.is_empty() => return Ok(read),
                Ok(_) => return Err(errors),
                Err(error) => error,
            };
            let place = error.place;
            errors.push(error.below(self));
            let is_removed = place.is_some_and(|place| rest.to_mut().remove(place));
            if !is_removed || errors.len() == ERRORS_MAX {
                return Err(errors);
            }
        }
    }

    /// Returns an error unless the value has the wanted type.
    fn expect(&self, fits: bool, wanted: &str) -> Result<&Node, DocumentError> {
        let message = || format!("expected {wanted}, got {}", self.kind());
        if fits { Ok(self) } else { Err(DocumentError { place: Some(self.place), message: message() }) }
    }

    fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(..0) => "a negative number",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Reads a string with a function, whose errors get the place of the string.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    struct Parse<T, E>(fn(&str) -> Result<T, E>);

    impl<T, E: fmt::Display> Visitor<'_> for Parse<T, E> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<F: de::Error>(self, text: &str) -> Result<T, F> {
            self.0(text).map_err(F::custom)
        }
    }

    deserializer.deserialize_str(Parse(parse))
}

/// Returns the entries of a map; the last one counts if a key is repeated.
fn last_of_each(map: &[(Key, Node)]) -> BTreeMap<&str, &Node> {
    map.iter().map(|(key, node)| (key.name.as_str(), node)).collect()
}

impl<'de> IntoDeserializer<'de, DocumentError> for &'de Node {
    type Deserializer = &'de Node;

    fn into_deserializer(self) -> &'de Node {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = DocumentError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            // Most visitors do not accept 128 bits, and such values are out of range here anyway.
            Value::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (_, Ok(value)) => visitor.visit_i64(value),
                _ => visitor.visit_i128(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(list) => visitor.visit_seq(SeqDeserializer::new(list.iter())),
            Value::Map(map) => visitor.visit_map(MapDeserializer::new(last_of_each(map).into_iter())),
        }
        .map_err(|fault: DocumentError| fault.at(self.place))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        self.expect(matches!(self.value, Value::Bool(_)), "true or false")?.deserialize_any(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        let fits = matches!(self.value, Value::Integer(0..));
        self.expect(fits, "a whole number of 0 or more")?.deserialize_any(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        let fits = matches!(self.value, Value::Integer(_) | Value::Float(_));
        self.expect(fits, "a number")?.deserialize_any(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        self.expect(matches!(self.value, Value::Text(_)), "a string in quotes")?.deserialize_any(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        self.expect(matches!(self.value, Value::List(_)), "a list")?.deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        self.expect(matches!(self.value, Value::Map(_)), "a map")?.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DocumentError> {
        let Value::Map(map) = &self.value else { return self.deserialize_map(visitor) };
        let mut given = last_of_each(map);
        given.retain(|_, node| !matches!(node.value, Value::Null));
        visitor
            .visit_map(MapDeserializer::new(given.into_iter()))
            .map_err(|fault: DocumentError| fault.at(self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DocumentError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DocumentError> {
        let Value::Text(name) = &self.value else { return self.deserialize_str(visitor) };
        visitor
            .visit_enum(name.as_str().into_deserializer())
            .map_err(|fault: DocumentError| fault.at(self.place))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DocumentError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}
