//! Sends numbers at the ends of their types.

use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::{FieldDescriptor, Kind, Value};

use crate::alter::{Alteration, copies};
use crate::codes::survives;
use crate::rules::HOSTILE_CODE_001;

check! {
    /// Drivers add, round up and divide sizes, and use page lengths and offsets as array lengths.
    ENDS {
        id: "hostile/numbers/ends",
        title: "numbers at the ends of their type are rejected or accepted, and the driver survives",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [VOLUME],
        refuted_by: [
            "controller-expand-overflows",
            "list-volumes-panics-on-negative-max",
            "create-volume-internal-on-negative-size",
            "get-metadata-offset-as-internal",
        ],
        runs: CrashProne,
    }
    async |cx| {
        survives(cx, |request| copies(&request.message, &ends)).await
    }
}

fn ends(field: &FieldDescriptor, _: Option<&Value>) -> Vec<Alteration> {
    if field.is_list() || field.is_map() {
        return Vec::new();
    }
    let values: Vec<Value> = match field.kind() {
        Kind::Int64 => [i64::MIN, -1, i64::MAX - 1, i64::MAX].map(Value::I64).into(),
        Kind::Int32 => [i32::MIN, -1, i32::MAX].map(Value::I32).into(),
        Kind::Enum(_) => [i32::MIN, -1, i32::MAX].map(Value::EnumNumber).into(),
        _ => Vec::new(),
    };
    values.into_iter().map(|value| (format!("= {value}"), Some(value))).collect()
}

pub(crate) static CHECKS: &[&Check] = &[&ENDS];
