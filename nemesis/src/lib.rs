//! Everything that breaks a driver, or what it builds on, and heals it again. Suites decide when, and judge the
//! results.
//!
//! A [`disruption::Disruption`] affects the driver, its connections or a call, whatever the driver does. An
//! [`injector::Injector`] learns from a volume's life without faults what can break in each [`step::Step`], and injects
//! each such [`fault::Fault`]. A [`watched_driver::WatchedDriver`] can be made to meet a fault at one change that it
//! makes.

pub mod disruption;
pub mod fault;
pub mod injector;
pub mod restart;
pub mod step;
pub mod versions;
pub mod watched_driver;
