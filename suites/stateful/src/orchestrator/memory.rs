//! The facts that an orchestrator keeps between calls.

use std::collections::BTreeMap;

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use csi_model::call::Usage;
use csi_model::ids::Ids;
use csi_model::names::{Id, Name, Node, ObjectKind, Target};

/// Names, ids, contexts and paths of one name space.
#[derive(Debug, Default)]
pub(super) struct Memory {
    names: BTreeMap<Name, String>,
    pub(super) ids: Ids,
    /// The number of the set of parameters that each volume was made with.
    pub(super) parameters: BTreeMap<Id, u8>,
    /// volume_context of each volume.
    pub(super) contexts: BTreeMap<Id, Pairs>,
    /// publish_context of each volume on each node.
    pub(super) publish_contexts: BTreeMap<(Id, Node), Pairs>,
    /// Each group snapshot as it was last made.
    pub(super) groups: BTreeMap<Id, v1::VolumeGroupSnapshot>,
    pub(super) staging_paths: BTreeMap<(Id, Node), String>,
    pub(super) target_paths: BTreeMap<(Id, Node, Target), String>,
    /// The usage for which each volume was made.
    pub(super) made_for: BTreeMap<Id, Usage>,
    /// The usage for which each volume was last published at a place.
    pub(super) usages: BTreeMap<(Id, Node, Target), Usage>,
}

impl Memory {
    pub(super) fn name(&mut self, name: Name, unique: impl FnOnce() -> String) -> String {
        self.names.entry(name).or_insert_with(unique).clone()
    }

    pub(super) fn append_to_name(&mut self, name: Name, unique: String, text: &str) {
        let whole = self.names.entry(name).or_insert(unique);
        whole.push_str(text);
    }

    /// The source of a copy in a message, if the run has made it.
    pub(super) fn source(&self, source: &v1::VolumeContentSource) -> Option<Id> {
        use v1::volume_content_source::Type;
        match source.r#type.as_ref()? {
            Type::Volume(source) => self.ids.find(&[ObjectKind::Volume], &source.volume_id),
            Type::Snapshot(source) => {
                self.ids.find(&[ObjectKind::Snapshot, ObjectKind::Member], &source.snapshot_id)
            }
        }
    }
}
