//! The calls about snapshots.

use csi_harness::prelude::*;
use csi_model::answer::{Listed, Response, SnapshotFacts, SnapshotResponse};
use csi_model::call::SnapshotCall;
use csi_model::names::{Id, Name, ObjectKind};
use csi_proto::redact;
use serde_json::json;

use super::memory::Memory;
use super::{Listing, Made, Orchestrator};

/// Largest number of pages of a list that are read.
const PAGES_MAX: u32 = 1_000;

impl Orchestrator {
    pub(super) async fn snapshot(&self, call: &SnapshotCall) -> Made {
        match call {
            SnapshotCall::CreateSnapshot { name, volume } => self.create_snapshot(*name, *volume).await,
            SnapshotCall::DeleteSnapshot { snapshot } => self.delete_snapshot(*snapshot).await,
            SnapshotCall::GetSnapshot { snapshot } => self.get_snapshot(*snapshot).await,
            // They are what other calls say.
            SnapshotCall::Listing { .. } | SnapshotCall::Copying { .. } => self.list_snapshots().await,
        }
    }

    async fn create_snapshot(&self, name: Name, volume: Id) -> Made {
        let source = self.text(volume);
        let request =
            v1::CreateSnapshotRequest { name: self.name(name), ..self.cx.create_snapshot_request(&source) };
        let calling = self.cx.create_snapshot(request.clone());
        let shown = |snapshot: &v1::Snapshot| json!({"snapshot": redact::json(snapshot)});
        let read = |memory: &mut Memory, snapshot: &v1::Snapshot| {
            let id = memory.ids.give(name, &snapshot.snapshot_id);
            Response::Snapshot(SnapshotResponse::Seen(facts(memory, snapshot, id)))
        };
        self.send(&request, calling, shown, read).await
    }

    async fn delete_snapshot(&self, snapshot: Id) -> Made {
        let id = self.text(snapshot);
        let request = v1::DeleteSnapshotRequest { snapshot_id: id.clone(), ..Default::default() };
        let read =
            |_: &mut Memory, _: &v1::DeleteSnapshotResponse| Response::Snapshot(SnapshotResponse::Nothing);
        self.send(&request, self.cx.delete_snapshot(&id), redact::json, read).await
    }

    async fn get_snapshot(&self, snapshot: Id) -> Made {
        let request = v1::GetSnapshotRequest { snapshot_id: self.text(snapshot), ..Default::default() };
        let read = |memory: &mut Memory, response: &v1::GetSnapshotResponse| {
            let found = response.snapshot.clone().unwrap_or_default();
            let id = memory.ids.find(&[ObjectKind::Snapshot, ObjectKind::Member], &found.snapshot_id);
            Response::Snapshot(SnapshotResponse::Seen(facts(memory, &found, id)))
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, read).await
    }

    /// Reads all pages of ListSnapshots. If a page is rejected, that is the answer.
    pub(super) async fn list_snapshots(&self) -> Made {
        let started = self.now();
        let mut request = v1::ListSnapshotsRequest::default();
        let (mut snapshots, mut pages) = (Vec::new(), 0);
        loop {
            let mut token = String::new();
            let read = |_: &mut Memory, page: &v1::ListSnapshotsResponse| {
                token.clone_from(&page.next_token);
                snapshots.extend(page.entries.iter().filter_map(|entry| entry.snapshot.clone()));
                Response::Snapshot(SnapshotResponse::Nothing)
            };
            let made = self.send(&request, self.cx.call(request.clone()), redact::json, read).await;
            pages += 1;
            // A token that leads back to its own page never ends.
            if !token.is_empty() && token != request.starting_token && pages < PAGES_MAX {
                request.starting_token = token;
                continue;
            }
            return self.listed(started, made, Listing::Snapshots(pages, snapshots));
        }
    }

    pub(super) fn listed_snapshots(
        &self,
        pages: u32,
        snapshots: &[v1::Snapshot],
    ) -> Listed<SnapshotResponse> {
        let memory = self.memory.lock();
        let entry = |snapshot: &v1::Snapshot| {
            let id = memory.ids.find(&[ObjectKind::Snapshot], &snapshot.snapshot_id)?;
            Some((id, SnapshotResponse::Seen(facts(&memory, snapshot, Some(id)))))
        };
        Listed { pages, entries: snapshots.iter().filter_map(entry).collect() }
    }
}

/// The facts of a snapshot in a message.
pub(super) fn facts(memory: &Memory, snapshot: &v1::Snapshot, id: Option<Id>) -> SnapshotFacts {
    SnapshotFacts::new(snapshot, id, memory.ids.find(&[ObjectKind::Volume], &snapshot.source_volume_id))
}
