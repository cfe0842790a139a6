//! The reference model: the state that a driver keeps, derived from the specification alone.
//!
//! Three functions, each over one call and one certain state of the object that it is about:
//!
//! - **generation** ([`generate`]): which calls an orchestrator may make now;
//! - **judging** ([`Object::judge`], [`Object::weigh`]): the closed list of answers that the driver may give,
//!   each under a requirement, and what it may say with them;
//! - **application** ([`Object::apply`]): the state afterwards.
//!
//! None of them deals with doubt. Where an answer is missing, or leaves it open what was done, [`StateSet`] keeps every
//! state that the object may be in, and lets later answers decide. Objects are independent of each other but for the
//! facts about others in [`CallContext`]: if a source exists, and what it contains.
//!
//! [`Model`] holds all objects, and [`history`] judges calls that were made at the same time. Nothing here makes a call.

pub mod answer;
mod apply;
pub mod bytes;
pub mod call;
pub mod call_context;
mod conflicts;
pub mod expectation;
pub mod generate;
pub mod history;
pub mod ids;
mod judge;
mod model;
pub mod names;
pub mod object;
pub mod rules;
mod serde_call;
pub mod state;
pub mod state_set;
mod subjects;

pub use generate::generate;
pub use model::{Model, Span, StepResult};
pub use object::Object;
pub use state_set::StateSet;
