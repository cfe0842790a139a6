//! The model and the judgement of histories, without a driver.

mod doubt;
mod generation;
mod groups;
mod histories;
mod nodes;
mod plain;
mod sequences;
mod simulation;
mod snapshots;
mod story;
mod toy;
mod volumes;
