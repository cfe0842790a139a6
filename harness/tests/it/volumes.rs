//! The user provides the volumes, and only one check at a time may have one.

use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::config::{AccessType, Config, StaticVolume};
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_proto::Call as _;
use tokio::sync::Notify;

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

/// The check that takes the volume notifies this.
static IS_HELD: Notify = Notify::const_new();
/// The check that makes the plain call notifies this.
static IS_TRIED: Notify = Notify::const_new();

check! {
    /// Judges the plain call, for which it needs a volume.
    PLAIN_CALL {
        id: "volumes/plain-call",
        title: "makes the plain call with a volume",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        plain: ["Probe"],
        runs: Finally,
    }
    async |cx| {
        IS_TRIED.notify_one();
        takes(cx, 1).await
    }
}

check! {
    /// Is declined while the other check has the only volume.
    DECLINED_WITHOUT_VOLUME {
        id: "volumes/declined-without-volume",
        title: "is declined",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |_cx| {
        IS_HELD.notified().await;
        Err(Stop::Declined(v1::ProbeRequest::RPC, "declined".to_owned()))
    }
}

check! {
    /// Is declined while the plain call is made, for which its volume is needed.
    DECLINED_WITH_VOLUME {
        id: "volumes/declined-with-volume",
        title: "is declined",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        takes(cx, 1).await?;
        IS_HELD.notify_one();
        IS_TRIED.notified().await;
        Err(Stop::Declined(v1::ProbeRequest::RPC, "declined".to_owned()))
    }
}

check! {
    /// Uses its volumes one after another.
    TAKES_ONE_AT_A_TIME {
        id: "volumes/takes-one-at-a-time",
        title: "takes a volume in each part",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        for _ in 0..3 {
            let part = cx.scope();
            takes(&part, 1).await?;
            part.undo().await?;
        }
        Ok(())
    }
}

async fn takes(cx: &Cx, number: usize) -> CheckResult {
    let mut ids = Vec::new();
    for _ in 0..number {
        ids.push(cx.provisioned_volume().await?.id);
        // Other checks can take a volume during this call.
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == number, "one volume was given out twice: {ids:?}");
    Ok(())
}

const SUITE: Suite = Suite { name: "volumes", checks: Checks::Declared(&[&[&PLAIN_CALL]]), retired: &[] };

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
    let mut bench = Bench::start(Default::default(), config).await;
    bench.options.registry = Registry::new([SUITE]);
    bench.run(checks).await
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
async fn declined_checks_do_not_wait_for_each_other() {
    let checks = [&PLAIN_CALL, &DECLINED_WITHOUT_VOLUME, &DECLINED_WITH_VOLUME];
    let ran = ran(&[("a", None)], &checks).await;
    assert_eq!(ran.outcome(&DECLINED_WITHOUT_VOLUME), &Outcome::Skipped("declined".to_owned()));
    assert_eq!(ran.outcome(&DECLINED_WITH_VOLUME), &Outcome::Skipped("declined".to_owned()));
}

#[tokio::test]
async fn a_volume_is_given_back_when_a_part_is_undone() {
    let ran = ran(&[("a", None)], &[&TAKES_ONE_AT_A_TIME]).await;
    assert_eq!(ran.outcome(&TAKES_ONE_AT_A_TIME), &Outcome::Passed);
}

#[tokio::test]
async fn a_check_that_wants_too_many_volumes_is_skipped() {
    let checks = [&TAKES_TWO, &TAKES_ONE];
    for volumes in [&[("a", None)][..], &[("a", Some(AccessType::Mount)), ("b", Some(AccessType::Block))]] {
        let ran = ran(volumes, &checks).await;
        let wants = "needs 2 or more pre-provisioned volumes for mount access".to_owned();
        assert_eq!(ran.outcome(&TAKES_TWO), &Outcome::Skipped(wants));
        assert_eq!(ran.outcome(&TAKES_ONE), &Outcome::Passed);
    }
    let ran = ran(&[("b", Some(AccessType::Block))], &[&TAKES_ONE]).await;
    let wants = "needs a pre-provisioned volume for mount access".to_owned();
    assert_eq!(ran.outcome(&TAKES_ONE), &Outcome::Skipped(wants));
}
