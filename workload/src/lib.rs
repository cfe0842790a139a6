//! A workload that writes to a published volume while a driver works on it: one process per volume, which sees the volume as a container
//! does and reports each record that is durable, each error and each wrong byte; and the judgement on what copies hold that are made
//! meanwhile.
#![warn(missing_docs)]

pub mod beside;
pub mod checker;
pub mod database;
pub mod elsewhere;
mod files;
pub mod layout;
pub mod log;
pub mod part;
mod process;
pub mod rules;
mod timeline;

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_harness::resources::cleanup::Cleanup;
use csi_harness::resources::workload::new_run;
use csi_proto::lock::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tonic::async_trait;

use checker::Writer;
use log::Log;
use process::{Event, Order};

pub use files::read_all;

/// The argument with which this program becomes a workload.
const ARGUMENT: &str = "csi-sanity-workload";
/// The time between the beginnings of two records: 50 records a second.
const INTERVAL: Duration = Duration::from_millis(20);
/// The step of the clock of a process elsewhere, which reads hundredths of a second from /proc/uptime.
const CLOCK_STEP_US: u64 = 10_000;
/// Limits the start of a workload.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Limits the length of an event, as it comes from elsewhere.
const EVENT_BYTES_MAX: u64 = 64 << 10;
/// Limits the wait for a process that was killed.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// True if the program can be started as a workload.
static CAN_BECOME_ONE: AtomicBool = AtomicBool::new(false);

/// Becomes a workload or a database if the arguments of the program ask for one, and returns true when that has ended. A program that starts workloads
/// calls this first.
pub fn run_if_asked() -> bool {
    CAN_BECOME_ONE.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args().skip(1);
    let run = match arguments.next().as_deref() {
        Some(ARGUMENT) => process::run,
        Some(database::ARGUMENT) => database::run,
        _ => return false,
    };
    // An error means that the reader of the report is gone.
    let _ = run(&arguments.next().unwrap_or_default());
    true
}

/// Returns true if the program becomes a workload when it is asked to.
fn can_become_one() -> bool {
    CAN_BECOME_ONE.load(Ordering::Relaxed)
}

/// The monotonic clock by which records are timed, in microseconds.
pub fn now_us() -> u64 {
    process::now_us()
}

/// A reason why no workload could be started.
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
    is_elsewhere: bool,
}

/// The process of a workload.
struct Process {
    /// The process ends when a line comes here, or this is closed.
    input: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    holder: Holder,
}

/// The parts of a process that end with it.
enum Holder {
    /// A process of this machine. Its root directory is mounted at that directory, where only the process sees it.
    Child { child: Child, _root: TempDir },
    /// The connection to a process elsewhere.
    Connection(Option<Box<dyn Send>>),
}

/// A process on another machine, which writes to a volume there: a shell script that a pod runs, for example. It prints a line of JSON for
/// each event, and ends when it reads a line from its input.
pub struct Elsewhere {
    /// Its standard input.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// The connection, with which the process ends.
    pub connection: Box<dyn Send>,
    /// A time of [`now_us`] before the process was started. Its own clock is another one.
    pub asked_us: u64,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").finish_non_exhaustive()
    }
}

impl Workload {
    /// Starts to write to the volume that is published at a path.
    ///
    /// # Errors
    /// The process cannot be started, or cannot use the volume.
    pub async fn start(target: &Path, volume: &str) -> Result<Workload, StartError> {
        Workload::spawn(target, volume, new_run(), 0, false).await
    }

    /// Starts to write to a volume that also holds other data. That data is left alone if it is in the first half of a device, or in
    /// files of other names.
    ///
    /// # Errors
    /// Fails as [`Workload::start`] does.
    pub async fn start_beside_data(target: &Path, volume: &str) -> Result<Workload, StartError> {
        Workload::spawn(target, volume, new_run(), 0, true).await
    }

    /// Starts a workload that continues an ended one: it writes behind the last record. The volume may be published at another path now.
    ///
    /// # Errors
    /// Fails as [`Workload::start`] does.
    pub async fn resume(target: &Path, ended: &Writer, last: u32) -> Result<Workload, StartError> {
        Workload::spawn(target, &ended.volume, ended.run, last, false).await
    }

    async fn spawn(
        target: &Path,
        volume: &str,
        run: u64,
        last: u32,
        has_other_data: bool,
    ) -> Result<Workload, StartError> {
        if !can_become_one() {
            return Err(StartError::NotPrepared);
        }
        let root = TempDir::with_prefix("csi-sanity-workload-").map_err(StartError::Spawn)?;
        let order = Order {
            target: target.to_owned(),
            root: root.path().to_owned(),
            run,
            last,
            volume: volume.to_owned(),
            has_other_data,
            interval_us: INTERVAL.as_micros() as u64,
        };
        let (child, input, output) = spawn(ARGUMENT, &order).map_err(StartError::Spawn)?;
        let process = Process { input: Some(Box::new(input)), holder: Holder::Child { child, _root: root } };
        Workload::listen_to(process, output, run, volume, None).await
    }

    /// Listens to a process that writes to a volume elsewhere, with this number as its run.
    ///
    /// # Errors
    /// The process does not report that it begins.
    pub async fn elsewhere(process: Elsewhere, run: u64, volume: &str) -> Result<Workload, StartError> {
        let Elsewhere { input, output, connection, asked_us } = process;
        let process = Process { input: Some(input), holder: Holder::Connection(Some(connection)) };
        Workload::listen_to(process, output, run, volume, Some(asked_us)).await
    }

    async fn listen_to(
        process: Process,
        output: impl AsyncRead + Send + Unpin + 'static,
        run: u64,
        volume: &str,
        asked_us: Option<u64>,
    ) -> Result<Workload, StartError> {
        let mut events = BufReader::new(output);
        let first = tokio::time::timeout(START_LIMIT, next(&mut events)).await;
        let layout = match first.map_err(|_| StartError::Silent)? {
            Some(Event::Ready { layout }) => layout,
            Some(Event::Unable { why }) => return Err(StartError::Unable(why)),
            _ => return Err(StartError::Unable("the workload ended at once".to_owned())),
        };
        let log = Arc::<Mutex<Log>>::default();
        let (sender, changes) = watch::channel(0);
        tokio::spawn(listen(events, asked_us, log.clone(), sender));
        let writer = Writer { layout, run, volume: volume.to_owned() };
        Ok(Workload { process: process.into(), writer, log, changes, is_elsewhere: asked_us.is_some() })
    }

    /// The writer, which judges copies of the volume.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Returns true if the process runs on another machine, and so reads nothing at its end.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// The time up to which the process is known: the present, or the time of its last report if that has to come over a network.
    pub fn known_until_us(&self) -> u64 {
        match self.is_elsewhere {
            true => self.log(Log::heard_us),
            false => now_us(),
        }
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

    /// Asks the process to finish its record and to end; one of this machine reads everything that it has written before that. Returns
    /// false if it does not end in time; it is killed then.
    pub async fn end(&self, limit: Duration) -> bool {
        let mut process = self.process.lock().await;
        if let Some(input) = &mut process.input {
            // A process that has ended takes no line, and needs none. A closed input would close the connection to a pod, with its output.
            let _ = input.write_all(b"\n").await;
            let _ = input.flush().await;
        }
        // The output is closed when the process ends.
        let mut changes = self.changes.clone();
        let closed = async { while changes.changed().await.is_ok() {} };
        let has_ended = tokio::time::timeout(limit, closed).await.is_ok();
        // A failure means that it waits in the kernel, which the caller learns in another way.
        let _ = process.kill().await;
        has_ended
    }
}

impl Process {
    /// Kills the process if it still runs, and waits until it has gone with its mounts. One that waits in the kernel cannot be killed.
    async fn kill(&mut self) -> Result<(), String> {
        self.input = None;
        let child = match &mut self.holder {
            Holder::Child { child, .. } => child,
            Holder::Connection(connection) => {
                *connection = None;
                return Ok(());
            }
        };
        if let Ok(Some(_)) = child.try_wait() {
            return Ok(());
        }
        child.start_kill().map_err(|error| error.to_string())?;
        match tokio::time::timeout(KILL_LIMIT, child.wait()).await {
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
        self.process.lock().await.kill().await
    }
}

/// Starts this program again in a mount namespace of its own, with an order for what it becomes.
fn spawn(argument: &str, order: &impl Serialize) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "slave", "--"])
        .arg(std::env::current_exe()?)
        .arg(argument)
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

async fn next<E: DeserializeOwned>(events: &mut BufReader<impl AsyncRead + Unpin>) -> Option<E> {
    let mut line = String::new();
    events.take(EVENT_BYTES_MAX).read_line(&mut line).await.ok()?;
    serde_json::from_str(&line).ok()
}

/// Enters each event into the log until the process ends. The times of a process with another clock are moved, so that its first event comes
/// one step of that clock before it was asked for. They are too early by the time that its start took, and never too late.
async fn listen(
    mut events: BufReader<impl AsyncRead + Unpin>,
    asked_us: Option<u64>,
    log: Arc<Mutex<Log>>,
    changes: watch::Sender<u64>,
) {
    let mut behind_us = None;
    while let Some(mut event) = next::<Event>(&mut events).await {
        if let (Some(asked_us), Some(at_us)) = (asked_us, event.at_us()) {
            let behind_us =
                behind_us.get_or_insert_with(|| asked_us.wrapping_sub(CLOCK_STEP_US).wrapping_sub(*at_us));
            *at_us = at_us.wrapping_add(*behind_us);
        }
        log.lock().take(event);
        changes.send_modify(|count| *count += 1);
    }
}
