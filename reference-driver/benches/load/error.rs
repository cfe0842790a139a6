//! The errors of the benchmark.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use csi_proto::DialError;
use tonic::Status;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("failed to {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to reach {driver}: {source}; its log ends with: {log}")]
    Dial { driver: &'static str, log: String, source: Box<DialError> },
    #[error("{driver} is not ready; its log ends with: {log}")]
    NotReady { driver: &'static str, log: String },
    #[error("{rpc} failed: {}: {}", status.code(), status.message())]
    Call { rpc: &'static str, status: Box<Status> },
    #[error("the answer to {rpc} has no {field}")]
    Answer { rpc: &'static str, field: &'static str },
    #[error("{program} ended with {status}: {output}")]
    Tool { program: &'static str, status: ExitStatus, output: String },
    #[error("{driver} does not end on SIGTERM and was killed")]
    Killed { driver: &'static str },
    #[error("interrupted")]
    Interrupted,
    #[error("a worker ended early: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

pub(crate) type Result<T> = std::result::Result<T, BenchError>;

/// Adds the operation and the path to an error.
pub(crate) trait IoContext<T> {
    fn on(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn on(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| BenchError::Io { action, path: path.to_owned(), source })
    }
}
