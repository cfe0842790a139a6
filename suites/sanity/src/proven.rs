//! The results of the checks for each defect of the mock driver, as the refutation tests saw them.

/// For each defect, the checks that find it, one per line, each with the violated rule.
pub const MATRIX: &str = include_str!("proven/matrix.txt");
