//! Rules for the health of volumes and back ends in replies.

use std::collections::BTreeSet;

use csi_proto::reflect::TEXT_BYTES_MAX;
use csi_proto::reflect::prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};

use crate::spec::requirements::{Requirement, req};

const VOLUME: &str = "csi.v1.VolumeHealth";
const VOLUME_ENTRY: &str = "csi.v1.VolumeHealth.VolumeHealthEntry";
const STORAGE: &str = "csi.v1.NodeGetStorageHealthResponse";
const STORAGE_ENTRY: &str = "csi.v1.NodeGetStorageHealthResponse.StorageBackendHealth";
/// Entries that Kubernetes keeps of one volume.
const ENTRIES_MAX: usize = 16;

/// Records a breach: the rule, the field, and the value.
type Note<'a> = &'a mut dyn FnMut(&'static Requirement, &str, String);

/// The rules of an entry.
struct Rules {
    status: &'static Requirement,
    reason: &'static Requirement,
    form: &'static Requirement,
    length: &'static Requirement,
}

const OF_VOLUMES: Rules = Rules {
    status: &req::MSG_HEALTH_004,
    reason: &req::MSG_HEALTH_005,
    form: &req::MSG_HEALTH_006,
    length: &req::MSG_HEALTH_009,
};

const OF_STORAGE: Rules = Rules {
    status: &req::NODE_STORHEALTH_003,
    reason: &req::NODE_STORHEALTH_004,
    form: &req::NODE_STORHEALTH_005,
    length: &req::NODE_STORHEALTH_007,
};

/// Returns true if the length of the field is judged here, and not with those of all texts.
pub(super) fn judges(field: &FieldDescriptor) -> bool {
    let parent = field.parent_message();
    [VOLUME_ENTRY, STORAGE_ENTRY].contains(&parent.full_name())
}

/// Looks at a message of a reply, but not at those inside it.
pub(super) fn look(message: &DynamicMessage, note: Note<'_>) {
    match message.descriptor().full_name() {
        VOLUME => volume(message, note),
        STORAGE => check_pairs_are_unique(
            message,
            "backend_health",
            &["status", "reason", "volume_capability"],
            &req::NODE_STORHEALTH_006,
            note,
        ),
        VOLUME_ENTRY => entry(message, &OF_VOLUMES, note),
        STORAGE_ENTRY => entry(message, &OF_STORAGE, note),
        _ => {}
    }
}

fn volume(message: &DynamicMessage, note: Note<'_>) {
    if text(message, "volume_id").is_empty() {
        note(&req::MSG_HEALTH_001, "VolumeHealth.volume_id", "nothing".to_owned());
    }
    check_pairs_are_unique(message, "health_statuses", &["status", "reason"], &req::MSG_HEALTH_007, note);
    let entries = list(message, "health_statuses").len();
    if entries > ENTRIES_MAX {
        note(&req::MSG_HEALTH_017, "VolumeHealth.health_statuses", format!("{entries} entries"));
    }
}

/// Notes an entry of a list that equals an earlier one in these fields.
fn check_pairs_are_unique(
    message: &DynamicMessage,
    field: &str,
    key: &[&str],
    rule: &'static Requirement,
    note: Note<'_>,
) {
    let mut known = BTreeSet::new();
    for entry in list(message, field) {
        let key: Vec<_> = key.iter().map(|name| shown(entry, name)).collect();
        if !known.insert(key.clone()) {
            let place = format!("{}.{field}", message.descriptor().name());
            return note(rule, &place, format!("twice {}", key.join(" ").trim()));
        }
    }
}

fn entry(entry: &DynamicMessage, rules: &Rules, note: Note<'_>) {
    let name = entry.descriptor().name().to_owned();
    let place = |field: &str| format!("{name}.{field}");
    let reason = text(entry, "reason");
    // Numbers that no version here has are news, and no fault.
    if entry.get_field_by_name("status").and_then(|status| status.as_enum_number()) == Some(0) {
        note(rules.status, &place("status"), "nothing".to_owned());
    }
    if reason.is_empty() {
        note(rules.reason, &place("reason"), "nothing".to_owned());
    } else if reason.len() > TEXT_BYTES_MAX {
        note(rules.length, &place("reason"), format!("{} bytes", reason.len()));
    } else if !is_camel_case(&reason) {
        note(rules.form, &place("reason"), format!("{reason:?}"));
    }
    let message = text(entry, "message");
    if message.len() > TEXT_BYTES_MAX {
        note(rules.length, &place("message"), format!("{} bytes", message.len()));
    }
}

fn is_camel_case(reason: &str) -> bool {
    reason.starts_with(|c: char| c.is_ascii_uppercase()) && reason.chars().all(|c| c.is_ascii_alphanumeric())
}

fn text(message: &DynamicMessage, field: &str) -> String {
    let value = message.get_field_by_name(field);
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn shown(message: &DynamicMessage, field: &str) -> String {
    match message.get_field_by_name(field).as_deref() {
        Some(Value::String(text)) => text.clone(),
        Some(Value::EnumNumber(number)) => number.to_string(),
        Some(Value::Message(message)) => message.to_string(),
        _ => String::new(),
    }
}

fn list<'a>(message: &'a DynamicMessage, field: &str) -> Vec<&'a DynamicMessage> {
    let values =
        message.fields().find(|(found, _)| found.name() == field).and_then(|(_, value)| value.as_list());
    values.unwrap_or_default().iter().filter_map(Value::as_message).collect()
}

#[cfg(test)]
mod tests {
    use csi_proto::{reflect, v1};

    use super::*;

    fn broken<M: csi_proto::reflect::prost_reflect::prost::Name>(message: &M) -> Vec<&'static str> {
        let mut rules = Vec::new();
        look(&reflect::message(message).unwrap(), &mut |rule, _, _| rules.push(rule.id));
        rules
    }

    #[test]
    fn a_pair_of_status_and_reason_occurs_once() {
        let slow = |message: &str| v1::volume_health::VolumeHealthEntry {
            status: 1,
            reason: "Slow".to_owned(),
            message: message.to_owned(),
        };
        let health = |health_statuses| v1::VolumeHealth { volume_id: "v".to_owned(), health_statuses };
        assert_eq!(broken(&health(vec![slow("")])), Vec::<&str>::new());
        assert_eq!(broken(&health(vec![slow("a"), slow("b")])), ["MSG-HEALTH-007"]);
        assert_eq!(broken(&slow("")), Vec::<&str>::new());
        assert_eq!(broken(&slow(&"m".repeat(129))), ["MSG-HEALTH-009"]);
        let words = v1::volume_health::VolumeHealthEntry { reason: "is slow".to_owned(), ..slow("") };
        assert_eq!(broken(&words), ["MSG-HEALTH-006"]);
        let unknown = v1::volume_health::VolumeHealthEntry { status: 0, ..slow("") };
        assert_eq!(broken(&unknown), ["MSG-HEALTH-004"]);
        let later = v1::volume_health::VolumeHealthEntry { status: 7, ..slow("") };
        assert_eq!(broken(&later), Vec::<&str>::new());
    }
}
