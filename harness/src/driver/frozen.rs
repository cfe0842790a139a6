//! A driver that stands still for a while, as on a node without memory, or on one that was suspended.

use std::io;
use std::process::Stdio;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::DriverError;
use super::other_process::is_stopped;

/// Stops a process group, and continues it when the standard input ends. That also happens if the program that has started this script is
/// killed, so that no driver stays stopped.
const FREEZE: &str = r#"kill -s STOP -- "$0" && echo frozen && read -r _; kill -s CONT -- "$0""#;

/// The time that is waited for all threads to be stopped. One that waits for a disk takes longer, and does nothing else meanwhile.
const STOPPED_LIMIT: Duration = Duration::from_secs(1);
/// Pause between two looks at the threads.
const STOPPED_PAUSE: Duration = Duration::from_millis(2);

/// A driver that stands still until this is dropped.
#[derive(Debug)]
pub struct Frozen(Hold);

#[derive(Debug)]
enum Hold {
    /// The process that continues the driver when its standard input ends.
    Group(Child),
    /// The thread of the driver is busy until this is dropped.
    Thread(#[expect(dead_code, reason = "it is only dropped")] Sender<()>),
}

impl Frozen {
    /// Stops a process group.
    pub(super) async fn group(group: Pid) -> io::Result<Frozen> {
        // A group of its own does not get the SIGINT of a terminal, which would end it before the driver is continued.
        let mut helper = Command::new("sh")
            .args(["-c", FREEZE, &format!("-{}", group.as_raw_nonzero())])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = helper.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        if line.trim() != "frozen" {
            return Err(io::Error::other("its process group cannot be stopped"));
        }
        let stopped = async {
            while !is_stopped(group.as_raw_nonzero().get()) {
                tokio::time::sleep(STOPPED_PAUSE).await;
            }
        };
        let _ = tokio::time::timeout(STOPPED_LIMIT, stopped).await;
        Ok(Frozen(Hold::Group(helper)))
    }

    /// Stands for a thread that is busy until a sender is dropped.
    pub(super) fn thread(held: Sender<()>) -> Frozen {
        Frozen(Hold::Thread(held))
    }

    /// Lets the driver continue.
    ///
    /// # Errors
    /// The process that continues it cannot be waited for.
    pub async fn thaw(self) -> Result<(), DriverError> {
        if let Hold::Group(mut helper) = self.0 {
            drop(helper.stdin.take());
            helper.wait().await.map_err(DriverError::Signal)?;
        }
        Ok(())
    }
}
