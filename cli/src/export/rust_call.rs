//! A call as an expression in Rust.

use std::fmt::Write as _;

use csi_proto::DESCRIPTOR_SET;
use csi_proto::reflect::prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, MapKey, MessageDescriptor, ReflectMessage, Value,
};
use serde::de::DeserializeSeed as _;

use super::camel;
use super::script::is_of_controller;

/// The variable that holds a text, by the field that it is in.
type Variable<'a> = &'a dyn Fn(&str, &str) -> Option<String>;

/// A call of an RPC, by its path, as an expression in Rust that awaits it over `driver` or
/// `controller`; nothing if the request is none of the RPC. Texts for which there is a variable are clones of that.
pub(super) fn awaited(path: &str, request: &serde_json::Value, variable: Variable<'_>) -> Option<String> {
    let pool = DescriptorPool::decode(DESCRIPTOR_SET).ok()?;
    let (service, method) = path.trim_start_matches('/').split_once('/')?;
    let input = pool.get_service_by_name(service)?.methods().find(|other| other.name() == method)?.input();
    let request = input.deserialize(request.clone()).ok()?;
    let service = service.rsplit('.').next()?;
    let (module, method) = (snake(service), snake(method));
    let request = literal(&request, variable, 1);
    let channel = if is_of_controller(service) { "controller" } else { "driver" };
    Some(format!(
        "v1::{module}_client::{service}Client::new({channel}.clone())\n        .{method}({request})\n        .await"
    ))
}

/// A message as it is written in Rust, known ids as variables.
fn literal(message: &DynamicMessage, variable: Variable<'_>, depth: usize) -> String {
    let indent = "    ".repeat(depth + 2);
    let mut text = format!("{} {{\n", path(&message.descriptor()));
    let mut left_out = false;
    let mut oneofs: Vec<String> = Vec::new();
    for field in message.descriptor().fields() {
        if let Some(oneof) = field.containing_oneof() {
            if oneofs.contains(&oneof.name().to_owned()) {
                continue;
            }
            let Some(set) = oneof.fields().find(|field| message.has_field(field)) else { continue };
            let value = value(&message.get_field(&set), &set, variable, depth + 1);
            let parent = module(&message.descriptor());
            let _ = writeln!(
                text,
                "{indent}{}: Some({parent}::{}::{}({value})),",
                identifier(oneof.name()),
                camel(oneof.name(), true),
                camel(set.name(), true)
            );
            oneofs.push(oneof.name().to_owned());
        } else if message.has_field(&field) {
            let value = value(&message.get_field(&field), &field, variable, depth + 1);
            let is_option = field.kind().as_message().is_some() && !field.is_list() && !field.is_map();
            let value = if is_option { format!("Some({value})") } else { value };
            let _ = writeln!(text, "{indent}{}: {value},", identifier(field.name()));
        } else {
            left_out = true;
        }
    }
    if left_out {
        let _ = writeln!(text, "{indent}..Default::default()");
    }
    text + &"    ".repeat(depth + 1) + "}"
}

fn value(value: &Value, field: &FieldDescriptor, variable: Variable<'_>, depth: usize) -> String {
    let inner = |value: &Value| self::value(value, field, variable, depth);
    match value {
        Value::Bool(bit) => bit.to_string(),
        Value::I32(number) => number.to_string(),
        Value::EnumNumber(number) => enumeration(*number, field).unwrap_or_else(|| number.to_string()),
        Value::I64(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        Value::F32(number) => format!("{number:?}"),
        Value::F64(number) => format!("{number:?}"),
        Value::String(text) => match variable(field.name(), text) {
            Some(variable) => format!("{variable}.clone()"),
            None => format!("{text:?}.to_owned()"),
        },
        Value::Bytes(bytes) => format!("vec!{:?}", &bytes[..]),
        Value::Message(message) => literal(message, variable, depth),
        Value::List(values) => format!("vec![{}]", values.iter().map(inner).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            // The entries are sorted, so that equal cases give equal texts.
            let mut pairs: Vec<String> = entries.iter().filter_map(|(key, value)| pair(key, value)).collect();
            pairs.sort();
            format!("[{}].into()", pairs.join(", "))
        }
    }
}

fn enumeration(number: i32, field: &FieldDescriptor) -> Option<String> {
    let kind = field.kind();
    let declared = kind.as_enum()?;
    let outer = declared.parent_message().map_or("v1".to_owned(), |outer| module(&outer));
    let name = declared.get_value(number)?.name().to_ascii_lowercase();
    Some(format!("{outer}::{}::{}.into()", declared.name(), camel(&name, true)))
}

fn pair(key: &MapKey, value: &Value) -> Option<String> {
    match (key, value) {
        (MapKey::String(key), Value::String(value)) => {
            Some(format!("({key:?}.to_owned(), {value:?}.to_owned())"))
        }
        _ => None,
    }
}

/// The module with what is declared inside a message: `v1::volume_capability`.
fn module(message: &MessageDescriptor) -> String {
    let outer = message.parent_message().map_or("v1".to_owned(), |outer| module(&outer));
    format!("{outer}::{}", snake(message.name()))
}

fn path(message: &MessageDescriptor) -> String {
    match message.parent_message() {
        Some(outer) => format!("{}::{}", module(&outer), message.name()),
        None => format!("v1::{}", message.name()),
    }
}

fn identifier(name: &str) -> String {
    if name == "type" { "r#type".to_owned() } else { name.to_owned() }
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}
