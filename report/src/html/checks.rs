//! Lists every check with its result.

use super::markup::Html;
use super::{columns, outcome};
use crate::entry::CheckEntry;
use crate::journal::Run;
use crate::words::{count, duration_text};

/// Requirements that a row shows without being asked.
const REQUIREMENTS_MAX: usize = 3;

/// The list, which a script lets the reader filter.
pub(super) fn write(html: &mut Html, run: &Run) {
    html.element("details", &[("id", "all-checks")], |details| {
        details.leaf("summary", &[], &format!("all {}", count(run.checks.len(), "check")));
        details.element("table", &[("class", "list checks"), ("data-of", "RPC or area")], |table| {
            table.leaf("caption", &[], "All checks");
            columns(table, &["check", "requirements", "outcome", "took"]);
            for area in run.checks.chunk_by(|a, b| a.area() == b.area()) {
                let name = area.first().map_or("", |check| check.area());
                table.element("tbody", &[("data-of", name)], |body| {
                    area.iter().for_each(|check| write_row(body, check));
                });
            }
        });
    });
}

fn write_row(body: &mut Html, check: &CheckEntry) {
    let (class, _, words) = outcome(check.outcome());
    body.element("tr", &[("class", class)], |row| {
        row.element("th", &[("scope", "row")], |cell| {
            cell.text(&check.id);
            cell.leaf("small", &[], &check.title);
        });
        row.element("td", &[], |cell| write_requirements(cell, &check.requirements));
        row.leaf("td", &[("class", "s")], words);
        row.leaf("td", &[], &duration_text(check.duration_ms.saturating_mul(1000)));
    });
}

fn write_requirements(cell: &mut Html, requirements: &[String]) {
    let (first, rest) = requirements.split_at(requirements.len().min(REQUIREMENTS_MAX));
    cell.text(&first.join(" "));
    if !rest.is_empty() {
        cell.element("details", &[], |details| {
            details.leaf("summary", &[], &format!("{} more", rest.len()));
            details.text(&rest.join(" "));
        });
    }
}
