//! The calls come in the order in which kubelet and the sidecars of Kubernetes make them. The answers of right drivers are accepted, and
//! mistakes that are known from practice are found.

use csi_harness::protocol::capability::Capability;
use csi_model::answer::{Answer, VolumeResponse};
use csi_model::call::{CreateSpec, Size, VolumeCall};
use csi_model::names::Name;
use tonic::Code;

use csi_test_support::histories::story::*;

/// Begins a story with a volume in a running pod.
fn running() -> Story {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), said(VolumeResponse::Attached("{\"device\": \"sdb\"}".into())));
    story.done([stage(v(1), N1), publish(v(1), N1, T1)]);
    story
}

#[test]
fn a_pod_comes_and_goes() {
    let mut story = running();
    story.done([unpublish(v(1), N1, T1), unstage(v(1), N1), detach(v(1), N1), delete(v(1))]);
    story.wait();
    // A stateful set makes its claim again, and gets another volume.
    let second = Name::volume(0).id(1);
    story.right(create(second, wanted()), made(facts(second)));
}

#[test]
fn a_provisioner_repeats_until_an_answer_is_final() {
    let mut story = Story::new();
    for answer in [Answer::Unknown, no(Code::Aborted), no(Code::Unavailable), Answer::Unknown] {
        story.right(create(v(1), wanted()), answer);
    }
    story.right(create(v(1), wanted()), made(facts(v(1))));
    // The provisioner deletes the volume, because the claim was deleted during the call.
    story.done([delete(v(1))]);
}

#[test]
fn a_restarted_kubelet_repeats_everything() {
    let mut story = running();
    story.done([stage(v(1), N1), publish(v(1), N1, T1), publish(v(1), N1, T1)]);
    story.judges(stage(v(1), N1), [(no(Code::AlreadyExists), "NODE-STAGE-006")]);
    story.judges(publish(v(1), N1, T1), [(no(Code::AlreadyExists), "NODE-PUBLISH-004")]);
}

#[test]
fn after_a_reboot_undoing_finds_nothing_and_succeeds() {
    let mut story = running();
    story.model.reboot(N1);
    story.judges(publish(v(1), N1, T1), [(no(Code::Internal), "fits")]);
    // The directories of the pod still exist, and nothing is mounted in them.
    story.done([unpublish(v(1), N1, T1), unstage(v(1), N1), unstage(v(1), N1)]);
    story.judges(unpublish(v(1), N1, T1), [(no(Code::Internal), "NODE-UNPUBLISH-006")]);
    story.judges(unstage(v(1), N1), [(no(Code::NotFound), "NODE-UNSTAGE-006")]);
}

#[test]
fn a_pod_that_is_deleted_while_staging_takes_too_long() {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), ok());
    story.right(stage(v(1), N1), Answer::Unknown);
    story.done([unstage(v(1), N1), detach(v(1), N1)]);
    // The effects of the call to stage are undone, so that the volume is not in use.
    story.judges(delete(v(1)), [(ok(), "fits"), (no(Code::FailedPrecondition), "CTRL-DELETEVOL-001")]);
}

/// The target still shows the volume as it was staged before, by what may be another device.
#[test]
fn a_target_from_before_an_unstaging_is_no_first_target() {
    let second = || publish(v(1), N1, T2);
    running().judges(second(), [(ok(), "odd NODE-PUBLISH-013"), (no(Code::FailedPrecondition), "fits")]);
    let mut story = running();
    story.take(unstage(v(1), N1), ok());
    story.done([stage(v(1), N1)]);
    story.judges(second(), [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
}

#[test]
fn a_failed_unstage_is_followed_by_a_stage() {
    let mut story = running();
    story.done([unpublish(v(1), N1, T1)]);
    story.right(unstage(v(1), N1), no(Code::Unavailable));
    // The next pod uses the volume, which may or may not still be staged.
    story.done([stage(v(1), N1), publish(v(1), N1, T1)]);
}

#[test]
fn a_node_that_is_dead_is_detached_by_force() {
    let mut story = running();
    story.judges(attach(v(1), N2), [(no(Code::FailedPrecondition), "fits")]);
    // The volume is detached without being unpublished and unstaged: the driver may fence the node, or refuse.
    story.judges(detach(v(1), N1), [(ok(), "fits"), (no(Code::FailedPrecondition), "fits")]);
    story.done([detach(v(1), N1)]);
    story.right(attach(v(1), N2), ok());
    story.done([stage(v(1), N2)]);
}

#[test]
fn an_attachment_that_never_succeeded_is_undone() {
    let mut story = Story::of_a_volume();
    story.right(attach(v(1), N1), no(Code::ResourceExhausted));
    story.done([detach(v(1), N1), detach(v(1), N1)]);
}

#[test]
fn expansion_while_the_volume_is_published() {
    let mut story = running();
    story.right(expand(v(1), 2 * GIB), said(VolumeResponse::Grown(2 * GIB, true)));
    let size = Size::at_least(2 * GIB);
    let grow = VolumeCall::NodeExpandVolume { volume: v(1), node: N1, target: T1, size };
    story.done([grow.clone(), grow]);
}

#[test]
fn a_snapshotter_polls_with_the_same_request() {
    let mut story = running();
    let unready = || {
        let mut facts = snapshot_facts(s(1), v(1));
        facts.ready = false;
        cut_ok(facts)
    };
    story.right(cut(s(1), v(1)), unready());
    story.right(cut(s(1), v(1)), unready());
    story.right(cut(s(1), v(1)), cut_ok(snapshot_facts(s(1), v(1))));
    let larger = Size::at_least(2 * GIB);
    let restored = CreateSpec { source: Some(s(1)), size: larger, ..wanted() };
    let mut facts = facts(v(2));
    facts.capacity_bytes = 2 * GIB;
    story.right(create(v(2), restored), made(facts));
    story.right(drop_snapshot(s(1)), ok());
    // The snapshotter repeats the deletion until the answer is OK.
    story.right(drop_snapshot(s(1)), ok());
}

#[test]
fn an_inline_or_static_driver_has_only_the_node() {
    let mut story = Story::without(&[
        Capability::CreateDeleteVolume,
        Capability::PublishUnpublishVolume,
        Capability::StageUnstageVolume,
    ]);
    // The driver cannot make volumes: the run only records this one in the model as if it had made it.
    story.right(create(v(1), wanted()), made(facts(v(1))));
    story.done([
        publish(v(1), N1, T1),
        publish(v(1), N1, T1),
        unpublish(v(1), N1, T1),
        unpublish(v(1), N1, T1),
    ]);
}
