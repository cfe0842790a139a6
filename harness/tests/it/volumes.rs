//! Pre-provisioned volumes, of which one check at a time has some.

use csi_harness::config::{AccessType, Config, StaticVolume};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;

use crate::bench::{Bench, Ran, config};

check! {
    /// Compares two volumes, say.
    TAKES_TWO {
        id: "volumes/takes-two",
        title: "takes two volumes at the same time",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        takes(cx, 2).await
    }
}

check! {
    /// Does the same at the same time.
    TAKES_TWO_AS_WELL {
        id: "volumes/takes-two-as-well",
        title: "takes two volumes at the same time",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        takes(cx, 2).await
    }
}

check! {
    /// Needs no more than one.
    TAKES_ONE {
        id: "volumes/takes-one",
        title: "takes one volume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        takes(cx, 1).await
    }
}

async fn takes(cx: &Cx, number: usize) -> CheckResult {
    let mut ids = Vec::new();
    for _ in 0..number {
        ids.push(cx.provisioned_volume().await?.id);
        // Others get their chance to take one too.
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == number, "one volume was given out twice: {ids:?}");
    Ok(())
}

async fn ran(volumes: &[(&str, Option<AccessType>)], checks: &[&'static Check]) -> Ran {
    let volume = |(id, access_type): &(&str, Option<AccessType>)| StaticVolume {
        id: (*id).to_owned(),
        context: Default::default(),
        publish_context: Default::default(),
        access_type: *access_type,
        size_bytes: 0,
        readonly: false,
    };
    let config = Config { volumes: volumes.iter().map(volume).collect(), ..config() };
    Bench::start(Default::default(), config).await.run(checks).await
}

#[tokio::test]
async fn a_check_takes_as_many_as_there_are() {
    let ran = ran(&[("a", None), ("b", Some(AccessType::Mount))], &[&TAKES_TWO]).await;
    assert_eq!(ran.outcome(&TAKES_TWO), &Outcome::Passed);
}

#[tokio::test]
async fn checks_that_take_several_volumes_do_not_deadlock() {
    let checks = [&TAKES_TWO, &TAKES_TWO_AS_WELL, &TAKES_ONE];
    let ran = ran(&[("a", None), ("b", None)], &checks).await;
    assert!(ran.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Passed), "{:?}", ran.outcomes);
}

#[tokio::test]
async fn a_check_that_wants_too_many_volumes_is_skipped() {
    let checks = [&TAKES_TWO, &TAKES_ONE];
    for volumes in [&[("a", None)][..], &[("a", Some(AccessType::Mount)), ("b", Some(AccessType::Block))]] {
        let ran = ran(volumes, &checks).await;
        let wants = "needs one more pre-provisioned volume for mount access".to_owned();
        assert_eq!(ran.outcome(&TAKES_TWO), &Outcome::Skipped(wants));
        assert_eq!(ran.outcome(&TAKES_ONE), &Outcome::Passed);
    }
    let ran = ran(&[("b", Some(AccessType::Block))], &[&TAKES_ONE]).await;
    let wants = "needs a pre-provisioned volume for mount access".to_owned();
    assert_eq!(ran.outcome(&TAKES_ONE), &Outcome::Skipped(wants));
}
