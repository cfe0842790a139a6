//! Texts that a shell would run as commands, and how it shows that one did.
//!
//! Names lose their slashes on the way to many commands, so that there are texts without any: they call a command that comes
//! first in the driver's PATH where the run has started the driver, and make the slash out of `$PWD` elsewhere.

use std::path::PathBuf;

use csi_harness::driver::LentCommand;
use csi_harness::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::canary;
use crate::sweep::Mutation;

/// A command that nobody has, of letters alone, which no driver takes out of a name.
const COMMAND: &str = "csisanityruns";
/// What directories of the tests begin with.
const PREFIX: &str = "csi-sanity-";
/// A slash for a shell that was given none: the first letter of the working directory.
const SLASH: &str = "${PWD%${PWD#?}}";

/// Forms that are tried with slashes, too: substitution, and the end of the command before.
const PLAINER: usize = 3;

/// A file that a command would make, in a directory of its own with a short path; it goes with this.
#[derive(Debug)]
pub struct Trap {
    dir: TempDir,
    /// Makes the file, under the name of a command.
    lent: Option<LentCommand>,
}

impl Trap {
    /// Sets it.
    ///
    /// # Errors
    /// Skip where the tests are not known to see what the driver does to files; broken if it cannot be made.
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

    /// Texts that a shell would run: those without a slash, and where these are odder than need be a few with some.
    pub fn texts(&self) -> Vec<String> {
        let mut texts = self.texts_without_slash();
        if self.lent.is_none() {
            texts.extend(forms(&format!("touch {}", self.mark().display())).into_iter().take(PLAINER));
        }
        texts
    }

    /// The same, with no slash in any of them.
    pub fn texts_without_slash(&self) -> Vec<String> {
        let mark = self.mark().display().to_string();
        let command = match &self.lent {
            Some(_) => COMMAND.to_owned(),
            None => format!("touch {}", mark.replace('/', SLASH)),
        };
        forms(&command).into()
    }

    /// What is wrong if a command was run.
    ///
    /// # Errors
    /// A violation of the first rule of the check.
    pub fn is_untouched(&self, shot: &Mutation, answer: &Answer<Value>) -> CheckResult {
        let mark = self.mark();
        if !mark.exists() {
            return Ok(());
        }
        // It goes with the directory otherwise.
        let _ = std::fs::remove_file(&mark);
        Err(Violation::new(format!("{} is run as a command", shot.told()))
            .expected("a text that is taken literally")
            .actual(format!(
                "the command made the file {}; the call was answered with {answer}",
                mark.display()
            ))
            .into())
    }
}

/// What turns a text into a command: substitution, the end of the command before, of a quotation, or of a line.
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

    /// Each form is run by a shell that has it where it would be harmful.
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
