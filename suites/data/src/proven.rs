//! The verdicts of the checks on each defect of the reference driver, as the refutation tests have seen them.

/// The defect, then the checks, a line each, with the rule that they blame it for.
pub const MATRIX: &str = include_str!("proven/matrix.txt");
