//! Which checks run at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use csi_harness::outcome::Outcome;
use csi_harness::prelude::*;

use crate::bench::{Bench, config};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static FINISHED: AtomicUsize = AtomicUsize::new(0);

/// Runs a body that notes how many others run meanwhile, and how many ran before.
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
        runs: Alone,
    }
    async |cx| {
        let (most, before) = observed(cx).await?;
        ensure!(most == 1 && before == 4, "{most} at once, {before} before");
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
        runs: Last,
    }
    async |cx| {
        let (most, before) = observed(cx).await?;
        ensure!(most == 1 && before == 5, "{most} at once, {before} before");
        Ok(())
    }
}

#[tokio::test]
async fn alone_means_alone_and_last_means_last() {
    let bench = Bench::start(Default::default(), config()).await;
    let ran = bench.run(&[&LAST, &ALONE, &P1, &P2, &P3, &P4]).await;
    assert!(ran.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Passed), "{:?}", ran.outcomes);
    assert_eq!(ran.outcomes.len(), 6);
}
