//! csi.proto against the table of wire facts: both are written as sets of sentences, which have to be equal.

use std::collections::BTreeSet;

use csi_proto::DESCRIPTOR_SET;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    Value,
};
use serde::Deserialize;

const PACKAGE: &str = "csi.v1";

/// The table; `since` and `ga_since` are history, which no descriptor holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    syntax: String,
    package: String,
    go_package: String,
    imports: Vec<String>,
    counts: Counts,
    custom_options: Vec<CustomOption>,
    services: Vec<Service>,
    enums: Vec<Enum>,
    messages: Vec<Message>,
    csi_secret_fields: BTreeSet<String>,
    alpha: Alpha,
    deprecated: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    services: usize,
    rpcs: usize,
    messages: usize,
    fields: usize,
    enums: usize,
    enum_values: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomOption {
    name: String,
    extends: String,
    number: u32,
    r#type: String,
}

#[derive(Deserialize)]
struct Service {
    name: String,
    #[serde(default)]
    alpha: bool,
    rpcs: Vec<Rpc>,
}

#[derive(Deserialize)]
struct Rpc {
    name: String,
    request: String,
    response: String,
    streaming: String,
    #[serde(default)]
    alpha: bool,
}

#[derive(Deserialize)]
struct Enum {
    name: String,
    values: Vec<EnumValue>,
}

#[derive(Deserialize)]
struct EnumValue {
    name: String,
    number: i32,
    #[serde(default)]
    alpha: bool,
}

#[derive(Deserialize)]
struct Message {
    name: String,
    #[serde(default)]
    alpha: bool,
    #[serde(default)]
    oneofs: Vec<String>,
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    number: u32,
    r#type: String,
    kind: String,
    #[serde(default)]
    is_enum: bool,
    oneof: Option<String>,
    #[serde(default)]
    options: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alpha {
    services: BTreeSet<String>,
    rpcs: BTreeSet<String>,
    messages: BTreeSet<String>,
    fields: BTreeSet<String>,
    enum_values: BTreeSet<String>,
}

fn facts() -> Facts {
    serde_saphyr::from_str(include_str!("../data/wire-facts.yaml")).expect("the table parses")
}

fn file() -> FileDescriptor {
    let pool = DescriptorPool::decode(DESCRIPTOR_SET).expect("the descriptor set decodes");
    pool.get_file_by_name("csi.proto").expect("it holds csi.proto")
}

fn field_sentence(message: &str, field: &Field) -> String {
    let Field { name, number, r#type, kind, is_enum, oneof, options } = field;
    let kind = if *is_enum { format!("{kind} enum") } else { kind.clone() };
    format!("field {message}.{name} = {number}: {kind} {}, oneof {oneof:?}, options {options:?}", r#type)
}

fn sentences_of_table(facts: &Facts) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for CustomOption { name, extends, number, r#type } in &facts.custom_options {
        all.insert(format!("option {name} = {number}: {} on {extends}", r#type));
    }
    for service in &facts.services {
        all.insert(format!("service {}, alpha {}", service.name, service.alpha));
        for Rpc { name, request, response, streaming, alpha } in &service.rpcs {
            let service = &service.name;
            all.insert(format!(
                "rpc {service}.{name}({request}) -> {response}, streaming {streaming}, alpha {alpha}"
            ));
        }
    }
    for Enum { name, values } in &facts.enums {
        all.insert(format!("enum {name}"));
        for EnumValue { name: value, number, alpha } in values {
            all.insert(format!("value {name}.{value} = {number}, alpha {alpha}"));
        }
    }
    for Message { name, alpha, oneofs, fields } in &facts.messages {
        all.insert(format!("message {name}, alpha {alpha}, oneofs {oneofs:?}"));
        all.extend(fields.iter().map(|field| field_sentence(name, field)));
    }
    all
}

fn sentences_of_descriptor(file: &FileDescriptor) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for option in file.extensions() {
        let (name, on) = (option.name(), option.containing_message());
        all.insert(format!(
            "option {name} = {}: {} on {}",
            option.number(),
            type_name(&option.kind()),
            on.full_name()
        ));
    }
    for service in file.services() {
        let alpha = options(&service.options()).contains("alpha_service");
        all.insert(format!("service {}, alpha {alpha}", service.name()));
        for rpc in service.methods() {
            let streaming = match (rpc.is_client_streaming(), rpc.is_server_streaming()) {
                (false, false) => "none",
                (false, true) => "server",
                (true, _) => "client",
            };
            let alpha = options(&rpc.options()).contains("alpha_method");
            let (input, output) = (rpc.input(), rpc.output());
            let (request, response) = (relative(input.full_name()), relative(output.full_name()));
            let (service, name) = (service.name(), rpc.name());
            all.insert(format!(
                "rpc {service}.{name}({request}) -> {response}, streaming {streaming}, alpha {alpha}"
            ));
        }
    }
    for item in enums(file) {
        all.insert(format!("enum {}", relative(item.full_name())));
        for value in item.values() {
            let alpha = options(&value.options()).contains("alpha_enum_value");
            let (name, number) = (value.name(), value.number());
            all.insert(format!("value {}.{name} = {number}, alpha {alpha}", relative(item.full_name())));
        }
    }
    for message in messages(file) {
        let name = relative(message.full_name());
        let alpha = options(&message.options()).contains("alpha_message");
        let oneofs: Vec<_> = message.oneofs().map(|oneof| oneof.name().to_owned()).collect();
        all.insert(format!("message {name}, alpha {alpha}, oneofs {oneofs:?}"));
        all.extend(message.fields().map(|field| field_sentence(name, &field_facts(&field))));
    }
    all
}

fn field_facts(field: &FieldDescriptor) -> Field {
    let (kind, r#type) = match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
            ("map", format!("map<{}, {}>", type_name(&key), type_name(&value)))
        }
        kind => (if field.is_list() { "repeated" } else { "singular" }, type_name(&kind)),
    };
    Field {
        name: field.name().to_owned(),
        number: field.number(),
        r#type,
        kind: kind.to_owned(),
        is_enum: matches!(field.kind(), Kind::Enum(_)),
        oneof: field.containing_oneof().map(|oneof| oneof.name().to_owned()),
        options: options(&field.options()),
    }
}

fn type_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => relative(message.full_name()).to_owned(),
        Kind::Enum(item) => relative(item.full_name()).to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

/// Names of the custom options that are set to true.
fn options(options: &DynamicMessage) -> BTreeSet<String> {
    options
        .extensions()
        .filter(|(_, value)| **value == Value::Bool(true))
        .map(|(option, _)| option.name().to_owned())
        .collect()
}

fn relative(name: &str) -> &str {
    name.strip_prefix("csi.v1.").unwrap_or(name)
}

/// Messages of the file with those nested in them, without the entries of maps.
fn messages(file: &FileDescriptor) -> Vec<MessageDescriptor> {
    fn collect(message: MessageDescriptor, all: &mut Vec<MessageDescriptor>) {
        if !message.is_map_entry() {
            message.child_messages().for_each(|child| collect(child, all));
            all.push(message);
        }
    }
    let mut all = Vec::new();
    file.messages().for_each(|message| collect(message, &mut all));
    all
}

fn enums(file: &FileDescriptor) -> Vec<EnumDescriptor> {
    let nested = messages(file).into_iter().flat_map(|message| message.child_enums().collect::<Vec<_>>());
    file.enums().chain(nested).collect()
}

#[test]
fn every_element_is_as_in_the_table() {
    let (table, descriptor) = (sentences_of_table(&facts()), sentences_of_descriptor(&file()));
    let missing: Vec<_> = table.difference(&descriptor).collect();
    let surplus: Vec<_> = descriptor.difference(&table).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:#?}, not in the table {surplus:#?}");
}

#[test]
fn the_counts_are_those_of_the_table() {
    let file = file();
    let messages = messages(&file);
    let counts = Counts {
        services: file.services().len(),
        rpcs: file.services().map(|service| service.methods().len()).sum(),
        fields: messages.iter().map(|message| message.fields().len()).sum(),
        messages: messages.len(),
        enums: enums(&file).len(),
        enum_values: enums(&file).iter().map(|item| item.values().len()).sum(),
    };
    assert_eq!(counts, facts().counts);
    assert_eq!(
        counts,
        Counts { services: 5, rpcs: 32, messages: 94, fields: 196, enums: 8, enum_values: 47 }
    );
}

#[test]
fn the_file_is_as_in_the_table() {
    let (facts, file) = (facts(), file());
    let proto = file.file_descriptor_proto();
    assert_eq!(proto.syntax(), facts.syntax);
    assert_eq!(file.package_name(), facts.package);
    assert_eq!(facts.package, PACKAGE);
    assert_eq!(proto.dependency, facts.imports);
    assert_eq!(proto.options.as_ref().map(|options| options.go_package()), Some(facts.go_package.as_str()));
}

#[test]
fn secret_and_alpha_elements_are_those_of_the_table() {
    let (facts, file) = (facts(), file());
    let fields_with = |option: &str| -> BTreeSet<String> {
        let fields = messages(&file).into_iter().flat_map(|message| message.fields().collect::<Vec<_>>());
        let marked = fields.filter(|field| options(&field.options()).contains(option));
        marked.map(|field| relative(field.full_name()).to_owned()).collect()
    };
    assert_eq!(fields_with("csi_secret"), facts.csi_secret_fields);
    assert_eq!(fields_with("alpha_field"), facts.alpha.fields);

    let rpcs = file.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let rpcs = rpcs.filter(|rpc| options(&rpc.options()).contains("alpha_method"));
    assert_eq!(
        rpcs.map(|rpc| relative(rpc.full_name()).to_owned()).collect::<BTreeSet<_>>(),
        facts.alpha.rpcs
    );

    let services = file.services().filter(|service| options(&service.options()).contains("alpha_service"));
    assert_eq!(
        services.map(|service| service.name().to_owned()).collect::<BTreeSet<_>>(),
        facts.alpha.services
    );

    let alpha =
        messages(&file).into_iter().filter(|message| options(&message.options()).contains("alpha_message"));
    let alpha: BTreeSet<_> = alpha.map(|message| relative(message.full_name()).to_owned()).collect();
    assert_eq!(alpha, facts.alpha.messages);

    let mut values = BTreeSet::new();
    for item in enums(&file) {
        assert!(!options(&item.options()).contains("alpha_enum"), "{}", item.full_name());
        for value in item.values().filter(|value| options(&value.options()).contains("alpha_enum_value")) {
            values.insert(format!("{}.{}", relative(item.full_name()), value.name()));
        }
    }
    assert_eq!(values, facts.alpha.enum_values);
    assert!(facts.deprecated.is_empty());
}

#[test]
fn the_list_of_rpcs_is_that_of_the_services() {
    let of_services: Vec<_> = file()
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|rpc| format!("/{}/{}", rpc.parent_service().full_name(), rpc.name()))
        .collect();
    assert_eq!(csi_proto::RPCS.map(|rpc| rpc.path.to_owned()).to_vec(), of_services);
}
