//! The harness at work on the mock driver, over a socket: what is undone, what is judged, what survives.

mod answers;
mod bench;
mod death;
mod order;
mod scopes;
mod undoing;
mod verdicts;
