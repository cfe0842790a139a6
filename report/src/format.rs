//! The kinds of written reports.

use std::str::FromStr;

use crate::conclusion::Conclusion;
use crate::journal::Run;
use crate::{github, html, junit, markdown, ndjson};

/// A kind of written report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JUnit XML, for CI systems.
    Junit,
    /// The JUnit report under the names of the Go csi-sanity, which cannot be named as a format.
    JunitAsGo,
    /// JSON, for programs.
    Json,
    /// Markdown, for the summary of a CI step.
    Markdown,
    /// One web page, for people.
    Html,
    /// Workflow commands of GitHub Actions, for its annotations.
    Github,
    /// A line of JSON for each event, for programs that follow a run.
    Ndjson,
    /// Only the conclusion, for scripts: a line for programs, and one for people.
    Verdict,
}

/// The formats that a user can name, in the order in which help lists them.
const NAMED: [(&str, Format); 7] = [
    ("junit", Format::Junit),
    ("json", Format::Json),
    ("md", Format::Markdown),
    ("html", Format::Html),
    ("github", Format::Github),
    ("ndjson", Format::Ndjson),
    ("verdict", Format::Verdict),
];

impl Format {
    /// The names a user can give, in the order in which help lists them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.into_iter().map(|(name, _)| name)
    }

    /// The name a user gives.
    pub fn name(self) -> &'static str {
        let shown = if self == Format::JunitAsGo { Format::Junit } else { self };
        NAMED.into_iter().find(|(_, format)| *format == shown).map_or("", |(name, _)| name)
    }

    /// The report as text.
    pub fn render(self, run: &Run) -> String {
        match self {
            Format::Junit => junit::render(run),
            Format::JunitAsGo => junit::render_as_go(run),
            Format::Json => json(run),
            Format::Markdown => markdown::render(run),
            Format::Html => html::render(run),
            Format::Github => github::render(run),
            Format::Ndjson => ndjson::render(run),
            Format::Verdict => {
                let Conclusion { name, words, .. } = run.conclude();
                format!("{}\n{words}\n", name.name())
            }
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        let found = NAMED.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| format).ok_or_else(|| {
            let names = Format::names().collect::<Vec<_>>().join(", ");
            format!("{name:?} is not a kind of report; there are {names}")
        })
    }
}

fn json(run: &Run) -> String {
    // Strings, numbers and lists with string keys: nothing that JSON cannot say.
    let mut text = serde_json::to_string_pretty(run).unwrap_or_default();
    text.push('\n');
    text
}
