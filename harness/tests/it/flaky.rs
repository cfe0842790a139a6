//! The tests run checks whose failures do not occur again when the check is repeated.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use csi_harness::checks::known::KnownFailing;
use csi_harness::config::Config;
use csi_harness::config::profile::{FlakyResult, Profile};
use csi_harness::prelude::*;
use csi_harness::results::outcome::{Halt, Outcome, OutcomeKind, Verdict};
use csi_harness::spec::faults::{Claim, FaultKey};
use csi_harness::spec::verdict::{CutShort, Damage, Plays};
use tokio::sync::watch;

use crate::bench::{Bench, Ran, config};

/// Declares a check that fails in its first plays, like the check of a driver that refuses a call now and then.
macro_rules! fails_first {
    ($name:ident, $id:literal, $plays:ident, $failing:literal, $($damage:ident)?) => {
        static $plays: AtomicU32 = AtomicU32::new(0);

        check! {
            /// Depends on how often it was run.
            $name {
                id: $id,
                title: "the call is answered each time",
                spec: [req::CTRL_CREATEVOL_010],
                refuted_by: ["none"],
                varies: true,
            }
            async |cx| {
                cx.call(v1::ProbeRequest {}).await.must("be answered")?;
                let play = i64::from($plays.fetch_add(1, Ordering::Relaxed));
                if play < $failing {
                    let violation = Violation::new(format!("play {play} went wrong"));
                    $(let violation = violation.damage(Damage::$damage);)?
                    return Err(violation.into());
                }
                Ok(())
            }
        }
    };
}

fails_first!(ONCE, "flaky/once", ONCE_PLAYS, 1,);
fails_first!(TWICE, "flaky/twice", TWICE_PLAYS, 2,);
fails_first!(ALWAYS, "flaky/always", ALWAYS_PLAYS, 1000,);
fails_first!(LOSES_ONCE, "flaky/loses-once", LOSES_ONCE_PLAYS, 1, DataLoss);
fails_first!(ONCE_BEFORE_ANOTHER, "flaky/once-before-another", ONCE_BEFORE_ANOTHER_PLAYS, 1,);
fails_first!(ONCE_AND_MET_AGAIN, "flaky/once-and-met-again", ONCE_AND_MET_AGAIN_PLAYS, 1,);
fails_first!(ONCE_UNDER_STRICT, "flaky/once-under-strict", ONCE_UNDER_STRICT_PLAYS, 1,);
fails_first!(LOSES_ONCE_AND_WARNS, "flaky/loses-once-and-warns", LOSES_ONCE_AND_WARNS_PLAYS, 1, DataLoss);
fails_first!(ONCE_AS_LISTED, "flaky/once-as-listed", ONCE_AS_LISTED_PLAYS, 1,);
fails_first!(NEVER_AS_LISTED, "flaky/never-as-listed", NEVER_AS_LISTED_PLAYS, 0,);
fails_first!(EXPIRED, "flaky/expired", EXPIRED_PLAYS, 1000,);

check! {
    /// Has replayed its failing case itself.
    STATED {
        id: "flaky/stated",
        title: "a case fails each time",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        varies: true,
    }
    async |_cx| {
        STATED_PLAYS.fetch_add(1, Ordering::Relaxed);
        Err(Violation::new("a case failed").replayed(1, 3).into())
    }
}

check! {
    /// Has replayed two cases, of which the first one failed once, and the second one each time.
    ONCE_AND_ALWAYS {
        id: "flaky/once-and-always",
        title: "two cases fail, one of them each time",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        varies: true,
    }
    async |cx| {
        cx.blame(Violation::new("a case failed once").damage(Damage::DataLoss).replayed(1, 4));
        Err(Violation::new("a case failed").replayed(4, 4).into())
    }
}

check! {
    /// Has replayed a case that fails each time, and shows something else in its first play.
    PROVEN_AND_ONCE {
        id: "flaky/proven-and-once",
        title: "two cases fail, one of them in the first play alone",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        varies: true,
    }
    async |cx| {
        cx.blame(violation_of("a case failed each time").replayed(2, 2));
        match PROVEN_AND_ONCE_PLAYS.fetch_add(1, Ordering::Relaxed) {
            0 => Err(violation_of("something else failed").into()),
            _ => Ok(()),
        }
    }
}

static PROVEN_AND_ONCE_PLAYS: AtomicU32 = AtomicU32::new(0);
static STATED_PLAYS: AtomicU32 = AtomicU32::new(0);

check! {
    /// Fails each time, and warns of something else.
    FAILS_AND_WARNS {
        id: "flaky/fails-and-warns",
        title: "nothing is wrong or unusual",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        varies: true,
    }
    async |cx| {
        cx.warn(violation_of("odd"));
        Err(violation_of("wrong").into())
    }
}

fn violation_of(what: &str) -> Violation {
    let fault = FaultKey { rule: req::CTRL_CREATEVOL_010.id, what: what.to_owned() };
    Violation { fault: Some(Box::new(fault)), ..Violation::new(what) }
}

check! {
    /// Fails while the user stops the run.
    STOPPED {
        id: "flaky/stopped",
        title: "nothing goes wrong until the run is stopped",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        varies: true,
    }
    async |_cx| {
        STOPPED_PLAYS.fetch_add(1, Ordering::Relaxed);
        STOP.get().expect("the test has set it").send_replace(Halt::Interrupted);
        Err(Violation::new("it failed").into())
    }
}

static STOPPED_PLAYS: AtomicU32 = AtomicU32::new(0);
static STOP: OnceLock<watch::Sender<Halt>> = OnceLock::new();

check! {
    /// Meets its time limit.
    CUT_SHORT {
        id: "flaky/cut-short",
        title: "nothing goes wrong in many sequences",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.cut_short(12, 256, "sequences");
        Ok(())
    }
}

check! {
    /// Shows each time what a flaky check shows once.
    FOLLOWS {
        id: "flaky/follows",
        title: "the call is answered here, too",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |_cx| {
        Err(Violation::new("it went wrong here, too").into())
    }
}

check! {
    /// Meets what a flaky check shows once, and leaves it to that check.
    MEETS_AGAIN {
        id: "flaky/meets-again",
        title: "nothing new",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        duplicate_of: "*",
    }
    async |_cx| { Err(Stop::MetAgain(Box::new(Violation::new("it went wrong here, too")))) }
}

async fn ran(config: Config, known: &str, checks: &[&'static Check]) -> Ran {
    let mut bench = Bench::start(Default::default(), config).await;
    if !known.is_empty() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), known).expect("it is written");
        bench.options.known = KnownFailing::load(file.path()).expect("it is a list");
    }
    bench.run(checks).await
}

fn plays(ran: &Ran, check: &Check) -> Option<Plays> {
    ran.outcome(check).finding().and_then(|finding| finding.plays)
}

#[tokio::test]
async fn a_flaky_failure_stands_for_what_was_only_met_again() {
    let ran = ran(config(), "", &[&ONCE_AND_MET_AGAIN, &MEETS_AGAIN]).await;
    assert_eq!(ran.outcome(&ONCE_AND_MET_AGAIN).kind(), OutcomeKind::Flaky);
    assert_eq!(ran.outcome(&MEETS_AGAIN).kind(), OutcomeKind::SameFault);
    assert_eq!(ran.summary.counts.failed, 0);
}

#[tokio::test]
async fn a_failure_that_does_not_recur_is_flaky() {
    let ran = ran(config(), "", &[&ONCE, &TWICE, &ALWAYS]).await;
    assert_eq!(ran.outcome(&ONCE).kind(), OutcomeKind::Flaky);
    assert_eq!(plays(&ran, &ONCE), Some(Plays { failed: 1, of: 4 }));
    assert_eq!(ran.outcome(&ONCE).counts_as(), OutcomeKind::Warned);
    assert!(ran.stories.contains("failed 1 of 4 times"), "{}", ran.stories);
    for check in [&TWICE, &ALWAYS] {
        assert_eq!(ran.outcome(check).kind(), OutcomeKind::Failed);
        assert_eq!(plays(&ran, check), Some(Plays { failed: 2, of: 2 }), "the first repetition confirms it");
    }
    assert_eq!(ALWAYS_PLAYS.load(Ordering::Relaxed), 2);
    assert_eq!(
        (ran.summary.counts.failed, ran.summary.counts.flaky, ran.summary.counts.flaky_failures),
        (1, 1, 0)
    );
}

#[tokio::test]
async fn flaky_failures_count_for_damage_or_by_flag() {
    let lost = ran(config(), "", &[&LOSES_ONCE]).await;
    assert_eq!(lost.outcome(&LOSES_ONCE).kind(), OutcomeKind::Flaky);
    assert_eq!(lost.summary.verdict(), Verdict::Deviates);
    let strict = Config { profile: Profile::Strict, ..config() };
    let strict = ran(strict, "", &[&ONCE_UNDER_STRICT]).await;
    assert_eq!(strict.summary.verdict(), Verdict::Deviates);
    let warns = Config { flaky_result: Some(FlakyResult::Warn), ..config() };
    let warns = ran(warns, "", &[&LOSES_ONCE_AND_WARNS, &CUT_SHORT]).await;
    assert_eq!(warns.outcome(&LOSES_ONCE_AND_WARNS).kind(), OutcomeKind::Flaky);
    assert_eq!(warns.summary.verdict(), Verdict::Conforms);
}

#[tokio::test]
async fn a_flaky_failure_hides_none_that_comes_each_time() {
    let ran = ran(config(), "", &[&ONCE_BEFORE_ANOTHER, &FOLLOWS]).await;
    assert_eq!(ran.outcome(&ONCE_BEFORE_ANOTHER).kind(), OutcomeKind::Flaky);
    assert_eq!(ran.outcome(&FOLLOWS).kind(), OutcomeKind::Failed);
}

#[tokio::test]
async fn what_a_check_has_replayed_itself_is_not_repeated() {
    let ran = ran(config(), "", &[&STATED]).await;
    assert_eq!(ran.outcome(&STATED).kind(), OutcomeKind::Flaky);
    assert_eq!(
        (plays(&ran, &STATED), STATED_PLAYS.load(Ordering::Relaxed)),
        (Some(Plays { failed: 1, of: 3 }), 1)
    );
}

#[tokio::test]
async fn a_failure_that_recurs_comes_before_a_flaky_one() {
    let ran = ran(config(), "", &[&ONCE_AND_ALWAYS]).await;
    let outcome = ran.outcome(&ONCE_AND_ALWAYS);
    let message = outcome.violation().map(|violation| violation.message.as_str());
    assert_eq!((outcome.kind(), message), (OutcomeKind::Failed, Some("a case failed")));
}

/// In an earlier version, the repetitions for another failure made it two.
#[tokio::test]
async fn a_proven_failure_is_reported_once() {
    let ran = ran(config(), "", &[&PROVEN_AND_ONCE]).await;
    assert_eq!(PROVEN_AND_ONCE_PLAYS.load(Ordering::Relaxed), 4);
    assert_eq!(ran.outcome(&PROVEN_AND_ONCE).kind(), OutcomeKind::Failed);
    assert_eq!(ran.stories.matches("a case failed each time").count(), 1, "{}", ran.stories);
}

#[tokio::test]
async fn a_check_listed_as_flaky_may_fail_and_need_not() {
    let known =
        "flaky: flaky/*-as-listed  # our issue 7\nflaky/expired until 2020-01-01 # was to be fixed by then\n";
    let ran = ran(config(), known, &[&ONCE_AS_LISTED, &NEVER_AS_LISTED, &EXPIRED]).await;
    assert_eq!(ran.outcome(&ONCE_AS_LISTED).kind(), OutcomeKind::KnownFailure);
    assert_eq!(ONCE_AS_LISTED_PLAYS.load(Ordering::Relaxed), 1, "a listed failure needs no confirmation");
    assert_eq!(ran.outcome(&NEVER_AS_LISTED), &Outcome::Passed);
    assert_eq!(ran.outcome(&EXPIRED).kind(), OutcomeKind::Failed, "an expired entry excuses nothing");
    let expired = |remark: &String| remark.contains(":2: flaky/expired expired after 2020-01-01");
    assert!(ran.remarks.iter().any(expired), "{:?}", ran.remarks);
}

/// In an earlier version, other checks that met the warned fault failed, although each of them alone would only have warned of it.
#[tokio::test]
async fn a_warning_beside_a_failure_is_no_known_fault() {
    let bench = Bench::start(Default::default(), config()).await;
    let target = bench.target.clone();
    let ran = bench.run(&[&FAILS_AND_WARNS]).await;
    assert_eq!(ran.outcome(&FAILS_AND_WARNS).kind(), OutcomeKind::Failed);
    let known: Vec<String> =
        target.faults().known_to(&Claim::of("another")).into_keys().map(|fault| fault.what).collect();
    assert_eq!(known, ["wrong"]);
}

#[tokio::test]
async fn a_failure_that_cannot_be_repeated_counts() {
    let bench = Bench::start(Default::default(), config()).await;
    STOP.set(bench.stop.clone()).expect("only this test sets it");
    let ran = bench.run(&[&STOPPED]).await;
    assert_eq!(ran.outcome(&STOPPED).kind(), OutcomeKind::Failed);
    assert_eq!((plays(&ran, &STOPPED), STOPPED_PLAYS.load(Ordering::Relaxed)), (None, 1));
}

#[tokio::test]
async fn work_that_was_cut_short_is_stated_once_for_the_run() {
    let ran = ran(config(), "", &[&CUT_SHORT]).await;
    let work = CutShort { done: 12, planned: 256, what: "sequences".to_owned() };
    assert_eq!(ran.summary.cut_short, [(CUT_SHORT.id.to_string(), work)]);
    assert_eq!(ran.outcome(&CUT_SHORT), &Outcome::Passed);
}
