//! The kernel kills a driver that takes too much memory, and a container runtime one that does not stop.

use super::{Disruption, Hits};
use crate::restart::{bring_back, driver, failed};

/// The driver is killed, and started again.
pub static KILLED: Disruption = Disruption {
    name: "killed",
    description: "the driver killed and started",
    participle: "killed",
    hits: Hits::Driver,
    share_under_load: 3,
    inject: |cx| Box::pin(async { driver(cx)?.kill().await.map(drop).map_err(failed) }),
    heal: |cx| Box::pin(bring_back(cx, "killed")),
};
