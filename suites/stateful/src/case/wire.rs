//! Finds ids in the answers of a case: later requests have to name them, and they differ from run to run.

use csi_model::call::{Call, GroupCall, SnapshotCall, VolumeCall};
use csi_model::ids::Ids;
use csi_model::names::{Id, Name, ObjectKind};
use csi_proto::RPCS;
use serde_json::Value;

use super::CaseStep;

/// The places of ids in an answer, as paths into its JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) id: Id,
    /// The id as it came.
    pub(super) text: String,
    /// Names of fields and numbers of entries.
    pub(super) path: Vec<PathPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathPart {
    Field(&'static str),
    Entry(usize),
}

/// The ids that an answer gives for the first time.
pub(super) fn given(ids: &mut Ids, step: &CaseStep) -> Vec<Given> {
    use PathPart::{Entry, Field};
    let group = Field("group_snapshot");
    let paths = match &step.call {
        Call::Volume(VolumeCall::CreateVolume { name, .. }) => {
            vec![(*name, vec![Field("volume"), Field("volume_id")])]
        }
        Call::Snapshot(SnapshotCall::CreateSnapshot { name, .. }) => {
            vec![(*name, vec![Field("snapshot"), Field("snapshot_id")])]
        }
        Call::Group(GroupCall::CreateVolumeGroupSnapshot { name, volumes }) => {
            let member = |nth| vec![group, Field("snapshots"), Entry(nth), Field("snapshot_id")];
            let members = (0..volumes.len()).map(|nth| (name.members(), member(nth)));
            [(*name, vec![group, Field("group_snapshot_id")])].into_iter().chain(members).collect()
        }
        _ => Vec::new(),
    };
    paths.into_iter().filter_map(|(name, path)| first(ids, name, step, path)).collect()
}

fn first(ids: &mut Ids, name: Name, step: &CaseStep, path: Vec<PathPart>) -> Option<Given> {
    let value = path.iter().try_fold(&step.recorded.response, |value, part| match part {
        PathPart::Field(field) => value.get(field),
        PathPart::Entry(entry) => value.get(entry),
    });
    let text = value.and_then(Value::as_str)?.to_owned();
    if ids.find(&[name.kind], &text).is_some() {
        return None;
    }
    Some(Given { id: ids.give(name, &text)?, text, path })
}

/// The object that a text in a request stands for, by the field that it is in.
pub(super) fn named(ids: &Ids, field: &str, text: &str) -> Option<Id> {
    let kinds: &[ObjectKind] = match field {
        "volume_id" | "source_volume_id" | "source_volume_ids" => &[ObjectKind::Volume],
        "snapshot_id" | "snapshot_ids" => &[ObjectKind::Snapshot, ObjectKind::Member],
        "group_snapshot_id" => &[ObjectKind::Group],
        _ => return None,
    };
    ids.find(kinds, text)
}

/// The ids that an answer gives and that later requests name, so that they have to be kept.
pub(super) fn needed(given: Vec<Given>, later: &[CaseStep]) -> Vec<Given> {
    let names = |given: &Given| later.iter().any(|step| has_text(&step.request, &given.text));
    given.into_iter().filter(names).collect()
}

fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Array(values) => values.iter().any(|value| has_text(value, text)),
        Value::Object(fields) => fields.values().any(|value| has_text(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A name for an id that shells and Rust take: `v1`, `v1_2`.
pub(super) fn variable(id: Id) -> String {
    id.to_string().replace('#', "_")
}

/// The path of the RPC of a step, such as `/csi.v1.Controller/CreateVolume`; none for what workloads do.
pub(super) fn rpc_path(step: &CaseStep) -> Option<&'static str> {
    let method = step.call.method();
    RPCS.iter().find(|rpc| rpc.method == method).map(|rpc| rpc.path)
}

/// A text that cannot leave its comment.
pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
