//! Disruptions of a driver, or of a call under way: a file for each kind, and one list of them. Sequences, the load of
//! `restart`, stored cases and `csi-sanity replay` use it.

mod disconnected;
mod given_up;
mod killed;
mod started_twice;
mod stopped;
mod stored;

use std::fmt;
use std::time::Duration;

use csi_harness::prelude::*;

pub use disconnected::DISCONNECTED;
pub use given_up::GIVEN_UP;
pub use killed::KILLED;
pub use started_twice::STARTED_TWICE;
pub use started_twice::{look_for_one, start_twice};
pub use stopped::STOPPED;
pub use stored::of_entries;

/// Every kind there is.
pub static ALL: [&Disruption; 5] = [&GIVEN_UP, &DISCONNECTED, &KILLED, &STOPPED, &STARTED_TWICE];

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
    /// As for [`Disruption::inject`] and [`Disruption::heal`].
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
