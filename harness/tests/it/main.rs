//! The harness at work on the mock driver, over a socket: what is undone, what is judged, what survives.

mod bench;
mod death;
mod order;
mod undoing;
mod verdicts;
