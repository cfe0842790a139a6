//! Each fault of the driver is reported as one failure.

use csi_harness::checks::check::Check;
use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::client::target::Target;
use csi_harness::driver::{Driver, DriverLog};
use csi_harness::prelude::*;
use csi_harness::results::outcome::{Finding, Outcome, OutcomeKind};
use csi_harness::spec::faults::{Claim, FaultKey};
use csi_mock_driver::Defect;
use tokio::sync::watch;

use crate::bench::{self, Bench, Ran, config, options};
use crate::process::Mock;

check! {
    /// The plain call.
    TAKES {
        id: "one-fault/takes",
        title: "a snapshot is taken",
        spec: [req::CTRL_CREATESNAP_001],
        refuted_by: ["create-snapshot-unimplemented"],
        plain: ["CreateSnapshot"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        cx.create_snapshot(cx.create_snapshot_request(&volume.volume_id)).await.must("take a snapshot")?;
        Ok(())
    }
}

fn nameless(cx: &Cx, volume: v1::Volume) -> v1::CreateSnapshotRequest {
    v1::CreateSnapshotRequest { name: String::new(), ..cx.create_snapshot_request(&volume.volume_id) }
}

check! {
    /// An odd call, which has to be refused in its own way.
    REFUSES_ODD {
        id: "one-fault/refuses-odd",
        title: "a snapshot without a name is rejected",
        spec: [req::CTRL_CREATESNAP_001],
        refuted_by: ["create-snapshot-unimplemented"],
    }
    async |cx| {
        let reply = cx.create_snapshot(nameless(cx, cx.new_volume().await?)).await;
        reply.must_be_refused("without a name", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

check! {
    /// An odd call, which has to be done.
    TAKES_ODD {
        id: "one-fault/takes-odd",
        title: "a snapshot with a long name is taken",
        spec: [req::CTRL_CREATESNAP_001],
        refuted_by: ["create-snapshot-unimplemented"],
    }
    async |cx| {
        let name = cx.unique_name_of_length(128);
        let volume = cx.new_volume().await?;
        let request = v1::CreateSnapshotRequest { name, ..cx.create_snapshot_request(&volume.volume_id) };
        cx.create_snapshot(request).await.must("take the longest name")?;
        Ok(())
    }
}

check! {
    /// A conclusion from a refusal.
    CONCLUDES {
        id: "one-fault/concludes",
        title: "does not apply where no such snapshot can be had",
        spec: [req::CTRL_CREATESNAP_001],
        refuted_by: ["create-snapshot-unimplemented"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let request = cx.create_snapshot_request(&volume.volume_id);
        cx.create_snapshot(request).await.or_skip("the driver takes no such snapshot")?;
        Ok(())
    }
}

const ALL: &[&Check] = &[&TAKES_ODD, &REFUSES_ODD, &CONCLUDES, &TAKES];
const SUITE: Suite =
    Suite { name: "one-fault", checks: Checks::Declared(&[ALL, FAMILY, DEADLY]), retired: &[] };

async fn ran_with(defects: Vec<Defect>, checks: &[&'static Check]) -> Ran {
    let mock = csi_mock_driver::Config { defects, ..Default::default() };
    let mut bench = Bench::start(mock, config()).await;
    bench.options.registry = Registry::new([SUITE]);
    bench.run(checks).await
}

check! {
    /// Another one, which runs at the same time.
    LOOKS {
        id: "one-fault/looks",
        title: "the driver answers",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("answer")?;
        Ok(())
    }
}

/// Runs the checks on a driver that answers the first `times` calls of an RPC with an error.
async fn refused(method: &str, times: u32, checks: &[&'static Check], jobs: usize) -> Ran {
    let mut mock = csi_mock_driver::Config::default();
    let (method, failure) =
        (method.parse().expect("an RPC"), format!("INTERNAL:{times}").parse().expect("a failure"));
    mock.fail.insert(method, failure);
    let mut bench = Bench::start(mock, config()).await;
    bench.options.registry = Registry::new([SUITE]);
    bench.options.jobs = jobs;
    bench.run(checks).await
}

#[tokio::test]
async fn an_error_under_load_alone_is_no_other_failure() {
    for (method, check) in
        [("CreateSnapshot", &TAKES_ODD), ("CreateSnapshot", &REFUSES_ODD), ("CreateVolume", &TAKES_ODD)]
    {
        let ran = refused(method, 1, &[check, &LOOKS], 4).await;
        assert_eq!(ran.outcome(check), &Outcome::Passed);
        let remark = format!(
            "a call was answered only when it was repeated: in {}, {method} ended with INTERNAL",
            check.id
        );
        assert!(matches!(&ran.remarks[..], [one] if one.starts_with(&remark)), "{:?}", ran.remarks);
        assert_eq!(ran.outcomes.len(), 2, "each is reported once: {:?}", ran.outcomes);
    }
    let alone = refused("CreateSnapshot", 1, &[&TAKES_ODD, &LOOKS], 1).await;
    assert!(matches!(alone.outcome(&TAKES_ODD), Outcome::Failed(_)), "{:?}", alone.outcomes);
}

#[tokio::test]
async fn an_error_that_comes_again_alone_is_a_failure() {
    let ran = refused("CreateSnapshot", 1000, &[&TAKES, &LOOKS], 4).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&TAKES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert_eq!(violation.requirement, None, "{violation:?}");
}

/// If the driver refuses the plain call, only the check that judges that call fails. The other checks are inconclusive, even in a run
/// without it.
#[tokio::test]
async fn a_rejection_proves_nothing_beside_a_plain_one() {
    for checks in [ALL, &ALL[..3]] {
        let ran = ran_with(vec![Defect::CreateSnapshotUnimplemented], checks).await;
        for check in &ALL[..3] {
            let Outcome::Broken(why) = ran.outcome(check) else { panic!("{:?}", ran.outcomes) };
            assert!(why.contains("a plain CreateSnapshot is rejected as well: UNIMPLEMENTED"), "{why}");
            assert!(why.contains(&*TAKES.id), "{why}");
        }
        assert_eq!(ran.summary.counts.failed, checks.len() - 3);
    }
    let ran = ran_with(vec![], ALL).await;
    assert_eq!((ran.summary.counts.passed, ran.summary.counts.broken), (4, 0), "{:?}", ran.outcomes);
}

/// If the driver does the plain call, each check of an odd call judges the refusal of that call.
#[tokio::test]
async fn a_refusal_counts_where_the_plain_call_is_done() {
    let ran = ran_with(vec![Defect::CreateSnapshotRefusesLongNames], ALL).await;
    assert!(matches!(ran.outcome(&TAKES_ODD), Outcome::Failed(_)), "{:?}", ran.outcomes);
    assert_eq!((ran.summary.counts.passed, ran.summary.counts.failed), (3, 1));
}

check! {
    /// Those that follow it end before.
    LEADS {
        id: "one-fault/leads",
        title: "limits count",
        spec: [req::CTRL_CREATEVOL_047],
        refuted_by: ["create-volume-accepts-crossed-range"],
    }
    async |cx| {
        for _ in 0..5 {
            cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        }
        crossed(cx, cx.create_volume_request()).await
    }
}

check! {
    /// The same again.
    FOLLOWS {
        id: "one-fault/follows",
        title: "limits count for another request, too",
        spec: [req::CTRL_CREATEVOL_047],
        refuted_by: ["create-volume-accepts-crossed-range"],
        duplicate_of: "one-fault/leads",
    }
    async |cx| {
        crossed(cx, cx.create_volume_request()).await
    }
}

check! {
    /// It follows one that passes.
    FOLLOWS_ANOTHER {
        id: "one-fault/follows-another",
        title: "limits count for a third request",
        spec: [req::CTRL_CREATEVOL_047],
        refuted_by: ["create-volume-accepts-crossed-range"],
        duplicate_of: "one-fault/passes",
    }
    async |cx| {
        crossed(cx, cx.create_volume_request()).await
    }
}

check! {
    /// Leads others astray.
    PASSES {
        id: "one-fault/passes",
        title: "is right",
        spec: [req::ID_PROBE_001],
        refuted_by: ["probe-fails"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

check! {
    /// Judges many things, and meets the same rule.
    FOLLOWS_ANY {
        id: "one-fault/follows-any",
        title: "limits count among other things",
        spec: [req::CTRL_CREATEVOL_047],
        refuted_by: ["create-volume-accepts-crossed-range"],
        duplicate_of: "*",
    }
    async |cx| {
        crossed(cx, cx.create_volume_request()).await
    }
}

check! {
    /// Judges many things, and meets two faults.
    FINDS_MORE {
        id: "one-fault/finds-more",
        title: "limits count, and something else",
        spec: [req::CTRL_CREATEVOL_047, req::CTRL_CREATEVOL_001],
        refuted_by: ["create-volume-accepts-crossed-range"],
        duplicate_of: "*",
    }
    async |cx| {
        cx.warn(Violation::new("worth a word").of(&req::CTRL_CREATEVOL_014));
        cx.beyond(crossed(cx, cx.create_volume_request()).await)?;
        Err(Violation::new("graver").of(&req::CTRL_CREATEVOL_001).into())
    }
}

check! {
    /// Meets a fault that another check reports.
    MEETS_AGAIN {
        id: "one-fault/meets-again",
        title: "nothing new",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |_cx| { Err(Stop::MetAgain(Box::new(with_fault("the size differs")))) }
}

check! {
    /// Reports that fault in full.
    REPORTS {
        id: "one-fault/tells",
        title: "the size is the same each time",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |_cx| { Err(with_fault("the size differs").into()) }
}

check! {
    /// The same rule, and something else that it asks for.
    REPORTS_ANOTHER {
        id: "one-fault/tells-another",
        title: "the place is the same each time",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["none"],
    }
    async |_cx| { Err(Violation::new("the place differs").into()) }
}

fn with_fault(message: &str) -> Violation {
    let fault = FaultKey { rule: req::CTRL_CREATEVOL_002.id, what: message.to_owned() };
    Violation { fault: Some(Box::new(fault)), ..Violation::new(message) }
}

/// Claims a fault and reports it, or says that another check has claimed it.
fn report_or_meet_again(cx: &Cx) -> CheckResult {
    let violation = with_fault("the size differs");
    let fault = violation.fault.clone().expect("a fault");
    match cx.target().faults().claim(&fault, &Claim::of(cx.label())) {
        Ok(()) => Err(violation.into()),
        Err(_) => Err(Stop::MetAgain(Box::new(violation))),
    }
}

check! {
    /// Comes first in the order of the run, and meets the fault when the other check has claimed it.
    COMES_FIRST {
        id: "one-fault/comes-first",
        title: "the size is the same on a slow machine",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |cx| {
        let fault = with_fault("the size differs").fault.expect("a fault");
        while cx.target().faults().claimed_by(&fault).is_none() {
            cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        }
        report_or_meet_again(cx)
    }
}

check! {
    /// Comes second, and meets the fault at once.
    COMES_SECOND {
        id: "one-fault/comes-second",
        title: "the size is the same on a fast machine",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |cx| { report_or_meet_again(cx) }
}

check! {
    /// Judges many things, and meets a death of its own.
    DIES_AS_WELL {
        id: "one-fault/dies-as-well",
        title: "something else breaks off as well",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |_cx| {
        ensure!(false, "broken off");
        Ok(())
    }
}

check! {
    /// The first of two deaths.
    DIES {
        id: "one-fault/dies",
        title: "something breaks off",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |_cx| {
        ensure!(false, "broken off");
        Ok(())
    }
}

const FAMILY: &[&Check] = &[&FOLLOWS, &FOLLOWS_ANOTHER, &LEADS, &PASSES];

async fn crossed(cx: &Cx, request: v1::CreateVolumeRequest) -> CheckResult {
    let capacity_range = Some(v1::CapacityRange { required_bytes: 2 << 30, limit_bytes: 1 << 30 });
    let reply = cx.create_volume(v1::CreateVolumeRequest { capacity_range, ..request }).await;
    reply.must_be_refused(
        "with a crossed range",
        refused_with(Code::OutOfRange).or(Code::InvalidArgument, "as bad"),
    )?;
    Ok(())
}

#[tokio::test]
async fn a_fault_that_others_show_again_is_reported_once() {
    let defect = || vec![Defect::CreateVolumeAcceptsCrossedRange];
    let ran = ran_with(defect(), FAMILY).await;
    let Outcome::SameFault(same) = ran.outcome(&FOLLOWS) else { panic!("{:?}", ran.outcomes) };
    assert!(same.sentence().starts_with("the same fault as in one-fault/leads: "), "{same:?}");
    assert_eq!((same.counts_as, same.deviates), (OutcomeKind::Failed, true));
    for check in [&LEADS, &FOLLOWS_ANOTHER] {
        assert!(matches!(ran.outcome(check), Outcome::Failed(_)), "{:?}", ran.outcomes);
    }
    let counts = (
        ran.summary.counts.failed,
        ran.summary.counts.same_fault.failed,
        ran.summary.counts.passed,
        ran.summary.counts.skipped,
    );
    assert_eq!(counts, (1, 2, 1, 0), "one fault, in whatever way it is known to be the same");

    let ran = ran_with(defect(), &[&FOLLOWS]).await;
    assert_eq!(ran.summary.counts.failed, 1, "alone, it says what it sees");

    let ran = ran_with(defect(), &[&FOLLOWS_ANY, &LEADS]).await;
    let Outcome::SameFault(same) = ran.outcome(&FOLLOWS_ANY) else { panic!("{:?}", ran.outcomes) };
    assert_eq!(same.sentence(), "the same fault as in one-fault/leads: CTRL-CREATEVOL-047");
    let ran = ran_with(defect(), &[&DIES, &DIES_AS_WELL]).await;
    let failed = |check| matches!(ran.outcome(check), Outcome::Failed(_));
    assert!(failed(&DIES) && failed(&DIES_AS_WELL), "one death does not explain another: {:?}", ran.outcomes);
    let ran = ran_with(defect(), &[&FOLLOWS_ANY, &PASSES]).await;
    assert_eq!((ran.summary.counts.failed, ran.summary.counts.passed), (1, 1), "nobody else says it");
}

/// If the first fault of a check is reported elsewhere, its other faults are still reported.
#[tokio::test]
async fn a_fault_reported_elsewhere_hides_none_behind_it() {
    let defect = vec![Defect::CreateVolumeAcceptsCrossedRange];
    let ran = ran_with(defect.clone(), &[&FINDS_MORE, &LEADS]).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&FINDS_MORE) else {
        panic!("{:?}", ran.outcomes)
    };
    assert_eq!(violation.message, "graver");
    assert_eq!(ran.summary.counts.failed, 2);
    let ran = ran_with(defect, &[&FINDS_MORE]).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&FINDS_MORE) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("crossed range"), "{violation:?}");
}

/// The check with the fuller report counts, whichever ends first. Another fault of the same rule is reported as well.
#[tokio::test]
async fn a_fault_is_reported_where_the_report_is_full() {
    let ran = ran_with(vec![], &[&REPORTS_ANOTHER, &MEETS_AGAIN, &REPORTS]).await;
    let Outcome::SameFault(same) = ran.outcome(&MEETS_AGAIN) else { panic!("{:?}", ran.outcomes) };
    let why = "the same fault as in one-fault/tells: CTRL-CREATEVOL-002; everything that was wrong is reported by other checks";
    assert_eq!(same.sentence(), why);
    assert_eq!(ran.summary.counts.failed, 2);
    let ran = ran_with(vec![], &[&MEETS_AGAIN]).await;
    assert_eq!(ran.summary.counts.failed, 1, "no other check reports it");
}

/// Two checks run at the same time and meet one fault. The order of the run decides which of them fails, and not the time.
#[tokio::test]
async fn a_fault_is_reported_by_the_first_check() {
    let mut bench = Bench::start(csi_mock_driver::Config::default(), config()).await;
    bench.options.registry = Registry::new([SUITE]);
    bench.options.jobs = 2;
    let ran = bench.run(&[&COMES_FIRST, &COMES_SECOND]).await;
    assert!(matches!(ran.outcome(&COMES_FIRST), Outcome::Failed(_)), "{:?}", ran.outcomes);
    let Outcome::SameFault(same) = ran.outcome(&COMES_SECOND) else { panic!("{:?}", ran.outcomes) };
    assert_eq!(same.first, COMES_FIRST.id);
}

fn ask(cx: &Cx) -> PendingCall<'_, v1::DeleteVolumeResponse> {
    cx.call(v1::DeleteVolumeRequest { volume_id: "..".to_owned(), ..Default::default() })
}

check! {
    /// Builds on a call that kills.
    BUILDS {
        id: "one-fault/builds",
        title: "builds on a deletion",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
    }
    async |cx| {
        ask(cx).setup("a deletion").await?;
        Ok(())
    }
}

check! {
    /// The same, a second time.
    BUILDS_TOO {
        id: "one-fault/builds-too",
        title: "builds on a deletion as well",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
    }
    async |cx| {
        ask(cx).setup("a deletion").await?;
        Ok(())
    }
}

check! {
    /// The plain call of a driver that dies of it.
    DELETES {
        id: "one-fault/deletes",
        title: "a volume is deleted",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
        plain: ["DeleteVolume"],
    }
    async |cx| {
        ask(cx).await.must("delete")?;
        Ok(())
    }
}

check! {
    /// Judges a call that kills.
    JUDGES_DEADLY {
        id: "one-fault/judges-deadly",
        title: "a deletion is answered",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
    }
    async |cx| {
        ask(cx).await.must("delete")?;
        Ok(())
    }
}

check! {
    /// Judges another call that kills.
    JUDGES_DEADLY_TOO {
        id: "one-fault/judges-deadly-too",
        title: "another deletion is answered",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
    }
    async |cx| {
        cx.call(v1::DeleteVolumeRequest { volume_id: "../..".to_owned(), ..Default::default() }).await.must("delete")?;
        Ok(())
    }
}

const DEADLY: &[&Check] = &[&BUILDS, &PASSES, &BUILDS_TOO, &DELETES];

async fn killed(jobs: usize, restarts: bool, checks: &[&'static Check]) -> Ran {
    killed_with("delete-volume-crashes-on-paths", jobs, restarts, checks).await
}

async fn killed_with(defect: &str, jobs: usize, restarts: bool, checks: &[&'static Check]) -> Ran {
    run_on(Mock::new(&format!("defects: [{defect}]")), None, jobs, restarts, checks).await
}

async fn run_on(
    mut mock: Mock,
    log: Option<DriverLog>,
    jobs: usize,
    restarts: bool,
    checks: &[&'static Check],
) -> Ran {
    let driver = Driver::of(&mock.config, log).expect("the configuration says how to run it");
    let target = if restarts {
        Target::connect_to(driver.clone(), mock.config.clone()).await
    } else {
        driver.start().await.expect("it starts");
        mock.config.time_limits.restart_ms = Some(100);
        Target::connect(mock.config.clone()).await
    };
    let registry = Registry::new([SUITE]);
    let options = csi_harness::run::runner::RunOptions { jobs, registry, leak_check: false, ..options() };
    let ran =
        bench::run(target.expect("it answers"), options, watch::channel(Default::default()).1, checks).await;
    driver.leave().await.expect("it stops");
    ran
}

check! {
    /// The driver dies only when this is undone.
    LEAVES_DEADLY {
        id: "one-fault/leaves-deadly",
        title: "leaves something that kills",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
    }
    async |cx| {
        cx.owns_volume("..");
        Ok(())
    }
}

check! {
    /// What was made before the death is undone by calls that nobody answers.
    MAKES_AND_KILLS {
        id: "one-fault/makes-and-kills",
        title: "makes something, and kills",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["probe-crashes"],
    }
    async |cx| {
        cx.new_volume().await?;
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

/// The failure names the call that killed the driver, and none of the calls to the dead driver.
#[tokio::test]
async fn the_first_call_without_an_answer_is_named() {
    for jobs in [1, 4] {
        let ran = killed_with("probe-crashes", jobs, true, &[&MAKES_AND_KILLS]).await;
        let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&MAKES_AND_KILLS) else {
            panic!("{:?}", ran.outcomes)
        };
        assert!(violation.message.contains("crashed on Probe"), "{violation:?}");
    }
}

/// The other checks are judged as usual.
#[tokio::test]
async fn a_death_while_undoing_is_reported() {
    let ran = killed(4, true, &[&LEAVES_DEADLY, &PASSES]).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&LEAVES_DEADLY) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("crashed on DeleteVolume"), "{violation:?}");
    assert_eq!((ran.summary.counts.failed, ran.summary.counts.passed), (1, 1));
}

/// The check that judges the plain call runs at once, and the other checks do not make the call.
#[tokio::test]
async fn a_death_by_a_plain_call_is_reported_once() {
    let ran = killed(4, true, DEADLY).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&DELETES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("crashed on DeleteVolume"), "{violation:?}");
    for check in [&BUILDS, &BUILDS_TOO] {
        let Outcome::Broken(why) = ran.outcome(check) else { panic!("{:?}", ran.outcomes) };
        assert!(
            why.contains("not sent: the driver crashes on a plain") && why.contains(&*DELETES.id),
            "{why}"
        );
    }
    assert_eq!((ran.summary.counts.failed, ran.summary.counts.passed), (1, 1));
    assert_eq!(ran.summary.crashes.len(), 2, "one among others, and one to find out: {:?}", ran.summary);
}

/// The failure names the call even if the run cannot start the driver again.
#[tokio::test]
async fn a_death_without_restart_names_the_call() {
    for jobs in [1, 4] {
        let ran = killed(jobs, false, &[&BUILDS]).await;
        let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&BUILDS) else {
            panic!("{jobs}: {:?}", ran.outcomes)
        };
        assert!(violation.message.contains("crashed on DeleteVolume"), "{violation:?}");
        assert_eq!(ran.summary.counts.failed, 1);
        assert_eq!(ran.summary.crashes.len(), 1);
        assert!(!ran.summary.crashes[0].back);
    }
}

/// The traces show that both calls panic at one place of the driver's code, or that they do not.
#[tokio::test]
async fn two_calls_that_panic_at_one_place_are_one_fault() {
    for (place, is_one) in [("main.go:7", true), ("main.go:$$", false)] {
        let directory = tempfile::tempdir().unwrap();
        let mut mock = Mock::new("defects: [delete-volume-crashes-on-paths]");
        let command = mock.config.driver_command.take().unwrap();
        let trace = format!("panic: nil\n\ngoroutine 7 [running]:\nmain.f()\n\t/src/{place} +0x1\n");
        // It is printed before the call, so that it is certainly there when the connection breaks.
        mock.config.driver_command = Some(format!("printf '%s' \"{trace}\"; {command}"));
        let log = DriverLog::create(&directory.path().join("driver.log"), &mock.config).unwrap();
        let ran = run_on(mock, Some(log), 1, true, &[&JUDGES_DEADLY, &JUDGES_DEADLY_TOO]).await;
        assert!(matches!(ran.outcome(&JUDGES_DEADLY), Outcome::Failed(_)), "{:?}", ran.outcomes);
        match ran.outcome(&JUDGES_DEADLY_TOO) {
            Outcome::SameFault(same) if is_one => {
                assert_eq!(same.message, "GEN-ERR-001, the driver dies at /src/main.go:7");
            }
            Outcome::Failed(_) if !is_one => {}
            other => panic!("{place}: {other:?}"),
        }
    }
}
