//! Makes texts that a shell would run as commands, and shows whether one did.
//!
//! Many drivers remove slashes from names, so there are texts without any. If the run started the driver, they call a
//! command in the first directory of its PATH; otherwise they take the slash from `$PWD`.

use std::path::PathBuf;

use csi_harness::driver::LentCommand;
use csi_harness::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::canary;
use crate::sweep::Mutation;

/// A command that does not exist elsewhere. It consists of letters, which no driver removes from a name.
const COMMAND: &str = "csisanityruns";
/// The prefix of the tests' directories.
const PREFIX: &str = "csi-sanity-";
/// A shell expands it to a slash, the first letter of its working directory.
const SLASH: &str = "${PWD%${PWD#?}}";

/// The number of forms that are also tried with slashes: substitution, and the end of the previous command.
const PLAINER: usize = 3;

/// A file that the command makes, in its own directory with a short path, which is removed with this value.
#[derive(Debug)]
pub struct Trap {
    dir: TempDir,
    /// The command in the driver's PATH that makes the file.
    lent: Option<LentCommand>,
}

impl Trap {
    /// Sets the trap.
    ///
    /// # Errors
    /// Skips if it is unknown whether the tests see the driver's changes to files; broken if it cannot be made.
    pub async fn set(cx: &Cx) -> CheckResult<Trap> {
        canary::needs_shared_files(cx).await?;
        let failed =
            |error: std::io::Error| Stop::broken(format!("failed to set a trap for commands: {error}"));
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(failed)?;
        let script = format!(": >'{}'", dir.path().join("m").display());
        let lent = cx.target().driver().and_then(|driver| driver.lend_command(COMMAND, &script));
        Ok(Trap { lent: lent.transpose().map_err(failed)?, dir })
    }

    fn mark(&self) -> PathBuf {
        self.dir.path().join("m")
    }

    /// Returns texts that a shell would run: those without a slash, and a few with slashes if the others are complex.
    pub fn texts(&self) -> Vec<String> {
        let mut texts = self.texts_without_slash();
        if self.lent.is_none() {
            texts.extend(forms(&format!("touch {}", self.mark().display())).into_iter().take(PLAINER));
        }
        texts
    }

    /// Returns texts that a shell would run, without a slash.
    pub fn texts_without_slash(&self) -> Vec<String> {
        let mark = self.mark().display().to_string();
        let command = match &self.lent {
            Some(_) => COMMAND.to_owned(),
            None => format!("touch {}", mark.replace('/', SLASH)),
        };
        forms(&command).into()
    }

    /// Fails if a command was run.
    ///
    /// # Errors
    /// A violation of the first rule of the check.
    pub fn is_untouched(&self, shot: &Mutation, answer: &Answer<Value>) -> CheckResult {
        let mark = self.mark();
        if !mark.exists() {
            return Ok(());
        }
        // If this fails, the file is removed with the directory.
        let _ = std::fs::remove_file(&mark);
        Err(Violation::new(format!("{} is run as a command", shot.described()))
            .expected("a text that is taken literally")
            .actual(format!(
                "the command made the file {}; the call was answered with {answer}",
                mark.display()
            ))
            .into())
    }
}

/// Returns the forms that make a shell run the command: substitution, and the end of a command, a quotation or a
/// line.
fn forms(command: &str) -> [String; 9] {
    [
        format!("$({command})"),
        format!("`{command}`"),
        format!("a; {command} ;"),
        format!("a' ; {command} ; '"),
        format!("a\" ; {command} ; \""),
        format!("a | {command}"),
        format!("a && {command}"),
        format!("a & {command} &"),
        format!("a\n{command}\n"),
    ]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Checks that a shell runs each form where that would be harmful.
    #[test]
    fn a_shell_runs_each_form_and_needs_no_slash_for_it() {
        let trap = Trap { dir: tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap(), lent: None };
        let lines =
            |text: &str| [format!("echo {text}"), format!("echo \"{text}\""), format!("echo '{text}'")];
        let runs = |line: &str| {
            let _ = Command::new("sh").args(["-c", line]).output().unwrap();
            std::fs::remove_file(trap.mark()).is_ok()
        };
        let texts = trap.texts();
        assert_eq!((texts.len(), trap.texts_without_slash().len()), (12, 9));
        assert!(!trap.texts_without_slash().iter().any(|text| text.contains('/')));
        for text in texts {
            assert!(lines(&text).iter().any(|line| runs(line)), "{text:?}");
            assert!(text.len() <= 128, "{text:?} is longer than a name");
        }
    }
}
