//! Checks that a filter is either rejected with a message, or selects exactly the checks that its negation leaves
//! out.

use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::config::AccessType;
use csi_suite_stateful::{concurrency, idempotency, property, restart};

use crate::{CANARY, Target};

/// The bytes are the expression of `--filter`, `--focus` or `--skip`.
pub const TARGET: Target = Target {
    name: "filter",
    run,
    seeds,
    tokens: &[
        "property/",
        "volumes",
        "concurrency/",
        "restart/",
        "idempotency/",
        "req:",
        "req:CTRL-CREATEVOL-*",
        "needs:",
        "CREATE_DELETE_VOLUME",
        "!",
        ",",
        " ",
        "*",
        "?",
        "/",
        "@block",
        "(",
        ")",
        "|",
        "[^a]",
        "{2,9}",
        "\\w",
        "^",
        "$",
        "(?i)",
    ],
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let registry = registry();
    let checks = || registry.checks().map(|(_, check)| check);
    for add in [Filter::add, Filter::focus, Filter::skip] {
        let mut filter = Filter::default();
        match add(&mut filter, text) {
            Ok(()) => {
                assert!(checks().filter(|check| filter.selects(check, &check.id)).count() <= checks().count())
            }
            Err(error) => assert!(!error.is_empty()),
        }
        if let Err(error) = filter.check_terms(checks()) {
            assert!(!error.is_empty());
        }
    }
    let is_one_term = !text.starts_with('!') && !text.contains(|c: char| c == ',' || c.is_whitespace());
    if is_one_term && !text.is_empty() {
        opposites(text);
    }
}

fn opposites(term: &str) {
    let (mut with, mut without) = (Filter::default(), Filter::default());
    let taken = with.add(term);
    // The canary treats patterns as regular expressions.
    let refused = if CANARY && taken.is_ok() { without.skip(term) } else { without.add(&format!("!{term}")) };
    assert_eq!(taken, refused, "{term:?}");
    if taken.is_err() {
        return;
    }
    for (_, check) in registry().checks() {
        for label in [check.id.to_string(), check.label(AccessType::Block)] {
            assert_ne!(with.selects(check, &label), without.selects(check, &label), "{term:?} and {label}");
        }
    }
}

fn registry() -> Registry {
    Registry::new([property::SUITE, concurrency::SUITE, idempotency::SUITE, restart::SUITE])
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "property/volumes",
        "restart/under-load",
        "property/*,!property/nodes",
        "!req:GEN-SIZE-* needs:LIST_VOLUMES",
    ]
    .map(Into::into)
    .into()
}
