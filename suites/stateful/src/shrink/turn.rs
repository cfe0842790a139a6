//! Finds calls that an orchestrator would not make yet, because an earlier step is missing.

use std::collections::BTreeSet;

use csi_harness::protocol::capability::Capability;
use csi_model::call::{Call, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Node, Target};

use crate::sequence::ExecutedStep;

/// The calls, with those marked that come too early.
pub(super) fn marked(mut links: Vec<ExecutedStep>, profile: &DriverProfile) -> Vec<ExecutedStep> {
    let mut turn = Turn::new(profile);
    for link in &mut links {
        link.is_early = turn.is_early(&link.doing.call);
        turn.take(&link.doing.call);
    }
    links
}

/// The places of volumes, if everything is done that is requested.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    profile: &'a DriverProfile,
    attached: BTreeSet<(Id, Node)>,
    staged: BTreeSet<(Id, Node)>,
    published: BTreeSet<(Id, Node, Target)>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(profile: &'a DriverProfile) -> Turn<'a> {
        let (attached, staged, published) = Default::default();
        Turn { profile, attached, staged, published }
    }

    /// Returns true if another step has to be done or undone before.
    pub(super) fn is_early(&self, call: &Call) -> bool {
        use VolumeCall::*;
        let Call::Volume(call) = call else { return false };
        match *call {
            NodeStageVolume { volume, node, .. } => !self.is_attached(volume, node),
            NodePublishVolume { volume, node, .. } => !self.is_staged(volume, node),
            Write { volume, node, target, .. } | Read { volume, node, target } => {
                !self.published.contains(&(volume, node, target))
            }
            NodeUnstageVolume { volume, node } => self.is_published(volume, Some(node)),
            ControllerUnpublishVolume { volume, node } => {
                self.is_published(volume, node) || is_on(&self.staged, volume, node)
            }
            DeleteVolume { volume } => {
                self.is_published(volume, None)
                    || is_on(&self.staged, volume, None)
                    || is_on(&self.attached, volume, None)
            }
            _ => false,
        }
    }

    /// Applies a call as done.
    pub(super) fn take(&mut self, call: &Call) {
        use VolumeCall::*;
        let Call::Volume(call) = call else { return };
        match *call {
            ControllerPublishVolume { volume, node, .. } => {
                self.attached.insert((volume, node));
            }
            ControllerUnpublishVolume { volume, node } => {
                self.attached.retain(|(id, on)| *id != volume || node.is_some_and(|node| node != *on));
            }
            NodeStageVolume { volume, node, .. } => {
                self.staged.insert((volume, node));
            }
            NodeUnstageVolume { volume, node } => {
                self.staged.remove(&(volume, node));
            }
            NodePublishVolume { volume, node, target, .. } => {
                self.published.insert((volume, node, target));
            }
            NodeUnpublishVolume { volume, node, target } => {
                self.published.remove(&(volume, node, target));
            }
            _ => {}
        }
    }

    fn is_attached(&self, volume: Id, node: Node) -> bool {
        !self.profile.has(Capability::PublishUnpublishVolume) || self.attached.contains(&(volume, node))
    }

    fn is_staged(&self, volume: Id, node: Node) -> bool {
        match self.profile.has(Capability::StageUnstageVolume) {
            true => self.staged.contains(&(volume, node)),
            false => self.is_attached(volume, node),
        }
    }

    fn is_published(&self, volume: Id, node: Option<Node>) -> bool {
        self.published.iter().any(|(id, on, _)| *id == volume && node.is_none_or(|node| node == *on))
    }
}

fn is_on(places: &BTreeSet<(Id, Node)>, volume: Id, node: Option<Node>) -> bool {
    places.iter().any(|(id, on)| *id == volume && node.is_none_or(|node| node == *on))
}
