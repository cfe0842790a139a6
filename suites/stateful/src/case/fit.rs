//! Whether a driver can be asked for what a case asks for.

use csi_harness::capability::Capability;

use super::Case;
use crate::model::around::Terms;
use crate::model::call::{Call, SnapshotCall, VolumeCall};
use crate::model::names::{Kind, Node};

/// Capabilities that add a step to the way of a volume to a workload.
const STEPS: [Capability; 2] = [Capability::PublishUnpublishVolume, Capability::StageUnstageVolume];

impl Case {
    /// Why the calls of the case cannot be made and judged on a driver that has other abilities than the one on which they
    /// were made. `has_workloads` is whether the tests can write to what it publishes.
    pub fn unfit_for(&self, terms: &Terms, has_workloads: bool) -> Option<String> {
        let is_new = |step: &Capability| terms.has(*step) && !self.driver.capabilities.contains(step);
        if let Some(step) = STEPS.into_iter().find(is_new) {
            return Some(format!("it was found on a driver without {step}, which this one advertises"));
        }
        self.steps.iter().find_map(|step| unfit(&step.call, terms, has_workloads))
    }
}

fn unfit(call: &Call, terms: &Terms, has_workloads: bool) -> Option<String> {
    if let Some(needed) = needs(call).filter(|needed| !terms.has(*needed)) {
        return Some(format!("{call} needs {needed}, which the driver does not advertise"));
    }
    let Call::Volume(call) = call else { return None };
    let method = call.method();
    match call {
        VolumeCall::CreateVolume { wanted, .. } if !terms.usages.contains(&wanted.usage) => {
            Some(format!("{method} asks for {:?}, which the driver does not accept", wanted.usage.mode))
        }
        VolumeCall::CreateVolume { wanted, .. } if wanted.parameters >= terms.parameters => {
            Some(format!("{method} has parameters of other keys, which the driver does not accept"))
        }
        VolumeCall::ControllerModifyVolume { .. } if terms.mutable_parameters == 0 => {
            Some(format!("{method} needs mutable parameters, and the configuration has none"))
        }
        VolumeCall::Write { .. } | VolumeCall::Read { .. } if !has_workloads => {
            Some("nothing can be written into volumes from here".to_owned())
        }
        call => node(call)
            .filter(|node| node.0 >= terms.nodes)
            .map(|node| format!("{method} goes to {node}, and the volume can be on {} only", terms.nodes)),
    }
}

fn needs(call: &Call) -> Option<Capability> {
    use VolumeCall::*;
    match call {
        Call::Volume(call) => match call {
            CreateVolume { wanted, .. } => Some(match wanted.source.map(|source| source.name.kind) {
                Some(Kind::Volume) => Capability::CloneVolume,
                _ => Capability::CreateDeleteVolume,
            }),
            DeleteVolume { .. } => Some(Capability::CreateDeleteVolume),
            ControllerPublishVolume { readonly: true, .. } => Some(Capability::PublishReadonly),
            ControllerPublishVolume { .. } | ControllerUnpublishVolume { .. } => {
                Some(Capability::PublishUnpublishVolume)
            }
            ControllerGetVolume { .. } => Some(Capability::GetVolume),
            ControllerExpandVolume { .. } => Some(Capability::ExpandVolume),
            ControllerModifyVolume { .. } => Some(Capability::ModifyVolume),
            NodeStageVolume { .. } | NodeUnstageVolume { .. } => Some(Capability::StageUnstageVolume),
            NodeExpandVolume { .. } => Some(Capability::NodeExpandVolume),
            NodeGetVolumeStats { .. } => Some(Capability::GetVolumeStats),
            Listing { .. } => Some(Capability::ListVolumes),
            ValidateVolumeCapabilities { .. }
            | NodePublishVolume { .. }
            | NodeUnpublishVolume { .. }
            | Write { .. }
            | Read { .. }
            | Copying { .. } => None,
        },
        Call::Snapshot(SnapshotCall::GetSnapshot { .. }) => Some(Capability::GetSnapshot),
        Call::Snapshot(_) => Some(Capability::CreateDeleteSnapshot),
        Call::Group(_) => Some(Capability::CreateDeleteGetVolumeGroupSnapshot),
        Call::ListVolumes => Some(Capability::ListVolumes),
        Call::ListSnapshots => Some(Capability::ListSnapshots),
    }
}

fn node(call: &VolumeCall) -> Option<Node> {
    use VolumeCall::*;
    match call {
        ControllerPublishVolume { node, .. }
        | NodeStageVolume { node, .. }
        | NodeUnstageVolume { node, .. }
        | NodePublishVolume { node, .. }
        | NodeUnpublishVolume { node, .. }
        | NodeExpandVolume { node, .. }
        | NodeGetVolumeStats { node, .. }
        | Write { node, .. }
        | Read { node, .. } => Some(*node),
        ControllerUnpublishVolume { node, .. } => *node,
        CreateVolume { .. }
        | DeleteVolume { .. }
        | ValidateVolumeCapabilities { .. }
        | ControllerGetVolume { .. }
        | ControllerExpandVolume { .. }
        | ControllerModifyVolume { .. }
        | Listing { .. }
        | Copying { .. } => None,
    }
}
