//! The JSON report: its schema, and its fields for people.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{check, check_section, described, values};

fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<csi_report::Run>()
}

#[test]
fn the_schema() {
    check("report.schema.json", &format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap()));
}

#[test]
fn the_fields() {
    let schema = schema().to_value();
    let mut text = table("The run", &schema);
    for (name, form) in schema["$defs"].as_object().unwrap() {
        text.push_str(&match form.get("properties") {
            Some(_) => table(name, form),
            None => format!("### {name}\n\n{}\n\n{}\n", described(form), values(form)),
        });
    }
    check_section("report.md", &text);
}

/// The fields of an object.
fn table(name: &str, form: &Value) -> String {
    let mut text =
        format!("### {name}\n\n{}\n\n| field | form | meaning |\n|---|---|---|\n", described(form));
    // A schema whose fields all have defaults has no list of required fields.
    let required = form["required"].as_array().map_or(&[][..], Vec::as_slice);
    for (field, inner) in form["properties"].as_object().unwrap() {
        let optional = if required.iter().any(|name| name == field) { "" } else { ", where there is one" };
        text.push_str(&format!("| `{field}` | {}{optional} | {} |\n", form_of(inner), described(inner)));
    }
    text.push('\n');
    text
}

/// The form of a field in a few words.
fn form_of(form: &Value) -> String {
    if let Some(link) = form["$ref"].as_str() {
        let name = link.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(some) = form["anyOf"].as_array() {
        return form_of(&some[0]);
    }
    let name = match &form["type"] {
        Value::Array(types) => types[0].as_str(),
        one => one.as_str(),
    };
    match name {
        Some("array") => format!("list of {}", form_of(&form["items"])),
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}
