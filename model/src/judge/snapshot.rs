//! The answers that are right for calls about snapshots.

use std::collections::BTreeSet;

use csi_harness::protocol::capability::Capability;
use csi_harness::spec::requirements::{Requirement, req};
use tonic::Code;

use super::list;
use crate::answer::{SnapshotFacts, SnapshotResponse, Text, is_same_moment, moment_text};
use crate::call::{List, SnapshotCall};
use crate::call_context::{CallContext, Presence};
use crate::expectation::{Expectation, Finding, anything, must, must_be_refused, says};
use crate::names::{Id, Name};
use crate::state::{Held, Snapshot, SnapshotLife};

/// The answers that a driver may give to a call about a snapshot.
pub(crate) fn snapshot(snapshot: &Snapshot, call: &SnapshotCall, context: &CallContext) -> Expectation {
    use SnapshotCall::*;
    let find = |id: &Id| snapshot.find(*id, context.invoked);
    match call {
        CreateSnapshot { volume, .. } => create(snapshot, *volume, context),
        DeleteSnapshot { snapshot } => delete(find(snapshot), context),
        GetSnapshot { snapshot } => look_up(find(snapshot)),
        Listing { .. } => list(List::Snapshots),
        Copying { snapshot } => copying(find(snapshot)),
    }
}

/// Judges the content of a successful answer.
pub(crate) fn snapshot_said(
    snapshot: &Snapshot,
    call: &SnapshotCall,
    response: &SnapshotResponse,
    context: &CallContext,
) -> Finding {
    match (call, response) {
        (SnapshotCall::CreateSnapshot { name, volume }, SnapshotResponse::Seen(facts)) => {
            match &snapshot.life {
                // The wrong success is reported already.
                Some(life) if life.volume != *volume => Finding::Fits,
                Some(life) => complete(facts, *volume).and(same(life, facts)).and(same_topology(
                    life,
                    facts,
                    &req::CTRL_CREATESNAP_035,
                    context,
                )),
                None => complete(facts, *volume).and(own_id(*name, facts, context)),
            }
        }
        (SnapshotCall::GetSnapshot { snapshot: id } | SnapshotCall::Listing { snapshot: id }, response) => {
            looked_up(snapshot.find(*id, context.invoked), *id, response, context)
        }
        _ => Finding::Fits,
    }
}

fn create(snapshot: &Snapshot, volume: Id, context: &CallContext) -> Expectation {
    let source_may_be_gone = context.source != Presence::Yes;
    let expectation = match &snapshot.life {
        Some(life) if life.volume == volume => {
            must(&req::CTRL_CREATESNAP_002, "return the existing snapshot")
        }
        Some(_) => {
            let what = "with the name of another volume's snapshot";
            must_be_refused(&req::CTRL_CREATESNAP_024, Code::AlreadyExists, what)
        }
        None if snapshot.is_fading(context.invoked) => {
            anything(&req::CTRL_DELETESNAP_002, "with the name of a snapshot that is being deleted")
        }
        None => match context.source {
            Presence::No => {
                return must_be_refused(&req::CTRL_CREATESNAP_013, Code::NotFound, "of a deleted volume")
                    .or_any_refusal();
            }
            Presence::Maybe => {
                must(&req::CTRL_CREATESNAP_001, "take a snapshot of a volume").or_any_refusal()
            }
            Presence::Yes => must(&req::CTRL_CREATESNAP_001, "take a snapshot of a volume")
                .or(Code::FailedPrecondition, "the volume may be in a state that does not allow it"),
        },
    };
    match source_may_be_gone {
        true => expectation.or(Code::NotFound, "the volume may be looked for first"),
        false => expectation,
    }
}

fn delete(held: Held<'_, SnapshotLife>, context: &CallContext) -> Expectation {
    match held {
        Held::Gone | Held::Fading => {
            must(&req::CTRL_DELETESNAP_003, "succeed for a snapshot that is deleted")
        }
        Held::Here(_) => {
            let expectation = must(&req::CTRL_DELETESNAP_001, "delete an unused snapshot");
            match context.dependants {
                Presence::No => expectation,
                _ => expectation.or(Code::FailedPrecondition, "a volume may be made from it"),
            }
        }
    }
}

fn look_up(held: Held<'_, SnapshotLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_GETSNAP_010, Code::NotFound, "of a deleted snapshot"),
        Held::Fading => anything(&req::CTRL_GETSNAP_010, "of a snapshot that is being deleted"),
        Held::Here(_) => must(&req::CTRL_GETSNAP_001, "find a snapshot that exists"),
    }
}

/// Judges the evidence about the snapshot in a copy of it.
fn copying(held: Held<'_, SnapshotLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_CREATEVOL_039, Code::NotFound, "from a deleted snapshot"),
        Held::Fading => anything(&req::CTRL_CREATEVOL_039, "from a snapshot that is being deleted"),
        Held::Here(life) if life.ready => {
            must(&req::MSG_SNAPSHOT_008, "create a volume from a snapshot that is ready")
                .or(Code::OutOfRange, "the copy may not have that size")
        }
        Held::Here(_) => anything(&req::MSG_SNAPSHOT_008, "from a snapshot that may not be ready"),
    }
}

/// Judges if an answer about a snapshot is complete.
fn complete(facts: &SnapshotFacts, volume: Id) -> Finding {
    let id = says(
        facts.id.is_some(),
        &req::MSG_SNAPSHOT_003,
        "the snapshot has no id",
        "a snapshot_id",
        "an empty one",
    );
    let source = says(
        facts.source == Some(volume),
        &req::MSG_SNAPSHOT_006,
        "the snapshot does not name the volume it was taken of",
        format!("source_volume_id of {volume}"),
        facts.source.map_or("another".to_owned(), |id| format!("that of {id}")),
    );
    let time = says(
        facts.creation_time.is_some(),
        &req::MSG_SNAPSHOT_007,
        "the snapshot has no creation_time",
        "the time at which the snapshot was taken",
        "no creation_time",
    );
    let size = says(
        facts.size_bytes >= 0,
        &req::MSG_SNAPSHOT_002,
        "the snapshot has a negative size",
        "size_bytes of 0 (unknown) or more",
        facts.size_bytes,
    );
    id.in_doubt().and(source).and(time).and(size)
}

fn own_id(name: Name, facts: &SnapshotFacts, context: &CallContext) -> Finding {
    says(
        facts.id.is_none_or(|id| id.name == name) || context.owner != Presence::Yes,
        &req::MSG_SNAPSHOT_003,
        "two snapshots that exist at the same time have the same id",
        "an id of its own",
        facts.id.map_or(String::new(), |id| format!("the one of {id}")),
    )
    .in_doubt()
}

/// Judges if two answers about one snapshot agree.
fn same(life: &SnapshotLife, facts: &SnapshotFacts) -> Finding {
    let shown = |id: Option<Id>| id.map_or("none".to_owned(), |id| id.to_string());
    let id = says(
        life.id.is_none() || facts.id == life.id,
        &req::CTRL_CREATESNAP_002,
        "a name already in use returned a different snapshot",
        shown(life.id),
        shown(facts.id),
    );
    let time = says(
        life.creation_time.is_none() || is_same_moment(facts.creation_time, life.creation_time),
        &req::CTRL_CREATESNAP_002,
        "the creation_time of a snapshot has changed",
        moment_text(life.creation_time),
        moment_text(facts.creation_time),
    );
    // The size may become known only once the snapshot is ready, and zero means unknown.
    let is_known = life.size_bytes != 0 && facts.size_bytes != 0;
    let size = says(
        !is_known || !facts.ready || facts.size_bytes == life.size_bytes,
        &req::CTRL_CREATESNAP_002,
        "the size of a snapshot that is ready has changed",
        life.size_bytes,
        facts.size_bytes,
    );
    let ready = says(
        facts.ready || !life.ready,
        &req::MSG_SNAPSHOT_008,
        "a snapshot that was ready is no longer ready",
        "ready_to_use",
        "ready_to_use false",
    );
    id.in_doubt().and(time).and(size).and(ready)
}

/// Judges that a snapshot stays usable where it was: it may be copied to further places, but not removed from any.
fn same_topology(
    life: &SnapshotLife,
    facts: &SnapshotFacts,
    rule: &'static Requirement,
    context: &CallContext,
) -> Finding {
    let shown = |topology: &BTreeSet<Text>| {
        if topology.is_empty() {
            "none".to_owned()
        } else {
            Vec::from_iter(topology.iter().map(|one| &**one)).join(", ")
        }
    };
    let Some(before) = &life.topology else { return Finding::Fits };
    let is_kept = before.is_subset(&facts.topology) && (!before.is_empty() || facts.topology.is_empty());
    says(
        is_kept || !context.profile.has(Capability::SnapshotAccessibilityConstraints),
        rule,
        "the accessible_topology of a snapshot has changed",
        shown(before),
        shown(&facts.topology),
    )
}

fn looked_up(
    held: Held<'_, SnapshotLife>,
    id: Id,
    response: &SnapshotResponse,
    context: &CallContext,
) -> Finding {
    match (held, response) {
        (Held::Here(life), SnapshotResponse::Seen(facts)) => {
            let asked = says(
                facts.id == Some(id),
                &req::CTRL_GETSNAP_007,
                "the answer is not about the requested snapshot",
                id,
                facts.id.map_or("another".to_owned(), |id| id.to_string()),
            );
            let same = same(life, facts).and(same_topology(life, facts, &req::MSG_SNAPSHOT_019, context));
            asked.and(complete(facts, life.volume)).and(same)
        }
        (Held::Here(_), SnapshotResponse::Unlisted { pages }) => says(
            // Pages may miss what exists while others come and go.
            *pages > 1 || context.profile.lists_lag,
            &req::CTRL_LISTSNAP_002,
            "a snapshot that exists is not in the list",
            "all snapshots, however they were created",
            "a list without it, on one page",
        )
        .in_doubt(),
        (Held::Gone, SnapshotResponse::Seen(_)) => says(
            false,
            &req::CTRL_INTERACT_008,
            "a deleted snapshot is still there",
            "no trace of it once the deletion is complete",
            "the snapshot",
        )
        .in_doubt(),
        _ => Finding::Fits,
    }
}
