//! The tests run checks against drivers that die, or that do not answer.

use csi_harness::client::target::Target;
use csi_harness::driver::Driver;
use csi_harness::prelude::*;
use csi_harness::results::outcome::{Finding, Outcome};
use csi_mock_driver::Defect;
use tokio::sync::{Semaphore, watch};

use crate::bench::{self, Bench, config, options};
use crate::process::Mock;

check! {
    /// Any call that the mock driver can be configured to die on.
    CALLS_LIST_VOLUMES {
        id: "death/list-volumes",
        title: "ListVolumes with max_entries -1 is answered",
        spec: [req::CTRL_LISTVOL_001],
        refuted_by: ["list-volumes-panics-on-negative-max"],
    }
    async |cx| {
        cx.call(v1::ListVolumesRequest { max_entries: -1, ..Default::default() }).await.any_answer()?.ok();
        Ok(())
    }
}

check! {
    /// An innocent neighbour.
    CALLS_PROBE {
        id: "death/probe",
        title: "Probe is answered",
        spec: [req::ID_PROBE_001],
        refuted_by: ["probe-fails"],
    }
    async |cx| {
        for _ in 0..20 {
            cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        }
        Ok(())
    }
}

/// The process lives on, but the call never gets a status. That is a fault of the driver, and only of this call.
#[tokio::test]
async fn a_call_that_breaks_the_connection_is_named() {
    let mock = csi_mock_driver::Config {
        defects: vec![Defect::ListVolumesPanicsOnNegativeMax],
        ..Default::default()
    };
    let ran = Bench::start(mock, config()).await.run(&[&CALLS_LIST_VOLUMES, &CALLS_PROBE]).await;
    let Outcome::Failed(Finding { violation, .. }) = ran.outcome(&CALLS_LIST_VOLUMES) else {
        panic!("{:?}", ran.outcomes)
    };
    assert!(violation.message.contains("ListVolumes ends without a gRPC status"), "{violation:?}");
    assert_eq!(ran.outcome(&CALLS_PROBE), &Outcome::Passed);
}

check! {
    /// Ends the server from inside the run.
    KILLS {
        id: "death/kills",
        title: "the driver goes away",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: Serial,
    }
    async |cx| {
        cx.call(v1::GetCapacityRequest::default()).await.must("be answered")?;
        Ok(())
    }
}

/// A driver that never answers is reported as dead once, and is not accused of breaking a rule.
#[tokio::test]
async fn a_driver_that_never_answers_is_called_dead_once() {
    let mut config = config();
    config.time_limits.call_ms = 200;
    let bench = Bench::start(Default::default(), config).await;
    // The test removes the server, so that no call is answered from now on.
    bench.stop_serving().await;
    let ran = bench.run(&[&KILLS, &CALLS_PROBE]).await;
    assert_eq!(ran.summary.crashes.len(), 1, "{:?}", ran.summary);
    assert!(!ran.summary.crashes[0].back);
    assert_eq!(ran.summary.counts.passed, 0);
}

/// The check below opens this once the node is full.
static FULL: Semaphore = Semaphore::const_new(0);

check! {
    /// The driver dies of it, so that the volume cannot be detached.
    DIES_WITH_THE_NODE_FULL {
        id: "death/dies-with-the-node-full",
        title: "DeleteVolume of a path is answered while a volume is attached",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["delete-volume-crashes-on-paths"],
    }
    async |cx| {
        cx.attached(cx.new_volume().await?.into()).await?;
        FULL.add_permits(1);
        let request = v1::DeleteVolumeRequest { volume_id: "../a-path".to_owned(), ..Default::default() };
        cx.call(request).await.any_answer()?.ok();
        Ok(())
    }
}

check! {
    /// Wants to have a volume attached where there is room for one.
    WAITS_FOR_ROOM {
        id: "death/waits-for-room",
        title: "a volume can be attached",
        spec: [req::CTRL_PUBLISH_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let _full = FULL.acquire().await.expect("nobody closes it");
        cx.attached(volume.into()).await?;
        Ok(())
    }
}

/// If a check holds room on the node when the driver dies, other checks must not wait for that room without end.
#[tokio::test]
async fn room_is_given_back_when_the_driver_dies() {
    let mut mock = Mock::new("defects: [delete-volume-crashes-on-paths]\nmax-volumes-per-node: 2");
    // If the room were not given back, the other check would reach this time limit.
    mock.config.time_limits.check_ms = 5_000;
    let driver = Driver::of(&mock.config, None).expect("the configuration says how to run it");
    let target = Target::connect_to(driver.clone(), mock.config.clone()).await.expect("it answers");
    let checks: [&'static Check; 2] = [&DIES_WITH_THE_NODE_FULL, &WAITS_FOR_ROOM];
    let ran = bench::run(target, options(), watch::channel(Default::default()).1, &checks).await;
    driver.leave().await.expect("it stops");
    assert!(!ran.summary.crashes.is_empty(), "{:?}", ran.summary);
    assert!(matches!(ran.outcome(&DIES_WITH_THE_NODE_FULL), Outcome::Failed(_)), "{:?}", ran.outcomes);
    assert_eq!(ran.outcome(&WAITS_FOR_ROOM), &Outcome::Passed);
}
