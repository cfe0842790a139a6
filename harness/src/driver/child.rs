//! A driver that the harness starts itself.

use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use csi_proto::Endpoint;
use csi_proto::lock::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::watch;

use super::commands::CommandPath;
use super::mount_calls::MountCall;
use super::other_process::{is_group_alive, started_ticks};
use super::syscalls::Supervisor;
use super::{DriverError, DriverLog, Frozen, Left, Version};

/// The time in which the kernel has to end a process after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// The time to wait for the rest of the process group.
const ORPHANS_LIMIT: Duration = Duration::from_secs(1);
/// Pause between two looks at the process group.
const GROUP_PAUSE: Duration = Duration::from_millis(5);

/// A shell command, and the process group that runs it.
#[derive(Debug)]
pub(super) struct Child {
    command: String,
    /// The commands that start the other versions of the driver.
    others: Vec<(Version, String)>,
    version: Mutex<Version>,
    /// The value of `CSI_ENDPOINT` for the driver.
    endpoint: Option<String>,
    log: Option<DriverLog>,
    /// Comes first in its PATH, if such a place could be made.
    commands: OnceLock<Option<CommandPath>>,
    running: Mutex<Option<Running>>,
    /// Watches the system calls of the processes that are started.
    supervisor: Mutex<Option<Supervisor>>,
    /// True if the command runs the driver itself. This is known only once it was ended by signals.
    is_run_here: AtomicBool,
}

/// The process of a driver. Its start time distinguishes it from later processes with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildProcess {
    /// Its number, which is that of its process group.
    group: i32,
    /// The time of its start, in clock ticks after that of the machine.
    started_ticks: u64,
}

impl ChildProcess {
    fn of(group: Pid) -> Option<ChildProcess> {
        let group = group.as_raw_nonzero().get();
        let started_ticks = started_ticks(group)?;
        Some(ChildProcess { group, started_ticks })
    }

    /// Kills the rest of its group, and waits until it is gone, for 5 s at most.
    pub(crate) fn kill(self) {
        let is_same = started_ticks(self.group) == Some(self.started_ticks);
        let Some(group) = Pid::from_raw(self.group).filter(|_| is_same) else { return };
        if kill_process_group(group, Signal::KILL).is_err() {
            return;
        }
        let killed = Instant::now();
        while is_group_alive(self.group) && killed.elapsed() < KILL_LIMIT {
            std::thread::sleep(GROUP_PAUSE);
        }
    }
}

/// The endpoint in the form that a driver needs, with an absolute path. `None` for text that is no endpoint: dialling
/// it reports the error.
fn listen_address(endpoint: &str) -> Option<String> {
    match endpoint.parse().ok()? {
        Endpoint::Unix(path) => std::path::absolute(path).ok().map(|path| Endpoint::Unix(path).to_string()),
        other => Some(other.to_string()),
    }
}

/// One start of the command.
#[derive(Clone, Debug)]
struct Running {
    group: Pid,
    /// The exit status of the shell, which the command usually replaces.
    end: watch::Receiver<Option<ExitStatus>>,
}

impl Child {
    pub(super) fn new(
        command: &str,
        others: &[(Version, &str)],
        endpoint: Option<&str>,
        log: Option<DriverLog>,
    ) -> Child {
        Child {
            command: command.to_owned(),
            others: others.iter().map(|(version, command)| (*version, (*command).to_owned())).collect(),
            version: Mutex::default(),
            endpoint: endpoint.and_then(listen_address),
            log,
            commands: OnceLock::new(),
            running: Mutex::default(),
            supervisor: Mutex::default(),
            is_run_here: AtomicBool::new(false),
        }
    }

    pub(super) fn has_next(&self) -> bool {
        self.others.iter().any(|(version, _)| *version == Version::Next)
    }

    pub(super) fn version(&self) -> Version {
        *self.version.lock()
    }

    /// Chooses the version of the next start. Returns the one that was chosen before.
    pub(super) fn choose(&self, version: Version) -> Version {
        std::mem::replace(&mut *self.version.lock(), version)
    }

    fn chosen_command(&self) -> &str {
        let chosen = self.version();
        let other = self.others.iter().find(|(version, _)| *version == chosen);
        other.map_or(&self.command, |(_, command)| command)
    }

    pub(super) fn supervise(&self, supervisor: Option<Supervisor>) {
        *self.supervisor.lock() = supervisor;
    }

    pub(super) fn take_mount_calls(&self) -> Option<Vec<MountCall>> {
        self.supervisor.lock().as_ref().and_then(Supervisor::take_mounts)
    }

    pub(super) fn is_watched_for_mounts(&self) -> bool {
        self.supervisor.lock().as_ref().is_some_and(Supervisor::is_of_mounts)
    }

    pub(super) fn process(&self) -> Option<ChildProcess> {
        self.running().and_then(|running| ChildProcess::of(running.group))
    }

    pub(super) fn log(&self) -> Option<&DriverLog> {
        self.log.as_ref()
    }

    /// The directory with which the driver's commands can be watched.
    pub(super) fn commands(&self) -> Option<&CommandPath> {
        self.commands.get_or_init(|| CommandPath::make().ok()).as_ref()
    }

    pub(super) async fn start(&self) -> Result<(), DriverError> {
        if let Some(last) = self.running() {
            last.clear_away().await?;
        }
        self.runs(self.spawn().map_err(DriverError::Spawn)?);
        Ok(())
    }

    /// Starts the command once more, and stops the first process if the second one is still there after this time.
    pub(super) async fn start_twice(&self, wait: Duration, grace: Duration) -> Result<Left, DriverError> {
        let first = self.running();
        if first.as_ref().is_some_and(Running::is_detached) {
            return Err(DriverError::Detached);
        }
        let second = self.spawn().map_err(DriverError::Spawn)?;
        if second.gone_within(wait).await.is_some() {
            second.clear_away().await?;
            return Ok(Left::First);
        }
        self.runs(second);
        if let Some(first) = first {
            first.end(Some(grace)).await?;
        }
        Ok(Left::Second)
    }

    fn spawn(&self) -> std::io::Result<Running> {
        let (stdout, stderr) = match &self.log {
            Some(log) => log.streams()?,
            // The standard output is for the report.
            None => (std::io::stderr().into(), Stdio::inherit()),
        };
        let path = self.commands().map(|commands| ("PATH", commands.path()));
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(self.chosen_command())
            .envs(path)
            .envs(self.endpoint.as_ref().map(|endpoint| ("CSI_ENDPOINT", endpoint)))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true);
        let supervisor = self.supervisor.lock().clone();
        let supervised = supervisor.map(|supervisor| supervisor.prepare(&mut command)).transpose()?.flatten();
        let mut child = command.spawn()?;
        if let Some(supervised) = supervised {
            supervised.begin()?;
        }
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = id.ok_or(std::io::ErrorKind::NotFound)?;
        let (end_sender, end) = watch::channel(None);
        tokio::spawn(async move {
            if let Ok(status) = child.wait().await {
                end_sender.send_replace(Some(status));
            }
        });
        Ok(Running { group, end })
    }

    /// Ends the driver, after a grace if there is one. Returns its status and true if it had to be killed.
    pub(super) async fn end(
        &self,
        grace: Option<Duration>,
    ) -> Result<(Option<ExitStatus>, bool), DriverError> {
        match self.running() {
            Some(running) if running.is_detached() => Err(DriverError::Detached),
            Some(running) => {
                let (status, killed) = running.end(grace).await?;
                self.is_run_here.store(true, Ordering::SeqCst);
                Ok((Some(status), killed))
            }
            None => Ok((None, false)),
        }
    }

    /// Stops all processes of the driver until the answer is dropped.
    pub(super) async fn freeze(&self) -> std::io::Result<Frozen> {
        match self.running().filter(Running::has_group) {
            Some(running) => Frozen::group(running.group).await,
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn abandon(&self) {
        if let Some(running) = self.running() {
            // Nothing can be done about an error here: the driver is being abandoned.
            let _ = running.signal(Signal::KILL);
        }
        if let Some(Some(commands)) = self.commands.get() {
            commands.remove();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.running().is_none_or(|running| running.end.borrow().is_some() && !running.is_in_background())
    }

    pub(super) async fn ended(&self) -> ExitStatus {
        match self.running() {
            Some(running) => running.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves when nothing of the driver is left here, and nothing elsewhere runs it.
    pub(super) async fn gone(&self) -> ExitStatus {
        match self.running() {
            Some(running) => {
                let status = running.gone().await;
                let may_run_elsewhere = status.success() && !self.is_run_here.load(Ordering::SeqCst);
                if may_run_elsewhere { std::future::pending().await } else { status }
            }
            None => std::future::pending().await,
        }
    }

    fn runs(&self, running: Running) {
        *self.running.lock() = Some(running);
    }

    fn running(&self) -> Option<Running> {
        self.running.lock().clone()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Running {
    /// Ends it, after a grace if there is one. Returns its status and true if it had to be killed.
    async fn end(&self, grace: Option<Duration>) -> Result<(ExitStatus, bool), DriverError> {
        if let Some(grace) = grace {
            self.signal(Signal::TERM)?;
            if let Some(status) = self.gone_within(grace).await {
                self.clear_away().await?;
                return Ok((status, false));
            }
        }
        self.signal(Signal::KILL)?;
        let Some(status) = self.gone_within(KILL_LIMIT).await else {
            return Err(DriverError::Undying { limit_ms: KILL_LIMIT.as_millis() });
        };
        self.clear_away().await?;
        Ok((status, true))
    }

    async fn ended(mut self) -> ExitStatus {
        match self.end.wait_for(Option::is_some).await.map(|status| *status) {
            Ok(Some(status)) => status,
            // The task that waits for the process is gone, so the end will never be known.
            _ => std::future::pending().await,
        }
    }

    /// Waits for the end of the driver: that of the command, or what the command has put into the background.
    async fn gone_within(&self, limit: Duration) -> Option<ExitStatus> {
        tokio::time::timeout(limit, self.gone()).await.ok()
    }

    async fn gone(&self) -> ExitStatus {
        let status = self.clone().ended().await;
        while self.is_in_background() {
            tokio::time::sleep(GROUP_PAUSE).await;
        }
        status
    }

    fn has_ended_well(&self) -> bool {
        self.end.borrow().is_some_and(|status| status.success())
    }

    /// Returns true if the command has ended well and left processes here, one of which has to be the driver.
    fn is_in_background(&self) -> bool {
        self.has_ended_well() && self.has_group()
    }

    /// Returns true if the command has ended well and left no process here: it has only asked something else to run the
    /// driver.
    fn is_detached(&self) -> bool {
        self.has_ended_well() && !self.has_group()
    }

    /// Returns true if a process of the group has not ended. A zombie, as in a container without an init, can still be
    /// signalled, so a signal alone does not show that.
    fn has_group(&self) -> bool {
        test_kill_process_group(self.group) != Err(Errno::SRCH)
            && is_group_alive(self.group.as_raw_nonzero().get())
    }

    /// Ends what outlives the process that led the group: it may hold the socket.
    async fn clear_away(&self) -> Result<(), DriverError> {
        let gone = async {
            while self.has_group() {
                self.signal(Signal::KILL)?;
                tokio::time::sleep(GROUP_PAUSE).await;
            }
            Ok(())
        };
        tokio::time::timeout(ORPHANS_LIMIT, gone).await.unwrap_or(Ok(()))
    }

    fn signal(&self, signal: Signal) -> Result<(), DriverError> {
        match kill_process_group(self.group, signal) {
            // Already gone is as good.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(DriverError::Signal(errno.into())),
        }
    }
}
