//! Disruptions of a driver, or of a call under way, and one list of them. Sequences, the load of `restart`, stored cases and
//! `csi-sanity replay` use it.

mod started_twice;
mod stored;

use std::fmt;
use std::time::Duration;

use csi_harness::prelude::*;

use crate::restart::{bring_back, driver, failed};

pub use started_twice::STARTED_TWICE;
pub use started_twice::{look_for_one, start_twice};
pub use stored::of_entries;

/// Every kind there is.
pub static ALL: [&Disruption; 5] = [&GIVEN_UP, &DISCONNECTED, &KILLED, &STOPPED, &STARTED_TWICE];

/// The call is given up by its caller, which does not wait for the answer.
pub static GIVEN_UP: Disruption = Disruption {
    name: "given-up",
    description: "to be given up",
    participle: "given up",
    hits: Hits::Call,
    share_under_load: 0,
    inject: |cx| {
        Box::pin(async {
            cx.let_go();
            Ok(())
        })
    },
    heal: nothing,
};

/// The connections to the driver break, as when a sidecar dies; others take their place.
pub static DISCONNECTED: Disruption = Disruption {
    name: "broken",
    description: "its connection to be broken",
    participle: "cut off",
    hits: Hits::Connections,
    share_under_load: 0,
    inject: |cx| {
        Box::pin(async {
            cx.break_connections().await;
            Ok(())
        })
    },
    heal: nothing,
};

/// The driver is killed, as by the kernel when it takes too much memory, and started again.
pub static KILLED: Disruption = Disruption {
    name: "killed",
    description: "the driver killed and started",
    participle: "killed",
    hits: Hits::Driver,
    share_under_load: 3,
    inject: |cx| Box::pin(async { driver(cx)?.kill().await.map(drop).map_err(failed) }),
    heal: |cx| Box::pin(bring_back(cx, "killed")),
};

/// The time in which a driver has to stop.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The driver is asked to stop, as by an update or an eviction, and started again.
pub static STOPPED: Disruption = Disruption {
    name: "stopped",
    description: "the driver stopped and started",
    participle: "stopped",
    hits: Hits::Driver,
    share_under_load: 1,
    inject: |cx| Box::pin(async { driver(cx)?.stop(STOP_GRACE).await.map(drop).map_err(failed) }),
    heal: |cx| Box::pin(bring_back(cx, "stopped")),
};

/// A kind of disruption.
pub struct Disruption {
    /// The name, such as `killed`. Stored cases append `-after-us`.
    pub name: &'static str,
    /// The words behind the answer of a call.
    description: &'static str,
    /// The words for the driver in a sentence; empty if the driver does not end.
    participle: &'static str,
    hits: Hits,
    /// The relative frequency of this kind among the ends of a driver under load.
    share_under_load: usize,
    inject: for<'a> fn(&'a Cx) -> BoxFuture<'a, CheckResult>,
    heal: for<'a> fn(&'a Cx) -> BoxFuture<'a, CheckResult<Duration>>,
}

/// The target of a disruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// The call, unless it was answered before: its answer is not awaited any more.
    Call,
    /// The connections, unless the call was answered before.
    Connections,
    /// The driver, whether the call was answered or not.
    Driver,
}

/// A disruption at this time after the beginning of a call, or of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disrupted {
    pub by: &'static Disruption,
    pub after: Duration,
}

impl Disruption {
    /// The kind of that name.
    pub fn named(name: &str) -> Option<&'static Disruption> {
        ALL.iter().copied().find(|one| one.name == name)
    }

    /// The kinds that end a driver under load, each as often as it is to occur.
    pub fn under_load() -> Vec<&'static Disruption> {
        ALL.iter().flat_map(|one| std::iter::repeat_n(*one, one.share_under_load)).collect()
    }

    /// This disruption at a time.
    pub fn after(&'static self, after: Duration) -> Disrupted {
        Disrupted { by: self, after }
    }

    pub fn hits(&self) -> Hits {
        self.hits
    }

    /// The words for the driver in a sentence.
    pub fn participle(&self) -> &'static str {
        self.participle
    }

    /// Does it.
    ///
    /// # Errors
    /// It cannot be done here, or failed.
    pub async fn inject(&self, cx: &Cx) -> CheckResult {
        (self.inject)(cx).await
    }

    /// Undoes it: how long it took until the driver answered again.
    ///
    /// # Errors
    /// A violation if it does not come back.
    pub async fn heal(&self, cx: &Cx) -> CheckResult<Duration> {
        (self.heal)(cx).await
    }

    /// Does it, and undoes it at once.
    ///
    /// # Errors
    /// Fails as [`Disruption::inject`] and [`Disruption::heal`] do.
    pub async fn inject_and_heal(&self, cx: &Cx) -> CheckResult<Duration> {
        self.inject(cx).await?;
        self.heal(cx).await
    }
}

impl PartialEq for Disruption {
    fn eq(&self, other: &Disruption) -> bool {
        self.name == other.name
    }
}

impl Eq for Disruption {}

impl fmt::Debug for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The text behind the answer of a call.
impl fmt::Display for Disrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:?}", self.by.description, self.after)
    }
}

/// Heals a disruption that has no lasting effect.
fn nothing(_: &Cx) -> BoxFuture<'_, CheckResult<Duration>> {
    Box::pin(async { Ok(Duration::ZERO) })
}
