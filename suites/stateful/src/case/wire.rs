//! What the answers of a case say of ids: later requests have to name them, and they differ from run to run.

use std::collections::BTreeMap;

use csi_proto::RPCS;
use serde_json::Value;

use crate::model::call::{Call, GroupCall, SnapshotCall, VolumeCall};
use crate::model::names::{Id, Name};

use super::{Case, Step};

/// Where an answer has ids, as paths into its JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) id: Id,
    /// The id as it came.
    pub(super) text: String,
    /// Names of fields and numbers of entries.
    pub(super) path: Vec<PathPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathPart {
    Field(&'static str),
    Entry(usize),
}

/// Ids in the order in which the answers of a case gave them.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeMap<Name, Vec<String>>);

impl Ids {
    /// The ids that an answer gives for the first time.
    pub(super) fn take(&mut self, step: &Step) -> Vec<Given> {
        use PathPart::{Entry, Field};
        let mut given = Vec::new();
        match &step.call {
            Call::Volume(VolumeCall::CreateVolume { name, .. }) => {
                given.extend(self.first(*name, step, vec![Field("volume"), Field("volume_id")]));
            }
            Call::Snapshot(SnapshotCall::CreateSnapshot { name, .. }) => {
                given.extend(self.first(*name, step, vec![Field("snapshot"), Field("snapshot_id")]));
            }
            Call::Group(GroupCall::CreateVolumeGroupSnapshot { name, volumes }) => {
                let group = Field("group_snapshot");
                given.extend(self.first(*name, step, vec![group.clone(), Field("group_snapshot_id")]));
                for nth in 0..volumes.len() {
                    let path = vec![group.clone(), Field("snapshots"), Entry(nth), Field("snapshot_id")];
                    given.extend(self.first(name.members(), step, path));
                }
            }
            _ => {}
        }
        given
    }

    fn first(&mut self, name: Name, step: &Step, path: Vec<PathPart>) -> Option<Given> {
        let value = path.iter().try_fold(&step.came.response, |value, part| match part {
            PathPart::Field(field) => value.get(field),
            PathPart::Entry(entry) => value.get(entry),
        });
        let text = value.and_then(Value::as_str)?.to_owned();
        let known = self.0.entry(name).or_default();
        if known.contains(&text) {
            return None;
        }
        known.push(text.clone());
        let nth = u16::try_from(known.len() - 1).ok()?;
        Some(Given { id: name.id(nth), text, path })
    }

    /// The object that an id stands for.
    pub(super) fn find(&self, text: &str) -> Option<Id> {
        let nth = |(name, known): (&Name, &Vec<String>)| {
            let nth = known.iter().position(|other| other == text)?;
            Some(name.id(u16::try_from(nth).ok()?))
        };
        self.0.iter().find_map(nth)
    }
}

/// The ids that an answer gives and that later requests name, so that they have to be kept.
pub(super) fn needed(given: Vec<Given>, later: &[Step]) -> Vec<Given> {
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
pub(super) fn rpc_path(step: &Step) -> Option<&'static str> {
    let method = step.call.method();
    RPCS.iter().find(|rpc| rpc.method == method).map(|rpc| rpc.path)
}

/// Whether several workers made the calls.
pub(super) fn is_concurrent(case: &Case) -> bool {
    case.steps.iter().any(|step| step.worker != case.steps[0].worker)
}

/// A text that cannot leave its comment.
pub(super) fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
