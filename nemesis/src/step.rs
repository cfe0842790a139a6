//! The steps of a volume's life, in each of which something can break.

use csi_harness::prelude::*;
use csi_ops::operation::Operation;

macro_rules! steps {
    ($($step:ident = $id:literal, $operation:ident;)+) => {
        /// A step of a volume's life.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Step { $($step,)+ }

        impl Step {
            /// All steps, in order.
            pub const ALL: &'static [Step] = &[$(Step::$step,)+];

            /// Its name in stored faults.
            pub fn id(self) -> &'static str {
                match self { $(Step::$step => $id,)+ }
            }

            /// The step as a stage of the check, for the progress that the terminal shows.
            pub fn stage(self) -> &'static str {
                match self { $(Step::$step => concat!($id, ", fault"),)+ }
            }

            /// The operation that it is.
            pub fn operation(self) -> Operation {
                match self { $(Step::$step => Operation::$operation,)+ }
            }
        }
    };
}

steps! {
    Create = "create-volume", CreateVolume;
    Attach = "controller-publish", ControllerPublishVolume;
    Stage = "node-stage", NodeStageVolume;
    Publish = "node-publish", NodePublishVolume;
    ExpandController = "controller-expand", ControllerExpandVolume;
    ExpandNode = "node-expand", NodeExpandVolume;
    Unpublish = "node-unpublish", NodeUnpublishVolume;
    Unstage = "node-unstage", NodeUnstageVolume;
    StageAgain = "node-stage-with-data", NodeStageVolume;
    PublishAgain = "node-publish-with-data", NodePublishVolume;
    UnpublishAgain = "node-unpublish-again", NodeUnpublishVolume;
    UnstageAgain = "node-unstage-again", NodeUnstageVolume;
    Detach = "controller-unpublish", ControllerUnpublishVolume;
    Snapshot = "create-snapshot", CreateSnapshot;
    Restore = "create-volume-from-snapshot", CreateVolume;
    DeleteRestored = "delete-restored-volume", DeleteVolume;
    DeleteSnapshot = "delete-snapshot", DeleteSnapshot;
    Delete = "delete-volume", DeleteVolume;
}

impl Step {
    pub fn find(id: &str) -> Option<Step> {
        Step::ALL.iter().copied().find(|step| step.id() == id)
    }

    /// The RPC.
    pub fn rpc(self) -> &'static str {
        self.operation().method()
    }

    /// Returns true if a driver has it, by the capabilities that it advertises.
    pub fn is_offered(self, cx: &Cx) -> bool {
        let is_online = || cx.target().capabilities().has(Capability::OnlineExpansion);
        self.operation().is_offered(cx)
            && match self {
                Step::ExpandController => is_online(),
                Step::ExpandNode => Step::ExpandController.is_offered(cx),
                Step::Restore | Step::DeleteRestored => Step::Snapshot.is_offered(cx),
                _ => true,
            }
    }

    /// Returns true if a life in which something breaks at that step shows more with this step than without it. Steps
    /// before the fault only lead to it. The data are read for the last time before they are taken from the node, and
    /// after that in a copy.
    pub fn matters_to(self, at: Step) -> bool {
        match self {
            Step::StageAgain | Step::PublishAgain | Step::UnpublishAgain | Step::UnstageAgain => {
                at < Step::Detach
            }
            Step::Snapshot | Step::Restore | Step::DeleteRestored | Step::DeleteSnapshot => {
                (Step::UnpublishAgain..Step::Delete).contains(&at)
            }
            _ => true,
        }
    }

    /// The steps that an orchestrator repeats after a loss of power in this step, before it continues: the node has
    /// lost its mounts.
    pub fn had_on_node(self, is_answered: bool) -> &'static [Step] {
        match (self, is_answered) {
            (Step::Stage, true) | (Step::Publish, false) => &[Step::Stage],
            (Step::Publish, true) | (Step::ExpandController | Step::ExpandNode, _) => {
                &[Step::Stage, Step::Publish]
            }
            (Step::StageAgain, true) | (Step::PublishAgain, false) => &[Step::StageAgain],
            (Step::PublishAgain, true) => &[Step::StageAgain, Step::PublishAgain],
            _ => &[],
        }
    }

    /// True if the step repeats an earlier call, and can lose nothing that the earlier one cannot lose.
    pub fn is_repetition(self) -> bool {
        matches!(self, Step::UnpublishAgain | Step::UnstageAgain)
    }

    /// Returns true if a life without it shows as much about the other steps.
    pub fn is_optional(self) -> bool {
        matches!(
            self,
            Step::ExpandController
                | Step::ExpandNode
                | Step::Snapshot
                | Step::Restore
                | Step::DeleteRestored
                | Step::DeleteSnapshot
        )
    }
}
