//! The file that makes a run a gate in a CI system: the example of ci/, with the configuration that is written beside it.

use clap::ValueEnum;

use super::{CONFIG, Draft};

/// What stands in the examples for the command of a driver.
const COMMAND: &str = r#"exec ./my-driver --endpoint "$CSI_ENDPOINT" --node-id node-1"#;
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

    /// The file, and the list that it names.
    pub(super) fn drafts(self) -> [Draft; 2] {
        let text = self
            .example()
            .replace(COMMAND, CONFIG)
            .replace("driver-command:", "config:")
            .replace("CSI_SANITY_DRIVER_COMMAND", "CSI_SANITY_CONFIG");
        // What is left of it is a comment on the command.
        let text = text
            .lines()
            .filter(|line| !line.contains("$CSI_ENDPOINT"))
            .map(|line| format!("{line}\n"))
            .collect();
        let list = "# Checks that are known to fail: `pattern  # reason` on each line. One that passes is an error.\n";
        [Draft { name: self.file(), text }, Draft { name: KNOWN_FAILING, text: list.to_owned() }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_names_the_configuration_and_no_command() {
        for system in System::value_variants() {
            assert_eq!(
                system.example().matches(COMMAND).count(),
                system.example().matches("./my-driver").count()
            );
            let [Draft { text, .. }, _] = system.drafts();
            assert!(text.contains(CONFIG) && !text.contains("./my-driver"), "{text}");
        }
    }
}
