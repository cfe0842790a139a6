//! Checks that reading a damaged file always ends with a definition or an error.

use std::fs;

use csi_driver_definitions::{Quantity, parse_duration};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::Written;
use crate::ours::definitions;

/// These words have a meaning in YAML's syntax.
const TOKENS: &[&str] = &[
    "&a ",
    "*a ",
    "<<: ",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "? ",
    "\n",
    "\t",
    "---\n",
    "...\n",
    "#",
    "%YAML 1.1\n",
    "!!binary ",
    "|\n",
    ">\n",
    "'",
    "\"",
    "~",
    "yes",
    "-1",
    "0x",
    "1e999",
    ".nan",
    "99999999999999999999999999999999999999999",
    "\0",
    "é\u{2028}\u{feff}",
    "Name: ",
];

#[derive(Clone, Debug)]
enum Edit {
    Remove(Index, usize),
    Repeat(Index, Index, usize),
    Insert(Index, String),
}

impl Edit {
    fn apply(&self, text: &mut Vec<char>) {
        let range = |index: &Index, count: usize, text: &[char]| {
            let start = index.index(text.len() + 1);
            start..text.len().min(start + count)
        };
        match self {
            Edit::Remove(index, count) => drop(text.drain(range(index, *count, text))),
            Edit::Repeat(from, to, count) => {
                let copy = text[range(from, *count, text)].to_vec();
                let at = to.index(text.len() + 1);
                text.splice(at..at, copy);
            }
            Edit::Insert(index, insert) => {
                let at = index.index(text.len() + 1);
                text.splice(at..at, insert.chars());
            }
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let tokens = prop::sample::select(TOKENS);
    let edit = prop_oneof![
        (any::<Index>(), 0_usize..200).prop_map(|(index, count)| Edit::Remove(index, count)),
        (any::<Index>(), any::<Index>(), 0_usize..200)
            .prop_map(|(from, to, count)| Edit::Repeat(from, to, count)),
        (any::<Index>(), tokens).prop_map(|(index, token)| Edit::Insert(index, token.to_owned())),
        (any::<Index>(), ".{0,8}").prop_map(|(index, insert)| Edit::Insert(index, insert)),
    ];
    prop::collection::vec(edit, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_definition_is_read_or_refused(index in any::<Index>(), edits in edits()) {
        let mut text: Vec<char> = fs::read_to_string(index.get(&definitions())).unwrap().chars().collect();
        edits.iter().for_each(|edit| edit.apply(&mut text));
        let written = Written::new(&text.into_iter().collect::<String>());
        match written.load() {
            Ok(loaded) => prop_assert!(loaded.warnings.iter().all(|warning| !warning.to_string().is_empty())),
            Err(error) => prop_assert!(error.to_string().contains("driver.yaml"), "{error}"),
        }
    }

    #[test]
    fn a_quantity_is_shown_with_its_own_size(text in "[0-9]{0,22}[.]?[0-9]{0,22}([kmKMGTPEnu]i?|[eE][+-]?[0-9]{1,12})?") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
        }
    }

    #[test]
    fn what_is_a_duration_is_at_most_what_go_holds(text in "([0-9]{0,22}[.]?[0-9]{0,22}(ns|us|µs|ms|s|m|h|d)?){0,3}") {
        if let Ok(duration) = parse_duration(&text) {
            prop_assert!(duration.as_nanos() <= i64::MAX as u128);
        }
    }
}
