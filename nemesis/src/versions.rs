//! The driver is replaced by another version of it, which finds what the version before has stored.

use std::time::Duration;

use csi_harness::driver::{CallFault, Driver, Left, Meant, Supervisor, Version};
use csi_harness::prelude::*;

use crate::disruption::{STOP_GRACE, start_twice};
use crate::restart::{bring_back, driver, failed};
use crate::watched_driver::WatchedDriver;

/// Limits how often a version is killed while it starts.
const KILLS_MAX: u32 = 12;

/// Makes sure that the present version runs before a check makes something with it. After an earlier check it is the next version that runs,
/// and a present version that need not understand what that has stored is given an empty state.
///
/// # Errors
/// Skip if the present version cannot be started any more, with the reason.
pub async fn begin_with_present(cx: &Cx) -> CheckResult {
    let driver = driver(cx)?;
    if driver.version() == Version::Present {
        return Ok(());
    }
    if cx.config().downgrade {
        return replace(cx, Version::Present).await.map(drop).map_err(|stop| match stop {
            Stop::Violation(violation) => Stop::skip(format!("{}: {}", violation.message, violation.actual)),
            other => other,
        });
    }
    if cx.config().state_dir.is_none() {
        return Err(Stop::skip(
            "the driver was replaced by its next version before; --downgrade says that the present version can be started on the \
             state of the next one, and --state-dir lets it be started with an empty state",
        ));
    }
    driver.choose(Version::Present);
    match cx.target().start_afresh(cx.label()).await {
        Ok(aside) => {
            cx.note(format!("the present version of the driver is started with an empty state; the state of the next version {aside}"));
            Ok(())
        }
        Err(why) => {
            driver.choose(Version::Next);
            let _ = cx.target().bring_back().await;
            Err(Stop::skip(format!(
                "the present version of the driver cannot be started with an empty state: {why}"
            )))
        }
    }
}

/// Stops the driver, and starts the other version of it. Returns the time until that answered. If it does not, the version before is started
/// again, so that the run can go on.
///
/// # Errors
/// A violation if the other version does not answer; broken if it may only be too slow.
pub async fn replace(cx: &Cx, by: Version) -> CheckResult<Duration> {
    let driver = driver(cx)?;
    cx.expect_no_answer();
    driver.stop(STOP_GRACE).await.map_err(failed)?;
    cx.happened(name(by));
    driver.choose(by);
    start(cx, by).await
}

/// Starts a version that was chosen, after the one before has ended.
///
/// # Errors
/// Fails as [`replace`] does.
pub async fn start(cx: &Cx, by: Version) -> CheckResult<Duration> {
    let stop = match bring_back(cx, "replaced by its other version").await {
        Ok(took) => return Ok(took),
        Err(stop) => stop,
    };
    // Other checks need a driver. If this one does not start either, the run reports that.
    let driver = driver(cx)?;
    let _ = driver.kill().await;
    driver.choose(other(by));
    let _ = cx.target().bring_back().await;
    Err(match stop {
        Stop::Violation(violation) => Violation {
            message: "a version of the driver does not answer when it is started after the other one"
                .to_owned(),
            expected: "a driver that starts with what the other version has stored".to_owned(),
            ..*violation
        }
        .into(),
        other => other,
    })
}

/// Stops the present version, and starts the next one, which is killed before one of its first changes of files and mounts; then it is started
/// again and killed a little later, until it comes through or was killed often. Where its changes cannot be watched, it is killed once, after
/// half of the time that a start takes. Returns how often it was killed.
///
/// # Errors
/// Fails as [`replace`] does.
pub async fn replace_with_kills(cx: &Cx) -> CheckResult<u32> {
    let driver = driver(cx)?;
    cx.expect_no_answer();
    let is_watched = WatchedDriver::is_possible(cx).await;
    let usual = driver.longest_start().unwrap_or_default();
    driver.stop(STOP_GRACE).await.map_err(failed)?;
    cx.happened(name(Version::Next));
    driver.choose(Version::Next);
    let kills = match is_watched {
        true => kill_at_changes(cx, driver).await?,
        false => {
            driver.start().await.map_err(failed)?;
            tokio::time::sleep(usual / 2).await;
            driver.kill().await.map_err(failed)?;
            1
        }
    };
    start(cx, Version::Next).await.map(|_| kills)
}

async fn kill_at_changes(cx: &Cx, driver: &Driver) -> CheckResult<u32> {
    let calls = Supervisor::default();
    driver.supervise(Some(calls.clone()));
    let (mut nth, mut kills) = (1, 0);
    while kills < KILLS_MAX {
        calls.take();
        calls.arm(Meant { names: Vec::new(), nth, lasts: false }, CallFault::Kills);
        // It has no answer, unless the start needs fewer changes.
        let _ = cx.target().bring_back().await;
        let was_killed = calls.met().is_some();
        calls.heal();
        driver.kill().await.map_err(failed)?;
        if !was_killed {
            break;
        }
        kills += 1;
        nth += 1 + nth / 4;
    }
    driver.supervise(None);
    Ok(kills)
}

/// Starts the next version while the present one runs, as a rolling update does, and stops the present one after a while. Returns the one
/// that is left; where that is the present one, the next version has given way.
///
/// # Errors
/// Broken if it cannot be started.
pub async fn start_beside(cx: &Cx) -> CheckResult<Left> {
    let driver = driver(cx)?;
    cx.expect_no_answer();
    driver.choose(Version::Next);
    let left = start_twice(cx).await;
    if !matches!(left, Ok(Left::Second)) {
        driver.choose(Version::Present);
    }
    left
}

/// Returns the driver if the run can start its next version.
///
/// # Errors
/// Skip if there is none.
pub fn with_next_version(cx: &Cx) -> CheckResult<&Driver> {
    let driver = driver(cx)?;
    match driver.has_next_version() {
        true => Ok(driver),
        false => Err(Stop::skip("the run cannot start a next version of the driver")),
    }
}

fn name(version: Version) -> &'static str {
    match version {
        Version::Present => "the driver is replaced by its present version",
        Version::Next => "the driver is replaced by its next version",
        Version::Mixed => "the driver is updated, except for the plugin of the first node",
    }
}

fn other(version: Version) -> Version {
    match version {
        Version::Present => Version::Next,
        Version::Next | Version::Mixed => Version::Present,
    }
}
