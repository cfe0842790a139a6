//! The driver is a process, which is started, stopped and killed through one interface, even if another program runs it.

mod child;
mod commands;
mod elsewhere;
mod frozen;
mod in_process;
mod log;
mod mount_calls;
mod other_process;
mod proxy;
mod starts;
mod syscalls;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use csi_proto::Endpoint;
use csi_proto::lock::Mutex;
use futures_util::FutureExt as _;
use tonic::service::Routes;

use crate::config::Config;
use child::Child;
pub(crate) use child::ChildProcess;
pub use commands::{Broken, BrokenCommand, CommandCall, CommandWatch, LentCommand};
use elsewhere::Elsewhere;
pub use frozen::Frozen;
use in_process::InProcess;
pub use log::DriverLog;
pub use mount_calls::MountCall;
pub use proxy::{NetworkFault, Proxy};
pub use starts::Away;
pub(crate) use starts::START_FACTOR;
use starts::Starts;
pub use syscalls::{CallFault, Meant, Supervisor, SystemCall};

/// The time in which a driver has to stop at the end of a run.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Starts and ends that are remembered.
const HISTORY_MAX: usize = 1_000;

/// An error of whichever kind, from those who serve a driver in this process.
pub type ServeError = Box<dyn std::error::Error + Send + Sync>;

/// Records what a run that is killed would leave behind of a driver.
pub(crate) trait Notebook: std::fmt::Debug + Send + Sync {
    /// A directory that was made.
    fn directory(&self, path: &Path);

    /// A process of the driver.
    fn process(&self, process: ChildProcess);
}

/// A handle on the process of the driver, shared by the runner and by checks that end the driver on purpose.
#[derive(Clone, Debug)]
pub struct Driver(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    /// Held during a change, so that changes do not overlap.
    turn: tokio::sync::Mutex<()>,
    /// True if it is not meant to run: it was not started yet, or it was ended on purpose.
    down: AtomicBool,
    ends: AtomicU64,
    starts: Mutex<Starts>,
    /// True if a check has found that nothing of what the driver did survives its end.
    is_forgetful: AtomicBool,
    /// The starts and ends so far, with their times.
    history: Mutex<VecDeque<(Instant, &'static str)>>,
    /// The place where its processes are recorded, so that they are found after a run that is killed.
    notebook: OnceLock<Arc<dyn Notebook>>,
}

/// The program that runs it.
#[derive(Debug)]
enum Host {
    Child(Child),
    Elsewhere(Elsewhere),
    InProcess(InProcess),
}

/// The programs that can run as the driver where the user has named a next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The program of `--driver-command`.
    #[default]
    Present,
    /// The program of `--next-driver-command`.
    Next,
    /// The program of `--mixed-driver-command`: node plugins of both versions under the controller of the next one.
    Mixed,
}

/// The end of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The exit status; `None` if it cannot be seen from here.
    pub status: Option<ExitStatus>,
    /// The time from the request to the end.
    pub took: Duration,
    /// True if it had to be killed.
    pub killed: bool,
}

/// The driver that is left of two that were started one beside the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The driver that ran already is left: the other one has ended without being stopped.
    First,
    /// The driver that was started beside it is left.
    Second,
}

/// The reasons why a driver could not be started, stopped or killed.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The shell cannot be started.
    #[error("failed to start the driver with --driver-command")]
    Spawn(#[source] io::Error),
    /// Its processes cannot be signalled, because they belong to another user.
    #[error("failed to send the driver a signal")]
    Signal(#[source] io::Error),
    /// It does not end after SIGKILL.
    #[error("the driver is still running {limit_ms} ms after SIGKILL")]
    Undying {
        /// The time that was waited.
        limit_ms: u128,
    },
    /// The command has ended, and the driver runs elsewhere.
    #[error(
        "--driver-command exited with 0, so if the driver still runs, it is not a process of this run; --restart-command can stop and start it"
    )]
    Detached,
    /// The user's command failed.
    #[error("--restart-command: {0}")]
    RestartCommand(String),
    /// A driver of this process cannot be served.
    #[error("failed to serve the driver")]
    Serve(#[source] ServeError),
}

impl Driver {
    /// The driver whose command is in the configuration; `None` if there is none. Its output goes into the log, and
    /// without a log to the standard error.
    pub fn of(config: &Config, log: Option<DriverLog>) -> Option<Driver> {
        let limit = config.time_limits.restart_command();
        match (&config.driver_command, &config.restart_command) {
            (Some(command), _) => {
                let next = config.next_driver_command.as_deref().map(|next| (Version::Next, next));
                let mixed = config.mixed_driver_command.as_deref().map(|mixed| (Version::Mixed, mixed));
                let others: Vec<_> = next.into_iter().chain(mixed).collect();
                Some(Driver::child_with_versions(command, &others, config.endpoint.as_deref(), log))
            }
            (None, Some(command)) => Some(Driver::elsewhere(command.clone(), limit)),
            (None, None) => None,
        }
    }

    /// A driver that a shell command starts, in a process group of its own. The variable `CSI_ENDPOINT` gives it the
    /// address to listen at (PROTO-CONN-004).
    pub fn child(command: &str, endpoint: Option<&str>, log: Option<DriverLog>) -> Driver {
        Driver::child_with_versions(command, &[], endpoint, log)
    }

    /// A driver as of [`Driver::child`], with the commands that start its other versions.
    pub fn child_with_versions(
        command: &str,
        others: &[(Version, &str)],
        endpoint: Option<&str>,
        log: Option<DriverLog>,
    ) -> Driver {
        Driver::new(Host::Child(Child::new(command, others, endpoint, log)), true)
    }

    /// A driver that runs already, and that a command ends and starts: called with one argument, `kill`, `stop` or
    /// `start`, it does that within the limit.
    pub fn elsewhere(command: PathBuf, limit: Duration) -> Driver {
        Driver::new(Host::Elsewhere(Elsewhere::new(command, limit)), false)
    }

    /// A driver of this process. At each start, `serve` builds it from what it has stored, and returns its services
    /// with their endpoints. It gets threads of its own, and when it is killed, nothing of it continues.
    pub fn in_process(
        serve: impl Fn() -> Result<Vec<(Endpoint, Routes)>, ServeError> + Send + Sync + 'static,
    ) -> Driver {
        Driver::new(Host::InProcess(InProcess::new(Box::new(serve))), true)
    }

    fn new(host: Host, down: bool) -> Driver {
        Driver(Arc::new(Inner {
            host,
            turn: tokio::sync::Mutex::default(),
            down: AtomicBool::new(down),
            ends: AtomicU64::new(0),
            starts: Mutex::default(),
            is_forgetful: AtomicBool::new(false),
            history: Mutex::default(),
            notebook: OnceLock::new(),
        }))
    }

    /// Starts the driver unless it runs. It may need a while before it answers:
    /// [`Target::wait_until_alive`](crate::client::target::Target::wait_until_alive) waits for that.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn start(&self) -> Result<(), DriverError> {
        let _turn = self.0.turn.lock().await;
        if self.has_ended() {
            self.0.starts.lock().begin();
            match &self.0.host {
                Host::Child(child) => child.start().await?,
                Host::Elsewhere(elsewhere) => elsewhere.start().await?,
                Host::InProcess(served) => served.start().await?,
            }
        }
        self.0.down.store(false, Ordering::SeqCst);
        self.note_process();
        Ok(())
    }

    /// The driver as a process that the run has started, if it is one.
    fn as_child(&self) -> Option<&Child> {
        match &self.0.host {
            Host::Child(child) => Some(child),
            Host::Elsewhere(_) | Host::InProcess(_) => None,
        }
    }

    /// Returns true if the run can start its next version.
    pub fn has_next_version(&self) -> bool {
        matches!(&self.0.host, Host::Child(child) if child.has_next())
    }

    /// The version that is started next, and that runs unless another one was chosen since the last start.
    pub fn version(&self) -> Version {
        self.as_child().map_or(Version::Present, Child::version)
    }

    /// Chooses the version of all starts from now on. A process that runs goes on. Without a next version, this does nothing.
    pub fn choose(&self, version: Version) {
        if self.has_next_version()
            && let Host::Child(child) = &self.0.host
            && child.choose(version) != version
        {
            self.note(match version {
                Version::Present => "the present version of the driver is chosen",
                Version::Next => "the next version of the driver is chosen",
                Version::Mixed => {
                    "the next version of the driver is chosen, with node plugins of both versions"
                }
            });
        }
    }

    /// Returns true if it was ended, or is known to have ended by itself, and was not started since.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.down.load(Ordering::SeqCst)
            || match &self.0.host {
                Host::Child(child) => child.has_ended(),
                Host::Elsewhere(_) => false,
                Host::InProcess(served) => served.has_ended(),
            }
    }

    /// Notes that it answers.
    pub(crate) fn has_answered(&self) {
        self.0.starts.lock().has_answered();
    }

    /// The time since it was started; `None` if it has answered since, or was not started.
    pub(crate) fn starting_for(&self) -> Option<Duration> {
        self.0.starts.lock().since()
    }

    /// The longest that it has taken so far from a start to an answer; `None` where no start was seen.
    pub fn longest_start(&self) -> Option<Duration> {
        self.0.starts.lock().longest()
    }

    /// Records the processes of the driver, the present ones and later ones.
    pub(crate) fn note_in(&self, notebook: Arc<dyn Notebook>) {
        // Only the first run records them.
        let _ = self.0.notebook.set(notebook.clone());
        if let Host::Child(child) = &self.0.host
            && let Some(commands) = child.commands()
        {
            notebook.directory(commands.first());
        }
        self.note_process();
    }

    fn note_process(&self) {
        if let (Host::Child(child), Some(notebook)) = (&self.0.host, self.0.notebook.get())
            && let Some(process) = child.process()
        {
            notebook.process(process);
        }
    }

    /// Returns true if the run has started it, so that nothing else knows its endpoint.
    pub(crate) fn is_started_here(&self) -> bool {
        matches!(self.0.host, Host::Child(_) | Host::InProcess(_))
    }

    /// Returns true if nothing is left of the driver once this process has ended.
    pub(crate) fn ends_with_this_process(&self) -> bool {
        matches!(self.0.host, Host::InProcess(_))
    }

    /// Asks the driver to stop, as SIGTERM does, and kills it if it is still there after the grace. This end is on
    /// purpose and does not count as a crash.
    ///
    /// # Errors
    /// It cannot be reached, or does not end after SIGKILL.
    pub async fn stop(&self, grace: Duration) -> Result<End, DriverError> {
        self.end(Some(grace)).await
    }

    /// Kills the driver as SIGKILL does, without a warning. This end is on purpose and does not count as a crash.
    ///
    /// # Errors
    /// It cannot be reached, or does not end after SIGKILL.
    pub async fn kill(&self) -> Result<End, DriverError> {
        self.end(None).await
    }

    /// Starts the driver once more while it runs. If the second one is still there after `wait`, the first one is stopped,
    /// as in an update, and killed after the grace. `None` where a command of the user starts the driver, which need not be
    /// able to start two.
    ///
    /// # Errors
    /// Fails as [`Driver::start`] and [`Driver::stop`] do.
    pub async fn start_twice(&self, wait: Duration, grace: Duration) -> Result<Option<Left>, DriverError> {
        let _turn = self.0.turn.lock().await;
        self.note("a second driver is started beside the first one");
        self.0.ends.fetch_add(1, Ordering::SeqCst);
        self.0.starts.lock().end();
        match &self.0.host {
            Host::Child(child) => child.start_twice(wait, grace).await.map(Some),
            Host::InProcess(served) => Ok(Some(served.start_twice(grace).await)),
            Host::Elsewhere(_) => Ok(None),
        }
    }

    /// Stops the processes of the driver, as SIGSTOP does, until the answer is thawed or dropped. A driver of this process has its only
    /// thread kept busy. `None` where a command of the user runs the driver, which cannot be asked for this.
    ///
    /// # Errors
    /// It does not run, or cannot be stopped.
    pub async fn freeze(&self) -> Result<Option<Frozen>, DriverError> {
        let _turn = self.0.turn.lock().await;
        self.note("the processes of the driver are paused");
        match &self.0.host {
            Host::Child(child) => child.freeze().await.map(Some).map_err(DriverError::Signal),
            Host::InProcess(served) => served.freeze().await.map(Some).map_err(DriverError::Signal),
            Host::Elsewhere(_) => Ok(None),
        }
    }

    /// Notes what is done to it.
    fn note(&self, what: &'static str) {
        let mut history = self.0.history.lock();
        if history.len() >= HISTORY_MAX {
            history.pop_front();
        }
        history.push_back((Instant::now(), what));
    }

    /// The starts and ends since a moment, with the time from that moment.
    pub(crate) fn history_since(&self, from: Instant) -> Vec<(Duration, String)> {
        let history = self.0.history.lock();
        let since = history.iter().filter_map(|(at, what)| Some((at.checked_duration_since(from)?, what)));
        since.map(|(after, what)| (after, (*what).to_owned())).collect()
    }

    async fn end(&self, grace: Option<Duration>) -> Result<End, DriverError> {
        let _turn = self.0.turn.lock().await;
        self.note(if grace.is_some() { "the driver is stopped" } else { "the driver is killed" });
        self.0.down.store(true, Ordering::SeqCst);
        self.0.ends.fetch_add(1, Ordering::SeqCst);
        self.0.starts.lock().end();
        let started = Instant::now();
        let (status, killed) = match &self.0.host {
            Host::Child(child) => child.end(grace).await?,
            Host::Elsewhere(elsewhere) => (None, elsewhere.end(grace).await?),
            Host::InProcess(served) => (None, served.end(grace).await),
        };
        Ok(End { status, took: started.elapsed(), killed })
    }

    /// Leaves the driver as the run found it: one that the run has started is stopped, any other one runs.
    ///
    /// # Errors
    /// It cannot be stopped, or cannot be started again.
    pub async fn leave(&self) -> Result<(), DriverError> {
        match &self.0.host {
            Host::Child(_) | Host::InProcess(_) => match self.stop(STOP_GRACE).await {
                Ok(_) | Err(DriverError::Detached) => Ok(()),
                Err(error) => Err(error),
            },
            Host::Elsewhere(_) => self.start().await,
        }
    }

    /// Kills a driver that the run has started, without waiting: for a program that is about to end itself.
    pub fn abandon(&self) {
        if let Host::Child(child) = &self.0.host {
            child.abandon();
        }
    }

    /// Resolves when the process ends by itself or otherwise; never, where it is no child of this process.
    pub async fn ended(&self) -> ExitStatus {
        match &self.0.host {
            Host::Child(child) => child.ended().await,
            Host::Elsewhere(_) | Host::InProcess(_) => std::future::pending().await,
        }
    }

    /// Resolves when the process has ended, and nothing else starts the driver then.
    pub(crate) async fn gone(&self) -> ExitStatus {
        match &self.0.host {
            Host::Child(child) => child.gone().await,
            Host::Elsewhere(_) | Host::InProcess(_) => std::future::pending().await,
        }
    }

    /// The exit status of the process if it has ended, and nothing else starts the driver.
    pub fn end_of_process(&self) -> Option<ExitStatus> {
        self.gone().now_or_never()
    }

    /// Notes that a check has found and reported that the driver forgets everything when it ends.
    pub fn forgets(&self) {
        self.0.is_forgetful.store(true, Ordering::SeqCst);
    }

    /// Returns true if a check has reported that the driver forgets everything.
    pub fn is_forgetful(&self) -> bool {
        self.0.is_forgetful.load(Ordering::SeqCst)
    }

    /// The file that gets the output of the driver, if that is a file.
    pub fn log(&self) -> Option<&DriverLog> {
        self.as_child()?.log()
    }

    /// The last lines of output since the last start, as far as they are known. They are harmless to a terminal, and
    /// contain no secrets of the configuration.
    pub fn last_lines(&self) -> Vec<String> {
        self.log().map(DriverLog::last_lines).unwrap_or_default()
    }

    /// Begins to watch which commands the driver calls by their names, until the answer is dropped. `None` where the run has not
    /// started the driver.
    ///
    /// # Errors
    /// Its files cannot be created.
    pub async fn watch_commands(&self) -> Option<io::Result<CommandWatch<'_>>> {
        Some(self.as_child()?.commands()?.watch().await)
    }

    /// Begins to watch more commands than [`Driver::watch_commands`] does, each of which can be broken.
    ///
    /// # Errors
    /// The directory with the shims cannot be made.
    pub async fn watch_all_commands(&self) -> Option<io::Result<CommandWatch<'_>>> {
        Some(self.as_child()?.commands()?.watch_all().await)
    }

    /// Watches the system calls of the driver from its next start on, or stops watching them. Returns false if the run
    /// has not started the driver.
    pub fn supervise(&self, supervisor: Option<Supervisor>) -> bool {
        self.as_child().map(|child| child.supervise(supervisor)).is_some()
    }

    /// The driver's mount calls since the last time, if they are watched: after [`Driver::supervise`] with
    /// [`Supervisor::of_mounts`].
    pub fn take_mount_calls(&self) -> Option<Vec<MountCall>> {
        self.as_child()?.take_mount_calls()
    }

    /// True if the driver's mount calls are watched.
    pub fn is_watched_for_mounts(&self) -> bool {
        matches!(&self.0.host, Host::Child(child) if child.is_watched_for_mounts())
    }

    /// True if the run starts the driver, so that its system calls can be looked at.
    pub fn can_be_supervised(&self) -> bool {
        matches!(self.0.host, Host::Child(_))
    }

    /// Puts a shell script where the driver finds it as a command by its name alone, until the answer is dropped. `None` where the
    /// run has not started the driver.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn lend_command(&self, name: &str, script: &str) -> Option<io::Result<LentCommand>> {
        Some(self.as_child()?.commands()?.lend(name, script))
    }

    /// The number of times that it was ended on purpose. If that has changed during a call, a missing answer proves
    /// nothing about the driver.
    pub fn ends(&self) -> u64 {
        self.0.ends.load(Ordering::SeqCst)
    }
}
