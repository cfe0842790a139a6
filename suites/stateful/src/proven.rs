//! Rules of which it is proved that the suites judge them, as the refutation tests have seen it.

use csi_harness::run::refutation::Accused;
use csi_harness::spec::requirements::Requirement;
use csi_model::rules::AFTER_ERROR;

use crate::rules;

/// Each line has the defect and the check, the tries until it is found, and in brackets the rules that the check blames
/// it for, with a word if it warns.
const TRIES: &str = include_str!("proven/tries.txt");

/// The rules by which a check blames a driver with each defect.
pub fn accused() -> impl Iterator<Item = Accused> {
    TRIES.lines().filter(|line| !line.starts_with('#')).flat_map(|line| {
        let mut words = line.split([' ', ':']);
        let (defect, check) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let blamed = line.split(['(', ')']).skip(1).step_by(2);
        blamed.filter_map(move |blamed| {
            let (rule, warns) = blamed.split_once(' ').map_or((blamed, false), |(rule, _)| (rule, true));
            Some(Accused { defect, check, rule: find(rule)?, warns })
        })
    })
}

/// A rule of the specification, or one of our own.
fn find(rule: &str) -> Option<&'static Requirement> {
    let own = || {
        let mut own = rules::GROWTH.iter().chain(AFTER_ERROR).chain(rules::RESTART).copied();
        own.find(|own| own.id == rule)
    };
    Requirement::find(rule).or_else(own)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_stands_in_the_table_are_rules() {
        let rows = super::TRIES.lines().filter(|line| !line.starts_with('#'));
        let rules: usize = rows.map(|row| row.matches('(').count()).sum();
        assert_eq!(super::accused().count(), rules);
        assert!(super::accused().any(|accused| accused.defect == "restart-forgets-staged" && accused.warns));
    }
}
