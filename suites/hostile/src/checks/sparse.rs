//! Sends requests without one of their parts.

use csi_harness::prelude::*;
use csi_proto::reflect;
use csi_proto::reflect::prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};

use crate::alter::{Alteration, copies};
use crate::codes::{LEGALLY_LEFT_OUT, survives};
use crate::rules::HOSTILE_CODE_001;
use crate::scene::Request;

check! {
    /// A missing part is a nil pointer in most languages, and a request that is stored in a cluster is repeated after
    /// each crash (CVE-2020-8569).
    PARTS {
        id: "hostile/sparse/parts",
        title: "the driver survives a request with a missing or empty part, and reports the problem",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [VOLUME],
        refuted_by: [
            "create-volume-panics-without-range",
            "controller-expand-panics-without-range",
            "controller-publish-panics-without-capability",
            "node-stage-panics-without-capability",
            "node-publish-panics-without-capability",
        ],
        runs: CrashProne,
    }
    async |cx| {
        let harmless = |field: &FieldDescriptor, value: Option<&Value>| match names_a_disk(field) {
            true if !cx.config().allow_harm => Vec::new(),
            _ => without(field, value),
        };
        let changes = |request: &Request| {
            let nothing = DynamicMessage::new(request.message.descriptor());
            let nothing = ("no field set".to_owned(), nothing);
            copies(&request.message, &harmless).into_iter().chain([nothing]).collect()
        };
        survives(cx, changes).await
    }
}

/// Returns true for a field by which a driver may find the disk of a volume. Without it, a driver has formatted the first disk of the host.
fn names_a_disk(field: &FieldDescriptor) -> bool {
    ["volume_context", "publish_context"].contains(&field.name())
}

/// Returns a message, list or map left out, and empty.
fn without(field: &FieldDescriptor, value: Option<&Value>) -> Vec<Alteration> {
    let is_required = reflect::is_required(field) || field.containing_oneof().is_some();
    let words = if is_required { "left out" } else { LEGALLY_LEFT_OUT };
    let left_out = (words.to_owned(), None);
    match value {
        Some(Value::Message(inner)) => {
            let empty = DynamicMessage::new(inner.descriptor());
            vec![left_out, ("empty".to_owned(), Some(Value::Message(empty)))]
        }
        Some(Value::List(items)) => {
            let hollow = items.iter().filter_map(Value::as_message).next().map(|item| {
                let empty = Value::Message(DynamicMessage::new(item.descriptor()));
                ("with an empty item".to_owned(), Some(Value::List(vec![empty])))
            });
            [Some(left_out), hollow].into_iter().flatten().collect()
        }
        Some(Value::Map(_)) => vec![left_out],
        _ => Vec::new(),
    }
}

pub(crate) static CHECKS: &[&Check] = &[&PARTS];
