//! The requirements of the specification, the conditions of a check, and the form of a violation.

pub mod faults;
pub mod list;
pub mod need;
pub mod requirements;
pub mod verdict;
