//! A container runtime that has lost sight of a process starts another one, and an update may start the new driver before the
//! old one has gone.

use std::time::Duration;

use csi_harness::driver::{Driver, Left};
use csi_harness::prelude::*;

use super::{Disruption, Hits, KILLED, STOP_GRACE, nothing};
use crate::restart::{driver, failed};

/// The time in which a second driver has to find that it is not alone, and then to serve all connections: twice as long
/// as its starts take, within these bounds.
const WAIT: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

/// The driver is started once more while it runs.
pub static STARTED_TWICE: Disruption = Disruption {
    name: "started-twice",
    description: "the driver started a second time",
    participle: "started a second time",
    hits: Hits::Driver,
    share_under_load: 0,
    inject: |cx| {
        Box::pin(async {
            let left = start_twice(cx).await?;
            look_for_one(cx).await?;
            match left {
                Left::First => Ok(()),
                // Two drivers at work on one state are nothing that the specification speaks of.
                Left::Second => Err(Stop::skip("the second driver took the place of the first one")),
            }
        })
    },
    heal: nothing,
};

/// Starts the driver a second time, and says which of the two is left.
pub async fn start_twice(cx: &Cx) -> CheckResult<Left> {
    let driver = driver(cx)?;
    let wait = wait(driver);
    let left = driver.start_twice(wait, STOP_GRACE).await.map_err(failed)?;
    let left = left.ok_or_else(|| Stop::skip("--restart-command need not be able to start two drivers"))?;
    cx.note(match left {
        Left::First => "the second driver ended by itself, and the first one kept running".to_owned(),
        Left::Second => format!(
            "the second driver was still running after {} s, so the first one was stopped",
            wait.as_secs()
        ),
    });
    Ok(left)
}

/// Makes sure that a driver answers new connections. The specification does not say that two started drivers leave one,
/// and a supervisor starts another one in the end.
pub async fn look_for_one(cx: &Cx) -> CheckResult {
    let driver = driver(cx)?;
    let wait = wait(driver);
    if cx.break_connections_within(wait).await {
        return Ok(());
    }
    if driver.end_of_process().is_some() && cx.target().bring_back().await.is_ok() {
        return Ok(());
    }
    cx.warn(
        Violation::new("no answer at the socket after a second driver was started beside the first")
            .of(&req::GEN_ERR_001)
            .expected("one of the two drivers")
            .actual(format!("no answer within {} s", wait.as_secs()))
            .printed(driver.last_lines()),
    );
    KILLED.inject_and_heal(cx).await.map(drop)
}

fn wait(driver: &Driver) -> Duration {
    let [shortest, longest] = WAIT;
    (driver.longest_start().unwrap_or_default() * 2).clamp(shortest, longest)
}
