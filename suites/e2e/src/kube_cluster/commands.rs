//! Commands of the user for the parts of a cluster that its API cannot change: the version of the driver, and the power of nodes. They
//! run on this machine.

use std::process::Stdio;
use std::time::Duration;

use csi_harness::prelude::Stop;
use tokio::process::Command;

use crate::cluster::{Done, DriverVersion};

/// Limits a command, which may wait until what it has changed is ready.
const COMMAND_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The largest part of the output of a failed command that is shown, in bytes.
const OUTPUT_BYTES_MAX: usize = 500;
/// The environment variable with the name of the node.
const NODE: &str = "NODE";

/// Shell commands that replace the driver, such as `kubectl set image`.
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
        run(command, "replaces the driver", None).await
    }
}

/// Shell commands that shut the node in `$NODE` down and start it again, such as `virsh destroy "$NODE"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCommands {
    pub shut_down: String,
    pub start: String,
}

/// Runs a command to its end. `does` says what it does.
///
/// # Errors
/// Broken if the command fails or takes too long.
pub(super) async fn run(command: &str, does: &str, node: Option<&str>) -> Done {
    let broken = |why: String| Stop::broken(format!("`{command}`, which {does}, {why}"));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).envs(node.map(|node| (NODE, node))).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(COMMAND_LIMIT, shell.output()).await;
    let ended = ended.map_err(|_| broken(format!("has not ended after {} s", COMMAND_LIMIT.as_secs())))?;
    let output = ended.map_err(|error| broken(format!("cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let last = &said[said.len().saturating_sub(OUTPUT_BYTES_MAX)..];
    Err(broken(format!("failed ({}): {}", output.status, String::from_utf8_lossy(last).trim())))
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

    #[tokio::test]
    async fn a_command_for_a_node_gets_its_name() {
        run("test \"$NODE\" = 'the node'", "tests it", Some("the node")).await.unwrap();
        let failed = run("echo no $NODE; false", "starts node one", Some("one")).await;
        let Err(Stop::Broken(why)) = failed else { panic!("not broken") };
        assert!(why.contains("which starts node one, failed") && why.ends_with("no one"), "{why}");
    }
}
