//! What a run has to say, in the forms people and machines read.
//!
//! [`Terminal`] tells the run while it goes on. [`Journal`] keeps what the written reports need; each [`Format`] is
//! made of it at the end, and goes to a [`Destination`] that was found writable before the first check.
#![warn(missing_docs)]

mod areas;
mod destination;
mod fault;
mod format;
mod github;
mod journal;
mod json;
mod junit;
mod markdown;
mod statement;
mod terminal;

pub use areas::{Area, Verdict};
pub use destination::{Destination, DestinationError};
pub use format::Format;
pub use journal::{
    CallEntry, CheckEntry, CrashEntry, Journal, LeakEntry, Run, Status, SummaryEntry, TargetEntry, Tool,
};
pub use statement::{Line, Says, areas_of};
pub use terminal::{Detail, Terminal};
