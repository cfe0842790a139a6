//! The file that makes a run a gate in a CI system: the example of ci/, with the configuration that is written beside it.

use std::fmt::Write as _;

use clap::ValueEnum;

use super::{CONFIG, Draft};

/// What stands in the examples for the command of a driver.
const COMMAND: &str = r#"exec ./my-driver --endpoint "$CSI_ENDPOINT" --node-id node-1"#;
/// What the examples call its setting.
const SETTINGS: [&str; 2] = ["driver-command:", "CSI_SANITY_DRIVER_COMMAND"];
/// What is said above a command that nobody knows yet.
pub(super) const TO_FILL_IN: &str = "To be filled in: the command that starts your driver in this job";
/// The list that the examples name.
pub(super) const KNOWN_FAILING: &str = "known-failing.txt";

/// A CI system that has a file in ci/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// A workflow of GitHub Actions
    Github,
    /// A pipeline of GitLab
    Gitlab,
    /// A declarative pipeline of Jenkins
    Jenkins,
    /// Jobs of Prow
    Prow,
}

impl System {
    /// Where the system, or whoever copies it, looks for the file.
    pub(super) fn file(self) -> &'static str {
        match self {
            System::Github => ".github/workflows/csi-sanity.yml",
            System::Gitlab => "csi-sanity.gitlab-ci.yml",
            System::Jenkins => "csi-sanity.Jenkinsfile",
            System::Prow => "csi-sanity.prow.yaml",
        }
    }

    fn example(self) -> &'static str {
        // Links to the files in ci/, since a crate that is published has nothing from outside.
        match self {
            System::Github => include_str!("ci/github.yml"),
            System::Gitlab => include_str!("ci/gitlab.yml"),
            System::Jenkins => include_str!("ci/Jenkinsfile"),
            System::Prow => include_str!("ci/prow.yaml"),
        }
    }

    /// What begins a comment in it.
    fn comment(self) -> &'static str {
        if self == System::Jenkins { "//" } else { "#" }
    }

    /// The file, and the list that it names. Where the configuration does not start the driver, the file has to.
    pub(super) fn drafts(self, starts_driver: bool) -> [Draft; 2] {
        let mut text = String::new();
        let mut lines = self.example().lines().peekable();
        while let Some(line) = lines.next() {
            if line.contains("$CSI_ENDPOINT") && !line.contains(COMMAND) {
                // A comment on the command.
                continue;
            }
            if !SETTINGS.iter().any(|setting| line.contains(setting)) {
                let _ = writeln!(text, "{line}");
                continue;
            }
            // The name of the setting may have a line of its own.
            let value = lines.next_if(|_| !line.contains(COMMAND));
            let setting: Vec<&str> = std::iter::once(line).chain(value).collect();
            for line in &setting {
                let _ = writeln!(text, "{}", with_config(line));
            }
            if !starts_driver {
                let indent = &line[..line.len() - line.trim_start().len()];
                let _ = writeln!(text, "{indent}{} {TO_FILL_IN}", self.comment());
                setting.iter().for_each(|line| {
                    let _ = writeln!(text, "{line}");
                });
            }
        }
        let list = "# Checks that are known to fail: `pattern  # reason` on each line. One that passes is an error.\n";
        [Draft { name: self.file(), text }, Draft { name: KNOWN_FAILING, text: list.to_owned() }]
    }
}

/// The setting of a driver's command, as one of the configuration.
fn with_config(line: &str) -> String {
    let [input, variable] = SETTINGS;
    line.replace(COMMAND, CONFIG).replace(input, "config:").replace(variable, "CSI_SANITY_CONFIG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_names_the_configuration() {
        for system in System::value_variants() {
            let commands = system.example().matches(COMMAND).count();
            assert_eq!(commands, system.example().matches("./my-driver").count());
            let [Draft { text, .. }, _] = system.drafts(true);
            assert!(!text.contains("./my-driver") && !text.contains(TO_FILL_IN), "{text}");
            assert_eq!(text.matches(CONFIG).count(), commands, "{text}");
        }
    }

    #[test]
    fn what_starts_the_driver_is_to_be_filled_in_where_the_configuration_does_not() {
        for system in System::value_variants() {
            let commands = system.example().matches(COMMAND).count();
            let [Draft { text, .. }, _] = system.drafts(false);
            assert_eq!((text.matches(COMMAND).count(), text.matches(CONFIG).count()), (commands, commands));
            assert_eq!(
                text.matches(&format!("{} {TO_FILL_IN}", system.comment())).count(),
                commands,
                "{text}"
            );
        }
    }
}
