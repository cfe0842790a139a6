//! The tests check which checks run at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use csi_harness::checks::check::Planned;
use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_harness::run::runner::{RunOptions, Runner};

use crate::bench::{Bench, Ran, config, options};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static FINISHED: AtomicUsize = AtomicUsize::new(0);

/// Returns the largest number of checks that ran at the same time, and the number of checks that had finished before.
async fn observed(cx: &Cx) -> CheckResult<(usize, usize)> {
    RUNNING.fetch_add(1, Ordering::SeqCst);
    let before = FINISHED.load(Ordering::SeqCst);
    let mut most = 0;
    for _ in 0..20 {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        most = most.max(RUNNING.load(Ordering::SeqCst));
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    FINISHED.fetch_add(1, Ordering::SeqCst);
    Ok((most, before))
}

macro_rules! parallel {
    ($($name:ident $id:literal),+) => {
        $(check! {
            /// One of several.
            $name {
                id: $id,
                title: "runs with others",
                spec: [req::GEN_ERR_001],
                refuted_by: ["none"],
            }
            async |cx| {
                observed(cx).await?;
                Ok(())
            }
        })+
    };
}

parallel!(P1 "order/p1", P2 "order/p2", P3 "order/p3", P4 "order/p4");

check! {
    /// Looks at the driver as a whole.
    ALONE {
        id: "order/alone",
        title: "runs alone, after the parallel ones",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: Serial,
    }
    async |cx| {
        let (most, before) = observed(cx).await?;
        ensure!(most == 1 && before == 4, "{most} at once, {before} before");
        Ok(())
    }
}

check! {
    /// May spoil the driver.
    ODD {
        id: "order/odd",
        title: "runs after those that run alone",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: UnusualInput,
    }
    async |cx| {
        let (most, before) = observed(cx).await?;
        ensure!(most == 1 && before == 5, "{most} at once, {before} before");
        Ok(())
    }
}

check! {
    /// May kill the driver.
    LAST {
        id: "order/last",
        title: "runs after all others",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: CrashProne,
    }
    async |cx| {
        let (most, before) = observed(cx).await?;
        ensure!(most == 1 && before == 6, "{most} at once, {before} before");
        Ok(())
    }
}

check! {
    /// May lose whatever the driver has.
    ERASES {
        id: "order/erases",
        title: "runs when all others have",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: LosesData,
    }
    async |cx| {
        let (most, before) = observed(cx).await?;
        ensure!(most == 1 && before == 7, "{most} at once, {before} before");
        Ok(())
    }
}

#[tokio::test]
async fn alone_means_alone_and_last_means_last() {
    let bench = Bench::start(Default::default(), config()).await;
    let ran = bench.run(&[&ERASES, &LAST, &ODD, &ALONE, &P1, &P2, &P3, &P4]).await;
    assert!(ran.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Passed), "{:?}", ran.outcomes);
    assert_eq!(ran.outcomes.len(), 8);
}

check! {
    /// Runs alone.
    FIRST {
        id: "order/first",
        title: "is of the first suite",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: Serial,
    }
    async |_cx| {
        Ok(())
    }
}

check! {
    /// Runs with others.
    SECOND {
        id: "order/second",
        title: "is of the second suite",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |_cx| {
        Ok(())
    }
}

/// Runs two suites, the first of which has a check that runs alone, and returns the order of their checks.
async fn order(in_turn: bool) -> Vec<String> {
    const SUITES: [Suite; 2] = [
        Suite { name: "one", checks: Checks::Declared(&[&[&FIRST]]), retired: &[] },
        Suite { name: "two", checks: Checks::Declared(&[&[&SECOND]]), retired: &[] },
    ];
    let bench = Bench::start(Default::default(), config()).await;
    let registry = Registry::new(SUITES);
    let planned: Vec<Planned> = registry.select(&Default::default(), &bench.target.config().access_types);
    let options = RunOptions { registry, ..options() };
    let mut ran = Ran::default();
    let mut runner = Runner::new(bench.target.clone(), options, bench.stop.subscribe());
    runner.report_to(&mut ran);
    if in_turn {
        runner.take_suites_in_turn();
    }
    runner.run(planned).await;
    ran.outcomes.into_iter().map(|(label, _)| label).collect()
}

#[tokio::test]
async fn suites_run_together_or_in_turn() {
    assert_eq!(order(false).await, [&*SECOND.id, &*FIRST.id]);
    assert_eq!(order(true).await, [&*FIRST.id, &*SECOND.id]);
}

check! {
    /// A driver may die of it.
    CRASHES {
        id: "order/crashes",
        title: "is prone to crash the driver",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: CrashProne,
    }
    async |_cx| {
        Ok(())
    }
}

check! {
    /// Users of the Go csi-sanity know it by name.
    KNOWN {
        id: "order/known",
        title: "may lose data, and is known by its Go name",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        replaces: ["a test of the Go csi-sanity"],
        runs: LosesData,
    }
    async |_cx| {
        Ok(())
    }
}

#[tokio::test]
async fn without_restarts_known_checks_come_before_crashes() {
    let bench = Bench::start(Default::default(), config()).await;
    let ran = bench.run(&[&CRASHES, &ERASES_ALONE, &KNOWN]).await;
    let labels: Vec<&str> = ran.outcomes.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, [&*KNOWN.id, &*CRASHES.id, &*ERASES_ALONE.id]);
}

check! {
    /// Users do not know it.
    ERASES_ALONE {
        id: "order/erases-alone",
        title: "may lose data",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: LosesData,
    }
    async |_cx| {
        Ok(())
    }
}
