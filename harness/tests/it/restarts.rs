//! Some checks end the driver on purpose. The tests check what the run makes of that.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::driver::Driver;
use csi_harness::prelude::*;
use csi_harness::results::outcome::Outcome;
use csi_mock_driver::{Delay, MockDriver};
use csi_proto::Endpoint;
use tokio::sync::watch;

use crate::bench::{Ran, config, options, run};
use crate::process::Mock;

/// Returns a mock driver in this process that can be killed, and the configuration that names its endpoint.
fn in_process(mock: csi_mock_driver::Config) -> (Driver, Config) {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
    let mut config = config();
    config.endpoint = Some(endpoint.to_string());
    let latest = Mutex::new(MockDriver::new(mock).expect("a mock driver"));
    let driver = Driver::in_process(move || {
        let _ = &directory;
        let mut latest = latest.lock().expect("no start panics");
        *latest = latest.restarted()?;
        Ok(vec![(endpoint.clone(), latest.routes())])
    });
    (driver, config)
}

async fn ran(driver: Driver, config: Config, checks: &[&'static Check]) -> Ran {
    let target = Target::connect_to(driver.clone(), config).await.expect("it answers");
    let ran = run(target, options(), watch::channel(Default::default()).1, checks).await;
    driver.leave().await.expect("it stops");
    ran
}

static BODIES: AtomicUsize = AtomicUsize::new(0);

check! {
    /// A call is under way when the driver is killed; what was acknowledged before is there afterwards.
    KILLS_AND_STARTS {
        id: "restarts/kills-and-starts",
        title: "volumes survive a kill",
        spec: [req::GEN_ERR_001],
        needs: [RESTARTS],
        refuted_by: ["none"],
    }
    async |cx| {
        BODIES.fetch_add(1, Ordering::SeqCst);
        let volume = cx.new_volume().await?;
        let driver = cx.target().driver().ok_or_else(|| Stop::broken("there is a handle"))?;
        let calling = cx.call(v1::ProbeRequest {});
        let (reply, ended) = tokio::join!(calling, driver.kill());
        ended.map_err(|error| Stop::broken(error.to_string()))?;
        ensure!(matches!(reply.answer(), Answer::Unknown(_)), "a call survives the kill");
        cx.target().bring_back().await.map_err(|away| Stop::broken(away.to_string()))?;
        let again = cx.list_volumes().await?;
        let ids = again.into_iter().filter_map(|entry| entry.volume).map(|volume| volume.volume_id);
        ensure!(ids.collect::<Vec<_>>().contains(&volume.volume_id), "the volume is gone");
        Ok(())
    }
}

check! {
    /// Leaves it to the run to bring the driver back.
    LEAVES_IT_DEAD {
        id: "restarts/leaves-it-dead",
        title: "ends with the driver dead, and a volume to delete",
        spec: [req::GEN_ERR_001],
        needs: [RESTARTS],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.new_volume().await?;
        let driver = cx.target().driver().ok_or_else(|| Stop::broken("there is a handle"))?;
        driver.kill().await.map_err(|error| Stop::broken(error.to_string()))?;
        cx.call(v1::ProbeRequest {}).await.any_answer()?.ok();
        Ok(())
    }
}

check! {
    /// Runs at the same time as others of its kind, but never with one that ends the driver.
    NEIGHBOUR {
        id: "restarts/neighbour",
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

check! {
    /// Goes wrong after the driver has come back.
    FAILS_AFTERWARDS {
        id: "restarts/fails-afterwards",
        title: "ends the driver between two calls, and blames it",
        spec: [req::ID_PROBE_001],
        needs: [RESTARTS],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.setup("an answer")?;
        let driver = cx.target().driver().ok_or_else(|| Stop::broken("there is a handle"))?;
        driver.kill().await.map_err(|error| Stop::broken(error.to_string()))?;
        cx.happened("all lights go out");
        cx.target().bring_back().await.map_err(|away| Stop::broken(away.to_string()))?;
        cx.call(v1::ProbeRequest {}).await.setup("an answer")?;
        Err(Violation::new("it is not what it was").into())
    }
}

check! {
    /// Ends the driver again and again, with different calls between that nobody has to read.
    FAILS_IN_THE_END {
        id: "restarts/fails-in-the-end",
        title: "ends the driver three times, and blames it",
        spec: [req::ID_PROBE_001],
        needs: [RESTARTS],
        refuted_by: ["none"],
    }
    async |cx| {
        let driver = cx.target().driver().ok_or_else(|| Stop::broken("there is a handle"))?;
        for _ in 0..3 {
            for _ in 0..8 {
                cx.call(v1::ProbeRequest {}).await.setup("an answer")?;
                cx.call(v1::GetPluginInfoRequest {}).await.setup("an answer")?;
            }
            driver.kill().await.map_err(|error| Stop::broken(error.to_string()))?;
            cx.target().bring_back().await.map_err(|away| Stop::broken(away.to_string()))?;
        }
        cx.call(v1::ProbeRequest {}).await.setup("an answer")?;
        Err(Violation::new("it is not what it was").into())
    }
}

/// A long story leaves out calls, and with them the kills and starts between these calls.
#[tokio::test]
async fn an_end_that_no_call_shows_the_place_of_is_left_out() {
    let (driver, config) = in_process(csi_mock_driver::Config::default());
    let ran = ran(driver, config, &[&FAILS_IN_THE_END]).await;
    let calls = ran.stories.split("  calls\n").nth(1).expect("it has calls");
    let lines: Vec<&str> = calls.lines().map(str::trim).collect();
    let kills = lines.iter().filter(|line| **line == "the driver is killed").count();
    assert_eq!(kills, 2, "the last one before what is shown, and the one in it: {calls}");
    assert!(lines[0].starts_with("… ") && lines[0].contains(" more calls"), "{calls}");
    assert!(lines.iter().any(|line| line.starts_with("Probe {}")), "{calls}");
}

/// A reader has to see when the driver was killed or started.
#[tokio::test]
async fn the_end_of_the_driver_stands_among_the_calls() {
    let (driver, config) = in_process(csi_mock_driver::Config::default());
    let ran = ran(driver, config, &[&FAILS_AFTERWARDS]).await;
    let calls = ran.stories.split("  calls\n").nth(1).expect("it has calls");
    let lines: Vec<&str> = calls.lines().take(6).map(str::trim).collect();
    assert_eq!(
        [lines[0], lines[2], lines[3], lines[4]],
        ["Probe {}", "the driver is killed", "all lights go out", "Probe {}"]
    );
}

/// Every Probe takes so long that a kill comes before its end.
fn slow_probe() -> csi_mock_driver::Config {
    let mut mock = csi_mock_driver::Config::default();
    mock.delay.insert("Probe".parse().expect("an RPC"), Delay(Duration::from_secs(3600)));
    mock
}

#[tokio::test]
async fn an_end_on_purpose_is_no_crash() {
    let (in_process, reached) = in_process(slow_probe());
    let child = Mock::new("delay: {Probe: 3600s}");
    for (driver, config) in
        [(in_process, reached), (Driver::of(&child.config, None).expect("a command"), child.config.clone())]
    {
        BODIES.store(0, Ordering::SeqCst);
        let ran = ran(driver, config, &[&KILLS_AND_STARTS]).await;
        assert_eq!(ran.outcome(&KILLS_AND_STARTS), &Outcome::Passed, "{}", ran.stories);
        assert_eq!(BODIES.load(Ordering::SeqCst), 1, "it is not run again");
        assert!(ran.summary.crashes.is_empty() && ran.summary.leaks.is_empty(), "{:?}", ran.summary);
    }
}

#[tokio::test]
async fn a_dead_driver_is_started_before_undoing() {
    let (driver, config) = in_process(Default::default());
    let ran = ran(driver, config, &[&LEAVES_IT_DEAD, &NEIGHBOUR]).await;
    let Outcome::Broken(why) = ran.outcome(&LEAVES_IT_DEAD) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("Probe"), "the call had no answer: {why}");
    assert_eq!(ran.leftovers, Vec::<String>::new());
    assert_eq!(ran.outcome(&NEIGHBOUR), &Outcome::Passed);
    assert!(ran.summary.crashes.is_empty() && ran.summary.leaks.is_empty(), "{:?}", ran.summary);
}

check! {
    /// Asks nothing.
    HAS_SEEN_ENOUGH {
        id: "restarts/has-seen-enough",
        title: "judges the whole run by what it has seen",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
        runs: Finally,
    }
    async |cx| {
        ensure!(cx.target().info().name.is_empty(), "the driver has returned its name before");
        Ok(())
    }
}

check! {
    /// Needs an answer.
    ASKS_ONCE_MORE {
        id: "restarts/asks-once-more",
        title: "judges the whole run by one more call",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
        runs: Finally,
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.any_answer().map(drop)
    }
}

/// Checks that cannot run any more name the check after which the driver did not come back. A check that judges the run by its observations
/// still runs.
#[tokio::test]
async fn a_missing_driver_names_the_check_that_ended_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
    let mut config = config();
    config.endpoint = Some(endpoint.to_string());
    let mock = MockDriver::new(Default::default()).expect("a mock driver");
    let starts = AtomicUsize::new(0);
    let driver = Driver::in_process(move || {
        let _ = &directory;
        let is_first = starts.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(if is_first { vec![(endpoint.clone(), mock.routes())] } else { Vec::new() })
    });
    let checks = [&LEAVES_IT_DEAD, &KILLS_AND_STARTS, &HAS_SEEN_ENOUGH, &ASKS_ONCE_MORE];
    let ran = ran(driver, config, &checks).await;
    for left_out in [&KILLS_AND_STARTS, &ASKS_ONCE_MORE] {
        let Outcome::Broken(why) = ran.outcome(left_out) else { panic!("{:?}", ran.outcomes) };
        assert!(why.starts_with("the driver has been dead since restarts/leaves-it-dead"), "{why}");
    }
    assert!(matches!(ran.outcome(&HAS_SEEN_ENOUGH), Outcome::Failed(_)), "{:?}", ran.outcomes);
    assert!(ran.summary.crashes.is_empty(), "{:?}", ran.summary.crashes);
}

#[tokio::test]
async fn without_a_handle_such_checks_are_skipped() {
    let (driver, config) = in_process(Default::default());
    driver.start().await.expect("it starts");
    let target = Target::connect(config).await.expect("it answers");
    let ran = run(target, options(), watch::channel(Default::default()).1, &[&LEAVES_IT_DEAD]).await;
    let Outcome::Skipped(why) = ran.outcome(&LEAVES_IT_DEAD) else { panic!("{:?}", ran.outcomes) };
    assert!(why.contains("--driver-command") && why.contains("--restart-command"), "{why}");
}
