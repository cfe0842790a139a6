//! The calls about volumes that go to the Controller service.

use csi_harness::prelude::*;
use csi_model::Span;
use csi_model::answer::{Listed, Response, SourceReported, VolumeFacts, VolumeResponse, text_of};
use csi_model::call::{CreateSpec, Size, Usage, VolumeCall};
use csi_model::call_context::Time;
use csi_model::names::{Id, Name, Node, ObjectKind};
use csi_proto::redact;
use serde_json::json;

use super::memory::Memory;
use super::probed_driver::ProbedDriver;
use super::{Listing, Made, Orchestrator};

/// Largest number of pages of a list that are read.
pub(super) const PAGES_MAX: u32 = 1_000;

fn nothing<T>(_: &mut Memory, _: &T) -> Response {
    Response::Volume(VolumeResponse::Nothing)
}

fn range(size: Size) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes: size.required_bytes, limit_bytes: size.limit_bytes }
}

impl Orchestrator {
    pub(super) fn capability(&self, usage: Usage) -> v1::VolumeCapability {
        self.cx.capability_for(usage.access, usage.mode)
    }

    pub(super) async fn volume(&self, call: &VolumeCall) -> CheckResult<Made> {
        use VolumeCall::*;
        let made = match call {
            CreateVolume { name, wanted } => self.create_volume(*name, wanted).await,
            DeleteVolume { volume } => self.delete_volume(*volume).await,
            ControllerPublishVolume { volume, node, usage, readonly } => {
                self.controller_publish(*volume, *node, *usage, *readonly).await
            }
            ControllerUnpublishVolume { volume, node } => self.controller_unpublish(*volume, *node).await,
            ValidateVolumeCapabilities { volume, usage } => self.validate(*volume, *usage).await,
            ControllerGetVolume { volume } => self.get_volume(*volume).await,
            ControllerExpandVolume { volume, size } => self.controller_expand(*volume, *size).await,
            ControllerModifyVolume { volume, .. } => self.modify(*volume).await,
            NodeStageVolume { .. }
            | NodeUnstageVolume { .. }
            | NodePublishVolume { .. }
            | NodeUnpublishVolume { .. }
            | NodeExpandVolume { .. }
            | NodeGetVolumeStats { .. }
            | NodeGetVolumeHealth { .. } => return self.node(call).await,
            ControllerGetVolumeHealth { volume } => self.health(*volume).await,
            Write { .. } | Read { .. } => return self.work(call).await,
            Unmount { volume, node, target } => return self.unmount(*volume, *node, *target).await,
            // They are what other calls say.
            Listing { .. } | HealthListing { .. } | Copying { .. } => self.list_volumes().await,
        };
        Ok(made)
    }

    async fn create_volume(&self, name: Name, wanted: &CreateSpec) -> Made {
        let request = v1::CreateVolumeRequest {
            name: self.name(name),
            capacity_range: Some(range(wanted.size)),
            volume_capabilities: vec![self.capability(wanted.usage)],
            parameters: self.probed.parameters(wanted.parameters),
            volume_content_source: wanted.source.map(|source| self.source(source)),
            ..self.probed.request.clone()
        };
        let calling = self.cx.create_volume(request.clone());
        let shown = |volume: &v1::Volume| json!({"volume": redact::json(volume)});
        let read = |memory: &mut Memory, volume: &v1::Volume| {
            let id = memory.ids.give(name, &volume.volume_id);
            if let Some(id) = id {
                memory.contexts.insert(id, volume.volume_context.clone());
                memory.parameters.insert(id, wanted.parameters);
                memory.made_for.entry(id).or_insert(wanted.usage);
            }
            Response::Volume(VolumeResponse::Made(facts(memory, volume, id)))
        };
        self.send(&request, calling, shown, read).await
    }

    async fn delete_volume(&self, volume: Id) -> Made {
        let id = self.text(volume);
        let request = v1::DeleteVolumeRequest { volume_id: id.clone(), ..Default::default() };
        self.send(&request, self.cx.delete_volume(&id), redact::json, nothing).await
    }

    async fn controller_publish(&self, volume: Id, node: Node, usage: Usage, readonly: bool) -> Made {
        let request = {
            let memory = self.memory.lock();
            v1::ControllerPublishVolumeRequest {
                volume_id: memory.ids.text(volume).unwrap_or_default().to_owned(),
                node_id: self.probed.node(node),
                volume_capability: Some(self.capability(usage)),
                readonly,
                volume_context: memory.contexts.get(&volume).cloned().unwrap_or_default(),
                ..Default::default()
            }
        };
        let calling = self.cx.controller_publish(request.clone());
        let read = |memory: &mut Memory, response: &v1::ControllerPublishVolumeResponse| {
            memory.publish_contexts.insert((volume, node), response.publish_context.clone());
            Response::Volume(VolumeResponse::Attached(text_of(&response.publish_context)))
        };
        self.send(&request, calling, redact::json, read).await
    }

    async fn controller_unpublish(&self, volume: Id, node: Option<Node>) -> Made {
        let volume_id = self.text(volume);
        let node_id = node.map(|node| self.probed.node(node)).unwrap_or_default();
        let calling = self.cx.controller_unpublish(&volume_id, &node_id);
        let request = v1::ControllerUnpublishVolumeRequest {
            volume_id: volume_id.clone(),
            node_id: node_id.clone(),
            ..Default::default()
        };
        self.send(&request, calling, redact::json, nothing).await
    }

    async fn validate(&self, volume: Id, usage: Usage) -> Made {
        let set = self.memory.lock().parameters.get(&volume).copied().unwrap_or_default();
        let request = v1::ValidateVolumeCapabilitiesRequest {
            volume_id: self.text(volume),
            volume_context: self.memory.lock().contexts.get(&volume).cloned().unwrap_or_default(),
            volume_capabilities: vec![self.capability(usage)],
            parameters: self.probed.parameters(set),
            ..Default::default()
        };
        let read = |_: &mut Memory, response: &v1::ValidateVolumeCapabilitiesResponse| {
            Response::Volume(VolumeResponse::Confirmed(response.confirmed.is_some()))
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, read).await
    }

    async fn get_volume(&self, volume: Id) -> Made {
        let request = v1::ControllerGetVolumeRequest { volume_id: self.text(volume) };
        let read = |memory: &mut Memory, response: &v1::ControllerGetVolumeResponse| {
            let found = response.volume.clone().unwrap_or_default();
            let nodes = response.status.as_ref().map(|status| self.probed.nodes(&status.published_node_ids));
            let id = memory.ids.find(&[ObjectKind::Volume], &found.volume_id);
            Response::Volume(VolumeResponse::Seen(facts(memory, &found, id), nodes))
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, read).await
    }

    async fn controller_expand(&self, volume: Id, size: Size) -> Made {
        let usage = self.memory.lock().made_for.get(&volume).copied();
        let request = v1::ControllerExpandVolumeRequest {
            volume_id: self.text(volume),
            capacity_range: Some(range(size)),
            // The field is optional, but external-resizer always fills it in, and some drivers need it.
            volume_capability: usage.map(|usage| self.capability(usage)),
            ..Default::default()
        };
        let read = |_: &mut Memory, response: &v1::ControllerExpandVolumeResponse| {
            Response::Volume(VolumeResponse::Grown(response.capacity_bytes, response.node_expansion_required))
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, read).await
    }

    async fn modify(&self, volume: Id) -> Made {
        let request = v1::ControllerModifyVolumeRequest {
            volume_id: self.text(volume),
            mutable_parameters: self.cx.config().mutable_parameters.clone(),
            ..Default::default()
        };
        self.send(&request, self.cx.call(request.clone()), redact::json, nothing).await
    }

    /// Reads all pages of ListVolumes. If a page is rejected, that is the answer.
    pub(super) async fn list_volumes(&self) -> Made {
        let started = self.now();
        let mut request = v1::ListVolumesRequest::default();
        let (mut entries, mut pages) = (Vec::new(), 0);
        loop {
            let mut token = String::new();
            let read = |memory: &mut Memory, page: &v1::ListVolumesResponse| {
                token.clone_from(&page.next_token);
                entries.extend(page.entries.iter().cloned());
                nothing(memory, page)
            };
            let made = self.send(&request, self.cx.call(request.clone()), redact::json, read).await;
            pages += 1;
            // A token that leads back to its own page never ends.
            if !token.is_empty() && token != request.starting_token && pages < PAGES_MAX {
                request.starting_token = token;
                continue;
            }
            return self.listed(started, made, Listing::Volumes(pages, entries));
        }
    }

    pub(super) fn listed_volumes(
        &self,
        pages: u32,
        entries: &[v1::list_volumes_response::Entry],
    ) -> Listed<VolumeResponse> {
        let memory = self.memory.lock();
        let entries = entries.iter().filter_map(|entry| listed(&self.probed, &memory, entry));
        Listed { pages, entries: entries.collect() }
    }

    /// The last of several pages, for all of them.
    pub(super) fn listed(&self, invoked: Time, last: Made, listing: Listing) -> Made {
        let span = Span { invoked, ..last.span };
        let made = Made { span, listing, ..last };
        Made { answer: self.answer(&made), ..made }
    }
}

fn listed(
    probed: &ProbedDriver,
    memory: &Memory,
    entry: &v1::list_volumes_response::Entry,
) -> Option<(Id, VolumeResponse)> {
    let volume = entry.volume.as_ref()?;
    let id = memory.ids.find(&[ObjectKind::Volume], &volume.volume_id)?;
    let nodes = entry.status.as_ref().map(|status| probed.nodes(&status.published_node_ids));
    Some((id, VolumeResponse::Seen(facts(memory, volume, Some(id)), nodes)))
}

fn facts(memory: &Memory, volume: &v1::Volume, id: Option<Id>) -> VolumeFacts {
    // A source of no type names nothing. `every-reply/fields/required` reports it.
    let source = match volume.content_source.as_ref().filter(|source| source.r#type.is_some()) {
        None => SourceReported::LeftOut,
        Some(source) => memory.source(source).map_or(SourceReported::Stranger, SourceReported::Known),
    };
    VolumeFacts::new(volume, id, source)
}
