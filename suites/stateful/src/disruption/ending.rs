//! What the ends of a driver have in common: who may end it, and that it is there again.

use std::time::Duration;

use csi_harness::driver::{Away, Driver, DriverError};
use csi_harness::prelude::*;
use csi_harness::text::error::error_chain;

/// The driver, which a check may end.
pub(crate) fn driver(cx: &Cx) -> CheckResult<&Driver> {
    cx.target().driver().ok_or_else(|| Stop::skip("the run cannot stop and start the driver"))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what a Result maps its errors with")]
pub(super) fn failed(error: DriverError) -> Stop {
    Stop::broken(error_chain(&error))
}

/// Starts the driver that was ended: how long it took until it answered.
pub(super) async fn bring_back(cx: &Cx, participle: &str) -> CheckResult<Duration> {
    let away = match cx.target().bring_back().await {
        Ok(took) => return Ok(took),
        Err(away) => away,
    };
    let printed = driver(cx)?.last_lines();
    if !away.is_fault() {
        return Err(too_slow(participle, &away, &printed));
    }
    Err(Violation::new(format!("the driver does not answer after it was {participle} and started again"))
        .of(&req::GEN_ERR_001)
        .expected("a driver that starts from any state that a kill can leave")
        .actual(away)
        .damage(Damage::Crash)
        .printed(printed)
        .into())
}

/// A driver that may only need longer than it was given.
fn too_slow(participle: &str, away: &Away, printed: &[String]) -> Stop {
    let last = printed.last().map(|line| format!("; it printed last: {line}")).unwrap_or_default();
    Stop::broken(format!(
        "after the driver was {participle} and started again: {away}; --restart-timeout (time-limits: restart-ms) gives it \
         longer{last}"
    ))
}
