//! Sends texts and maps above the limits of the protocol.

use csi_harness::prelude::*;
use csi_proto::reflect::prost_reflect::{FieldDescriptor, MapKey, Value};
use csi_proto::reflect::{MAP_BYTES_MAX, TEXT_BYTES_MAX};

use crate::alter::{Alteration, copies};
use crate::codes::survives;
use crate::injection_points::{TextRole, is_text_map};
use crate::rules::HOSTILE_CODE_001;
use crate::sweep::with_texts;

/// Lengths just above the limit, above that of a file's name, and above that of a path.
const TEXT_BYTES: [usize; 3] = [TEXT_BYTES_MAX + 1, 256, 64 << 10];
/// The length of one map entry, key and value.
const ENTRY_BYTES: usize = 100;

check! {
    /// A driver may rely on the limits, but a request that exceeds them must not crash it.
    STRINGS {
        id: "hostile/limits/strings",
        title: "strings above the limit are rejected or accepted, and the driver survives",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [VOLUME],
        refuted_by: ["create-volume-crashes-on-long-names", "invalid-argument-as-internal"],
        runs: CrashProne,
    }
    async |cx| {
        let texts: Vec<String> = TEXT_BYTES.iter().map(|bytes| "x".repeat(*bytes)).collect();
        survives(cx, |request| with_texts(request, TextRole::ALL_BUT_PATHS, &[], &texts)).await
    }
}

check! {
    /// Parameters, contexts and secrets come from users, and a misplaced annotation makes them too large.
    MAPS {
        id: "hostile/limits/maps",
        title: "maps above the limit are rejected or accepted, and the driver survives",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [VOLUME],
        refuted_by: ["node-publish-crashes-on-large-context", "invalid-argument-as-unknown"],
        runs: CrashProne,
    }
    async |cx| {
        survives(cx, |request| copies(&request.message, &filled)).await
    }
}

/// Returns the map with more entries than are permitted.
fn filled(field: &FieldDescriptor, value: Option<&Value>) -> Vec<Alteration> {
    if !is_text_map(field) {
        return Vec::new();
    }
    let mut entries = value.and_then(Value::as_map).cloned().unwrap_or_default();
    let added = MAP_BYTES_MAX / ENTRY_BYTES + 1;
    for number in 0..added {
        let key = MapKey::String(format!("csi-sanity-{number:03}"));
        entries.insert(key, Value::String("x".repeat(ENTRY_BYTES)));
    }
    vec![(format!("grown by {added} entries"), Some(Value::Map(entries)))]
}

pub(crate) static CHECKS: &[&Check] = &[&STRINGS, &MAPS];
