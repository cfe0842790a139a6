//! The answers of the Controller service that are right about volumes.

use std::collections::BTreeSet;

use csi_harness::protocol::capability::Capability;
use csi_harness::spec::requirements::{Requirement, req};
use csi_harness::text::size::sized;
use tonic::Code;

use super::{health, list, node};
use crate::answer::{SourceReported, VolumeFacts, VolumeResponse};
use crate::call::{CreateSpec, List, MODES_FOR_MANY_NODES, Size, Usage, VolumeCall};
use crate::call_context::{CallContext, Presence};
use crate::expectation::{Expectation, Finding, anything, must, must_be_refused, says};
use crate::names::{Id, Name, Node, ObjectKind};
use crate::state::{Held, Volume, VolumeLife};

/// The answers that a driver may give to a call about a volume.
pub(crate) fn volume(volume: &Volume, call: &VolumeCall, context: &CallContext) -> Expectation {
    use VolumeCall::*;
    let find = |id: &Id| volume.find(*id, context.invoked);
    let expectation = match call {
        CreateVolume { wanted, .. } => create(volume, wanted, context),
        DeleteVolume { volume } => delete(find(volume), context),
        ControllerPublishVolume { volume, node, usage, readonly } => {
            attach(find(volume), *node, *usage, *readonly, context)
        }
        ControllerUnpublishVolume { volume, node } => detach(find(volume), *node),
        ValidateVolumeCapabilities { volume, usage } => validate(find(volume), *usage),
        ControllerGetVolume { volume } => look_up(find(volume)),
        ControllerExpandVolume { volume, size } => expand(find(volume), *size, context),
        ControllerModifyVolume { volume, .. } => modify(find(volume)),
        NodeStageVolume { volume, node, usage } => node::stage(find(volume), *node, *usage, context),
        NodeUnstageVolume { volume, node } => node::unstage(find(volume), *node),
        NodePublishVolume { volume, node, target, usage, readonly } => {
            node::publish(find(volume), (*node, *target), *usage, *readonly, context)
        }
        NodeUnpublishVolume { volume, node, target } => node::unpublish(find(volume), (*node, *target)),
        NodeExpandVolume { volume, node, target, .. } => {
            node::expand(find(volume), (*node, *target), context)
        }
        NodeGetVolumeStats { volume, node, target } => node::stats(find(volume), (*node, *target)),
        ControllerGetVolumeHealth { volume } => health::look_up(find(volume)),
        NodeGetVolumeHealth { volume, node, target } => health::on_node(find(volume), (*node, *target)),
        Write { volume, node, target, .. } => node::write(find(volume), (*node, *target), context),
        Read { volume, node, target } => node::read(find(volume), (*node, *target), context),
        Unmount { .. } => anything(&req::NODE_PUBLISH_001, "remove a mount"),
        Listing { .. } => list(List::Volumes),
        HealthListing { .. } => list(List::VolumeHealth),
        Copying { volume } => copying(find(volume)),
    };
    match call.subject().id().is_some_and(|id| volume.is_left_in_use(id)) {
        true => expectation.or_done().or_any_refusal(),
        false => expectation,
    }
}

/// Judges the content of a successful answer.
pub(crate) fn volume_said(
    volume: &Volume,
    call: &VolumeCall,
    response: &VolumeResponse,
    context: &CallContext,
) -> Finding {
    if let (VolumeCall::CreateVolume { name, wanted }, VolumeResponse::Made(facts)) = (call, response) {
        return match &volume.life {
            // The wrong success is reported already.
            Some(life) if is_taken(life, wanted) => Finding::Fits,
            Some(life) => complete(facts).and(same(life, wanted, facts)),
            None => complete(facts).and(as_wanted(*name, wanted, facts, context)),
        };
    }
    let id = call.subject().id().filter(|id| !volume.is_left_in_use(*id));
    let life = match id.map(|id| volume.find(id, context.invoked)) {
        Some(Held::Here(life)) => life,
        Some(Held::Gone) => return said_of_nothing(call, response),
        Some(Held::Fading) | None => return Finding::Fits,
    };
    match (call, response) {
        (VolumeCall::Listing { .. }, VolumeResponse::Unlisted { pages }) => says(
            // Pages may miss what exists while other volumes come and go.
            *pages > 1 || context.profile.lists_lag,
            &req::CTRL_LISTVOL_002,
            "a volume that exists is not in the list",
            "every volume that the driver knows",
            "a list without it, on one page",
        )
        .in_doubt(),
        // A list that lags may also show old values.
        (VolumeCall::Listing { .. }, VolumeResponse::Seen(..)) if context.profile.lists_lag => Finding::Fits,
        (VolumeCall::Listing { .. }, VolumeResponse::Seen(facts, nodes)) => {
            let size = size_of(life, facts, &req::MSG_CAPRANGE_005);
            // The list may have the size to which the back end rounds.
            let is_enough = facts.capacity_bytes >= life.wanted.size.required_bytes;
            let size = if is_enough { size.remarked() } else { size };
            seen(life, facts, nodes.as_ref(), &req::CTRL_LISTVOL_012, context).and(size)
        }
        (VolumeCall::ControllerGetVolume { volume }, VolumeResponse::Seen(facts, nodes)) => {
            let asked = says(
                facts.id == Some(*volume),
                &req::CTRL_GETVOL_011,
                "the answer is not about the requested volume",
                volume,
                facts.id.map_or("another volume".to_owned(), |id| id.to_string()),
            );
            let size = size_of(life, facts, &req::CTRL_GETVOL_004);
            asked.and(seen(life, facts, nodes.as_ref(), &req::CTRL_GETVOL_007, context)).and(size)
        }
        (VolumeCall::ControllerGetVolumeHealth { volume }, VolumeResponse::Health(of)) => {
            health::is_of(*volume, &req::CTRL_GETHEALTH_004, *of)
        }
        (VolumeCall::NodeGetVolumeHealth { volume, .. }, VolumeResponse::Health(of)) => {
            health::is_of(*volume, &req::NODE_HEALTH_011, *of)
        }
        (VolumeCall::HealthListing { .. }, response) => health::listed(response),
        (VolumeCall::ControllerPublishVolume { node, .. }, VolumeResponse::Attached(publish_context)) => {
            let before = life.attached.get(node).and_then(|attachment| attachment.context.as_ref());
            says(
                life.context_varies || before.is_none_or(|before| before == publish_context),
                &req::CTRL_PUBLISH_018,
                "the repeated call returns another publish_context",
                before.map_or("", |before| before),
                publish_context,
            )
        }
        (VolumeCall::ValidateVolumeCapabilities { usage, .. }, VolumeResponse::Confirmed(yes)) => {
            same_verdict(life, *usage, *yes)
        }
        (VolumeCall::ControllerExpandVolume { size, .. }, VolumeResponse::Grown(bytes, _)) => {
            grown(life, *size, *bytes)
        }
        // A driver owes nothing at a path whose volume was not attached, staged and published before.
        (VolumeCall::Read { node, target, .. }, VolumeResponse::Read(..))
            if !node::is_in_use(life, (*node, *target), context) =>
        {
            Finding::Fits
        }
        (VolumeCall::Read { node, target, .. }, VolumeResponse::Read(found, device_bytes)) => {
            let finding = match device_bytes {
                // A volume that was requested without a size may have none from the beginning.
                Some(0) if life.room_bytes.max(life.wanted.size.required_bytes) > 0 => node::gone(),
                _ => node::read_back(life, found).and(node::measured(life, *device_bytes)),
            };
            // The specification does not say what is there when others have removed mounts.
            if life.is_torn(*node, *target) { finding.remarked() } else { finding }
        }
        _ => Finding::Fits,
    }
}

/// Judges a successful answer about a volume that does not exist, where success is permitted.
fn said_of_nothing(call: &VolumeCall, response: &VolumeResponse) -> Finding {
    if let VolumeCall::HealthListing { .. } = call {
        return health::listed_after_deletion(response);
    }
    says(
        !matches!(response, VolumeResponse::Seen(..)),
        &req::CTRL_DELETEVOL_002,
        "a deleted volume is still there",
        "no trace of it once the deletion is complete",
        "the volume",
    )
    // The specification does not say how long a deletion may go on after its OK. Checks that wait for its end judge
    // that.
    .remarked()
    .in_doubt()
}

fn create(volume: &Volume, wanted: &CreateSpec, context: &CallContext) -> Expectation {
    match &volume.life {
        Some(life) => create_again(life, wanted, context),
        None if volume.is_fading(context.invoked) => {
            anything(&req::CTRL_DELETEVOL_002, "with the name of a volume that is being deleted")
        }
        None if volume.has_left_in_use() => {
            anything(&req::CTRL_CREATEVOL_001, "with the name of a volume that was deleted while in use")
        }
        None => create_new(wanted, context),
    }
}

/// Under a name that is free.
fn create_new(wanted: &CreateSpec, context: &CallContext) -> Expectation {
    let profile = &context.profile;
    let expectation = match wanted.source {
        None => must(&req::CTRL_CREATEVOL_001, "make a volume under a name that is free"),
        Some(source) => copy(source, context),
    };
    // The driver has made volumes of the usual size, and a source that is said to have it fits in there.
    let fits = wanted.source.is_none() || context.source_bytes == profile.size_bytes;
    let expectation = match fits && wanted.size == Size::at_least(profile.size_bytes) {
        true => expectation,
        false => unusual_size(expectation),
    };
    // Only the driver knows the meaning of other keys in parameters.
    let is_accepted = profile.usages.contains(&wanted.usage) && wanted.parameters == 0;
    if is_accepted { expectation } else { expectation.or_any_refusal() }
}

/// Permits refusals of a size that the driver was not seen to support.
fn unusual_size(expectation: Expectation) -> Expectation {
    expectation
        .or(Code::OutOfRange, "the driver may not have that size")
        .or_remark(Code::InvalidArgument, "OUT_OF_RANGE is the code for sizes")
}

fn copy(source: Id, context: &CallContext) -> Expectation {
    let (is_there, is_gone, capability): (&Requirement, &Requirement, _) = match source.name.kind {
        ObjectKind::Volume => (&req::MSG_VOLSOURCE_006, &req::CTRL_CREATEVOL_040, Capability::CloneVolume),
        ObjectKind::Snapshot | ObjectKind::Group | ObjectKind::Member => {
            (&req::MSG_VOLSOURCE_004, &req::CTRL_CREATEVOL_039, Capability::CreateDeleteSnapshot)
        }
    };
    let expectation = match context.source {
        Presence::No => must_be_refused(is_gone, Code::NotFound, "from a source that is deleted"),
        // The source is not ready, being deleted, or was never made.
        Presence::Maybe => must(is_there, "make a copy").or_any_refusal(),
        Presence::Yes if context.source_in_use => {
            must(is_there, "make a copy").or(Code::FailedPrecondition, "the source may be in use")
        }
        Presence::Yes => must(is_there, "make a copy"),
    };
    // A driver that only has group snapshots has not promised to copy their members.
    if context.profile.has(capability) { expectation } else { expectation.or_any_refusal() }
}

/// Returns true if the volume under a name that is taken differs from the request so much that only ALREADY_EXISTS is
/// right.
fn is_taken(life: &VolumeLife, wanted: &CreateSpec) -> bool {
    matches!(difference(life, wanted), Some(Difference::Source | Difference::SizeThatDoesNotFit))
}

fn create_again(life: &VolumeLife, wanted: &CreateSpec, context: &CallContext) -> Expectation {
    let made = &life.wanted;
    let mut expectation = match difference(life, wanted) {
        None if life.changed => must(&req::CTRL_CREATEVOL_002, "return the existing volume")
            .or(Code::AlreadyExists, "it has changed since it was created"),
        None => must(&req::CTRL_CREATEVOL_002, "return the existing volume"),
        Some(Difference::Source) => {
            taken(&req::CTRL_CREATEVOL_045, "of a name that a volume of another source has")
        }
        Some(Difference::SizeThatDoesNotFit) => {
            taken(&req::CTRL_CREATEVOL_041, "of a name that a volume of another size has")
        }
        // The volume may serve both usages.
        Some(Difference::Usage) => {
            taken(&req::CTRL_CREATEVOL_042, "of a name that a volume for another use has").or_done()
        }
        Some(Difference::Parameters) => {
            parameters(&req::CTRL_CREATEVOL_043, "of a name used with other parameters").or_done()
        }
        Some(Difference::MutableParameters) => {
            parameters(&req::CTRL_CREATEVOL_002, "of a name used with other mutable_parameters")
                .or_done_remark("unless they make no difference")
        }
        Some(Difference::SizeThatMayFit) => must(&req::CTRL_CREATEVOL_003, "return a volume of unknown size")
            .or(Code::AlreadyExists, "the size may not fit"),
        // The driver decides what is compatible.
        Some(Difference::SizeThatFits) => {
            must(&req::CTRL_CREATEVOL_003, "answer with the volume, which has a size that the request allows")
                .or_remark(Code::AlreadyExists, "the volume has a size that the request allows")
        }
    };
    if wanted.size != made.size {
        expectation = unusual_size(expectation);
    }
    if wanted.source.is_some() && context.source != Presence::Yes {
        expectation = expectation.or(Code::NotFound, "the source may be looked for first");
    }
    // That id may by now belong to another source than the volume was copied from.
    let is_another = wanted.source.is_some() && context.source_came_again;
    if is_another || differences(made, wanted) > 1 || !context.profile.usages.contains(&wanted.usage) {
        expectation = expectation.or_any_refusal();
    }
    expectation
}

/// The largest difference between a request and the one that the volume was made with.
enum Difference {
    Source,
    SizeThatDoesNotFit,
    Usage,
    Parameters,
    MutableParameters,
    SizeThatMayFit,
    SizeThatFits,
}

fn difference(life: &VolumeLife, wanted: &CreateSpec) -> Option<Difference> {
    let made = &life.wanted;
    let is_known = life.names_size && life.size_bytes != 0;
    let fits = is_known.then(|| wanted.size.contains(life.size_bytes));
    if wanted.source != made.source {
        Some(Difference::Source)
    } else if wanted.size != made.size && fits == Some(false) {
        Some(Difference::SizeThatDoesNotFit)
    } else if wanted.usage != made.usage {
        Some(Difference::Usage)
    } else if wanted.parameters != made.parameters {
        Some(Difference::Parameters)
    } else if wanted.mutable_parameters != made.mutable_parameters {
        Some(Difference::MutableParameters)
    } else if wanted.size != made.size && !life.changed {
        Some(if fits.is_some() { Difference::SizeThatFits } else { Difference::SizeThatMayFit })
    } else {
        None
    }
}

fn differences(made: &CreateSpec, wanted: &CreateSpec) -> usize {
    let differ = [
        made.source != wanted.source,
        made.size != wanted.size,
        made.usage != wanted.usage,
        made.parameters != wanted.parameters,
        made.mutable_parameters != wanted.mutable_parameters,
    ];
    differ.into_iter().filter(|differs| *differs).count()
}

fn taken(rule: &'static Requirement, what: &'static str) -> Expectation {
    must_be_refused(rule, Code::AlreadyExists, what)
}

/// Only the driver knows which parameters are compatible.
fn parameters(rule: &'static Requirement, what: &'static str) -> Expectation {
    taken(rule, what)
        .or(Code::InvalidArgument, "the driver may require the omitted fields")
        .or_remark(Code::Internal, "ALREADY_EXISTS tells the caller what is wrong")
}

fn delete(held: Held<'_, VolumeLife>, context: &CallContext) -> Expectation {
    let life = match held {
        Held::Gone | Held::Fading => {
            return must(&req::CTRL_DELETEVOL_003, "succeed for a volume that is deleted");
        }
        Held::Here(life) => life,
    };
    if !life.attached.is_empty() {
        return must_be_refused(
            &req::CTRL_DELETEVOL_011,
            Code::FailedPrecondition,
            "of a volume that is attached",
        )
        .or_done_remark("nothing says that a driver able to delete it has to reject");
    }
    if life.is_in_use() {
        // A controller without attachments does not know if the volume is in use.
        return must(&req::CTRL_DELETEVOL_011, "delete the volume, or reject the call")
            .or(Code::FailedPrecondition, "a node uses it");
    }
    let expectation = must(&req::CTRL_DELETEVOL_001, "delete an unused volume");
    match context.dependants {
        Presence::No => expectation,
        _ => expectation.or(Code::FailedPrecondition, "snapshots or copies may depend on it"),
    }
}

fn attach(
    held: Held<'_, VolumeLife>,
    node: Node,
    usage: Usage,
    readonly: bool,
    context: &CallContext,
) -> Expectation {
    let life = match held {
        Held::Gone => return must_be_refused(&req::CTRL_PUBLISH_024, Code::NotFound, "of a deleted volume"),
        Held::Fading => return anything(&req::CTRL_PUBLISH_024, "of a volume that is being deleted"),
        Held::Here(life) => life,
    };
    match life.attached.get(&node) {
        Some(now) if now.usage == usage && (now.readonly == readonly || usage.is_for_readers()) => {
            must(&req::CTRL_PUBLISH_004, "answer a repeated call like the first one")
        }
        Some(now) if now.usage == usage && context.profile.has(Capability::PublishReadonly) => {
            must_be_refused(&req::CTRL_PUBLISH_026, Code::AlreadyExists, "with another readonly than before")
        }
        // The driver decides if the present attachment serves another use.
        Some(_) => {
            must_be_refused(&req::CTRL_PUBLISH_026, Code::AlreadyExists, "for another use than before")
                .or_done()
                .or_any_refusal()
        }
        None if usage != life.wanted.usage => {
            must(&req::CTRL_PUBLISH_010, "publish the volume, or reject a use that it was not created for")
                .or_any_refusal()
        }
        None if life.attached.is_empty() => {
            must(&req::CTRL_PUBLISH_001, "publish a volume that is attached to no node")
        }
        None if usage.is_for_many_nodes() => {
            must(&req::CTRL_PUBLISH_006, "publish a multi-node volume to another node")
        }
        None => elsewhere(life),
    }
}

/// A volume that only one node may use, and that another node has already.
fn elsewhere(life: &VolumeLife) -> Expectation {
    let expectation = must_be_refused(
        &req::CTRL_PUBLISH_027,
        Code::FailedPrecondition,
        "of a single-node volume that is attached to another node",
    );
    // Some volumes are for many nodes by nature, whatever was requested; ValidateVolumeCapabilities shows that.
    let confirmed = MODES_FOR_MANY_NODES.map(|mode| {
        let usage = Usage { mode, ..life.wanted.usage };
        life.confirmed.get(&usage).map(|confirmed| confirmed.yes)
    });
    if confirmed.contains(&Some(true)) {
        expectation.or_done()
    } else if confirmed.contains(&None) {
        expectation.or_done_remark("unless the volume is for many nodes by nature")
    } else {
        expectation
    }
}

fn detach(held: Held<'_, VolumeLife>, node: Option<Node>) -> Expectation {
    let life = match held {
        Held::Gone | Held::Fading => {
            let (rule, what): (&Requirement, _) = match node {
                Some(_) => (&req::CTRL_UNPUBLISH_015, "treat a deleted volume as detached"),
                None => (&req::CTRL_UNPUBLISH_011, "treat a deleted volume as detached from all nodes"),
            };
            return must(rule, what)
                .or_remark(Code::NotFound, "a deleted volume can safely count as detached");
        }
        Held::Here(life) => life,
    };
    let on_node = |other: Node| node.is_none_or(|node| node == other);
    let is_used = life.staged.keys().any(|other| on_node(*other))
        || life.published.keys().any(|(other, _)| on_node(*other));
    let is_attached = life.attached.keys().any(|other| on_node(*other));
    match (is_attached, is_used, node) {
        (_, true, _) => anything(&req::CTRL_UNPUBLISH_001, "from a node that still uses the volume"),
        (false, false, Some(_)) => {
            must(&req::CTRL_UNPUBLISH_005, "succeed for a volume that is not on the node")
        }
        // A driver that refuses a call without a node does so wherever the volume is.
        (_, false, None) => must(&req::CTRL_UNPUBLISH_011, "detach the volume from all nodes"),
        (true, false, Some(_)) => {
            must(&req::CTRL_UNPUBLISH_001, "detach a volume that is unused on the node")
        }
    }
}

fn validate(held: Held<'_, VolumeLife>, usage: Usage) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_VALIDATE_018, Code::NotFound, "of a deleted volume"),
        Held::Fading => anything(&req::CTRL_VALIDATE_018, "of a volume that is being deleted"),
        Held::Here(life) if life.wanted.usage == usage => must(&req::CTRL_VALIDATE_001, "validate a volume"),
        Held::Here(_) => must(&req::CTRL_VALIDATE_001, "validate a volume")
            .or(Code::InvalidArgument, "which amounts to not confirming")
            .or(Code::Unimplemented, "the access type may not be implemented")
            .or(Code::FailedPrecondition, "the volume may not be in a state that allows it"),
    }
}

fn look_up(held: Held<'_, VolumeLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_GETVOL_015, Code::NotFound, "of a deleted volume"),
        Held::Fading => anything(&req::CTRL_GETVOL_015, "of a volume that is being deleted"),
        Held::Here(_) => must(&req::CTRL_GETVOL_002, "find a volume that exists"),
    }
}

fn expand(held: Held<'_, VolumeLife>, size: Size, context: &CallContext) -> Expectation {
    let life = match held {
        Held::Gone => return must_be_refused(&req::CTRL_EXPAND_015, Code::NotFound, "of a deleted volume"),
        Held::Fading => return anything(&req::CTRL_EXPAND_015, "of a volume that is being deleted"),
        Held::Here(life) => life,
    };
    let has = |capability| context.profile.has(capability);
    let (online, offline) = (has(Capability::OnlineExpansion), has(Capability::OfflineExpansion));
    let in_use = match has(Capability::PublishUnpublishVolume) {
        true => !life.attached.is_empty(),
        false => life.is_in_use(),
    };
    // A driver that rounds to less than was requested, or that reports no size, may take the volume for large enough.
    let has_size_in_doubt =
        life.size_bytes == 0 && (life.names_size || size.contains(life.wanted.size.required_bytes));
    let expectation = if life.size_bytes != 0 && size.contains(life.size_bytes) {
        must(&req::CTRL_EXPAND_003, "succeed for a volume that is large enough")
            .or(Code::FailedPrecondition, "the volume may be in a state that does not allow it")
    } else if in_use && offline && !online && has(Capability::PublishUnpublishVolume) {
        must_be_refused(
            &req::CTRL_EXPAND_016,
            Code::FailedPrecondition,
            "of a volume that is published, without ONLINE,",
        )
    } else if in_use && !online {
        must_be_refused(
            &req::CTRL_EXPAND_016,
            Code::FailedPrecondition,
            "of a volume in use, without ONLINE,",
        )
        .or_done_remark("the controller may not know whether it is in use")
    } else if in_use {
        must(&req::CTRL_EXPAND_004, "expand a volume in use, since it advertises ONLINE")
    } else if online && !offline {
        must(&req::CTRL_EXPAND_001, "expand a volume")
            .or(Code::FailedPrecondition, "OFFLINE is not advertised")
    } else {
        must(&req::CTRL_EXPAND_001, "expand an unused volume")
    };
    let expectation =
        if in_use && !online && has_size_in_doubt { expectation.or_done() } else { expectation };
    match size == Size::at_least(context.profile.larger_bytes) {
        true => expectation,
        false => unusual_size(expectation),
    }
}

fn modify(held: Held<'_, VolumeLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_MODIFYVOL_011, Code::NotFound, "of a deleted volume"),
        Held::Fading => anything(&req::CTRL_MODIFYVOL_011, "of a volume that is being deleted"),
        Held::Here(_) => must(&req::CTRL_MODIFYVOL_001, "accept the configured mutable_parameters"),
    }
}

/// Judges the evidence about the volume in a snapshot or a copy of it.
fn copying(held: Held<'_, VolumeLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_CREATESNAP_013, Code::NotFound, "of a deleted volume"),
        Held::Fading => anything(&req::CTRL_CREATESNAP_013, "of a volume that is being deleted"),
        Held::Here(_) => must(&req::CTRL_CREATESNAP_001, "copy a volume that exists")
            .or(Code::FailedPrecondition, "the volume may be in use")
            .or(Code::OutOfRange, "the copy may not have that size"),
    }
}

/// Judges if an answer about a volume is complete.
fn complete(facts: &VolumeFacts) -> Finding {
    let id =
        says(facts.id.is_some(), &req::MSG_VOLUME_003, "the volume has no id", "a volume_id", "an empty one");
    id.in_doubt().and(says(
        facts.capacity_bytes >= 0,
        &req::MSG_VOLUME_002,
        "the size of the volume is negative",
        "capacity_bytes of 0 (unknown) or more",
        facts.capacity_bytes,
    ))
}

/// Judges if a volume that was just made has the requested properties.
fn as_wanted(name: Name, wanted: &CreateSpec, facts: &VolumeFacts, context: &CallContext) -> Finding {
    let shown = |id: Option<Id>| id.map_or("none".to_owned(), |id| format!("the one of {id}"));
    let is_own = facts.id.is_none_or(|id| id.name == name) || context.owner != Presence::Yes;
    let own = says(
        is_own,
        &req::MSG_VOLUME_003,
        "two volumes that exist at the same time have the same id",
        "an id of its own",
        shown(facts.id),
    );
    let size = facts.capacity_bytes;
    let large = says(
        size == 0 || size >= wanted.size.required_bytes,
        &req::MSG_CAPRANGE_005,
        "the volume is smaller than required_bytes",
        format!(
            "capacity_bytes of at least {}, or 0 for unknown",
            sized(wanted.size.required_bytes).of_field()
        ),
        sized(size),
    );
    let small = says(
        size == 0 || wanted.size.limit_bytes == 0 || size <= wanted.size.limit_bytes,
        &req::MSG_CAPRANGE_008,
        "the volume is larger than limit_bytes",
        format!("capacity_bytes of at most {}, or OUT_OF_RANGE", sized(wanted.size.limit_bytes).of_field()),
        sized(size),
    );
    let source = says(
        match facts.source {
            SourceReported::LeftOut => true,
            SourceReported::Known(source) => wanted.source == Some(source),
            SourceReported::Stranger => false,
        },
        &req::MSG_VOLUME_013,
        "content_source names another source than the request",
        format!("content_source {}, or none", shown(wanted.source)),
        match facts.source {
            SourceReported::Known(source) => shown(Some(source)),
            SourceReported::LeftOut | SourceReported::Stranger => {
                "something that was never requested".to_owned()
            }
        },
    );
    own.in_doubt().and(large).and(small).and(source)
}

/// Judges the answer when the name of a volume is used again.
fn same(life: &VolumeLife, wanted: &CreateSpec, facts: &VolumeFacts) -> Finding {
    let shown = |id: Option<Id>| id.map_or("none".to_owned(), |id| id.to_string());
    let id = says(
        life.id.is_none() || facts.id == life.id,
        &req::CTRL_CREATEVOL_002,
        "a name already in use returned a different volume",
        shown(life.id),
        shown(facts.id),
    );
    let size = says(
        life.changed || life.size_bytes == 0 || [0, life.size_bytes].contains(&facts.capacity_bytes),
        &req::CTRL_CREATEVOL_002,
        "the size in the repeated answer differs",
        life.size_bytes,
        facts.capacity_bytes,
    );
    let id = id.in_doubt();
    let Some((volume_context, topology)) = &life.reported else { return id.and(size) };
    let (rule, what): (&Requirement, _) = match wanted.parameters == life.wanted.parameters {
        true => (&req::MSG_VOLUME_008, "the volume_context of the repeated answer differs"),
        false => {
            let what =
                "a volume has another volume_context when CreateVolume is repeated with other parameters";
            (&req::MSG_VOLUME_011, what)
        }
    };
    let volume_context = says(facts.context == *volume_context, rule, what, volume_context, &facts.context);
    let topology = says(
        facts.topology == *topology,
        &req::CTRL_CREATEVOL_002,
        "the accessible_topology of the repeated answer differs",
        topology,
        &facts.topology,
    );
    id.and(volume_context).and(size).and(topology)
}

/// Judges the answer when a volume is looked up.
fn seen(
    life: &VolumeLife,
    facts: &VolumeFacts,
    nodes: Option<&BTreeSet<Node>>,
    publishes: &'static Requirement,
    context: &CallContext,
) -> Finding {
    let empty = "{}";
    let volume_context = life.reported.as_ref().map_or(empty, |(volume_context, _)| volume_context);
    let other = volume_context != &*facts.context && volume_context != empty && &*facts.context != empty;
    let volume_context = says(
        !other,
        &req::MSG_VOLUME_011,
        "volume_context is not the one that CreateVolume returned",
        volume_context,
        &facts.context,
    );
    let reports_nodes = context.profile.has(Capability::ListVolumesPublishedNodes);
    let missing =
        life.attached.keys().find(|node| reports_nodes && !nodes.is_some_and(|nodes| nodes.contains(node)));
    let published = says(
        missing.is_none(),
        publishes,
        "published_node_ids lacks a node that the volume is published to",
        missing.map_or(String::new(), |node| format!("{node} among them")),
        "published_node_ids without it",
    );
    volume_context.and(published)
}

/// Judges the size with which a volume is looked up or listed.
fn size_of(life: &VolumeLife, facts: &VolumeFacts, rule: &'static Requirement) -> Finding {
    says(
        [0, life.size_bytes].contains(&facts.capacity_bytes) || life.size_bytes == 0,
        rule,
        "the size is not the one that was answered before",
        format!("capacity_bytes {}, or 0 for unknown", sized(life.size_bytes).of_field()),
        facts.capacity_bytes,
    )
}

/// Judges if a repeated question gets an equal answer while the volume is on the same nodes.
fn same_verdict(life: &VolumeLife, usage: Usage, yes: bool) -> Finding {
    let shown = |yes: bool| if yes { "confirmed" } else { "no confirmed" };
    let before = life.confirmed.get(&usage).filter(|before| before.attached == life.attached_to());
    says(
        life.context_varies || before.is_none_or(|before| before.yes == yes),
        &req::CTRL_VALIDATE_004,
        "the same question has two answers",
        format!("{}, as before", shown(!yes)),
        shown(yes),
    )
}

fn grown(life: &VolumeLife, size: Size, bytes: i64) -> Finding {
    let in_range = says(
        size.may_grow_to(life.size_bytes, bytes),
        &req::CTRL_EXPAND_011,
        "the volume does not have the size that it was expanded to",
        format!("capacity_bytes of {size}"),
        bytes,
    );
    // A driver that keeps no sizes can only repeat what is asked for.
    in_range.and(says(
        bytes >= life.size_bytes || !life.names_size,
        &req::CTRL_EXPAND_011,
        "the volume has shrunk",
        format!("capacity_bytes of at least {}", life.size_bytes),
        bytes,
    ))
}
