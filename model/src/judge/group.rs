//! The answers that are right for calls about group snapshots.

use std::collections::BTreeSet;

use csi_harness::spec::requirements::req;
use tonic::Code;

use crate::answer::{GroupFacts, GroupResponse, is_same_moment, moment_text};
use crate::call::GroupCall;
use crate::call_context::{CallContext, Presence};
use crate::expectation::{Expectation, Finding, anything, must, must_be_refused, says};
use crate::names::Id;
use crate::state::{Group, GroupLife, Held};

/// The answers that a driver may give to a call about a group snapshot.
pub(crate) fn group(group: &Group, call: &GroupCall, context: &CallContext) -> Expectation {
    use GroupCall::*;
    let find = |id: &Id| group.find(*id, context.invoked);
    match call {
        CreateVolumeGroupSnapshot { volumes, .. } => create(group, volumes, context),
        DeleteVolumeGroupSnapshot { group } => delete(find(group), context),
        GetVolumeGroupSnapshot { group } => look_up(find(group)),
        DeleteMember { group, member } => delete_member(find(group), *member),
        Copying { group } => copying(find(group)),
    }
}

/// Judges the content of a successful answer.
pub(crate) fn group_said(
    group: &Group,
    call: &GroupCall,
    response: &GroupResponse,
    context: &CallContext,
) -> Finding {
    match (call, response) {
        (GroupCall::CreateVolumeGroupSnapshot { volumes, .. }, GroupResponse::Seen(facts)) => {
            let volumes = volumes.iter().copied().collect();
            match &group.life {
                // The specification leaves open what such a request means, and so its answer.
                Some(life) if life.thinned => Finding::Fits,
                // The wrong success is reported already.
                Some(life) if life.volumes != volumes => Finding::Fits,
                Some(life) => complete(facts, &volumes).and(same(life, facts)),
                None => complete(facts, &volumes),
            }
        }
        (GroupCall::GetVolumeGroupSnapshot { group: id }, GroupResponse::Seen(facts)) => {
            match group.find(*id, context.invoked) {
                Held::Here(life) => {
                    let asked = says(
                        facts.id == Some(*id),
                        &req::GROUP_GET_010,
                        "the answer is not about the requested group snapshot",
                        id,
                        facts.id.map_or("another".to_owned(), |id| id.to_string()),
                    );
                    asked.and(same(life, facts))
                }
                Held::Fading | Held::Gone => Finding::Fits,
            }
        }
        _ => Finding::Fits,
    }
}

fn create(group: &Group, volumes: &[Id], context: &CallContext) -> Expectation {
    let volumes: BTreeSet<Id> = volumes.iter().copied().collect();
    let expectation = match &group.life {
        Some(life) if life.thinned => anything(&req::GROUP_CREATE_003, "of a group that has lost a member"),
        Some(life) if life.volumes == volumes => {
            must(&req::GROUP_CREATE_003, "return the existing group snapshot")
        }
        Some(_) => {
            let what = "with a known name and other sources";
            must_be_refused(&req::GROUP_CREATE_029, Code::AlreadyExists, what)
                .or(Code::FailedPrecondition, "the volumes may not go together")
        }
        None if group.is_fading(context.invoked) => {
            anything(&req::GROUP_DELETE_002, "with the name of a group snapshot that is being deleted")
        }
        None => match context.source {
            Presence::No => {
                let what = "of a volume that does not exist";
                return must_be_refused(&req::GROUP_CREATE_011, Code::NotFound, what).or_any_refusal();
            }
            Presence::Maybe => must(&req::GROUP_CREATE_001, "take a group snapshot").or_any_refusal(),
            Presence::Yes => must(&req::GROUP_CREATE_001, "take a group snapshot")
                .or(Code::FailedPrecondition, "the volumes may not go together"),
        },
    };
    match context.source {
        Presence::Yes => expectation,
        _ => expectation.or(Code::NotFound, "the volumes may be looked for first"),
    }
}

fn delete(held: Held<'_, GroupLife>, context: &CallContext) -> Expectation {
    match held {
        Held::Gone | Held::Fading => {
            must(&req::GROUP_DELETE_003, "succeed for a group snapshot that is deleted")
        }
        Held::Here(life) => {
            let expectation = must(&req::GROUP_DELETE_001, "delete a group snapshot");
            let expectation = match context.dependants {
                Presence::No => expectation,
                _ => expectation.or(Code::FailedPrecondition, "a volume may be made from a member"),
            };
            match life.thinned {
                true => expectation.or(Code::InvalidArgument, "a member is gone already"),
                false => expectation,
            }
        }
    }
}

fn look_up(held: Held<'_, GroupLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::GROUP_GET_014, Code::NotFound, "of a deleted group snapshot"),
        Held::Fading => anything(&req::GROUP_GET_014, "of a group snapshot that is being deleted"),
        Held::Here(life) if life.thinned => {
            anything(&req::GROUP_GET_002, "of a group that has lost a member")
        }
        Held::Here(_) => must(&req::GROUP_GET_002, "return a group snapshot that exists"),
    }
}

fn delete_member(held: Held<'_, GroupLife>, member: Id) -> Expectation {
    let is_there =
        |life: &GroupLife| life.members.as_ref().is_none_or(|members| members.contains_key(&member));
    match held {
        Held::Here(life) if is_there(life) => {
            must(&req::CTRL_DELETESNAP_011, "delete a member of a group alone, or reject the call")
                .or(Code::InvalidArgument, "it belongs to a group and cannot go alone")
                .or(Code::FailedPrecondition, "a volume may be made from it")
        }
        _ => must(&req::CTRL_DELETESNAP_003, "succeed for a snapshot that is deleted"),
    }
}

/// Judges the evidence about the group in a copy of a member.
fn copying(held: Held<'_, GroupLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_CREATEVOL_039, Code::NotFound, "from a deleted member"),
        Held::Fading => anything(&req::CTRL_CREATEVOL_039, "from a member that is being deleted"),
        Held::Here(life) if life.ready && !life.thinned => {
            must(&req::GROUP_CREATE_009, "create a volume from a member of a ready group snapshot")
                .or(Code::OutOfRange, "the copy may not have that size")
        }
        Held::Here(_) => anything(&req::GROUP_CREATE_009, "from a member that may not be ready"),
    }
}

/// Judges if an answer about a new group snapshot is complete.
fn complete(facts: &GroupFacts, volumes: &BTreeSet<Id>) -> Finding {
    let id = says(
        facts.id.is_some(),
        &req::GROUP_CREATE_020,
        "the group snapshot has no id",
        "a group_snapshot_id",
        "an empty one",
    );
    let time = says(
        facts.creation_time.is_some(),
        &req::GROUP_CREATE_023,
        "the group snapshot has no creation_time",
        "the time at which the snapshot was taken",
        "no creation_time",
    );
    let some = says(
        !facts.members.is_empty(),
        &req::GROUP_CREATE_022,
        "the group snapshot has no members",
        "a snapshot of each volume",
        "none",
    );
    let sources: BTreeSet<Id> = facts.members.values().filter_map(|member| member.source).collect();
    let all = says(
        facts.members.is_empty() || sources == *volumes,
        &req::GROUP_CREATE_010,
        "the members are not snapshots of the requested volumes",
        format!("a snapshot each of {}", list(volumes)),
        format!("snapshots of {}", list(&sources)),
    );
    let unready = facts.members.values().any(|member| !member.ready);
    let ready = says(
        !(facts.ready && unready),
        &req::GROUP_CREATE_024,
        "a group snapshot is ready although a member is not",
        "ready_to_use false",
        "ready_to_use true",
    );
    id.in_doubt().and(time).and(some).and(all).and(ready)
}

/// Judges if two answers about one group snapshot agree.
fn same(life: &GroupLife, facts: &GroupFacts) -> Finding {
    let shown = |id: Option<Id>| id.map_or("none".to_owned(), |id| id.to_string());
    let id = says(
        life.id.is_none() || facts.id == life.id,
        &req::GROUP_CREATE_003,
        "a name already in use returned a different group snapshot",
        shown(life.id),
        shown(facts.id),
    );
    let members: BTreeSet<Id> = facts.members.keys().copied().collect();
    let before = life.members.as_ref().map(|members| members.keys().copied().collect::<BTreeSet<Id>>());
    let all = says(
        life.thinned || before.as_ref().is_none_or(|before| *before == members),
        &req::GROUP_CREATE_003,
        "the members of a group snapshot have changed",
        before.as_ref().map_or(String::new(), list),
        list(&members),
    );
    let time = says(
        life.creation_time.is_none() || is_same_moment(facts.creation_time, life.creation_time),
        &req::GROUP_CREATE_003,
        "the creation_time of a group snapshot has changed",
        moment_text(life.creation_time),
        moment_text(facts.creation_time),
    );
    id.in_doubt().and(all.in_doubt()).and(time)
}

fn list(ids: &BTreeSet<Id>) -> String {
    ids.iter().map(Id::to_string).collect::<Vec<_>>().join(" ")
}
