//! Calls that ask for less, and sequences with the first of all names.

use std::collections::BTreeMap;

use csi_model::call::{Call, CreateSpec, GroupCall, Size, VolumeCall};
use csi_model::call_context::DriverProfile;
use csi_model::names::{Id, Name, Node, ObjectKind, Target};

use crate::how::CallMode;
use crate::sequence::Step;

/// The ways in which a call can ask for less, or be made more simply: the plainest first.
pub(super) fn ways(doing: &Step, profile: &DriverProfile) -> Vec<Step> {
    let call = &doing.call;
    match doing.how {
        CallMode::Once => {
            calls(call, profile).into_iter().filter(|plainer| plainer != call).map(Step::once).collect()
        }
        CallMode::Disrupted(_) | CallMode::KilledAtChange(_) | CallMode::Retried => {
            vec![Step::once(call.clone())]
        }
    }
}

fn calls(call: &Call, profile: &DriverProfile) -> Vec<Call> {
    match call {
        Call::Volume(call) => volume(call, profile).into_iter().map(Call::from).collect(),
        Call::Group(GroupCall::CreateVolumeGroupSnapshot { name, volumes }) if volumes.len() > 1 => {
            let without = |at: usize| {
                let mut volumes = volumes.clone();
                volumes.remove(at);
                GroupCall::CreateVolumeGroupSnapshot { name: *name, volumes }.into()
            };
            (0..volumes.len()).map(without).collect()
        }
        Call::Group(GroupCall::DeleteMember { group, member }) => {
            vec![GroupCall::DeleteMember { group: *group, member: member.name.id(0) }.into()]
        }
        Call::Group(_) | Call::Snapshot(_) | Call::List(_) => Vec::new(),
    }
}

fn volume(call: &VolumeCall, profile: &DriverProfile) -> Vec<VolumeCall> {
    use VolumeCall::*;
    match call.clone() {
        CreateVolume { name, wanted } => {
            let ways = wishes(wanted, profile).into_iter();
            ways.map(|wanted| CreateVolume { name, wanted }).collect()
        }
        ControllerExpandVolume { volume, .. } => {
            vec![ControllerExpandVolume { volume, size: Size::at_least(profile.larger_bytes) }]
        }
        ControllerPublishVolume { volume, node, usage, readonly: true } => {
            vec![ControllerPublishVolume { volume, node, usage, readonly: false }]
        }
        NodePublishVolume { volume, node, target, usage, readonly: true } => {
            vec![NodePublishVolume { volume, node, target, usage, readonly: false }]
        }
        _ => Vec::new(),
    }
}

/// The wish for nothing but a volume, and those that come nearer to it by one thing.
fn wishes(wanted: CreateSpec, profile: &DriverProfile) -> Vec<CreateSpec> {
    let usage = profile.usages.first().copied().unwrap_or(wanted.usage);
    let plain = CreateSpec::of(Size::at_least(profile.size_bytes), usage);
    vec![
        plain.clone(),
        CreateSpec { source: None, ..wanted.clone() },
        CreateSpec { size: plain.size, ..wanted.clone() },
        CreateSpec { parameters: 0, ..wanted.clone() },
        CreateSpec { mutable_parameters: 0, ..wanted.clone() },
        CreateSpec { usage, ..wanted },
    ]
}

/// The calls, with names, nodes and places numbered as they come.
pub(super) fn renamed(mut doings: Vec<Step>) -> Vec<Step> {
    let mut first = First::default();
    for Step { call, .. } in &mut doings {
        if let Some(name) = call.made_mut() {
            *name = first.name(*name);
        }
        for id in call.ids_mut() {
            *id = first.id(*id);
        }
        let (node, target) = call.place_mut();
        if let Some(node) = node {
            *node = first.node(*node);
        }
        if let Some(target) = target {
            *target = first.target(*target);
        }
    }
    doings
}

/// New numbers for old ones.
#[derive(Debug, Default)]
struct First {
    names: BTreeMap<Name, Name>,
    nodes: BTreeMap<Node, Node>,
    targets: BTreeMap<Target, Target>,
}

impl First {
    fn name(&mut self, name: Name) -> Name {
        let taken = self.names.keys().filter(|other| other.kind == name.kind).count();
        let number = u16::try_from(taken).unwrap_or(name.number);
        *self.names.entry(name).or_insert(Name { number, ..name })
    }

    /// Members go by the number of their group.
    fn id(&mut self, id: Id) -> Id {
        let owner = self.name(id.name.owner());
        let name = if id.name.kind == ObjectKind::Member { owner.members() } else { owner };
        Id { name, ..id }
    }

    fn node(&mut self, node: Node) -> Node {
        let taken = u8::try_from(self.nodes.len()).unwrap_or(node.0);
        *self.nodes.entry(node).or_insert(Node(taken))
    }

    fn target(&mut self, target: Target) -> Target {
        let taken = u8::try_from(self.targets.len()).unwrap_or(target.0);
        *self.targets.entry(target).or_insert(Target(taken))
    }
}
