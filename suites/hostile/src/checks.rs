//! The checks of the hostile suite, with a file for each kind of attack.

mod commands;
mod copies;
mod foreign;
mod harm;
mod ids;
mod limits;
mod mixups;
mod mount_options;
mod numbers;
mod paging;
mod paths;
mod secrets;
mod sparse;
mod targets;
mod tokens;

use csi_harness::checks::check::Check;

pub(crate) const ALL: &[&[&Check]] = &[
    paths::CHECKS,
    targets::CHECKS,
    copies::CHECKS,
    mount_options::CHECKS,
    commands::CHECKS,
    secrets::CHECKS,
    limits::CHECKS,
    numbers::CHECKS,
    sparse::CHECKS,
    ids::CHECKS,
    tokens::CHECKS,
    paging::CHECKS,
    foreign::CHECKS,
    harm::CHECKS,
    mixups::CHECKS,
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::ALL;
    use crate::rules;

    #[test]
    fn the_document_has_every_rule_and_names_what_exists() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hostile.md");
        let document = std::fs::read_to_string(path).unwrap();
        for rule in rules::ALL {
            let row = format!("| {} | {} |", rule.id, rule.level);
            assert!(document.contains(&row), "{row}");
        }
        let checks: Vec<_> = ALL.iter().copied().flatten().collect();
        let quoted = document.split('`').skip(1).step_by(2);
        for text in quoted.filter(|text| text.starts_with("hostile/")) {
            assert!(checks.iter().any(|check| check.id == text), "there is no check {text}");
        }
        for check in checks {
            for rule in check.requirements.iter().filter(|rule| rule.id.starts_with("HOSTILE-")) {
                assert!(rules::ALL.contains(rule), "{}", rule.id);
            }
        }
    }
}
