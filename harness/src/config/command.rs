//! Commands of the user, each called with one argument.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// The largest output of a command that is read.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;

/// Runs a command and returns what it printed, trimmed. The error is a sentence that names the command.
pub(crate) async fn run(command: &Path, argument: &OsStr, limit: Duration) -> Result<String, String> {
    let what = format!("{} {}", command.display(), argument.display());
    output(Command::new(command).arg(argument), &what, limit).await
}

/// Runs a command of the shell, which gets the arguments as `$1` and so on.
pub(crate) async fn run_in_shell(
    command: &str,
    arguments: &[&str],
    limit: Duration,
) -> Result<String, String> {
    let what = format!("`{command}` of {}", arguments.join(" "));
    output(Command::new("sh").args(["-c", command, "sh"]).args(arguments), &what, limit).await
}

fn output<'a>(
    command: &'a mut Command,
    what: &'a str,
    limit: Duration,
) -> BoxFuture<'a, Result<String, String>> {
    Box::pin(async move {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("failed to run {what}: {error}"))?;
        let mut output = String::new();
        let exchange = async {
            if let Some(stdout) = child.stdout.take() {
                stdout.take(OUTPUT_BYTES_MAX).read_to_string(&mut output).await?;
            }
            child.wait().await
        };
        match tokio::time::timeout(limit, exchange).await {
            Err(_) => Err(format!("{what} took longer than {} ms", limit.as_millis())),
            Ok(Err(error)) => Err(format!("{what} failed: {error}")),
            Ok(Ok(status)) if !status.success() => Err(format!("{what} failed: {status}")),
            Ok(Ok(_)) => Ok(output.trim().to_owned()),
        }
    })
}
