//! What can go wrong while loading a driver.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use csi_proto::DialError;
use tonic::Status;

/// The load could not be put on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A file or program of the bench failed.
    #[error("failed to {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A driver did not start to serve.
    #[error("failed to reach {driver}: {source}; its log ends with: {log}")]
    Dial { driver: &'static str, log: String, source: Box<DialError> },
    /// A driver is not ready in time.
    #[error("{driver} is not ready; its log ends with: {log}")]
    NotReady { driver: &'static str, log: String },
    /// A call failed.
    #[error("{rpc} failed: {}: {}", status.code(), status.message())]
    Call { rpc: &'static str, status: Box<Status> },
    /// An answer lacks something.
    #[error("the answer to {rpc} has no {field}")]
    Answer { rpc: &'static str, field: &'static str },
    /// A helper program failed.
    #[error("{program} ended with {status}: {output}")]
    Tool { program: &'static str, status: ExitStatus, output: String },
    /// A driver did not end.
    #[error("{driver} does not end on SIGTERM and was killed")]
    Killed { driver: &'static str },
    /// SIGINT or SIGTERM came.
    #[error("interrupted")]
    Interrupted,
    /// A worker panicked.
    #[error("a worker ended early: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

pub(crate) type Result<T> = std::result::Result<T, BenchError>;

/// Says what was done to which file when it failed.
pub(crate) trait IoContext<T> {
    fn on(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn on(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| BenchError::Io { action, path: path.to_owned(), source })
    }
}
