//! The model knows the rules and freedoms of answers about the health of volumes.

use csi_model::answer::{Answer, Listed, Response, VolumeResponse};
use csi_model::call::{Call, List, VolumeCall};
use csi_model::names::Id;
use tonic::Code;

use csi_test_support::histories::story::*;

const LIST: Call = Call::List(List::VolumeHealth);

fn get(volume: Id) -> VolumeCall {
    VolumeCall::ControllerGetVolumeHealth { volume }
}

fn of(volume: Option<Id>) -> Answer<Response> {
    said(VolumeResponse::Health(volume))
}

fn list<const N: usize>(entries: [(Id, VolumeResponse); N]) -> Answer<Response> {
    Answer::Done(Response::Volumes(Listed { pages: 1, entries: entries.into() }))
}

fn ill(volume: Id) -> (Id, VolumeResponse) {
    (volume, VolumeResponse::Health(Some(volume)))
}

#[test]
fn a_reply_is_about_the_volume_that_was_asked_for() {
    let mut story = Story::of_a_volume();
    story.right(create(v(2), wanted()), made(facts(v(2))));
    story.judges(
        get(v(1)),
        [
            (of(Some(v(1))), "fits"),
            (of(Some(v(2))), "odd CTRL-GETHEALTH-004"),
            (of(None), "odd CTRL-GETHEALTH-004"),
            (no(Code::NotFound), "odd CTRL-GETHEALTH-008"),
            (Answer::Unknown, "fits"),
        ],
    );
    story.done([attach(v(1), N1)]);
    story.judges(get(v(1)), [(of(Some(v(1))), "fits"), (no(Code::NotFound), "odd CTRL-GETHEALTH-001")]);
}

#[test]
fn a_deleted_volume_has_no_health_after_a_while() {
    let mut story = Story::of_a_volume();
    story.done([delete(v(1))]);
    story.judges(get(v(1)), [(of(Some(v(1))), "fits"), (no(Code::NotFound), "fits")]);
    story.judges(LIST, [(list([ill(v(1))]), "fits"), (list([]), "fits")]);
    story.wait();
    story.judges(get(v(1)), [(of(Some(v(1))), "odd CTRL-GETHEALTH-006"), (no(Code::NotFound), "fits")]);
    story.judges(LIST, [(list([ill(v(1))]), "odd CTRL-LISTHEALTH-019"), (list([]), "fits")]);
}

#[test]
fn a_list_leads_to_all_its_entries() {
    let missing = |volume| (volume, VolumeResponse::MissingFromPages);
    let story = Story::of_a_volume();
    story.judges(
        LIST,
        [
            (list([]), "fits"),
            (list([ill(v(1))]), "fits"),
            (list([missing(v(1))]), "CTRL-LISTHEALTH-008"),
            (no(Code::Internal), "odd CTRL-LISTHEALTH-001"),
            (no(Code::Unavailable), "fits"),
        ],
    );
}

#[test]
fn a_node_reports_on_what_is_published_on_it() {
    let mut story = Story::of_a_volume();
    let on_node = |target| VolumeCall::NodeGetVolumeHealth { volume: v(1), node: N1, target };
    story.done([attach(v(1), N1), stage(v(1), N1), publish(v(1), N1, T1)]);
    story.judges(
        on_node(T1),
        [
            (of(Some(v(1))), "fits"),
            (of(None), "odd NODE-HEALTH-011"),
            (no(Code::NotFound), "odd NODE-HEALTH-004"),
        ],
    );
    story.judges(on_node(T2), [(of(Some(v(1))), "fits"), (no(Code::NotFound), "fits")]);
}
