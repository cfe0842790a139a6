//! Signals and the time limit: the first one stops the run with a clean-up, and a second signal ends it at once.

use std::io::{self, Write as _};
use std::time::Duration;

use csi_harness::results::outcome::Halt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::error::Error;

/// Raises the stop signal of a run.
#[derive(Clone, Debug)]
pub(crate) struct Stopper {
    raise: watch::Sender<Halt>,
}

impl Stopper {
    /// Creates a signal that is not raised.
    pub(crate) fn new() -> Stopper {
        Stopper { raise: watch::Sender::default() }
    }

    /// The signal, as the runner watches it.
    pub(crate) fn watch(&self) -> watch::Receiver<Halt> {
        self.raise.subscribe()
    }

    /// Resolves once the signal is raised.
    pub(crate) async fn raised(&self) -> Halt {
        // The sender belongs to this value, so it still exists.
        self.watch().wait_for(|halt| *halt != Halt::None).await.map_or(Halt::None, |halt| *halt)
    }

    /// Raises the signal on the first SIGINT or SIGTERM, and resolves on the second.
    pub(crate) async fn on_signals(&self) -> io::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        for first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first {
                say("stopping: undoing what was made; press Ctrl-C again to stop without cleaning up");
                self.raise.send_replace(Halt::Interrupted);
            }
        }
        Ok(())
    }

    /// Raises the signal when the time is up.
    pub(crate) async fn on_timeout(&self, limit: Duration) {
        tokio::time::sleep(limit).await;
        say(&format!("stopping: the run took longer than --timeout {limit:?}; undoing what was made"));
        self.raise.send_if_modified(|halt| {
            let first = *halt == Halt::None;
            if first {
                *halt = Halt::TimeUp;
            }
            first
        });
    }
}

/// Does work that makes nothing, so that the first signal ends it; then there is no result.
pub(crate) async fn until_signal<T>(
    work: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    let stopper = Stopper::new();
    tokio::select! {
        done = work => done.map(Some),
        left = stopper.on_signals() => left.map(|()| None).map_err(Error::Runtime),
        _ = stopper.raised() => Ok(None),
    }
}

/// Writes a line to the standard error, and replaces the progress line on a terminal.
pub(crate) fn say(line: &str) {
    let stderr = anstream::stderr();
    let begin = if stderr.is_terminal() { "\r" } else { "" };
    // The standard error may be closed, which must not stop the run.
    let _ = writeln!(stderr.lock(), "{begin}{line}");
}
