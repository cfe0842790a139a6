//! An update or an eviction stops a driver, which has time to end what it does.

use std::time::Duration;

use super::{Disruption, Hits};
use crate::restart::{bring_back, driver, failed};

/// The time in which a driver has to stop.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The driver is asked to stop, and started again.
pub static STOPPED: Disruption = Disruption {
    name: "stopped",
    description: "the driver told to stop and started",
    participle: "told to stop",
    hits: Hits::Driver,
    share_under_load: 1,
    inject: |cx| Box::pin(async { driver(cx)?.stop(STOP_GRACE).await.map(drop).map_err(failed) }),
    heal: |cx| Box::pin(bring_back(cx, "told to stop")),
};
