//! The kinds of written reports.

use std::str::FromStr;

use crate::conclusion::Conclusion;
use crate::journal::Run;
use crate::{github, html, json, junit, markdown};

/// A kind of written report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JUnit XML, for CI systems.
    Junit,
    /// The same under the names of the Go csi-sanity, which no user names as a kind.
    JunitAsGo,
    /// JSON, for programs.
    Json,
    /// Markdown, for the summary of a CI step.
    Markdown,
    /// One page, for people who are shown what a driver does.
    Html,
    /// Workflow commands of GitHub Actions, for its annotations.
    Github,
    /// What is said of the driver and no more, for scripts: a line for programs, and one for people.
    Verdict,
}

impl Format {
    const ALL: [Format; 6] =
        [Format::Junit, Format::Json, Format::Markdown, Format::Html, Format::Github, Format::Verdict];

    /// The names a user can give, in the order in which help lists them.
    pub const NAMES: &'static [&'static str] = &["junit", "json", "md", "html", "github", "verdict"];

    /// The name a user gives.
    pub fn name(self) -> &'static str {
        match self {
            Format::Junit | Format::JunitAsGo => "junit",
            Format::Json => "json",
            Format::Markdown => "md",
            Format::Html => "html",
            Format::Github => "github",
            Format::Verdict => "verdict",
        }
    }

    /// The report as text.
    pub fn render(self, run: &Run) -> String {
        match self {
            Format::Junit => junit::render(run),
            Format::JunitAsGo => junit::render_as_go(run),
            Format::Json => json::render(run),
            Format::Markdown => markdown::render(run),
            Format::Html => html::render(run),
            Format::Github => github::render(run),
            Format::Verdict => {
                let Conclusion { name, words } = run.conclude();
                format!("{}\n{words}\n", name.name())
            }
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            format!("{name:?} is not a kind of report; there are {}", Format::NAMES.join(", "))
        })
    }
}
