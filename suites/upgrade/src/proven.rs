//! The defects of the reference driver that each check finds, as the refutation tests have seen it.

/// The defect, then the checks that find it, a line each, with the rule that they name.
pub const MATRIX: &str = include_str!("proven/matrix.txt");
