//! Replaces the driver of a cluster by another version, with the commands of the user.

use std::process::Stdio;
use std::time::Duration;

use csi_harness::prelude::Stop;
use tokio::process::Command;

use crate::cluster::{Done, DriverVersion};

/// Limits a command that replaces the driver, which may wait until the new pods are ready.
const COMMAND_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The largest part of the output of a failed command that is shown, in bytes.
const OUTPUT_BYTES_MAX: usize = 500;

/// Shell commands that run on this machine, such as `kubectl set image`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverCommands {
    pub upgrade: Option<String>,
    pub downgrade: Option<String>,
}

impl DriverCommands {
    /// Returns the command that replaces the driver by a version.
    ///
    /// # Errors
    /// There is none; the text names its flag.
    pub(super) fn command(&self, version: DriverVersion) -> Result<&str, String> {
        let (command, flag) = match version {
            DriverVersion::Next => (&self.upgrade, "--upgrade-command"),
            DriverVersion::Before => (&self.downgrade, "--downgrade-command"),
        };
        command.as_deref().ok_or_else(|| format!("the driver is replaced only with {flag}"))
    }

    /// Runs the command for a version to its end.
    ///
    /// # Errors
    /// Broken if the command fails or takes too long; skip if there is none.
    pub(super) async fn replace(&self, version: DriverVersion) -> Done {
        let command = self.command(version).map_err(Stop::skip)?;
        let broken = |why: String| Stop::broken(format!("`{command}`, which replaces the driver, {why}"));
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).kill_on_drop(true);
        let ended = tokio::time::timeout(COMMAND_LIMIT, shell.output()).await;
        let ended = ended.map_err(|_| broken(format!("is not done after {} s", COMMAND_LIMIT.as_secs())))?;
        let output = ended.map_err(|error| broken(format!("cannot be run: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let last = &said[said.len().saturating_sub(OUTPUT_BYTES_MAX)..];
        Err(broken(format!("failed ({}): {}", output.status, String::from_utf8_lossy(last).trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_fails_is_quoted() {
        let upgrade = Some("echo no such image >&2; exit 3".to_owned());
        let commands = DriverCommands { upgrade, downgrade: None };
        let Err(Stop::Broken(why)) = commands.replace(DriverVersion::Next).await else {
            panic!("not broken")
        };
        assert!(why.contains("exit 3") && why.ends_with("no such image"), "{why}");
        assert!(matches!(commands.replace(DriverVersion::Before).await, Err(Stop::Skip(_))));
    }
}
