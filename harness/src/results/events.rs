//! The events that the runner emits while it works. Reports are listeners; the runner knows none of them.

use crate::checks::check::Planned;
use crate::client::patience::Waiting;
use crate::client::stages::Stage;
use crate::client::target::Target;
use crate::results::outcome::{CheckReport, Crash, Leak, Summary};

/// An event of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run begins.
    Started {
        /// The driver under test.
        target: &'a Target,
        /// The checks that will be run or skipped.
        planned: usize,
        /// The seed of everything random.
        seed: u64,
    },
    /// Remarks of the run that are no verdict.
    Remark(&'a str),
    /// A check begins.
    CheckStarted(&'a Planned),
    /// The driver is given time to settle.
    Waiting(Waiting),
    /// The run continues; sent once a second while checks run.
    Tick {
        /// The progress of running checks that report a stage, by label.
        stages: &'a [(String, Stage)],
    },
    /// A check has ended, and what it made is undone. Its result may be reported later, or after it has run once more.
    CheckEnded(&'a Planned),
    /// A check has its result.
    CheckFinished(&'a CheckReport),
    /// The driver died.
    Crashed(&'a Crash),
    /// Objects stayed behind.
    Leaked(&'a [Leak]),
    /// The run is over.
    Finished(&'a Summary),
}

/// Listens to a run.
pub trait Reporter {
    /// Takes note of an event.
    fn event(&mut self, event: &Event<'_>);
}
