//! Everything that a check has made is gone afterwards, however the check ends.

use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use csi_harness::config::Config;
use csi_harness::prelude::*;
use csi_harness::results::outcome::{Finding, Halt, Outcome};
use csi_mock_driver::{Delay, Quirk};
use tokio::sync::Notify;

use crate::bench::{Bench, Call, config};

check! {
    /// Makes much and fails.
    FAILS {
        id: "undoing/fails",
        title: "fails with a published volume and a snapshot",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        cx.new_snapshot(&volume.volume_id).await?;
        let attached = cx.attached(volume.into()).await?;
        cx.published(cx.staged(attached).await?).await?;
        ensure!(false, "made to fail");
        Ok(())
    }
}

check! {
    /// Panics, as a bug in a check would.
    PANICS {
        id: "undoing/panics",
        title: "panics with a volume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.new_volume().await?;
        panic!("a bug in the check");
    }
}

check! {
    /// Waits for ever, so that the time limit of the check ends it.
    HANGS {
        id: "undoing/hangs",
        title: "hangs with a volume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.new_volume().await?;
        std::future::pending::<()>().await;
        Ok(())
    }
}

/// The check below notifies this when it has its volume.
static HAS_A_VOLUME: Notify = Notify::const_new();

check! {
    /// Waits for the user.
    INTERRUPTED {
        id: "undoing/interrupted",
        title: "is interrupted with a volume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.new_volume().await?;
        HAS_A_VOLUME.notify_one();
        std::future::pending::<()>().await;
        Ok(())
    }
}

check! {
    /// Gets no answer to CreateVolume: nobody knows the id of the volume.
    NO_ANSWER {
        id: "undoing/no-answer",
        title: "gives up on a slow CreateVolume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.new_volume().await?;
        Ok(())
    }
}

check! {
    /// Deletes a member of a group snapshot alone, or tries to.
    PARTS {
        id: "undoing/parts",
        title: "deletes one of two members",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let (one, other) = (cx.new_volume().await?.volume_id, cx.new_volume().await?.volume_id);
        let request = cx.create_group_snapshot_request(&[&one, &other]);
        let group = cx.create_group_snapshot(request).setup("a group snapshot").await?;
        drop(cx.delete_group_member(&group, &group.snapshots[0].snapshot_id).await);
        Ok(())
    }
}

check! {
    /// Gives up on NodePublishVolume, undoes what it may have done, and only then the call reaches the driver.
    LATE {
        id: "undoing/late",
        title: "publishes a volume later than it is unpublished",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let staged = cx.staged(cx.attached(cx.new_volume().await?.into()).await?).await?;
        let scope = cx.scope();
        let request = cx.publish_request(&staged, &cx.target_path().await?);
        drop(scope.node_publish(request.clone()).once().await);
        scope.undo().await?;
        cx.call(request).setup("a published volume").await?;
        Ok(())
    }
}

#[tokio::test]
async fn what_a_call_does_that_comes_late_is_undone() {
    let failure = "DEADLINE_EXCEEDED:1".parse().unwrap();
    let fail = [("NodePublishVolume".parse().unwrap(), failure)].into();
    let mock = csi_mock_driver::Config { fail, ..Default::default() };
    let ran = Bench::start(mock, config()).await.run(&[&LATE]).await;
    assert_eq!(ran.outcome(&LATE), &Outcome::Passed);
    assert_eq!((ran.leftovers, ran.summary.leaks), (Vec::new(), Vec::new()));
}

check! {
    /// Asks for a snapshot once more after a volume was made from it, and does not wait for the answer.
    AGAIN {
        id: "undoing/again",
        title: "asks again for a snapshot that is in use",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = cx.create_snapshot_request(&cx.new_volume().await?.volume_id);
        let snapshot = cx.create_snapshot(request.clone()).setup("a snapshot").await?;
        let source = v1::VolumeContentSource::snapshot(snapshot.snapshot_id);
        let copy = cx.create_volume_request().copy_of(source, 0);
        cx.create_volume(copy).setup("a volume from the snapshot").await?;
        let mut call = cx.create_snapshot(request).once();
        poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await;
        Ok(())
    }
}

#[tokio::test]
async fn a_repeated_snapshot_is_deleted_after_its_copies() {
    let mock = csi_mock_driver::Config { quirks: vec![Quirk::CopiesPinSnapshots], ..Default::default() };
    let ran = Bench::start(mock, config()).await.run(&[&AGAIN]).await;
    assert_eq!(ran.outcome(&AGAIN), &Outcome::Passed);
    assert_eq!((ran.leftovers, ran.summary.leaks), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn after_a_failure() {
    let ran = Bench::start(Default::default(), config()).await.run(&[&FAILS]).await;
    assert!(matches!(ran.outcome(&FAILS), Outcome::Failed(_)), "{:?}", ran.outcomes);
    assert_eq!(ran.leftovers, Vec::<String>::new());
    assert_eq!(ran.summary.leaks, []);
    for call in
        ["CreateVolume", "CreateSnapshot", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"]
    {
        assert!(ran.stories.contains(call), "the report mentions {call}: {}", ran.stories);
    }
}

#[tokio::test]
async fn after_a_panic() {
    let ran = Bench::start(Default::default(), config()).await.run(&[&PANICS]).await;
    let Outcome::Broken(why) = ran.outcome(&PANICS) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("a bug in the check"), "{why}");
    assert_eq!(ran.summary.leaks, []);
}

#[tokio::test]
async fn after_the_time_limit() {
    let mut config = config();
    config.time_limits.check_ms = 300;
    let ran = Bench::start(Default::default(), config).await.run(&[&HANGS]).await;
    let Outcome::Broken(why) = ran.outcome(&HANGS) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("300 ms"), "{why}");
    assert_eq!(ran.summary.leaks, []);
}

#[tokio::test]
async fn after_an_interrupt() {
    let bench = Bench::start(Default::default(), config()).await;
    let stop = bench.stop.clone();
    let checks = [&INTERRUPTED, &FAILS];
    let (ran, ()) = tokio::join!(bench.run(&checks), async {
        HAS_A_VOLUME.notified().await;
        stop.send(Halt::Interrupted).unwrap();
    });
    assert_eq!(ran.outcome(&INTERRUPTED), &Outcome::Skipped("interrupted".to_owned()));
    assert_eq!(ran.summary.halt, Halt::Interrupted);
    assert_eq!(ran.summary.leaks, []);
}

/// The driver makes the volume after the harness has given up on the answer, so that the harness asks for it again by its name to undo it.
#[tokio::test]
async fn after_a_call_without_an_answer() {
    let mut mock = csi_mock_driver::Config::default();
    mock.delay.insert("CreateVolume".parse().unwrap(), Delay(Duration::from_millis(600)));
    let mut config = config();
    config.time_limits.rpc_ms.insert("CreateVolume".to_owned(), 300);
    let mut bench = Bench::start(mock, config).await;
    bench.options.repeat = Arc::new(|label, _| label.to_owned());
    let target = bench.target.clone();
    let ran = bench.run(&[&NO_ANSWER]).await;
    let Outcome::Broken(why) = ran.outcome(&NO_ANSWER) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("no answer within 300 ms"), "{why}");
    assert!(ran.leftovers.iter().any(|left| left.contains(target.run_prefix())), "{:?}", ran.leftovers);
}

/// If one failure makes several checks inconclusive, each of them names the check with which it began.
#[tokio::test]
async fn inconclusive_checks_name_the_first_failing_one() {
    let mut mock = csi_mock_driver::Config::default();
    mock.fail.insert("CreateVolume".parse().unwrap(), "INTERNAL:100000".parse().unwrap());
    let mut bench = Bench::start(mock, config()).await;
    bench.options.jobs = 1;
    let ran = bench.run(&[&NO_ANSWER, &AGAIN]).await;
    assert!(matches!(ran.outcome(&AGAIN), Outcome::Broken(_)), "{:?}", ran.outcomes);
    let began = "  began with   undoing/no-answer: CreateVolume ended with INTERNAL";
    assert_eq!(ran.stories.matches(began).count(), 1, "{}", ran.stories);
    assert!(ran.stories.contains("and none succeeded after it"), "{}", ran.stories);
}

#[tokio::test]
async fn after_a_member_was_deleted_alone() {
    let mock = csi_mock_driver::Config { quirks: vec![Quirk::GroupMembersDeletable], ..Default::default() };
    let ran = Bench::start(mock, config()).await.run(&[&PARTS]).await;
    assert_eq!(ran.outcome(&PARTS), &Outcome::Passed);
    assert_eq!(ran.leftovers, Vec::<String>::new());
}

/// The harness gave up on the answer and the member still exists, so that the group has to be deleted together with that member.
#[tokio::test]
async fn after_a_member_was_perhaps_deleted_alone() {
    let mut mock = csi_mock_driver::Config::default();
    mock.delay.insert("DeleteSnapshot".parse().unwrap(), Delay(Duration::from_secs(3600)));
    let mut config = config();
    config.time_limits.rpc_ms.insert("DeleteSnapshot".to_owned(), 20);
    config.time_limits.settle_ms = Some(100);
    let ran = Bench::start(mock, config).await.run(&[&PARTS]).await;
    assert_eq!(ran.leftovers, Vec::<String>::new());
    assert_eq!(ran.summary.leaks, []);
}

check! {
    /// Leaves as many volumes as only a load makes.
    MANY {
        id: "undoing/many",
        title: "leaves many attached volumes",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        for _ in 0..60 {
            cx.attached(cx.new_volume().await?.into()).await?;
        }
        Ok(())
    }
}

/// Returns true if two calls that undo something were under way at the same time.
fn overlaps(calls: &[Call], rpc: &str) -> bool {
    let undone: Vec<&Call> = calls.iter().filter(|call| call.cleanup && call.rpc == rpc).collect();
    undone.windows(2).any(|pair| pair[1].time.start < pair[0].time.end)
}

/// Otherwise the user would wait long after a load on a driver that takes long for each call.
#[tokio::test]
async fn much_is_undone_by_several_calls_at_once() {
    let delay = [("DeleteVolume".parse().unwrap(), Delay(Duration::from_millis(20)))].into();
    let slow = csi_mock_driver::Config { delay, ..Default::default() };
    let mut bench = Bench::start(slow, config()).await;
    bench.options.keep_calls = true;
    let ran = bench.run(&[&MANY]).await;
    assert_eq!(ran.outcome(&MANY), &Outcome::Passed);
    assert_eq!((ran.leftovers, ran.summary.leaks), (Vec::new(), Vec::new()));
    assert!(overlaps(&ran.calls, "DeleteVolume"), "{:?}", ran.calls);
    let deleted: Vec<&Call> = ran.calls.iter().filter(|call| call.rpc == "DeleteVolume").collect();
    assert_eq!(deleted.len(), 60);
    for deleted in deleted {
        let volume = deleted.request.trim_matches(['{', '}']);
        let detached = ran
            .calls
            .iter()
            .find(|call| call.rpc == "ControllerUnpublishVolume" && call.request.contains(volume))
            .expect("it was attached");
        assert!(detached.time.end <= deleted.time.start, "{volume} is deleted once it is detached");
    }
}

check! {
    /// Undoes everything by calls that the ledger does not see, as calls with hostile ids may do.
    UNDOES_UNSEEN {
        id: "undoing/undoes-unseen",
        title: "undoes everything unseen",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let published = cx.published(cx.staged(cx.attached(volume.into()).await?).await?).await?;
        let Published { staged, target_path } = published;
        let (volume_id, staging_target_path) = (staged.attached.volume.id, staged.staging_path);
        let unpublish = v1::NodeUnpublishVolumeRequest { volume_id: volume_id.clone(), target_path };
        cx.call(unpublish).await.must("unpublish the volume")?;
        let unstage = v1::NodeUnstageVolumeRequest { volume_id: volume_id.clone(), staging_target_path };
        cx.call(unstage).await.must("unstage the volume")?;
        let detach = v1::ControllerUnpublishVolumeRequest { volume_id: volume_id.clone(), ..Default::default() };
        cx.call(detach).await.must("detach the volume")?;
        cx.call(v1::DeleteVolumeRequest { volume_id, ..Default::default() }).await.must("delete the volume")?;
        Ok(())
    }
}

/// A driver that rejects NodeUnpublishVolume of a deleted volume leaves it open whether it is unpublished, but nothing is at its path.
#[tokio::test]
async fn a_target_path_that_is_gone_makes_no_check_inconclusive() {
    let defects = vec![csi_mock_driver::Defect::NodeUnpublishUnknownAsInternal];
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let ran = Bench::start(mock, config()).await.run(&[&UNDOES_UNSEEN]).await;
    assert_eq!(ran.outcome(&UNDOES_UNSEEN), &Outcome::Passed);
    assert!(ran.summary.left_behind.iter().all(|left| left.in_doubt), "{:?}", ran.summary.left_behind);
}

check! {
    /// Mounts that the driver knows nothing of, so that it undoes none: at a target path, and where the run has made nothing.
    MOUNTS {
        id: "undoing/mounts",
        title: "leaves mounts",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let published = cx.published(cx.staged(cx.attached(volume.into()).await?).await?).await?;
        let target = Path::new(&published.target_path);
        let (elsewhere, beside) = (cx.kubelet_dir().join("elsewhere"), target.with_file_name("a b;\n"));
        for path in [&elsewhere, &beside] {
            std::fs::create_dir(path).expect("a directory");
        }
        for path in [target, elsewhere.as_path(), beside.as_path()] {
            rustix::mount::mount_bind(path, path).expect("root can mount");
        }
        Ok(())
    }
}

#[tokio::test]
async fn only_mounts_at_paths_of_the_run_are_unmounted() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to mount");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let config = Config { mount_dir: Some(dir.path().to_owned()), ..config() };
    let ran = Bench::start(Default::default(), config).await.run(&[&MOUNTS]).await;
    let elsewhere = dir.path().join("elsewhere");
    // The volume stays as well, because the driver could not unpublish it while something was mounted there.
    let mounts = ran.summary.leaks.iter().filter(|leak| leak.kind == "mount");
    assert_eq!(mounts.map(|leak| leak.id.as_str()).collect::<Vec<_>>(), [elsewhere.to_str().unwrap()]);
    rustix::mount::unmount(&elsewhere, rustix::mount::UnmountFlags::empty()).unwrap();
    std::fs::remove_dir(&elsewhere).unwrap();
    let unmounted = ran.remarks.iter().filter(|remark| remark.starts_with("unmounted "));
    assert_eq!(unmounted.count(), 2, "{:?}", ran.remarks);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left of the target path");
}

/// Stages a volume, and mounts something over it that the driver does not know.
async fn staged_with_a_forgotten_mount(cx: &Cx) -> Result<Staged, Stop> {
    let volume = cx.new_volume().await?;
    let staged = cx.staged(cx.attached(volume.into()).await?).await?;
    let path = Path::new(&staged.staging_path);
    rustix::mount::mount_bind(path, path).expect("root can mount");
    Ok(staged)
}

check! {
    /// Plays a driver that forgets its mount: what it answers OK for is not undone.
    FORGETS_ITS_MOUNT {
        id: "undoing/forgets-its-mount",
        title: "leaves the mount of a staged volume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        staged_with_a_forgotten_mount(cx).await?;
        Ok(())
    }
}

check! {
    /// Stages another volume of that driver, and sees that the mount stays.
    FORGETS_IT_AGAIN {
        id: "undoing/forgets-it-again",
        title: "leaves the mount of another staged volume, and asks for it to be unstaged",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let staged = staged_with_a_forgotten_mount(cx).await?;
        cx.node_unstage(&staged.attached.volume.id, &staged.staging_path).await.setup("an unstaged volume").map(drop)
    }
}

/// In an earlier version, the check was inconclusive if the harness undid the mount, and passed if the check itself unstaged the volume.
#[tokio::test]
async fn as_root_a_mount_left_after_ok_fails_its_check() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root to mount");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (first, second) in [(&FORGETS_ITS_MOUNT, &FORGETS_IT_AGAIN), (&FORGETS_IT_AGAIN, &FORGETS_ITS_MOUNT)]
    {
        let config = Config { staging_dir: Some(dir.path().to_owned()), ..config() };
        let mut bench = Bench::start(Default::default(), config).await;
        bench.options.jobs = 1;
        let ran = bench.run(&[first, second]).await;
        let Outcome::Failed(Finding { violation, .. }) = ran.outcome(first) else {
            panic!("{:?}", ran.outcomes)
        };
        assert_eq!(violation.requirement.map(|rule| rule.id), Some("NODE-UNSTAGE-002"));
        assert_eq!(ran.outcome(second), &Outcome::Passed);
    }
}

check! {
    /// Makes a call that is rejected.
    IS_REJECTED {
        id: "undoing/is-rejected",
        title: "is not attached",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = NodeVolume::from(cx.new_volume().await?);
        let request = cx.controller_publish_request(&volume, "../../..");
        cx.controller_publish(request).once().await.any_answer()?.expect_err("it is rejected");
        Ok(())
    }
}

/// In an earlier version, the check was inconclusive, and the attachment to such a node was listed as left behind.
#[tokio::test]
async fn objects_of_rejected_calls_are_not_left_behind() {
    let mut mock = csi_mock_driver::Config::default();
    for rpc in ["ControllerPublishVolume", "ControllerUnpublishVolume"] {
        mock.fail.insert(rpc.parse().unwrap(), "INTERNAL:100000".parse().unwrap());
    }
    let ran = Bench::start(mock, config()).await.run(&[&IS_REJECTED]).await;
    assert_eq!(ran.outcome(&IS_REJECTED), &Outcome::Passed);
    assert_eq!(ran.leftovers, Vec::<String>::new());
    assert!(ran.summary.left_behind.is_empty(), "{:?}", ran.summary.left_behind);
}
