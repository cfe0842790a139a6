//! A driver that is started while the old one still runs and holds the socket.

use std::time::Duration;

use csi_harness::driver::{Driver, Left};
use csi_harness::lifecycle::memory::needs_memory;
use csi_harness::prelude::*;

use super::used::Used;
use super::{STOP_GRACE, bring_back, driver, kill};
use crate::orchestrator::probed_driver::ProbedDriver;
use crate::record::Recorder;
use crate::rules::RESTARTED;
use crate::told::Told;

/// How long a second driver may take to find that it is not alone, and, that settled, to serve whoever connects: twice as
/// long as its starts take, within these bounds.
const WAIT: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(60)];

check! {
    /// A container runtime that has lost sight of a process starts another one, and an update may start the new driver
    /// before the old one has gone. Which of the two gives way is theirs to decide.
    pub(super) STARTED_TWICE {
        id: "restart/started-twice",
        title: "a driver that is started while the old one still runs loses nothing that was answered for",
        spec: RESTARTED,
        needs: [CREATE_DELETE_VOLUME, RESTARTS],
        refuted_by: ["second-start-deletes-volumes"],
        duplicate_of: "restart/reboot",
        access: Each,
    }
    async |cx| {
        let driver = driver(cx)?;
        needs_memory(driver)?;
        let probed = ProbedDriver::probe(cx).await?;
        let recorder = Recorder::new(cx, &probed);
        let used = Used::begin(&probed, &recorder).await?;
        let left = start_twice(cx, driver).await?;
        look_for_one(cx, driver).await?;
        if let Some(used) = used {
            used.again().await?;
            used.back().await?;
        }
        let mut told = Told::new(cx);
        match left {
            Left::First => drop(recorder.judge(0, &mut told)),
            // Two drivers at work on one state are nothing that the specification speaks of.
            Left::Second => recorder.remark(0, &mut told),
        }
        told.end()
    }
}

fn wait(driver: &Driver) -> Duration {
    let [shortest, longest] = WAIT;
    (driver.longest_start().unwrap_or_default() * 2).clamp(shortest, longest)
}

async fn start_twice(cx: &Cx, driver: &Driver) -> CheckResult<Left> {
    let wait = wait(driver);
    let left = driver.start_twice(wait, STOP_GRACE).await;
    let left = left.map_err(|error| Stop::broken(csi_harness::text::error::error_chain(&error)))?;
    let left = left.ok_or_else(|| Stop::skip("--restart-command need not be able to start two drivers"))?;
    cx.note(match left {
        Left::First => "the second driver ended by itself, and the first one went on".to_owned(),
        Left::Second => format!(
            "the second driver was still there after {} s, so that the first one was stopped",
            wait.as_secs()
        ),
    });
    Ok(left)
}

/// Makes sure that a driver answers whoever connects now. That two started drivers leave one the specification does not
/// say, and whoever supervises drivers starts another one in the end.
async fn look_for_one(cx: &Cx, driver: &Driver) -> CheckResult {
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
    kill(driver).await?;
    bring_back(cx, driver, "killed", Vec::new()).await.map(drop)
}
