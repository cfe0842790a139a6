//! The tests check the model and the judgement of histories, without a driver.

mod behind;
mod doubt;
mod generation;
mod groups;
mod health;
mod histories;
mod nodes;
mod sequences;
mod snapshots;
mod volumes;
