//! Drivers that die, or do not answer.

use csi_harness::outcome::{Aftermath, Outcome};
use csi_harness::prelude::*;
use csi_mock_driver::Defect;

use crate::bench::{Bench, config};

check! {
    /// Any call that the mock driver can be told to die on.
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

/// The process lives on, but the call never has a status: that is the driver's fault, and of this call only.
#[tokio::test]
async fn a_call_that_breaks_the_connection_is_named() {
    let mock = csi_mock_driver::Config {
        defects: vec![Defect::ListVolumesPanicsOnNegativeMax],
        ..Default::default()
    };
    let ran = Bench::start(mock, config()).await.run(&[&CALLS_LIST_VOLUMES, &CALLS_PROBE]).await;
    let Outcome::Failed(violation) = ran.outcome(&CALLS_LIST_VOLUMES) else { panic!("{:?}", ran.outcomes) };
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
        runs: Alone,
    }
    async |cx| {
        cx.call(v1::GetCapacityRequest::default()).await.must("be answered")?;
        Ok(())
    }
}

/// A driver that never answers is not accused of breaking a rule, and is said to be dead once.
#[tokio::test]
async fn a_driver_that_never_answers_is_called_dead_once() {
    let mut config = config();
    config.time_limits.call_ms = 200;
    let bench = Bench::start(Default::default(), config).await;
    // From now on nobody serves the socket.
    bench.stop_serving().await;
    let ran = bench.run(&[&KILLS, &CALLS_PROBE]).await;
    assert_eq!(ran.summary.crashes.len(), 1, "{:?}", ran.summary);
    assert_eq!(ran.summary.crashes[0].aftermath, Aftermath::Gone);
    assert_eq!(ran.summary.passed, 0);
}
