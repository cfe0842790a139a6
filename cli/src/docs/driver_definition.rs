//! docs/driver-definition.md and the JSON schema: what a definition can say.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;

use super::{check, check_section, described, values};

fn schema() -> Value {
    csi_driver_definitions::schema().to_value()
}

#[test]
fn the_schema_of_a_driver_definition() {
    let text = serde_json::to_string_pretty(&schema()).unwrap();
    check("../driver-definitions/schema.json", &format!("{text}\n"));
}

#[test]
fn the_fields_of_a_driver_definition() {
    let schema = schema();
    let mut text = section("The file", &schema);
    let mut listed: Vec<&str> = Vec::new();
    let mut next: VecDeque<&str> = types_below(&schema).collect();
    while let Some(name) = next.pop_front() {
        if !listed.contains(&name) {
            listed.push(name);
            let here = &schema["$defs"][name];
            text.push_str(&section(name, here));
            next.extend(types_below(here));
        }
    }
    check_section("driver-definition.md", &text);
}

/// A type with a line for each of its keys, or of its values.
fn section(name: &str, schema: &Value) -> String {
    let mut text = format!("### {name}\n\n{}\n\n", schema["description"].as_str().unwrap());
    if schema["oneOf"].is_array() {
        text.push_str(&values(schema));
    }
    if let Some(keys) = schema["properties"].as_object() {
        text.push_str("| key | value | meaning |\n|---|---|---|\n");
        for (key, value) in keys.iter().filter(|(_, value)| value["description"].is_string()) {
            let default = match &value["default"] {
                Value::String(default) if !default.is_empty() => format!(" Default: `{default}`."),
                _ => String::new(),
            };
            writeln!(text, "| `{key}` | {} | {}{default} |", kind(value), described(value)).unwrap();
        }
    }
    text.push('\n');
    text
}

/// The types that the keys of a type have, where they have sections of their own.
fn types_below(schema: &Value) -> impl Iterator<Item = &str> {
    let keys = schema["properties"].as_object().into_iter().flatten();
    keys.filter_map(|(_, value)| reference(value).or_else(|| reference(&value["items"])))
}

/// The name of the type that is referred to, which is also the one of a value that may be left out.
fn reference(schema: &Value) -> Option<&str> {
    let choice = schema["anyOf"].get(0).unwrap_or(schema);
    choice["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Describes the value of a key.
fn kind(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    match schema["type"].as_str().unwrap() {
        "boolean" => "true or false".to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => format!("list: {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"]["type"] == "string" => "map of strings".to_owned(),
        "object" => "set: a map of `{}`".to_owned(),
        other => other.to_owned(),
    }
}
