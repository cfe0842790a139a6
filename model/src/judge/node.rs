//! The answers of the Node service that are right about volumes. A node plugin without state cannot distinguish a
//! volume that is gone from one that is merely not there, and many plugins have no state.

use std::collections::BTreeMap;

use csi_harness::config::AccessType;
use csi_harness::protocol::capability::Capability;
use csi_harness::spec::requirements::{Requirement, req};
use csi_harness::spec::verdict::Damage;
use csi_harness::text::size::sized;
use tonic::Code;

use crate::answer::Found;
use crate::bytes::Write;
use crate::call::{Size, Usage};
use crate::call_context::CallContext;
use crate::expectation::{Breach, Expectation, Finding, anything, must, must_be_refused, says};
use crate::names::{Node, ObjectKind, Slot, Target};
use crate::state::{Held, VolumeLife};

/// Once someone else has removed the mount, the only requirement is that the volume can still be unpublished.
const TORN: &str = "of a volume whose mount someone else has removed";

/// Returns true if the orchestrator has done the steps before staging. The specification does not say what can be
/// staged of a volume that is attached for reading only.
fn is_attached(life: &VolumeLife, node: Node, context: &CallContext) -> bool {
    !context.profile.has(Capability::PublishUnpublishVolume)
        || life.attached.get(&node).is_some_and(|attachment| !attachment.readonly)
}

/// Returns true if an orchestrator would give this path to a workload.
pub(crate) fn is_in_use(life: &VolumeLife, at: (Node, Target), context: &CallContext) -> bool {
    is_staged(life, at.0, context) && life.published.contains_key(&at)
}

/// Returns true if the orchestrator has done the steps before publishing.
fn is_staged(life: &VolumeLife, node: Node, context: &CallContext) -> bool {
    is_attached(life, node, context)
        && (!context.profile.has(Capability::StageUnstageVolume) || life.staged.contains_key(&node))
}

pub(super) fn stage(
    held: Held<'_, VolumeLife>,
    node: Node,
    usage: Usage,
    context: &CallContext,
) -> Expectation {
    let life = match held {
        Held::Gone | Held::Fading => {
            return must_be_refused(&req::NODE_STAGE_021, Code::NotFound, "of a deleted volume")
                .or_any_refusal()
                .or_done_remark("unless the node plugin cannot know which volumes exist");
        }
        Held::Here(life) => life,
    };
    match life.staged.get(&node) {
        _ if !is_attached(life, node, context) => {
            anything(&req::NODE_STAGE_001, "of a volume that is not attached to the node")
        }
        _ if life.torn.contains(&(node, None)) => anything(&req::NODE_STAGE_001, TORN),
        None => must(&req::NODE_STAGE_001, "stage a volume that is on the node"),
        Some(before) if *before == usage => must(&req::NODE_STAGE_006, "answer OK to the same request again"),
        Some(before) if before.access == usage.access => {
            anything(&req::NODE_STAGE_022, "of a staged volume with another access mode")
        }
        Some(_) => must_be_refused(
            &req::NODE_STAGE_022,
            Code::AlreadyExists,
            "of a staged volume with another access type",
        )
        .or(Code::FailedPrecondition, "the volume may lack that access type")
        .or(Code::InvalidArgument, "the driver may not know that access type")
        .or_done_remark("unless staging does nothing"),
    }
}

pub(super) fn unstage(held: Held<'_, VolumeLife>, node: Node) -> Expectation {
    match held {
        Held::Gone | Held::Fading => must(&req::NODE_UNSTAGE_017, "treat a deleted volume as unstaged")
            .or(Code::NotFound, "the volume does not exist"),
        Held::Here(life) if life.published_on(node).next().is_some() => {
            anything(&req::NODE_UNSTAGE_001, "of a volume that is still published")
        }
        Held::Here(life) if life.staged.contains_key(&node) => {
            must(&req::NODE_UNSTAGE_001, "unstage a staged volume")
        }
        Held::Here(_) => must(&req::NODE_UNSTAGE_006, "answer OK where nothing is staged"),
    }
}

pub(super) fn publish(
    held: Held<'_, VolumeLife>,
    at: (Node, Target),
    usage: Usage,
    readonly: bool,
    context: &CallContext,
) -> Expectation {
    let life = match held {
        Held::Gone | Held::Fading => {
            return must_be_refused(&req::NODE_PUBLISH_039, Code::NotFound, "of a deleted volume")
                .or_any_refusal()
                .or_done_remark("unless the node plugin cannot know which volumes exist");
        }
        Held::Here(life) => life,
    };
    if !is_staged(life, at.0, context) {
        return anything(&req::NODE_PUBLISH_001, "of a volume that is not on the node");
    }
    match life.published.get(&at) {
        _ if life.is_torn(at.0, at.1) => anything(&req::NODE_PUBLISH_001, TORN),
        Some(before) if before.is_doubtful => anything(
            &req::NODE_PUBLISH_001,
            "at a path where the driver has accepted both values of readonly",
        ),
        Some(before) if before.usage != usage => {
            anything(&req::NODE_PUBLISH_001, "of a published volume with another volume_capability")
        }
        Some(before) if before.readonly == readonly || usage.is_for_readers() => {
            must(&req::NODE_PUBLISH_004, "answer OK to the same request again")
        }
        Some(_) => {
            let what = "with another readonly at the path where the volume is published";
            must_be_refused(&req::NODE_PUBLISH_040, Code::AlreadyExists, what)
                .or_done_remark("unless readonly makes no difference to this driver")
        }
        None if life.published_on(at.0).any(|(other, _)| life.is_torn(at.0, other)) => {
            anything(&req::NODE_PUBLISH_001, TORN)
        }
        None if usage != life.wanted.usage => {
            must(&req::NODE_PUBLISH_041, "publish the volume, or reject a use that it was not created for")
                .or_any_refusal()
        }
        None if life.published_on(at.0).next().is_none() => {
            must(&req::NODE_PUBLISH_001, "publish a volume that is on the node")
        }
        None if life.published_on(at.0).any(|(_, before)| before.usage != usage) => anything(
            &req::NODE_PUBLISH_007,
            "at a second path with another volume_capability than at the first",
        ),
        None if usage.is_for_many_workloads() => {
            must(&req::NODE_PUBLISH_007, "publish at a second path in a mode for many workloads")
        }
        None => {
            let what = "at a second path in a mode for one workload";
            must_be_refused(&req::NODE_PUBLISH_013, Code::FailedPrecondition, what)
        }
    }
}

pub(super) fn unpublish(held: Held<'_, VolumeLife>, at: (Node, Target)) -> Expectation {
    match held {
        Held::Gone | Held::Fading => must(&req::NODE_UNPUBLISH_016, "treat a deleted volume as unpublished")
            .or(Code::NotFound, "the volume does not exist"),
        Held::Here(life) if life.published.contains_key(&at) => {
            must(&req::NODE_UNPUBLISH_001, "unpublish a published volume")
        }
        Held::Here(_) => must(&req::NODE_UNPUBLISH_006, "answer OK where nothing is published"),
    }
}

pub(super) fn expand(held: Held<'_, VolumeLife>, at: (Node, Target), context: &CallContext) -> Expectation {
    match held {
        Held::Gone | Held::Fading => {
            must_be_refused(&req::NODE_EXPAND_021, Code::NotFound, "of a deleted volume")
                .or_any_refusal()
                .or_done_remark("unless the node plugin cannot know which volumes exist")
        }
        Held::Here(life) if life.is_torn(at.0, at.1) => anything(&req::NODE_EXPAND_001, TORN),
        Held::Here(life) if is_staged(life, at.0, context) && life.published.contains_key(&at) => {
            must(&req::NODE_EXPAND_001, "expand a published volume to the size that it has")
                .or(Code::FailedPrecondition, "the file system may not grow while published")
                .or(Code::OutOfRange, "the volume itself may not be that large")
        }
        Held::Here(_) => {
            anything(&req::NODE_EXPAND_004, "at a path where the volume is neither staged nor published")
        }
    }
}

pub(super) fn stats(held: Held<'_, VolumeLife>, at: (Node, Target)) -> Expectation {
    match held {
        Held::Here(life) if life.is_torn(at.0, at.1) => anything(&req::NODE_STATS_001, TORN),
        Held::Here(life) if life.published.contains_key(&at) => {
            must(&req::NODE_STATS_001, "answer for a published volume")
        }
        _ => must_be_refused(
            &req::NODE_STATS_017,
            Code::NotFound,
            "at a path where the volume is neither staged nor published",
        )
        .or_any_refusal()
        .or_done_remark("unless the node plugin measures the path it is given"),
    }
}

/// Workloads write to what is published for writing, and cannot write to what is not.
pub(super) fn write(held: Held<'_, VolumeLife>, at: (Node, Target), context: &CallContext) -> Expectation {
    let life = match held {
        Held::Here(life) if is_staged(life, at.0, context) => life,
        _ => return anything(&req::NODE_PUBLISH_001, "where the volume is not on the node"),
    };
    match life.published.get(&at) {
        _ if life.is_torn(at.0, at.1) => anything(&req::NODE_PUBLISH_001, TORN),
        None => anything(&req::NODE_PUBLISH_001, "where the volume is not published"),
        Some(there) if there.is_doubtful => {
            anything(&req::NODE_PUBLISH_034, "where the driver has accepted both values of readonly")
        }
        Some(there) if there.usage.is_for_readers() => {
            anything(&req::NODE_PUBLISH_034, "where the volume is published in a mode for readers")
        }
        Some(there) if there.readonly => must_be_refused(
            &req::NODE_PUBLISH_034,
            Code::PermissionDenied,
            "where the volume is published readonly",
        )
        .or_any_refusal(),
        Some(_) => {
            let expectation = must(target_is_the_volume(life), "accept what a workload writes");
            match may_be_full(life, context) {
                true => {
                    expectation.or(Code::Unknown, "the file system may take up all of such a small volume")
                }
                false => expectation,
            }
        }
    }
}

pub(super) fn read(held: Held<'_, VolumeLife>, at: (Node, Target), context: &CallContext) -> Expectation {
    match held {
        Held::Here(life) if life.is_torn(at.0, at.1) => anything(&req::NODE_PUBLISH_001, TORN),
        Held::Here(life) if is_in_use(life, at, context) => {
            must(target_is_the_volume(life), "return what a workload has written")
        }
        _ => anything(&req::NODE_PUBLISH_001, "where the volume is not published"),
    }
}

/// A volume that is smaller than the usual one may have no room beside what its file system needs and what was copied into it.
fn may_be_full(life: &VolumeLife, context: &CallContext) -> bool {
    let bytes = if life.size_bytes == 0 { life.wanted.size.required_bytes } else { life.size_bytes };
    life.wanted.usage.access == AccessType::Mount && bytes < context.profile.size_bytes
}

/// The requirement that the target path shows the volume, and so the data that was written to it.
fn target_is_the_volume(life: &VolumeLife) -> &'static Requirement {
    match life.wanted.usage.access {
        AccessType::Block => &req::NODE_PUBLISH_026,
        AccessType::Mount => &req::NODE_PUBLISH_027,
    }
}

/// Judges if data that was written to a volume, or to the source of its copy, is there.
pub(super) fn read_back(life: &VolumeLife, found: &BTreeMap<Slot, Found>) -> Finding {
    let Some((slot, write)) = life.bytes.lost(found) else { return of_others(life, found) };
    let found = found.get(&slot).copied().unwrap_or(Found::Empty);
    let (rule, what): (&Requirement, _) = match life.wanted.source.map(|source| source.name.kind) {
        Some(ObjectKind::Volume) if !life.written => (&req::MSG_VOLSOURCE_006, "a copy of a volume"),
        Some(_) if !life.written => (of_snapshot(write, found), "a copy of a snapshot"),
        _ => (target_is_the_volume(life), "a volume"),
    };
    let breach = Breach {
        rule,
        message: format!("{what} {}", instead(write, found)),
        expected: format!("write {} of {} in place {}", write.stamp.0, write.volume, slot.0),
        actual: found.to_string(),
        code: None,
        leaves_doubt: true,
        damage: Some(Damage::DataLoss),
    };
    breach.weighed()
}

/// A snapshot with data that was written later was cut late. Other data may be in the snapshot or not.
fn of_snapshot(write: Write, found: Found) -> &'static Requirement {
    let is_later = found.volume().is_none_or(|volume| volume == write.volume)
        && found.stamp().is_some_and(|stamp| stamp > write.stamp);
    if is_later { &req::CTRL_CREATESNAP_015 } else { &req::MSG_VOLSOURCE_004 }
}

/// Describes what was found instead of a write.
fn instead(write: Write, found: Found) -> &'static str {
    match found {
        Found::Of(volume, _) if volume != write.volume => "holds data of another volume",
        Found::Of(_, stamp) | Found::Stamp(stamp) if stamp < write.stamp => "holds what was written before",
        Found::Of(..) | Found::Stamp(_) => "holds what was written later",
        Found::Empty => "is empty where something was written",
        Found::Cut | Found::Holes => "holds parts of what was written",
        Found::Shifted => "holds what was written in another place",
        Found::Mixed => "holds parts of several writes in one place",
        Found::Damaged => "holds other bytes than were written",
        Found::Strange => "holds something else than what was written",
    }
}

/// Judges if a volume contains data of others where it was never written. Storage that is used again may contain it; the
/// specification does not demand that it is cleared. A place that was empty before in this volume has to stay so.
fn of_others(life: &VolumeLife, found: &BTreeMap<Slot, Found>) -> Finding {
    let is_new = |slot: Slot| life.wanted.source.is_none() && !life.bytes.has(slot);
    let mut others = found.iter().filter(|(slot, found)| {
        found.volume().is_some_and(|volume| life.id.is_some_and(|id| id != volume)) && is_new(**slot)
    });
    let Some(first) = others.clone().next() else { return Finding::Fits };
    let rule = target_is_the_volume(life);
    let Some((slot, found)) = others.find(|(slot, _)| life.seen_empty.contains(slot)) else {
        let message = "a new volume holds data of another volume";
        let expected = "no data written before CreateVolume";
        return says(false, rule, message, expected, first.1.to_string()).remarked();
    };
    let breach = Breach {
        rule,
        // One fault, whether it shows in a place of this volume or in an empty one, as with a tool that copies newer files only.
        message: "a volume holds data of another volume".to_owned(),
        expected: format!("nothing in place {}, which was empty before", slot.0),
        actual: found.to_string(),
        code: None,
        leaves_doubt: true,
        damage: Some(Damage::DataLoss),
    };
    breach.weighed()
}

/// Judges a device at a target path that has nothing behind it any more.
pub(super) fn gone() -> Finding {
    says(
        false,
        &req::NODE_PUBLISH_026,
        "the device at the target path has lost its volume",
        "the volume, until NodeUnpublishVolume is called for this target path",
        "a device of 0 bytes",
    )
}

/// A device has the size that was answered, and that was asked for.
pub(super) fn measured(life: &VolumeLife, device_bytes: Option<u64>) -> Finding {
    let Some(bytes) = device_bytes.and_then(|bytes| i64::try_from(bytes).ok()) else { return Finding::Fits };
    let Size { required_bytes, limit_bytes } = life.wanted.size;
    let rule: &Requirement = match () {
        () if life.was_expanded => &req::CTRL_EXPAND_012,
        () if bytes < required_bytes => &req::MSG_CAPRANGE_005,
        () => &req::NODE_PUBLISH_026,
    };
    let large = says(
        bytes >= life.room_bytes,
        rule,
        "a device is smaller than the size that the driver reported",
        format!("at least {}", sized(life.room_bytes)),
        sized(bytes).to_string(),
    );
    large.and(says(
        life.changed || life.expansion_was_rejected || limit_bytes == 0 || bytes <= limit_bytes,
        &req::MSG_CAPRANGE_008,
        "a device is larger than limit_bytes",
        format!("at most {}", sized(limit_bytes)),
        sized(bytes).to_string(),
    ))
}
