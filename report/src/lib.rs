//! Reports of a run, in the forms that people and machines read.
//!
//! [`Terminal`] describes the run while it lasts. [`Journal`] keeps what the written reports need; each [`Format`] is
//! made of it at the end, and goes to a [`Destination`] that was found writable before the first check.

mod areas;
mod badge;
mod compare;
mod conclusion;
mod destination;
mod entry;
mod fault;
mod format;
mod github;
mod html;
mod journal;
mod junit;
mod markdown;
mod merge;
mod ndjson;
mod rules;
mod statement;
mod stored;
mod terminal;
mod words;

pub use areas::{Area, Verdict};
pub use badge::Badge;
pub use compare::{Comparison, compare, compare_each};
pub use conclusion::{Concluded, Conclusion, ProfileEntry};
pub use destination::{Destination, DestinationError};
pub use entry::{
    CallEntry, CheckEntry, IncidentEntry, MachineEntry, PartEntry, RpcEntry, SameFaultEntry, Selection,
    ShardEntry, Status, StepEntry, TargetEntry, Tool, UntestedEntry,
};
pub use format::Format;
pub use html::charts::{Axis, Chart, ChartSection, LINES_MAX, chart_page};
pub use html::history::history_page;
pub use journal::{Journal, Order, Run, SCHEMA, SPECIFICATION};
pub use merge::{MergeError, Part, Whole, merge};
pub use ndjson::{EVENTS_SCHEMA, Stream};
pub use statement::{Line, Says, areas_of};
pub use stored::StoredError;
pub use terminal::{Detail, Measurements, Terminal};
