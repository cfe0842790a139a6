//! Compares the table in the documentation with the code; `UPDATE=1` writes the table.

use std::fs;
use std::path::Path;

use crate::table::{ROWS, Row};

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// Asserts that docs/e2e.md has the tables of defects and tests.
pub(crate) fn has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/e2e.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            text == expected,
            "docs/e2e.md is out of date; UPDATE=1 cargo test -p csi-suite-e2e --test refutation"
        );
    }
}

fn table() -> String {
    let rows = |verdict: &str, is_warning: bool| {
        let rows = ROWS.iter().filter(|row| row.is_warning() == is_warning);
        let with = |row: &Row| row.versions.map(|(version, _)| format!(" with `--kubernetes {version}`"));
        let line =
            |row: &Row| format!("| {} | `{}`{} |\n", row.flaw, row.test, with(row).unwrap_or_default());
        let rows: String = rows.map(line).collect();
        format!("| a driver that | {verdict} |\n|---|---|\n{rows}")
    };
    format!("{}\n{}", rows("fails", false), rows("gets a warning from", true))
}
