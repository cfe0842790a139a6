//! The tests check files of cases, and the amount of work of a check.

mod amount;
mod cases;
