//! What the specification asks of a driver, what has to be given before that can be checked, and how a breach is stated.

pub mod faults;
pub mod list;
pub mod need;
pub mod requirements;
pub mod verdict;
