//! Some checks may harm the checks after them. The tests check which one is blamed, and what happens to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::prelude::*;
use csi_harness::results::outcome::{Finding, Outcome, OutcomeKind};
use csi_harness::run::runner::RunOptions;
use csi_mock_driver::{Defect, Delay, MockDriver};
use csi_proto::Endpoint;
use tokio::sync::{Semaphore, watch};

use crate::bench::{self, Bench, Ran, config, options};
use crate::process::Mock;

check! {
    /// The plain call.
    MAKES {
        id: "harm/makes",
        title: "a volume is made",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["create-volume-unimplemented"],
        plain: ["CreateVolume"],
    }
    async |cx| {
        cx.create_volume(cx.create_volume_request()).await.must("make a volume")?;
        Ok(())
    }
}

/// Asks for volumes whose names have these endings, and accepts any answer.
async fn named(cx: &Cx, endings: &[&str]) -> CheckResult {
    for ending in endings {
        let name = format!("{}{ending}", cx.unique_name());
        let request = v1::CreateVolumeRequest { name, ..cx.create_volume_request() };
        let _ = cx.create_volume(request).await.any_answer()?;
    }
    Ok(())
}

check! {
    /// Names that harm nobody.
    SPACES {
        id: "harm/spaces",
        title: "names with spaces are taken",
        spec: [req::CTRL_CREATEVOL_014],
        refuted_by: ["none"],
        runs: UnusualInput,
    }
    async |cx| {
        named(cx, &[" a", " b"]).await
    }
}

check! {
    /// The second name spoils the driver.
    QUOTES {
        id: "harm/quotes",
        title: "names with quotation marks are taken",
        spec: [req::CTRL_CREATEVOL_014],
        refuted_by: ["create-volume-fails-after-quotes"],
        runs: UnusualInput,
    }
    async |cx| {
        named(cx, &["", " 'quoted'", " plain"]).await
    }
}

check! {
    /// Spoils it once more.
    QUOTES_AGAIN {
        id: "harm/quotes-again",
        title: "more names with quotation marks are taken",
        spec: [req::CTRL_CREATEVOL_014],
        refuted_by: ["create-volume-fails-after-quotes"],
        runs: UnusualInput,
    }
    async |cx| {
        named(cx, &["\"quoted\""]).await
    }
}

check! {
    /// Builds on the plain call.
    BUILDS {
        id: "harm/builds",
        title: "what is built on a volume works",
        spec: [req::CTRL_VALIDATE_001],
        refuted_by: ["none"],
        runs: CrashProne,
    }
    async |cx| {
        cx.new_volume().await?;
        Ok(())
    }
}

check! {
    /// Judges the plain call itself.
    MAKES_AGAIN {
        id: "harm/makes-again",
        title: "a volume is made once more",
        spec: [req::CTRL_CREATEVOL_001],
        refuted_by: ["create-volume-unimplemented"],
        runs: CrashProne,
    }
    async |cx| {
        cx.create_volume(cx.create_volume_request()).await.must("make a volume")?;
        Ok(())
    }
}

check! {
    /// Needs no volume.
    PROBES {
        id: "harm/probes",
        title: "Probe is answered",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
        runs: CrashProne,
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

check! {
    /// The plain list.
    LISTS {
        id: "harm/lists",
        title: "snapshots are listed",
        spec: [req::CTRL_LISTSNAP_001],
        refuted_by: ["list-snapshots-unimplemented"],
        plain: ["ListSnapshots"],
    }
    async |cx| {
        cx.call(v1::ListSnapshotsRequest::default()).await.must("list the snapshots")?;
        Ok(())
    }
}

check! {
    /// Undoing it spoils the driver.
    SLASHES {
        id: "harm/slashes",
        title: "names with slashes are taken",
        spec: [req::CTRL_CREATESNAP_018],
        refuted_by: ["list-snapshots-fails-after-path-names"],
        runs: UnusualInput,
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        for ending in ["a", "/b"] {
            let name = format!("{}{ending}", cx.unique_name());
            let request =
                v1::CreateSnapshotRequest { name, ..cx.create_snapshot_request(&volume.volume_id) };
            cx.create_snapshot(request).await.must("take the name")?;
        }
        Ok(())
    }
}

check! {
    /// Lists what there is.
    LOOKS {
        id: "harm/looks",
        title: "a snapshot is in the list",
        spec: [req::CTRL_LISTSNAP_002],
        refuted_by: ["list-snapshots-fails-after-path-names"],
        runs: CrashProne,
    }
    async |cx| {
        cx.call(v1::ListSnapshotsRequest::default()).await.setup("the list")?;
        Ok(())
    }
}

check! {
    /// Does two wrongs: other checks report the first, and the second is its effect on them.
    MANY_AT_ONCE {
        id: "harm/many-at-once",
        title: "many callers are served",
        spec: [req::CTRL_VALIDATE_001, req::CTRL_CREATEVOL_001],
        refuted_by: ["create-volume-fails-after-quotes"],
        duplicate_of: "*",
        runs: Serial,
    }
    async |cx| {
        named(cx, &["", "'quoted'"]).await?;
        Err(Violation::new("this one is remark_start by another check").of(&req::CTRL_VALIDATE_001).into())
    }
}

check! {
    /// The other check.
    TELLS {
        id: "harm/tells",
        title: "it is remark_start here",
        spec: [req::CTRL_VALIDATE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Err(Violation::new("it is wrong").into())
    }
}

const ALL: &[&Check] = &[&SPACES, &QUOTES, &QUOTES_AGAIN, &BUILDS, &MAKES_AGAIN, &PROBES, &MAKES];
const SUITE: Suite = Suite { name: "harm", checks: Checks::Declared(&[ALL]), retired: &[] };
const DEFECT: &str = "create-volume-fails-after-quotes";

async fn owned(defects: &str) -> Ran {
    owned_with(&format!("defects: [{defects}]"), SUITE, ALL).await
}

/// Runs checks of a suite against a driver that the run may start.
async fn owned_with(settings: &str, suite: Suite, checks: &[&'static Check]) -> Ran {
    let mock = Mock::new(settings);
    let driver = Driver::of(&mock.config, None).expect("the configuration says how to run it");
    owned_by(driver, mock.config.clone(), suite, checks).await
}

async fn owned_by(driver: Driver, config: Config, suite: Suite, checks: &[&'static Check]) -> Ran {
    let target = Target::connect_to(driver.clone(), config).await.expect("it answers");
    let options = RunOptions { registry: Registry::new([suite]), leak_check: false, ..options() };
    let ran = bench::run(target, options, watch::channel(Default::default()).1, checks).await;
    driver.leave().await.expect("it stops");
    ran
}

/// The failure names the call after which CreateVolume stopped working, an equal fault is reported once, and the other checks are judged.
#[tokio::test]
async fn a_driver_that_is_started_anew_is_not_spoilt() {
    let ran = owned(DEFECT).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&QUOTES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("CreateVolume stopped working after CreateVolume"), "{violation:?}");
    assert!(violation.actual.contains("UNKNOWN \"Exception"), "{violation:?}");
    assert_eq!(violation.requirement, Some(&req::CTRL_CREATEVOL_001));
    assert!(violation.transcript[1].contains("'quoted'"), "{violation:?}");
    let Outcome::SameFault(same) = ran.outcome(&QUOTES_AGAIN) else { panic!("{:?}", ran.outcomes) };
    assert_eq!((same.first.as_str(), same.counts_as), ("harm/quotes", OutcomeKind::Failed), "{same:?}");
    for check in [&MAKES, &SPACES, &BUILDS, &PROBES] {
        assert_eq!(ran.outcome(check), &Outcome::Passed, "{:?}", ran.outcomes);
    }
    assert!(ran.summary.crashes.is_empty(), "{:?}", ran.summary);
    assert_eq!(owned("").await.summary.counts.passed, ALL.len());
}

/// The run cannot restart this driver: checks that need the broken call say that it fails, and since which check.
#[tokio::test]
async fn a_driver_that_stays_spoilt_is_blamed_once() {
    let mock =
        csi_mock_driver::Config { defects: vec![Defect::CreateVolumeFailsAfterQuotes], ..Default::default() };
    let mut bench = Bench::start(mock, config()).await;
    bench.options.registry = Registry::new([SUITE]);
    let ran = bench.run(ALL).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&QUOTES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("CreateVolume stopped working after this check"), "{violation:?}");
    assert!(violation.transcript.iter().any(|line| line.contains("'quoted'")), "{violation:?}");
    assert_eq!(violation.transcript[0], "one or more of these calls caused it");
    for check in [&QUOTES_AGAIN, &BUILDS, &MAKES_AGAIN] {
        let Outcome::Broken(why) = ran.outcome(check) else { panic!("{:?}", ran.outcomes) };
        assert!(why.starts_with("CreateVolume has failed since harm/quotes: UNKNOWN \"Exception"), "{why}");
    }
    for check in [&MAKES, &SPACES, &PROBES] {
        assert_eq!(ran.outcome(check), &Outcome::Passed, "{:?}", ran.outcomes);
    }
}

check! {
    /// The plain way to a node.
    PUBLISHES {
        id: "harm/publishes",
        title: "a volume is published",
        spec: [req::NODE_PUBLISH_001],
        refuted_by: ["node-publish-volume-unimplemented"],
        plain: ["NodePublishVolume"],
    }
    async |cx| {
        cx.published(cx.staged(cx.attached(cx.node_volume().await?).await?).await?).await?;
        Ok(())
    }
}

check! {
    /// Uses up all room there is on the node, and nobody gives it back.
    FILLS_THE_NODE {
        id: "harm/fills-the-node",
        title: "many volumes are attached",
        spec: [req::CTRL_PUBLISH_001],
        refuted_by: ["none"],
        runs: UnusualInput,
    }
    async |cx| {
        for _ in 0..2 {
            let volume = cx.node_volume().await?;
            let node = cx.call(v1::NodeGetInfoRequest::default()).await.setup("the node")?;
            let request = v1::ControllerPublishVolumeRequest {
                volume_id: volume.id.clone(),
                node_id: node.node_id,
                volume_capability: Some(cx.capability()),
                volume_context: volume.context.clone().into_iter().collect(),
                ..Default::default()
            };
            // As it is, nobody knows that there is something to undo.
            cx.call(request).await.setup("an attached volume")?;
        }
        Ok(())
    }
}

check! {
    /// Needs room on the node.
    ATTACHES {
        id: "harm/attaches",
        title: "one more volume is attached",
        spec: [req::CTRL_PUBLISH_001],
        refuted_by: ["none"],
        runs: CrashProne,
    }
    async |cx| {
        cx.attached(cx.node_volume().await?).await?;
        Ok(())
    }
}

const USES_NODES: Suite = Suite {
    name: "harm",
    checks: Checks::Declared(&[&[&PUBLISHES, &FILLS_THE_NODE, &ATTACHES]]),
    retired: &[],
};

/// It is no fault of a driver to have no room for a while, but all checks that follow would be without room. A restart makes room.
#[tokio::test]
async fn what_is_used_up_is_there_again_in_a_fresh_start() {
    let checks: &[&Check] = &[&PUBLISHES, &FILLS_THE_NODE, &ATTACHES];
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
    let mut config = Config { endpoint: Some(endpoint.to_string()), ..config() };
    config.time_limits.restart_ms = Some(10_000);
    // The driver keeps nothing over a restart, so that a new start makes room.
    let driver = Driver::in_process(move || {
        let mock = csi_mock_driver::Config { max_volumes_per_node: 2, ..Default::default() };
        let mock = MockDriver::new(mock).expect("a mock driver");
        Ok(vec![(endpoint.clone(), mock.routes())])
    });
    let ran = owned_by(driver, config, USES_NODES, checks).await;
    assert_eq!(ran.outcome(&ATTACHES), &Outcome::Passed, "{:?} {:?}", ran.outcomes, ran.remarks);
    let remark_start =
        "after harm/fills-the-node, a plain NodePublishVolume failed; the driver was restarted";
    assert!(ran.remarks.iter().any(|remark| remark.starts_with(remark_start)), "{:?}", ran.remarks);
}

check! {
    /// Gives up a call that takes for ever.
    LEAVES_A_CALL {
        id: "harm/leaves-a-call",
        title: "a call without an answer is given up",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: CrashProne,
    }
    async |cx| {
        let answered = cx.give_up_after(Duration::from_secs(4), cx.call(v1::NodeGetInfoRequest::default())).await;
        ensure!(answered.is_none(), "it is answered");
        Ok(())
    }
}

const HANGS: Suite =
    Suite { name: "harm", checks: Checks::Declared(&[&[&MAKES, &LEAVES_A_CALL, &BUILDS]]), retired: &[] };

/// The driver may be busy with the unanswered call without end, and slow for all other calls.
#[tokio::test]
async fn a_driver_that_left_a_call_is_restarted() {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
    let mut config = Config { endpoint: Some(endpoint.to_string()), ..config() };
    config.time_limits.call_ms = 30_000;
    let starts = Arc::new(AtomicUsize::new(0));
    let started = starts.clone();
    let driver = Driver::in_process(move || {
        started.fetch_add(1, Ordering::SeqCst);
        let mut mock = csi_mock_driver::Config::default();
        mock.delay.insert("NodeGetInfo".parse().expect("an RPC"), Delay(Duration::from_secs(3600)));
        Ok(vec![(endpoint.clone(), MockDriver::new(mock).expect("a mock driver").routes())])
    });
    let ran = owned_by(driver, config, HANGS, &[&MAKES, &LEAVES_A_CALL, &BUILDS]).await;
    assert_eq!(starts.load(Ordering::SeqCst), 2, "{:?}", ran.remarks);
    let remark_start = "harm/leaves-a-call left a call without an answer; the driver is restarted";
    assert!(ran.remarks.iter().any(|remark| remark.starts_with(remark_start)), "{:?}", ran.remarks);
    assert_eq!(ran.outcome(&BUILDS), &Outcome::Passed, "{:?}", ran.outcomes);
}

const LISTS_TOO: Suite = Suite {
    name: "harm",
    checks: Checks::Declared(&[&[&LISTS, &MAKES, &SLASHES, &LOOKS, &BUILDS, &MANY_AT_ONCE, &TELLS]]),
    retired: &[],
};

/// Harm may show in other calls than those about volumes, and only after the objects of a check were undone.
#[tokio::test]
async fn a_list_that_fails_is_laid_to_the_check_before() {
    let checks: &[&Check] = &[&LISTS, &MAKES, &SLASHES, &LOOKS, &BUILDS];
    let mock = csi_mock_driver::Config {
        defects: vec![Defect::ListSnapshotsFailsAfterPathNames],
        ..Default::default()
    };
    let mut bench = Bench::start(mock, config()).await;
    bench.options.registry = Registry::new([LISTS_TOO]);
    let ran = bench.run(checks).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&SLASHES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("ListSnapshots stopped working after this check"), "{violation:?}");
    assert_eq!(violation.requirement, Some(&req::CTRL_LISTSNAP_001));
    assert!(violation.transcript.iter().any(|line| line.starts_with("DeleteSnapshot")), "{violation:?}");
    let Outcome::Broken(why) = ran.outcome(&LOOKS) else { panic!("{:?}", ran.outcomes) };
    assert!(why.starts_with("ListSnapshots has failed since harm/slashes: UNKNOWN"), "{why}");
    assert_eq!(ran.outcome(&BUILDS), &Outcome::Passed, "volumes are made as before: {:?}", ran.outcomes);

    let ran = owned_with("defects: [list-snapshots-fails-after-path-names]", LISTS_TOO, checks).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&SLASHES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("ListSnapshots stopped working"), "{violation:?}");
    assert_eq!(ran.outcome(&LOOKS), &Outcome::Passed, "it was started anew: {:?}", ran.outcomes);
}

/// The harm that a check does to others is reported, although its own fault is reported by another check.
#[tokio::test]
async fn a_check_alone_is_blamed_for_what_it_spoils() {
    let mock =
        csi_mock_driver::Config { defects: vec![Defect::CreateVolumeFailsAfterQuotes], ..Default::default() };
    let mut bench = Bench::start(mock, config()).await;
    bench.options.registry = Registry::new([LISTS_TOO]);
    let ran = bench.run(&[&MAKES, &TELLS, &MANY_AT_ONCE, &BUILDS]).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&MANY_AT_ONCE) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("CreateVolume stopped working after this check"), "{violation:?}");
    let Outcome::Broken(why) = ran.outcome(&BUILDS) else { panic!("{:?}", ran.outcomes) };
    assert!(why.starts_with("CreateVolume has failed since harm/many-at-once: UNKNOWN"), "{why}");
}

/// A panic whose value panics again when it is dropped, this number of times.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Bomb(self.0 - 1));
        }
    }
}

check! {
    /// Takes down whatever runs it.
    BLOWS_UP {
        id: "harm/blows-up",
        title: "the check ends without an end",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        blow_up(cx)
    }
}

fn blow_up(_: &Cx) -> CheckResult {
    std::panic::panic_any(Bomb(2))
}

#[tokio::test]
async fn a_check_that_takes_its_task_along_is_reported() {
    let ran = Bench::start(Default::default(), config()).await.run(&[&BLOWS_UP, &MAKES]).await;
    assert!(matches!(ran.outcome(&BLOWS_UP), Outcome::Broken(_)), "{:?}", ran.outcomes);
    assert_eq!(ran.outcome(&MAKES), &Outcome::Passed);
    assert_eq!(ran.summary.checks(), 2);
}

/// The first counts the plays of the check whose connection breaks, the second the other checks that are running, and the third has the
/// smallest number of other checks that were running when the check ran again.
static TRIES: AtomicUsize = AtomicUsize::new(0);
static OTHERS: AtomicUsize = AtomicUsize::new(0);
static OTHERS_LATER: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The check opens this when it has run.
static BROKEN_OFF: Semaphore = Semaphore::const_new(0);

/// Counts a check among the running ones until it is dropped.
struct Running;

impl Running {
    fn begin() -> Running {
        OTHERS.fetch_add(1, Ordering::SeqCst);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        OTHERS.fetch_sub(1, Ordering::SeqCst);
    }
}

check! {
    /// Its connection breaks each time.
    BREAKS_OFF {
        id: "harm/breaks-off",
        title: "ListVolumes is answered",
        spec: [req::CTRL_LISTVOL_001],
        refuted_by: ["list-volumes-panics-on-negative-max"],
    }
    async |cx| {
        if TRIES.fetch_add(1, Ordering::SeqCst) > 0 {
            OTHERS_LATER.fetch_min(OTHERS.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let ended = cx.call(v1::ListVolumesRequest { max_entries: -1, ..Default::default() }).await;
        BROKEN_OFF.add_permits(1);
        ended.any_answer()?.ok();
        Ok(())
    }
}

check! {
    /// Goes on for long after that.
    GOES_ON {
        id: "harm/goes-on",
        title: "the node says what it can do",
        spec: [req::NODE_CAPS_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let _running = Running::begin();
        let _permit = BROKEN_OFF.acquire().await;
        for _ in 0..200 {
            let _ = cx.call(v1::NodeGetCapabilitiesRequest {}).once().await;
        }
        Ok(())
    }
}

/// A check that runs again alone must have no other check beside it, whose effects could be taken for its own.
#[tokio::test]
async fn a_broken_off_check_runs_again_alone() {
    let mock = csi_mock_driver::Config {
        defects: vec![Defect::ListVolumesPanicsOnNegativeMax],
        ..Default::default()
    };
    let ran = Bench::start(mock, config()).await.run(&[&BREAKS_OFF, &GOES_ON]).await;
    assert!(TRIES.load(Ordering::SeqCst) > 1);
    assert_eq!(OTHERS_LATER.load(Ordering::SeqCst), 0, "{:?}", ran.outcomes);
    assert!(matches!(ran.outcome(&BREAKS_OFF), Outcome::Failed(_)), "{:?}", ran.outcomes);
}
