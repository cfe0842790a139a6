//! Makes copies of a message that differ from it in one field.

use csi_proto::reflect::prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};

/// A change of a field: its description, and the new value, or `None` to clear the field.
pub(crate) type Alteration = (String, Option<Value>);

/// Returns every copy that differs in one field, at any depth, with a description. `of_field` returns the changes of
/// a field with a value.
pub(crate) fn copies(
    message: &DynamicMessage,
    of_field: &dyn Fn(&FieldDescriptor, Option<&Value>) -> Vec<Alteration>,
) -> Vec<(String, DynamicMessage)> {
    let mut found = Vec::new();
    for field in message.descriptor().fields() {
        let value = message.get_field(&field);
        let present = message.has_field(&field).then_some(&*value);
        let mut add = |change: String, value: Option<Value>| {
            let mut copy = message.clone();
            match value {
                Some(value) => copy.set_field(&field, value),
                None => copy.clear_field(&field),
            }
            found.push((change, copy));
        };
        for (change, value) in of_field(&field, present) {
            add(format!("{} {change}", field.name()), value);
        }
        match present {
            Some(Value::Message(inner)) => {
                for (change, copy) in copies(inner, of_field) {
                    add(format!("{}.{change}", field.name()), Some(Value::Message(copy)));
                }
            }
            Some(Value::List(items)) => {
                for (at, item) in items.iter().enumerate() {
                    let Value::Message(item) = item else { continue };
                    for (change, copy) in copies(item, of_field) {
                        let mut items = items.clone();
                        items[at] = Value::Message(copy);
                        add(format!("{}[{at}].{change}", field.name()), Some(Value::List(items)));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use csi_harness::prelude::v1;
    use csi_proto::reflect;

    use super::*;

    #[test]
    fn each_copy_differs_in_one_field() {
        let request = v1::CreateVolumeRequest {
            name: "a".to_owned(),
            capacity_range: Some(v1::CapacityRange { required_bytes: 1, limit_bytes: 2 }),
            volume_capabilities: vec![v1::VolumeCapability {
                access_mode: Some(v1::volume_capability::AccessMode { mode: 1 }),
                ..Default::default()
            }],
            ..Default::default()
        };
        let message = reflect::message(&request).unwrap();
        let dropped = |_: &FieldDescriptor, value: Option<&Value>| match value {
            Some(_) => vec![("left out".to_owned(), None)],
            None => Vec::new(),
        };
        let copies = copies(&message, &dropped);
        let change: Vec<&str> = copies.iter().map(|(change, _)| change.as_str()).collect();
        assert_eq!(
            change,
            [
                "name left out",
                "capacity_range left out",
                "capacity_range.required_bytes left out",
                "capacity_range.limit_bytes left out",
                "volume_capabilities left out",
                "volume_capabilities[0].access_mode left out",
                "volume_capabilities[0].access_mode.mode left out",
            ]
        );
        assert!(copies.iter().all(|(_, copy)| *copy != message));
    }
}
