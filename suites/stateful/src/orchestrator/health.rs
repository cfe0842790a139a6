//! The calls about the health of volumes.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_model::answer::{Answer, Listed, Response, VolumeResponse};
use csi_model::names::{Id, Node, ObjectKind, Target};
use csi_proto::redact;

use super::controller::PAGES_MAX;
use super::memory::Memory;
use super::{Listing, Made, Orchestrator, Tries};

/// Entries of a list, beyond which it is not read entry by entry.
const ENTRIES_MAX: usize = 50;
/// Number of reads in which a volume has to be missing from pages: in a single read, its condition may have come and
/// gone.
const TIMES_MISSING: u32 = 2;

/// All pages of ControllerListVolumeHealth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct List {
    pages: u32,
    /// Ids as the driver gave them.
    volumes: BTreeSet<String>,
    /// The volumes that are missing if the list is read entry by entry.
    missing: BTreeSet<String>,
}

/// Translates the health of a volume in a reply.
fn read(memory: &Memory, asked: Id, health: Option<&v1::VolumeHealth>) -> Response {
    let named = health.map_or("", |health| &health.volume_id);
    let is_asked = !named.is_empty() && memory.ids.text(asked) == Some(named);
    let of = if is_asked { Some(asked) } else { memory.ids.find(&[ObjectKind::Volume], named) };
    Response::Volume(VolumeResponse::Health(of))
}

impl Orchestrator {
    pub(super) async fn health(&self, volume: Id) -> Made {
        let request =
            v1::ControllerGetVolumeHealthRequest { volume_id: self.text(volume), ..Default::default() };
        let read = |memory: &mut Memory, response: &v1::ControllerGetVolumeHealthResponse| {
            read(memory, volume, response.volume_health.as_ref())
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, read).await
    }

    pub(super) async fn health_on_node(&self, at: (Id, Node, Target)) -> CheckResult<Made> {
        let request = v1::NodeGetVolumeHealthRequest {
            volume_id: self.text(at.0),
            volume_publish_path: self.target_path(at).await?,
            staging_target_path: self.staging_path(at.0, at.1).await?,
        };
        let read = |memory: &mut Memory, response: &v1::NodeGetVolumeHealthResponse| {
            read(memory, at.0, response.volume_health.as_ref())
        };
        let cx = self.at(at.1);
        Ok(self.send(&request, cx.call(request.clone()), redact::json, read).await)
    }

    /// Reads the whole list. If it has several entries and no other caller works, it is also read entry by entry.
    pub(super) async fn list_health(&self) -> Made {
        let started = self.now();
        let (last, whole) = self.read_health(0).await;
        let is_to_be_paged = (2..=ENTRIES_MAX).contains(&whole.volumes.len()) && self.tries == Tries::Some;
        let (last, list) = match is_to_be_paged && matches!(last.answer, Answer::Done(_)) {
            true => self.page_health(last, whole).await,
            false => (last, whole),
        };
        self.listed(started, last, Listing::Health(list))
    }

    /// Looks for entries that are missing from small pages although the whole list has them, before and after.
    async fn page_health(&self, last: Made, whole: List) -> (Made, List) {
        let mut missing = whole.volumes.clone();
        let mut shown = None;
        for _ in 0..TIMES_MISSING {
            let (last, paged) = self.read_health(1).await;
            let (after, again) = self.read_health(0).await;
            let is_read = [&last, &after].into_iter().all(|made| matches!(made.answer, Answer::Done(_)));
            missing.retain(|volume| !paged.volumes.contains(volume));
            if !is_read || again.volumes != whole.volumes || missing.is_empty() {
                return (after, whole);
            }
            shown = Some((last, paged.pages));
        }
        match shown {
            Some((last, pages)) => (last, List { pages, missing, ..whole }),
            None => (last, whole),
        }
    }

    /// Reads all pages with this many entries each. If a page is rejected, that is the answer.
    async fn read_health(&self, max_entries: i32) -> (Made, List) {
        let mut request = v1::ControllerListVolumeHealthRequest { max_entries, ..Default::default() };
        let mut list = List::default();
        loop {
            let mut token = String::new();
            let read = |_: &mut Memory, page: &v1::ControllerListVolumeHealthResponse| {
                token.clone_from(&page.next_token);
                list.volumes.extend(page.entries.iter().map(|health| health.volume_id.clone()));
                Response::Volume(VolumeResponse::Nothing)
            };
            let made = self.send(&request, self.cx.call(request.clone()), redact::json, read).await;
            list.pages += 1;
            if token.is_empty() || list.pages >= PAGES_MAX {
                return (made, list);
            }
            request.starting_token = token;
        }
    }

    pub(super) fn listed_health(&self, list: &List) -> Listed<VolumeResponse> {
        let memory = self.memory.lock();
        let entry = |volume: &String| {
            let id = memory.ids.find(&[ObjectKind::Volume], volume)?;
            let is_missing = list.missing.contains(volume);
            let read =
                if is_missing { VolumeResponse::MissingFromPages } else { VolumeResponse::Health(Some(id)) };
            Some((id, read))
        };
        Listed { pages: list.pages, entries: list.volumes.iter().filter_map(entry).collect() }
    }
}
