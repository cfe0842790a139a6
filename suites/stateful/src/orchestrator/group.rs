//! The calls about group snapshots.

use csi_harness::prelude::*;
use csi_model::answer::{GroupFacts, GroupResponse, Response};
use csi_model::call::GroupCall;
use csi_model::names::{Id, Name, ObjectKind};
use csi_proto::redact;
use serde_json::json;

use super::memory::Memory;
use super::{Made, Orchestrator, snapshot};

impl Orchestrator {
    pub(super) async fn group(&self, call: &GroupCall) -> Made {
        match call {
            GroupCall::CreateVolumeGroupSnapshot { name, volumes } => self.create_group(*name, volumes).await,
            GroupCall::DeleteVolumeGroupSnapshot { group } => self.delete_group(*group).await,
            GroupCall::DeleteMember { group, member } => self.delete_member(*group, *member).await,
            GroupCall::GetVolumeGroupSnapshot { group } | GroupCall::Copying { group } => {
                self.get_group(*group).await
            }
        }
    }

    async fn create_group(&self, name: Name, volumes: &[Id]) -> Made {
        let sources: Vec<String> = volumes.iter().map(|volume| self.text(*volume)).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let request = v1::CreateVolumeGroupSnapshotRequest {
            name: self.name(name),
            ..self.cx.create_group_snapshot_request(&sources)
        };
        let calling = self.cx.create_group_snapshot(request.clone());
        let shown = |group: &v1::VolumeGroupSnapshot| json!({"group_snapshot": redact::json(group)});
        let read = |memory: &mut Memory, group: &v1::VolumeGroupSnapshot| {
            let id = memory.ids.give(name, &group.group_snapshot_id);
            for member in &group.snapshots {
                memory.ids.give(name.members(), &member.snapshot_id);
            }
            // An id that is made of the name comes again, with other members.
            memory.groups.extend(id.map(|id| (id, group.clone())));
            Response::Group(GroupResponse::Seen(facts(memory, group, id)))
        };
        self.send(&request, calling, shown, read).await
    }

    async fn delete_group(&self, group: Id) -> Made {
        let whole = self.members(group);
        let request = v1::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: whole.group_snapshot_id.clone(),
            snapshot_ids: whole.snapshots.iter().map(|member| member.snapshot_id.clone()).collect(),
            ..Default::default()
        };
        let read = |_: &mut Memory, _: &v1::DeleteVolumeGroupSnapshotResponse| {
            Response::Group(GroupResponse::Nothing)
        };
        self.send(&request, self.cx.delete_group_snapshot(&whole), redact::json, read).await
    }

    async fn delete_member(&self, group: Id, member: Id) -> Made {
        let (whole, snapshot_id) = (self.members(group), self.text(member));
        let request = v1::DeleteSnapshotRequest { snapshot_id: snapshot_id.clone(), ..Default::default() };
        let calling = self.cx.delete_group_member(&whole, &snapshot_id);
        let read = |memory: &mut Memory, _: &v1::DeleteSnapshotResponse| {
            if let Some(group) = memory.groups.get_mut(&group) {
                group.snapshots.retain(|other| other.snapshot_id != snapshot_id);
            }
            Response::Group(GroupResponse::Nothing)
        };
        self.send(&request, calling, redact::json, read).await
    }

    async fn get_group(&self, group: Id) -> Made {
        let request = self.cx.get_group_snapshot_request(&self.members(group));
        let read = |memory: &mut Memory, response: &v1::GetVolumeGroupSnapshotResponse| {
            let found = response.group_snapshot.clone().unwrap_or_default();
            let id = memory.ids.find(&[ObjectKind::Group], &found.group_snapshot_id);
            Response::Group(GroupResponse::Seen(facts(memory, &found, id)))
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, read).await
    }

    /// The group snapshot with its members in the form that requests need.
    fn members(&self, group: Id) -> v1::VolumeGroupSnapshot {
        self.memory.lock().groups.get(&group).cloned().unwrap_or_default()
    }
}

fn facts(memory: &Memory, group: &v1::VolumeGroupSnapshot, id: Option<Id>) -> GroupFacts {
    let member = |snapshot: &v1::Snapshot| {
        let id = memory.ids.find(&[ObjectKind::Member], &snapshot.snapshot_id)?;
        Some((id, snapshot::facts(memory, snapshot, Some(id))))
    };
    GroupFacts {
        id,
        creation_time: group.creation_time.as_ref().map(|time| (time.seconds, time.nanos)),
        ready: group.ready_to_use,
        members: group.snapshots.iter().filter_map(member).collect(),
    }
}
