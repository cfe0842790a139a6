//! Rules of which it is proved that the suites judge them, as the refutation tests have seen it.

/// The defect and the check, then how soon it is found, and the rules that the check blames it for in brackets.
const TRIES: &str = include_str!("../tests/refutation/tries.txt");

/// The ids of the rules.
pub fn rules() -> impl Iterator<Item = &'static str> {
    TRIES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split(['(', ')']).skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use csi_harness::requirements::Requirement;

    #[test]
    fn what_stands_in_the_table_are_rules() {
        assert!(super::rules().count() > 0);
        super::rules().for_each(|rule| assert!(Requirement::find(rule).is_some(), "{rule}"));
    }
}
