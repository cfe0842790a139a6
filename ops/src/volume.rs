//! One volume as an orchestrator knows it, and the requests for it.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;

use crate::lifecycle::Lifecycle;
use crate::operation::{Operation, Request, Response};

/// A volume with everything that later calls need: the id and the contexts that the driver returned, and the paths on the node.
#[derive(Clone, Debug)]
pub struct TrackedVolume {
    /// The volume; without an id until it is created.
    pub volume: NodeVolume,
    /// The capability with which it is used.
    pub capability: v1::VolumeCapability,
    /// publish_context, from ControllerPublishVolume.
    pub publish_context: Pairs,
    /// The node; empty until a call names it.
    pub node_id: String,
    /// staging_target_path; empty until a call needs it, and where the driver does not stage.
    pub staging_path: String,
    /// target_path; empty until a call needs it.
    pub target_path: String,
    /// The size that the volume is expanded to, in bytes.
    pub expand_to_bytes: i64,
    /// The answer to ControllerExpandVolume.
    pub expanded: Option<v1::ControllerExpandVolumeResponse>,
    /// The snapshot that was taken of it.
    pub snapshot: Option<v1::Snapshot>,
}

impl TrackedVolume {
    /// A volume that exists and is not attached, or one without an id that is still to be created.
    pub fn new(cx: &Cx, volume: NodeVolume) -> TrackedVolume {
        TrackedVolume {
            publish_context: volume.publish_context.clone(),
            volume,
            capability: cx.capability(),
            node_id: String::new(),
            staging_path: String::new(),
            target_path: String::new(),
            expand_to_bytes: cx.expand_size_bytes(),
            expanded: None,
            snapshot: None,
        }
    }

    /// A volume that was deleted just now, with the contexts that it had.
    ///
    /// # Errors
    /// Broken if a volume cannot be made, attached, detached or deleted.
    pub async fn deleted(cx: &Cx) -> CheckResult<TrackedVolume> {
        let Attached { volume, publish_context } = cx.deleted_volume().await?;
        Ok(TrackedVolume { publish_context, ..TrackedVolume::new(cx, volume) })
    }

    /// Does every step of the lifecycle that has to come before the operation, except for the creation of the volume.
    ///
    /// # Errors
    /// Broken if a call is rejected.
    pub fn reach<'a>(&'a mut self, cx: &'a Cx, operation: Operation) -> BoxFuture<'a, CheckResult> {
        Box::pin(async move {
            for step in Lifecycle::of(cx).before(operation) {
                if *step != Operation::CreateVolume {
                    let response = self.request(cx, *step).await?.send(cx).setup(step.product()).await?;
                    self.record(response);
                }
            }
            Ok(())
        })
    }

    /// The request for an operation on the volume. One that creates something has a new name each time.
    ///
    /// # Errors
    /// Broken if a path cannot be made, or NodeGetInfo is rejected.
    pub fn request<'a>(
        &'a mut self,
        cx: &'a Cx,
        operation: Operation,
    ) -> BoxFuture<'a, CheckResult<Request>> {
        Box::pin(async move {
            self.prepare(cx, operation).await?;
            let volume_id = self.volume.id.clone();
            let volume_capability = Some(self.capability.clone());
            Ok(match operation {
                Operation::CreateVolume => Request::CreateVolume(v1::CreateVolumeRequest {
                    volume_capabilities: volume_capability.into_iter().collect(),
                    ..cx.create_node_volume_request().await?
                }),
                Operation::DeleteVolume => {
                    Request::DeleteVolume(v1::DeleteVolumeRequest { volume_id, ..Default::default() })
                }
                Operation::ControllerPublishVolume => {
                    Request::ControllerPublishVolume(v1::ControllerPublishVolumeRequest {
                        volume_capability,
                        ..cx.controller_publish_request(&self.volume, &self.node_id)
                    })
                }
                Operation::ControllerUnpublishVolume => {
                    Request::ControllerUnpublishVolume(v1::ControllerUnpublishVolumeRequest {
                        volume_id,
                        node_id: self.node_id.clone(),
                        ..Default::default()
                    })
                }
                Operation::NodeStageVolume => Request::NodeStageVolume(v1::NodeStageVolumeRequest {
                    volume_capability,
                    ..cx.stage_request(&self.attached(), &self.staging_path)
                }),
                Operation::NodeUnstageVolume => Request::NodeUnstageVolume(v1::NodeUnstageVolumeRequest {
                    volume_id,
                    staging_target_path: self.staging_path.clone(),
                }),
                Operation::NodePublishVolume => Request::NodePublishVolume(v1::NodePublishVolumeRequest {
                    volume_capability,
                    ..cx.publish_request(&self.published().staged, &self.target_path)
                }),
                Operation::NodeUnpublishVolume => {
                    Request::NodeUnpublishVolume(v1::NodeUnpublishVolumeRequest {
                        volume_id,
                        target_path: self.target_path.clone(),
                    })
                }
                Operation::ControllerExpandVolume => {
                    Request::ControllerExpandVolume(v1::ControllerExpandVolumeRequest {
                        volume_id,
                        capacity_range: Some(at_least(self.expand_to_bytes)),
                        volume_capability,
                        ..Default::default()
                    })
                }
                Operation::NodeExpandVolume => Request::NodeExpandVolume(v1::NodeExpandVolumeRequest {
                    volume_id,
                    volume_path: self.target_path.clone(),
                    staging_target_path: self.staging_path.clone(),
                    capacity_range: self.size_on_node(),
                    volume_capability,
                    ..Default::default()
                }),
                Operation::ControllerModifyVolume => {
                    Request::ControllerModifyVolume(v1::ControllerModifyVolumeRequest {
                        volume_id,
                        mutable_parameters: cx.config().mutable_parameters.clone(),
                        ..Default::default()
                    })
                }
                Operation::CreateSnapshot => Request::CreateSnapshot(cx.create_snapshot_request(&volume_id)),
                Operation::DeleteSnapshot => Request::DeleteSnapshot(v1::DeleteSnapshotRequest {
                    snapshot_id: self.snapshot.clone().unwrap_or_default().snapshot_id,
                    ..Default::default()
                }),
                Operation::CreateVolumeGroupSnapshot => Request::CreateVolumeGroupSnapshot(
                    cx.create_group_snapshot_request(&[volume_id.as_str()]),
                ),
            })
        })
    }

    /// Finds out the id of the node and makes the paths, as far as a request needs them and there are none yet. The paths are removed
    /// with the scope.
    ///
    /// # Errors
    /// Broken if a path cannot be made, or NodeGetInfo is rejected.
    pub async fn prepare(&mut self, cx: &Cx, operation: Operation) -> CheckResult {
        use Operation::*;
        if matches!(operation, ControllerPublishVolume | ControllerUnpublishVolume) && self.node_id.is_empty()
        {
            self.node_id = cx.node_id().await?;
        }
        let is_staged = matches!(operation, NodeStageVolume | NodePublishVolume);
        if is_staged && self.staging_path.is_empty() && NodeStageVolume.is_offered(cx) {
            self.staging_path = cx.staging_path_of(&self.volume.id).await?;
        }
        if operation == NodePublishVolume && self.target_path.is_empty() {
            self.target_path = cx.target_path().await?;
        }
        Ok(())
    }

    /// The size that the node expands the volume to: that of the controller, and without that the present one, for which the
    /// controller has nothing to do.
    fn size_on_node(&self) -> Option<v1::CapacityRange> {
        let bytes = if self.expanded.is_some() { self.expand_to_bytes } else { self.volume.size_bytes };
        (bytes > 0).then(|| at_least(bytes))
    }

    /// Keeps the part of a response that later requests need.
    pub fn record(&mut self, response: Response) {
        match response {
            Response::Volume(volume) => self.volume = volume.into(),
            Response::Attached(attached) => self.publish_context = attached.publish_context,
            Response::Expanded(expanded) => self.expanded = Some(expanded),
            Response::Snapshot(snapshot) => self.snapshot = Some(snapshot),
            Response::Empty => {}
        }
    }

    fn attached(&self) -> Attached {
        Attached { volume: self.volume.clone(), publish_context: self.publish_context.clone() }
    }

    /// The volume as it is published, for functions that take it so.
    pub fn published(&self) -> Published {
        let staged = Staged { attached: self.attached(), staging_path: self.staging_path.clone() };
        Published { staged, target_path: self.target_path.clone() }
    }
}

/// A range without a limit.
pub(crate) fn at_least(required_bytes: i64) -> v1::CapacityRange {
    v1::CapacityRange { required_bytes, limit_bytes: 0 }
}
