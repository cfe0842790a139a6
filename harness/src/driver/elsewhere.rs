//! A driver that runs where only a command of the user reaches it, for example in a pod.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use super::DriverError;
use crate::config::command;

#[derive(Debug)]
pub(super) struct Elsewhere {
    command: PathBuf,
    limit: Duration,
}

impl Elsewhere {
    pub(super) fn new(command: PathBuf, limit: Duration) -> Elsewhere {
        Elsewhere { command, limit }
    }

    pub(super) async fn start(&self) -> Result<(), DriverError> {
        self.call("start", self.limit).await
    }

    /// Returns whether the driver was killed.
    pub(super) async fn end(&self, grace: Option<Duration>) -> Result<bool, DriverError> {
        match grace {
            Some(grace) => self.call("stop", grace.max(self.limit)).await?,
            None => self.call("kill", self.limit).await?,
        }
        Ok(grace.is_none())
    }

    async fn call(&self, verb: &str, limit: Duration) -> Result<(), DriverError> {
        let done = command::run(&self.command, OsStr::new(verb), limit).await;
        done.map(drop).map_err(DriverError::RestartCommand)
    }
}
