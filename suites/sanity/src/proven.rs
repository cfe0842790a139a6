//! Rules of which it is proved that checks judge them.

use std::collections::BTreeSet;

use csi_harness::requirements::Requirement;

/// What checks say of each defect of the mock driver, as the refutation tests have seen it.
const MATRIX: &str = include_str!("../tests/refutation/matrix.txt");

/// Ids of the rules that a check blames some defect of the mock driver for: a failure where the rule binds, a warning where
/// it does not.
pub fn rules() -> BTreeSet<&'static str> {
    blamed(MATRIX).collect()
}

fn blamed(matrix: &'static str) -> impl Iterator<Item = &'static str> {
    matrix.lines().filter_map(|line| {
        let mut words = line.strip_prefix("  ")?.split(' ').skip(1);
        let rule = Requirement::find(words.next()?)?;
        let warns = words.next().is_some();
        (warns != rule.is_binding()).then_some(rule.id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_binds_has_to_fail() {
        let matrix = "# a comment\n\na-defect\n  a/b/c GEN-ERR-001\n  a/b/d@block GEN-ERR-002 (warns)\n  a/b/e GEN-ERR-008 (warns)\n";
        assert_eq!(blamed(matrix).collect::<Vec<_>>(), ["GEN-ERR-001", "GEN-ERR-008"]);
    }
}
