//! Compares csi.proto with a table of wire facts: both are written as sets of sentences, which must be equal.
//!
//! csi.proto contains the elements of two releases. The counts of each release show that no element was lost or
//! invented.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::DESCRIPTOR_SET;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    Value,
};
use serde::Deserialize;

const PACKAGE: &str = "csi.v1";

/// The table. Its `since`, `until` and `ga_since` are history, which no descriptor contains.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    syntax: String,
    package: String,
    go_package: String,
    imports: Vec<String>,
    counts: BTreeMap<Release, Counts>,
    custom_options: Vec<CustomOption>,
    services: Vec<Service>,
    enums: Vec<Enum>,
    messages: Vec<Message>,
    csi_secret_fields: BTreeSet<String>,
    alpha: Alpha,
    deprecated: Vec<String>,
}

/// A release of the protocol, such as `v1.12.0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Release(Vec<u32>);

impl TryFrom<String> for Release {
    type Error = String;

    fn try_from(text: String) -> Result<Release, String> {
        let numbers = text.strip_prefix('v').unwrap_or_default().split('.').map(str::parse);
        numbers.collect::<Result<_, _>>().map(Release).map_err(|_| format!("{text:?} is no release"))
    }
}

/// An element that a release may have.
trait Element {
    /// Returns the first release with the element, and the last one if a later release removed it.
    fn releases(&self) -> (&Release, Option<&Release>);

    fn is_in(&self, release: &Release) -> bool {
        let (since, until) = self.releases();
        since <= release && until.is_none_or(|until| release <= until)
    }
}

macro_rules! elements {
    ($($element:ident)+) => {
        $(impl Element for $element {
            fn releases(&self) -> (&Release, Option<&Release>) {
                (&self.since, self.until.as_ref())
            }
        })+
    };
}

elements! { Service Rpc Enum EnumValue Message Field }

fn number<'a, E: Element + 'a>(elements: impl IntoIterator<Item = &'a E>, release: &Release) -> usize {
    elements.into_iter().filter(|element| element.is_in(release)).count()
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
    since: Release,
    until: Option<Release>,
    name: String,
    #[serde(default)]
    alpha: bool,
    rpcs: Vec<Rpc>,
}

#[derive(Deserialize)]
struct Rpc {
    since: Release,
    until: Option<Release>,
    name: String,
    request: String,
    response: String,
    streaming: String,
    #[serde(default)]
    alpha: bool,
}

#[derive(Deserialize)]
struct Enum {
    since: Release,
    until: Option<Release>,
    name: String,
    values: Vec<EnumValue>,
}

#[derive(Deserialize)]
struct EnumValue {
    since: Release,
    until: Option<Release>,
    name: String,
    number: i32,
    #[serde(default)]
    alpha: bool,
}

#[derive(Deserialize)]
struct Message {
    since: Release,
    until: Option<Release>,
    name: String,
    #[serde(default)]
    alpha: bool,
    #[serde(default)]
    oneofs: Vec<String>,
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    since: Release,
    until: Option<Release>,
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
    let Field { name, number, r#type, kind, is_enum, oneof, options, .. } = field;
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
        for Rpc { name, request, response, streaming, alpha, .. } in &service.rpcs {
            let service = &service.name;
            all.insert(format!(
                "rpc {service}.{name}({request}) -> {response}, streaming {streaming}, alpha {alpha}"
            ));
        }
    }
    for Enum { name, values, .. } in &facts.enums {
        all.insert(format!("enum {name}"));
        for EnumValue { name: value, number, alpha, .. } in values {
            all.insert(format!("value {name}.{value} = {number}, alpha {alpha}"));
        }
    }
    for Message { name, alpha, oneofs, fields, .. } in &facts.messages {
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
        // No descriptor contains the history.
        since: Release(Vec::new()),
        until: None,
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

/// Returns the names of the custom options that are set to true.
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

/// Returns the messages of the file and those nested in them, except the entries of maps.
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
fn counts_match_each_published_release() {
    let facts = facts();
    for (release, counts) in &facts.counts {
        let in_release = Counts {
            services: number(&facts.services, release),
            rpcs: number(facts.services.iter().flat_map(|service| &service.rpcs), release),
            messages: number(&facts.messages, release),
            fields: number(facts.messages.iter().flat_map(|message| &message.fields), release),
            enums: number(&facts.enums, release),
            enum_values: number(facts.enums.iter().flat_map(|item| &item.values), release),
        };
        assert_eq!(in_release, *counts, "{release:?}");
    }
    let published = [
        Counts { services: 5, rpcs: 32, messages: 94, fields: 196, enums: 8, enum_values: 47 },
        Counts { services: 5, rpcs: 36, messages: 104, fields: 216, enums: 10, enum_values: 57 },
    ];
    assert_eq!(facts.counts.into_values().collect::<Vec<_>>(), published);
}

#[test]
fn numbers_of_removed_fields_are_not_reused() {
    let facts = facts();
    let fields = facts.messages.iter().map(|message| {
        (&message.name, message.fields.iter().map(|field| i64::from(field.number)).collect::<Vec<_>>())
    });
    let values = facts.enums.iter().map(|item| {
        (&item.name, item.values.iter().map(|value| i64::from(value.number)).collect::<Vec<_>>())
    });
    for (name, numbers) in fields.chain(values) {
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "{name}");
    }
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
