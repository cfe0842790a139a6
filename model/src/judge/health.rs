//! The answers that are right about the health of volumes. An unhealthy volume is no fault of the driver, and whether a
//! volume is healthy cannot be known here. The volume that an answer names can be judged.

use csi_harness::spec::requirements::{Requirement, req};
use tonic::Code;

use crate::answer::VolumeResponse;
use crate::expectation::{Expectation, Finding, anything, must, must_be_refused, says};
use crate::names::{Id, Node, Target};
use crate::state::{Held, VolumeLife};

/// Asked of the controller.
pub(super) fn look_up(held: Held<'_, VolumeLife>) -> Expectation {
    match held {
        Held::Gone => must_be_refused(&req::CTRL_GETHEALTH_006, Code::NotFound, "of a deleted volume"),
        Held::Fading => anything(&req::CTRL_GETHEALTH_006, "of a volume that is being deleted"),
        Held::Here(life) if life.is_in_use() => {
            must(&req::CTRL_GETHEALTH_001, "report the health of a volume in use")
        }
        Held::Here(_) => must(&req::CTRL_GETHEALTH_008, "report the health of an unused volume"),
    }
}

/// Asked of a node, with both paths.
pub(super) fn on_node(held: Held<'_, VolumeLife>, at: (Node, Target)) -> Expectation {
    match held {
        Held::Here(life) if life.published.contains_key(&at) && !life.is_torn(at.0, at.1) => {
            must(&req::NODE_HEALTH_004, "report the health of a published volume")
        }
        Held::Here(_) | Held::Fading => {
            anything(&req::NODE_HEALTH_004, "of a volume that is not published there")
        }
        Held::Gone => must_be_refused(&req::NODE_HEALTH_014, Code::NotFound, "of a deleted volume")
            .or_any_refusal()
            .or_done_remark("unless the node plugin cannot know which volumes exist"),
    }
}

/// The list can be read in any state.
pub(super) fn list() -> Expectation {
    must(&req::CTRL_LISTHEALTH_001, "list the unhealthy volumes")
}

/// A reply is about the volume that was asked for.
pub(super) fn is_of(asked: Id, rule: &'static Requirement, of: Option<Id>) -> Finding {
    says(
        of == Some(asked),
        rule,
        "the health in the reply is not that of the requested volume",
        format!("volume_health of {asked}"),
        of.map_or("that of another volume, or none".to_owned(), |id| format!("that of {id}")),
    )
}

/// Judges a list that contains a volume that exists.
pub(super) fn listed(response: &VolumeResponse) -> Finding {
    says(
        *response != VolumeResponse::MissingFromPages,
        &req::CTRL_LISTHEALTH_008,
        "a volume of the list is on none of its pages",
        "every entry of the list on one of its pages, as long as nothing changes",
        "pages without the volume, twice, and whole lists with it before and after",
    )
}

/// Judges a list that contains a volume that was deleted.
pub(super) fn listed_after_deletion(response: &VolumeResponse) -> Finding {
    says(
        !matches!(response, VolumeResponse::Health(_) | VolumeResponse::MissingFromPages),
        &req::CTRL_LISTHEALTH_019,
        "a deleted volume is still listed",
        "no trace of it once the deletion is complete",
        "an entry for the volume",
    )
}
