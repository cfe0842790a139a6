//! A workload that writes to a published volume while a driver works on it: one process per volume, which sees the volume as a container
//! does and reports each record that is durable, each error and each wrong byte; and the judgement on what copies hold that are made
//! meanwhile.
#![warn(missing_docs)]

pub mod checker;
mod files;
pub mod layout;
pub mod log;
pub mod part;
mod process;
mod read_only;

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_harness::resources::cleanup::Cleanup;
use csi_harness::resources::workload::new_run;
use csi_proto::lock::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tonic::async_trait;

use checker::Writer;
use log::Log;
use process::{Event, Order};

pub use files::{layout, read_all};
pub use read_only::turn_read_only;

/// The argument with which this program becomes a workload.
const ARGUMENT: &str = "csi-sanity-workload";
/// The time between the beginnings of two records: 50 records a second.
const INTERVAL: Duration = Duration::from_millis(20);
/// Limits the start of a workload.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Limits the wait for a process that was killed.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Whether the program becomes a workload when it is asked to.
static CAN_BECOME_ONE: AtomicBool = AtomicBool::new(false);

/// Becomes a workload if the arguments of the program ask for one, and returns true when that has ended. A program that starts workloads
/// calls this first.
pub fn run_if_asked() -> bool {
    CAN_BECOME_ONE.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ARGUMENT) {
        return false;
    }
    // An error means that the reader of the report is gone.
    let _ = process::run(&arguments.next().unwrap_or_default());
    true
}

/// The monotonic clock by which records are timed, in microseconds.
pub fn now_us() -> u64 {
    process::now_us()
}

/// Why there is no workload.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This program does not call [`run_if_asked`].
    #[error("this program cannot run itself as a workload")]
    NotPrepared,
    /// The process or its directory cannot be made.
    #[error("failed to start a workload through unshare, of util-linux: {0}")]
    Spawn(#[source] io::Error),
    /// The process cannot use the volume.
    #[error("{0}")]
    Unable(String),
    /// The process says nothing.
    #[error("the workload does not begin within {} s", START_LIMIT.as_secs())]
    Silent,
}

/// A process that writes to a volume. It is killed when this is dropped.
#[derive(Debug)]
pub struct Workload {
    process: tokio::sync::Mutex<Process>,
    writer: Writer,
    log: Arc<Mutex<Log>>,
    /// Changes with each event.
    changes: watch::Receiver<u64>,
    /// The root directory of the process is mounted here, where only that process sees it.
    _root: TempDir,
}

#[derive(Debug)]
struct Process {
    child: Child,
    /// The process ends when this is closed.
    input: Option<ChildStdin>,
}

impl Workload {
    /// Starts to write to the volume that is published at a path.
    ///
    /// # Errors
    /// The process cannot be started, or cannot use the volume.
    pub async fn start(target: &Path, volume: &str) -> Result<Workload, StartError> {
        Workload::spawn(target, volume, new_run(), 0).await
    }

    /// Goes on to write to a volume, which is published at another path now, behind the last record of a workload that has ended.
    ///
    /// # Errors
    /// As for [`Workload::start`].
    pub async fn resume(target: &Path, ended: &Writer, last: u32) -> Result<Workload, StartError> {
        Workload::spawn(target, &ended.volume, ended.run, last).await
    }

    async fn spawn(target: &Path, volume: &str, run: u64, last: u32) -> Result<Workload, StartError> {
        if !CAN_BECOME_ONE.load(Ordering::Relaxed) {
            return Err(StartError::NotPrepared);
        }
        let root = TempDir::with_prefix("csi-sanity-workload-").map_err(StartError::Spawn)?;
        let order = Order {
            target: target.to_owned(),
            root: root.path().to_owned(),
            run,
            last,
            volume: volume.to_owned(),
            interval_us: INTERVAL.as_micros() as u64,
        };
        let (mut child, input, output) = spawn(&order).map_err(StartError::Spawn)?;
        let mut events = BufReader::new(output);
        let first = tokio::time::timeout(START_LIMIT, next(&mut events)).await;
        let layout = match first.map_err(|_| StartError::Silent)? {
            Some(Event::Ready { layout }) => layout,
            Some(Event::Unable { why }) => return Err(StartError::Unable(why)),
            _ => {
                let status = child.wait().await.map_err(StartError::Spawn)?;
                return Err(StartError::Unable(format!("the workload ended at once: {status}")));
            }
        };
        let log = Arc::<Mutex<Log>>::default();
        let (sender, changes) = watch::channel(0);
        tokio::spawn(listen(events, log.clone(), sender));
        let writer = Writer { layout, run, volume: volume.to_owned() };
        let process = Process { child, input: Some(input) }.into();
        Ok(Workload { process, writer, log, changes, _root: root })
    }

    /// The writer, which judges copies of the volume.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Reads the log.
    pub fn log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        read(&self.log.lock())
    }

    /// Waits until the log satisfies a condition. Returns false if it does not in time, or never will, since the process has ended.
    pub async fn until(&self, limit: Duration, mut is_met: impl FnMut(&Log) -> bool) -> bool {
        let mut changes = self.changes.clone();
        let met = changes.wait_for(|_| is_met(&self.log.lock()));
        let met = tokio::time::timeout(limit, met).await.is_ok_and(|met| met.is_ok());
        met || is_met(&self.log.lock())
    }

    /// Asks the process to finish its record, to read everything it has written, and to end. Returns false if it does not end in time; it
    /// is killed then.
    pub async fn end(&self, limit: Duration) -> bool {
        let mut process = self.process.lock().await;
        process.input = None;
        let has_ended = tokio::time::timeout(limit, process.child.wait()).await.is_ok();
        if !has_ended {
            // A failure means that it waits in the kernel, which the caller learns in another way.
            let _ = process.kill().await;
        }
        // The last lines may be on their way.
        let mut changes = self.changes.clone();
        let closed = async { while changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(KILL_LIMIT, closed).await;
        has_ended
    }
}

impl Process {
    /// Kills the process, and waits until it has gone with its mounts. One that waits in the kernel cannot be killed.
    async fn kill(&mut self) -> Result<(), String> {
        self.child.start_kill().map_err(|error| error.to_string())?;
        match tokio::time::timeout(KILL_LIMIT, self.child.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => Err("the process waits in the kernel, and cannot be killed".to_owned()),
        }
    }
}

/// A check that ends early leaves its workload to this: while the process has the volume, the volume cannot be taken from the node.
#[async_trait]
impl Cleanup for Workload {
    fn name(&self) -> String {
        format!("the workload of volume {}", self.writer.volume)
    }

    async fn remove(&self) -> Result<(), String> {
        let mut process = self.process.lock().await;
        match process.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            _ => process.kill().await,
        }
    }
}

fn spawn(order: &Order) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "slave", "--"])
        .arg(std::env::current_exe()?)
        .arg(ARGUMENT)
        .arg(serde_json::to_string(order)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok((child, stdin, stdout)),
        _ => Err(io::Error::other("the process has no standard input and output")),
    }
}

async fn next(events: &mut BufReader<ChildStdout>) -> Option<Event> {
    let mut line = String::new();
    events.read_line(&mut line).await.ok()?;
    serde_json::from_str(&line).ok()
}

/// Enters each event into the log until the process ends.
async fn listen(mut events: BufReader<ChildStdout>, log: Arc<Mutex<Log>>, changes: watch::Sender<u64>) {
    while let Some(event) = next(&mut events).await {
        log.lock().take(event);
        changes.send_modify(|count| *count += 1);
    }
}
