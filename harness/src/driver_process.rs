//! A driver that the harness starts itself, and starts again when it dies.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// How long a driver may take to stop after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A running driver.
#[derive(Debug)]
pub struct DriverProcess {
    command: String,
    child: Child,
}

impl DriverProcess {
    /// Starts the command with `sh -c`, in a process group of its own.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub fn start(command: &str) -> std::io::Result<DriverProcess> {
        Ok(DriverProcess { command: command.to_owned(), child: spawn(command)? })
    }

    /// Kills what is left of the driver and starts it anew.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub async fn restart(&mut self) -> std::io::Result<()> {
        self.signal(Signal::KILL);
        // The group is gone or about to be; its exit status says nothing more.
        let _ = self.child.wait().await;
        self.child = spawn(&self.command)?;
        Ok(())
    }

    /// Asks the driver to stop, and kills it if it does not.
    pub async fn stop(mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(STOP_LIMIT, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = pid {
            // Already gone is as good.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn spawn(command: &str) -> std::io::Result<Child> {
    Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        // The standard output is for the report.
        .stdout(std::io::stderr())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}
