//! The reports of one run that has every outcome, as a reader gets them.

mod destination;
mod plugin;
mod snapshots;
mod suite;
