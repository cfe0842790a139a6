//! The lifecycle of a volume as calls of the model.

use csi_model::call::{Call, CreateSpec, Size, Usage, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Node, Target};
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;

/// One volume that is used in one way, at one place of one node.
#[derive(Clone, Debug)]
pub(crate) struct VolumeLifecycle {
    pub(crate) volume: Id,
    pub(crate) node: Node,
    pub(crate) target: Target,
    pub(crate) wanted: CreateSpec,
    steps: Lifecycle,
}

impl VolumeLifecycle {
    /// A volume of the size that the driver is known to accept, at the first place of the first node.
    pub(crate) fn new(profile: &DriverProfile, usage: Usage, volume: Id) -> VolumeLifecycle {
        VolumeLifecycle {
            volume,
            node: Node(0),
            target: Target(0),
            wanted: CreateSpec::of(Size::at_least(profile.size_bytes), usage),
            steps: Lifecycle::new(|capability| profile.has(capability), profile.nodes > 0),
        }
    }

    /// The call of a step, or the one that undoes it. `None` for any other operation, and for one that the driver does not have.
    pub(crate) fn call(&self, operation: Operation) -> Option<Call> {
        let is_step = |step: &Operation| *step == operation || step.inverse() == Some(operation);
        self.steps.setup().iter().find(|step| is_step(step))?;
        let VolumeLifecycle { volume, node, target, .. } = *self;
        let (usage, readonly) = (self.wanted.usage, false);
        let call = match operation {
            Operation::CreateVolume => {
                VolumeCall::CreateVolume { name: volume.name, wanted: self.wanted.clone() }
            }
            Operation::ControllerPublishVolume => {
                VolumeCall::ControllerPublishVolume { volume, node, usage, readonly }
            }
            Operation::NodeStageVolume => VolumeCall::NodeStageVolume { volume, node, usage },
            Operation::NodePublishVolume => {
                VolumeCall::NodePublishVolume { volume, node, target, usage, readonly }
            }
            Operation::NodeUnpublishVolume => VolumeCall::NodeUnpublishVolume { volume, node, target },
            Operation::NodeUnstageVolume => VolumeCall::NodeUnstageVolume { volume, node },
            Operation::ControllerUnpublishVolume => {
                VolumeCall::ControllerUnpublishVolume { volume, node: Some(node) }
            }
            Operation::DeleteVolume => VolumeCall::DeleteVolume { volume },
            _ => return None,
        };
        Some(call.into())
    }

    /// Each step, from the creation of the volume on, with the call that undoes it.
    pub(crate) fn steps(&self) -> Vec<(Call, Call)> {
        let pair = |step: &Operation| Some((self.call(*step)?, self.call(step.inverse()?)?));
        self.steps.setup().iter().filter_map(pair).collect()
    }

    /// The calls up to a published volume.
    pub(crate) fn setup(&self) -> Vec<Call> {
        self.steps().into_iter().map(|(call, _)| call).collect()
    }

    /// The calls from a published volume to its deletion.
    pub(crate) fn teardown(&self) -> Vec<Call> {
        self.steps().into_iter().rev().map(|(_, undo)| undo).collect()
    }
}
