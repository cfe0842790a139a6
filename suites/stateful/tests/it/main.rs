//! The model and the judgement of histories, without a driver.

mod doubt;
mod generation;
mod groups;
mod nodes;
mod sequences;
mod snapshots;
mod story;
mod toy;
mod volumes;
