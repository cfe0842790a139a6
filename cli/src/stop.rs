//! Signals and the end of time: the first one stops the run gently, a second one leaves at once.

use std::io::{self, Write as _};
use std::time::Duration;

use csi_harness::results::outcome::Halt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Raises the stop signal of a run.
#[derive(Clone, Debug)]
pub(crate) struct Stopper {
    raise: watch::Sender<Halt>,
}

impl Stopper {
    /// A signal that is down.
    pub(crate) fn new() -> Stopper {
        Stopper { raise: watch::Sender::default() }
    }

    /// The signal, as the runner watches it.
    pub(crate) fn watch(&self) -> watch::Receiver<Halt> {
        self.raise.subscribe()
    }

    /// Resolves once the signal is raised.
    pub(crate) async fn raised(&self) -> Halt {
        // The sender is ours, so it lives on.
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

/// A line on the standard error; on a terminal in the place of whatever progress stands there.
pub(crate) fn say(line: &str) {
    let stderr = anstream::stderr();
    let begin = if stderr.is_terminal() { "\r" } else { "" };
    // Nobody reads it any more; the run stops all the same.
    let _ = writeln!(stderr.lock(), "{begin}{line}");
}
