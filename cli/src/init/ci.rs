//! The file that makes a run a gate in a CI system: the example of ci/, with the configuration that is written beside it.

use std::fmt::Write as _;

use super::Draft;
use super::survey::{Survey, on_one_line};
use crate::args::CiSystem;
use crate::settings::CONFIG_FILE;

/// The command of a driver in the examples.
const COMMAND: &str = r#"exec ./my-driver --endpoint "$CSI_ENDPOINT" --node-id node-1"#;
/// The names of its setting in the examples.
const SETTINGS: [&str; 2] = ["driver-command:", "CSI_SANITY_DRIVER_COMMAND"];
/// The socket of the driver in a job. That of the configuration is one of the machine that it was written on.
const ENDPOINT: &str = "unix:///tmp/csi-sanity.sock";
/// The variable in which a command finds it.
const VARIABLE: &str = "$CSI_ENDPOINT";
/// The comment above a command that is not known yet.
pub(super) const TO_FILL_IN: &str = "To be filled in: the command that starts your driver in this job";
/// The list that the examples name.
pub(super) const KNOWN_FAILING: &str = "known-failing.txt";

impl CiSystem {
    /// The path at which the system expects the file, or from which the user copies it.
    pub(super) fn file(self) -> &'static str {
        match self {
            CiSystem::Github => ".github/workflows/csi-sanity.yml",
            CiSystem::Gitlab => "csi-sanity.gitlab-ci.yml",
            CiSystem::Jenkins => "csi-sanity.Jenkinsfile",
            CiSystem::Prow => "csi-sanity.prow.yaml",
        }
    }

    fn example(self) -> &'static str {
        // Links to the files in ci/, since a crate that is published has nothing from outside.
        match self {
            CiSystem::Github => include_str!("ci/github.yml"),
            CiSystem::Gitlab => include_str!("ci/gitlab.yml"),
            CiSystem::Jenkins => include_str!("ci/Jenkinsfile"),
            CiSystem::Prow => include_str!("ci/prow.yaml"),
        }
    }

    /// The beginning of a comment in the file.
    fn comment(self) -> &'static str {
        if self == CiSystem::Jenkins { "//" } else { "#" }
    }

    /// The file, and the list that it names.
    pub(super) fn drafts(self, survey: &Survey) -> [Draft; 2] {
        let seen = survey.command.as_ref().map(|command| on_one_line(&command.anywhere));
        let text = self.text(survey.config.driver_command.as_deref(), seen.as_deref());
        let list = "# Checks that are known to fail: `pattern  # reason` on each line. One that passes is an error.\n";
        [Draft::new(self.file(), text), Draft::new(KNOWN_FAILING, list.to_owned())]
    }

    /// The file. Where the configuration has no command that starts the driver, the file needs one; `seen` is one that has
    /// started it before.
    fn text(self, command: Option<&str>, seen: Option<&str>) -> String {
        // A command that names its socket itself has to be left with it.
        let takes_endpoint = command.is_none_or(|command| command.contains(VARIABLE));
        let mut text = String::new();
        let mut lines = self.example().lines().peekable();
        while let Some(line) = lines.next() {
            if line.contains(VARIABLE) && !line.contains(COMMAND) {
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
            let mut other = |names: [&str; 2], value: &str| {
                for line in &setting {
                    let [input, variable] = SETTINGS;
                    let line = line.replace(COMMAND, value);
                    let line = line.replace(input, names[0]).replace(variable, names[1]);
                    let _ = writeln!(text, "{line}");
                }
            };
            other(["config:", "CSI_SANITY_CONFIG"], CONFIG_FILE);
            if takes_endpoint {
                other(["endpoint:", "CSI_SANITY_ENDPOINT"], ENDPOINT);
            }
            if command.is_none() {
                let indent = &line[..line.len() - line.trim_start().len()];
                let _ = writeln!(text, "{indent}{} {TO_FILL_IN}", self.comment());
                if let Some(seen) = seen {
                    let _ = writeln!(text, "{indent}{} `init` found it started with: {seen}", self.comment());
                }
                setting.iter().for_each(|line| {
                    let _ = writeln!(text, "{line}");
                });
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_file_names_the_configuration() {
        for system in CiSystem::value_variants() {
            let commands = system.example().matches(COMMAND).count();
            assert_eq!(commands, system.example().matches("./my-driver").count());
            for (command, endpoints) in [("./d --endpoint $CSI_ENDPOINT", commands), ("./d /run/csi.sock", 0)]
            {
                let text = system.text(Some(command), None);
                assert!(!text.contains("./my-driver") && !text.contains(TO_FILL_IN), "{text}");
                assert_eq!(text.matches(CONFIG_FILE).count(), commands, "{text}");
                assert_eq!(text.matches(ENDPOINT).count(), endpoints, "{text}");
            }
        }
    }

    #[test]
    fn a_missing_driver_command_is_left_to_fill_in() {
        for system in CiSystem::value_variants() {
            let commands = system.example().matches(COMMAND).count();
            let text = system.text(None, Some("exec ./seen"));
            for part in [COMMAND, CONFIG_FILE, ENDPOINT, "exec ./seen"] {
                assert_eq!(text.matches(part).count(), commands, "{part}: {text}");
            }
            assert_eq!(
                text.matches(&format!("{} {TO_FILL_IN}", system.comment())).count(),
                commands,
                "{text}"
            );
        }
    }
}
