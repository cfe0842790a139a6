//! Finds out if a case makes sense for a driver.

use csi_harness::protocol::capability::Capability;
use csi_harness::protocol::rpc::Facts;
use csi_model::call::{Call, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::ObjectKind;

use super::Case;

/// Capabilities that add a step to the way of a volume to a workload.
const STEPS: [Capability; 2] = [Capability::PublishUnpublishVolume, Capability::StageUnstageVolume];

impl Case {
    /// The reason why the calls of the case cannot be made and judged on a driver with other abilities than the
    /// original one. `has_workloads` is true if the tests can write to what it publishes.
    pub fn unfit_for(&self, profile: &DriverProfile, has_workloads: bool) -> Option<String> {
        let is_new = |step: &Capability| profile.has(*step) && !self.driver.capabilities.contains(step);
        if let Some(step) = STEPS.into_iter().find(is_new) {
            return Some(format!("it was found on a driver without {step}, which this one advertises"));
        }
        self.steps.iter().find_map(|step| unfit(&step.call, profile, has_workloads))
    }
}

fn unfit(call: &Call, profile: &DriverProfile, has_workloads: bool) -> Option<String> {
    if let Some(needed) = needs(call).filter(|needed| !profile.has(*needed)) {
        return Some(format!("{call} needs {needed}, which the driver does not advertise"));
    }
    let Call::Volume(call) = call else { return None };
    let method = call.method();
    match call {
        VolumeCall::CreateVolume { wanted, .. } if !profile.usages.contains(&wanted.usage) => {
            Some(format!("{method} asks for {:?}, which the driver does not accept", wanted.usage.mode))
        }
        VolumeCall::CreateVolume { wanted, .. } if wanted.parameters >= profile.parameters => {
            Some(format!("{method} has parameters of other keys, which the driver does not accept"))
        }
        VolumeCall::ControllerModifyVolume { .. } if profile.mutable_parameters == 0 => {
            Some(format!("{method} needs mutable parameters, and the configuration has none"))
        }
        VolumeCall::Write { .. } | VolumeCall::Read { .. } | VolumeCall::Unmount { .. } if !has_workloads => {
            Some("nothing can be written into volumes from here".to_owned())
        }
        call => {
            call.clone().place_mut().0.filter(|node| node.0 >= profile.nodes).map(|node| {
                format!("{method} goes to {node}, and the volume can be on {} only", profile.nodes)
            })
        }
    }
}

fn needs(call: &Call) -> Option<Capability> {
    match call {
        Call::Volume(VolumeCall::CreateVolume { wanted, .. })
            if wanted.source.is_some_and(|source| source.name.kind == ObjectKind::Volume) =>
        {
            Some(Capability::CloneVolume)
        }
        Call::Volume(VolumeCall::ControllerPublishVolume { readonly: true, .. }) => {
            Some(Capability::PublishReadonly)
        }
        call => Facts::named(call.method())?.promised_by.first().copied(),
    }
}
