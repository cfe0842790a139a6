//! The calls about volumes that go to the Node service of a node.

use std::path::Path;

use csi_harness::prelude::*;
use csi_harness::resources::workload::is_fuse;
use csi_model::answer::{Response, VolumeResponse};
use csi_model::call::{Size, Usage, VolumeCall};
use csi_model::names::{Id, Node, Target};
use csi_proto::redact;

use super::memory::Memory;
use super::{Made, Orchestrator};

fn nothing<T>(_: &mut Memory, _: &T) -> Response {
    Response::Volume(VolumeResponse::Nothing)
}

impl Orchestrator {
    pub(super) async fn node(&self, call: &VolumeCall) -> CheckResult<Made> {
        use VolumeCall::*;
        match call {
            NodeStageVolume { volume, node, usage } => self.stage(*volume, *node, *usage).await,
            NodeUnstageVolume { volume, node } => self.unstage(*volume, *node).await,
            NodePublishVolume { volume, node, target, usage, readonly } => {
                self.publish((*volume, *node, *target), *usage, *readonly).await
            }
            NodeUnpublishVolume { volume, node, target } => self.unpublish((*volume, *node, *target)).await,
            NodeExpandVolume { volume, node, target, size } => {
                self.node_expand((*volume, *node, *target), *size).await
            }
            NodeGetVolumeStats { volume, node, target } => self.stats((*volume, *node, *target)).await,
            NodeGetVolumeHealth { volume, node, target } => {
                self.health_on_node((*volume, *node, *target)).await
            }
            _ => Err(Stop::broken(format!("{} is no call to a node", call.method()))),
        }
    }

    pub(super) fn at(&self, node: Node) -> Cx {
        self.cx.at_node(node.0.into())
    }

    /// Makes the paths that a call names: who gives up the call gives up nothing that is half done here.
    pub(super) async fn make_paths(&self, call: &VolumeCall) -> CheckResult {
        use VolumeCall::*;
        match *call {
            NodeStageVolume { volume, node, .. } | NodeUnstageVolume { volume, node } => {
                self.staging_path(volume, node).await?;
            }
            NodePublishVolume { volume, node, target, .. }
            | NodeExpandVolume { volume, node, target, .. }
            | NodeGetVolumeStats { volume, node, target }
            | NodeGetVolumeHealth { volume, node, target } => {
                self.staging_path(volume, node).await?;
                self.target_path((volume, node, target)).await?;
            }
            NodeUnpublishVolume { volume, node, target } => {
                self.target_path((volume, node, target)).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The staging path of a volume on a node; empty where the driver does not stage.
    pub(super) async fn staging_path(&self, volume: Id, node: Node) -> CheckResult<String> {
        if !self.cx.target().capabilities().has(Capability::StageUnstageVolume) {
            return Ok(String::new());
        }
        let known = self.memory.lock().staging_paths.get(&(volume, node)).cloned();
        if let Some(path) = known {
            return Ok(path);
        }
        let made = self.at(node).staging_path_of(&self.text(volume)).await?;
        Ok(self.memory.lock().staging_paths.entry((volume, node)).or_insert(made).clone())
    }

    pub(super) async fn target_path(&self, at: (Id, Node, Target)) -> CheckResult<String> {
        let known = self.memory.lock().target_paths.get(&at).cloned();
        if let Some(path) = known {
            return Ok(path);
        }
        let made = self.at(at.1).target_path().await?;
        if at.2 >= Target::WITH_A_DIRECTORY && self.cx.access() == AccessType::Mount {
            std::fs::create_dir_all(&made)
                .map_err(|error| Stop::broken(format!("failed to make {made}: {error}")))?;
        }
        Ok(self.memory.lock().target_paths.entry(at).or_insert(made).clone())
    }

    /// Returns true if the file system of a volume, where it is staged or published, ends with a process.
    pub(crate) fn is_served_by_a_process(&self, volume: Id, node: Node, target: Target) -> bool {
        let memory = self.memory.lock();
        let staged = memory.staging_paths.get(&(volume, node));
        let published = memory.target_paths.get(&(volume, node, target));
        staged.into_iter().chain(published).any(|path| is_fuse(Path::new(path)))
    }

    /// Returns true if the file system of any volume ends with a process.
    pub(super) fn is_any_served_by_a_process(&self) -> bool {
        let memory = self.memory.lock();
        let mut paths = memory.staging_paths.values().chain(memory.target_paths.values());
        paths.any(|path| is_fuse(Path::new(path)))
    }

    async fn stage(&self, volume: Id, node: Node, usage: Usage) -> CheckResult<Made> {
        let staging_target_path = self.staging_path(volume, node).await?;
        let request = {
            let memory = self.memory.lock();
            v1::NodeStageVolumeRequest {
                volume_id: memory.ids.text(volume).unwrap_or_default().to_owned(),
                publish_context: memory.publish_contexts.get(&(volume, node)).cloned().unwrap_or_default(),
                staging_target_path,
                volume_capability: Some(self.capability(usage)),
                volume_context: memory.contexts.get(&volume).cloned().unwrap_or_default(),
                ..Default::default()
            }
        };
        let cx = self.at(node);
        Ok(self.send(&request, cx.node_stage(request.clone()), redact::json, nothing).await)
    }

    async fn unstage(&self, volume: Id, node: Node) -> CheckResult<Made> {
        let (cx, volume_id) = (self.at(node), self.text(volume));
        let staging_target_path = self.staging_path(volume, node).await?;
        let calling = cx.node_unstage(&volume_id, &staging_target_path);
        let request = v1::NodeUnstageVolumeRequest {
            volume_id: volume_id.clone(),
            staging_target_path: staging_target_path.clone(),
        };
        Ok(self.send(&request, calling, redact::json, nothing).await)
    }

    async fn publish(&self, at: (Id, Node, Target), usage: Usage, readonly: bool) -> CheckResult<Made> {
        let (volume, node, _) = at;
        let staging_target_path = self.staging_path(volume, node).await?;
        let target_path = self.target_path(at).await?;
        let request = {
            let mut memory = self.memory.lock();
            memory.usages.insert(at, usage);
            v1::NodePublishVolumeRequest {
                volume_id: memory.ids.text(volume).unwrap_or_default().to_owned(),
                publish_context: memory.publish_contexts.get(&(volume, node)).cloned().unwrap_or_default(),
                staging_target_path,
                target_path,
                volume_capability: Some(self.capability(usage)),
                readonly,
                volume_context: memory.contexts.get(&volume).cloned().unwrap_or_default(),
                ..Default::default()
            }
        };
        let cx = self.at(node);
        Ok(self.send(&request, cx.node_publish(request.clone()), redact::json, nothing).await)
    }

    async fn unpublish(&self, at: (Id, Node, Target)) -> CheckResult<Made> {
        let (cx, volume_id, target_path) = (self.at(at.1), self.text(at.0), self.target_path(at).await?);
        let calling = cx.node_unpublish(&volume_id, &target_path);
        let request =
            v1::NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path: target_path.clone() };
        Ok(self.send(&request, calling, redact::json, nothing).await)
    }

    /// Sends volume_capability as kubelet does: without it, a plugin may be unable to find out the access type.
    async fn node_expand(&self, at: (Id, Node, Target), size: Size) -> CheckResult<Made> {
        let usage = self.memory.lock().usages.get(&at).copied();
        let request = v1::NodeExpandVolumeRequest {
            volume_id: self.text(at.0),
            volume_path: self.target_path(at).await?,
            capacity_range: Some(v1::CapacityRange {
                required_bytes: size.required_bytes,
                limit_bytes: size.limit_bytes,
            }),
            staging_target_path: self.staging_path(at.0, at.1).await?,
            volume_capability: usage.map(|usage| self.capability(usage)),
            ..Default::default()
        };
        let cx = self.at(at.1);
        Ok(self.send(&request, cx.call(request.clone()), redact::json, nothing).await)
    }

    async fn stats(&self, at: (Id, Node, Target)) -> CheckResult<Made> {
        let request = v1::NodeGetVolumeStatsRequest {
            volume_id: self.text(at.0),
            volume_path: self.target_path(at).await?,
            staging_target_path: self.staging_path(at.0, at.1).await?,
        };
        let cx = self.at(at.1);
        Ok(self.send(&request, cx.call(request.clone()), redact::json, nothing).await)
    }
}
