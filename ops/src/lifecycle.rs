//! The order of the calls that bring a volume to a workload on a node and take it back, for the capabilities of a driver.

use csi_harness::prelude::*;
use csi_proto::Service;

use crate::operation::Operation;

/// Each step is undone by its inverse, in the reverse order.
const STEPS: [Operation; 4] = [
    Operation::CreateVolume,
    Operation::ControllerPublishVolume,
    Operation::NodeStageVolume,
    Operation::NodePublishVolume,
];

/// The steps that a driver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle(Vec<Operation>);

impl Lifecycle {
    /// The steps of the driver under test.
    pub fn of(cx: &Cx) -> Lifecycle {
        Lifecycle::new(
            |capability| cx.target().capabilities().has(capability),
            cx.target().serves(Service::Node),
        )
    }

    /// The steps of a driver with these capabilities.
    pub fn new(has: impl Fn(Capability) -> bool, has_node: bool) -> Lifecycle {
        let is_offered = |step: &Operation| step.is_offered_with(&has, has_node);
        Lifecycle(STEPS.into_iter().filter(is_offered).collect())
    }

    /// From nothing up to a published volume.
    pub fn setup(&self) -> &[Operation] {
        &self.0
    }

    /// From an existing volume up to a published one.
    pub fn publication(&self) -> impl Iterator<Item = Operation> {
        self.0.iter().copied().filter(|step| *step != Operation::CreateVolume)
    }

    /// From a published volume down to nothing.
    pub fn teardown(&self) -> impl Iterator<Item = Operation> {
        self.0.iter().rev().filter_map(|step| step.inverse())
    }

    /// The steps that have to be done before an operation on the volume.
    pub fn before(&self, operation: Operation) -> &[Operation] {
        let position = |step: Operation| STEPS.iter().position(|one| *one == step);
        let end = match (position(operation), operation.undoes().and_then(position)) {
            (Some(at), _) => at,
            (None, Some(undone)) => undone + 1,
            // The node expands a volume that is published; the controller copies, expands and modifies one that is not attached.
            (None, None) if operation.rpc().service == Service::Node => STEPS.len(),
            (None, None) => 1,
        };
        let count = self.0.iter().filter(|step| STEPS[..end].contains(step)).count();
        &self.0[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::*;

    #[test]
    fn steps_that_a_driver_lacks_are_left_out() {
        let without_staging = Lifecycle::new(|capability| capability != Capability::StageUnstageVolume, true);
        assert_eq!(without_staging.setup(), [CreateVolume, ControllerPublishVolume, NodePublishVolume]);
        let teardown: Vec<Operation> = without_staging.teardown().collect();
        let publication: Vec<Operation> = without_staging.publication().collect();
        assert_eq!(publication, without_staging.setup()[1..]);
        assert_eq!(teardown, [NodeUnpublishVolume, ControllerUnpublishVolume, DeleteVolume]);
        assert_eq!(Lifecycle::new(|_| true, false).setup(), [CreateVolume]);
    }

    #[test]
    fn the_steps_before_an_operation_lead_up_to_it() {
        let all = Lifecycle::new(|_| true, true);
        for (operation, before) in [
            (CreateVolume, &all.setup()[..0]),
            (CreateSnapshot, &all.setup()[..1]),
            (ControllerExpandVolume, &all.setup()[..1]),
            (NodeStageVolume, &all.setup()[..2]),
            (NodeUnstageVolume, &all.setup()[..3]),
            (NodePublishVolume, &all.setup()[..3]),
            (NodeUnpublishVolume, all.setup()),
            (NodeExpandVolume, all.setup()),
            (ControllerUnpublishVolume, &all.setup()[..2]),
            (DeleteVolume, &all.setup()[..1]),
        ] {
            assert_eq!(all.before(operation), before, "{operation:?}");
        }
        let plain = Lifecycle::new(|capability| capability == Capability::CreateDeleteVolume, true);
        assert_eq!(plain.before(NodeStageVolume), [CreateVolume], "also of an operation that is not offered");
    }
}
