//! Everything that keeps the program from doing what it was asked, each with its exit code.

use std::io;
use std::path::PathBuf;

use csi_driver_definitions::LoadError;
use csi_harness::checks::known::KnownFailingError;
use csi_harness::client::target::TargetError;
use csi_harness::config::ConfigError;
use csi_harness::results::stored::CaseError;
use csi_harness::run::plan::PlanError;
use csi_report::{DestinationError, MergeError, StoredError};
use csi_suite_e2e::definition::ClassErrors;
use csi_suite_e2e::kube_cluster::connect::ConnectError;
use csi_suite_e2e::kube_cluster::definition::DefinedError;
use csi_suite_load::merge::MergeError as LoadMergeError;
use csi_suite_load::report::ReadError;

use crate::embedded::EmbeddedError;
use crate::exit::Exit;

/// The reason why the program could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{flag}: {problem}")]
    Flag { flag: &'static str, problem: String },
    #[error("{0}")]
    Settings(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("--cleanup: failed to look for what earlier runs have left")]
    Remains(#[source] io::Error),
    #[error("{flag}: {source}")]
    ValueFile { flag: &'static str, source: ConfigError },
    #[error("--secrets: {}: {problem}", path.display())]
    Secrets { path: PathBuf, problem: String },
    #[error(transparent)]
    KnownFailing(#[from] KnownFailingError),
    #[error("the known-failing list is out of date; these patterns match no check:\n  {}", .0.join("\n  "))]
    KnownFailingStale(Vec<String>),
    #[error(
        "no check is selected; `csi-sanity list` shows all of them, and `csi-sanity e2e --plan` those of Kubernetes"
    )]
    NothingSelected,
    #[error("--filter: {0}; `csi-sanity list` shows all of them")]
    IdleFilter(String),
    #[error("--filter: {0}; `csi-sanity coverage` shows all of them")]
    IdleRequirement(String),
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error(transparent)]
    Definition(#[from] LoadError),
    #[error(transparent)]
    DefinedClasses(#[from] ClassErrors),
    #[error("{0}")]
    UnknownId(String),
    #[error("failed to write --report {format}")]
    Report { format: &'static str, source: DestinationError },
    #[error("failed to write --results {format}")]
    Results { format: &'static str, source: DestinationError },
    #[error("failed to write {} reports:\n  {}", .0.len(), .0.join("\n  "))]
    Reports(Vec<String>),
    #[error("--output: the list was not written")]
    List { source: DestinationError },
    #[error("--bundle: the archive was not written")]
    Bundle { source: DestinationError },
    #[error("--bundle: failed to pack the archive")]
    Packing(#[source] io::Error),
    #[error("{}: not an archive of csi-sanity, which --bundle FILE writes: {problem}", path.display())]
    NoBundle { path: PathBuf, problem: String },
    #[error("failed to read the archive {}", path.display())]
    UnreadableBundle { path: PathBuf, source: io::Error },
    #[error("--only-failed: {0}")]
    NothingFailed(String),
    #[error(transparent)]
    StoredReport(#[from] StoredError),
    #[error(transparent)]
    LoadResults(#[from] ReadError),
    #[error(transparent)]
    LoadMerge(#[from] LoadMergeError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error("failed to read the directory {}", path.display())]
    ReportDirectory { path: PathBuf, source: io::Error },
    #[error("failed to open {} for the output of the driver (--driver-log)", path.display())]
    DriverLog { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Cluster(String),
    #[error("--driver-definition {}: {source}", path.display())]
    DefinedInCluster { path: PathBuf, source: DefinedError },
    #[error(
        "--driver-definition: DriverInfo.Name is {expected:?}, but the driver at {place} {actual}; in a cluster every claim \
         would stay Pending. Correct the name, or name the socket of the right driver with --endpoint"
    )]
    OtherDriver { expected: String, actual: String, place: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error("failed to write to the standard output")]
    Output(#[from] io::Error),
    #[error("failed to read what a pod is to do")]
    Sandbox(#[source] io::Error),
    #[error("failed to write {}", path.display())]
    Draft { path: PathBuf, source: io::Error },
    #[error("failed to make a temporary directory")]
    Scratch(#[source] io::Error),
    #[error("failed to start the runtime")]
    Runtime(#[source] io::Error),
}

impl Error {
    pub(crate) fn flag(flag: &'static str, problem: impl Into<String>) -> Error {
        Error::Flag { flag, problem: problem.into() }
    }

    /// The exit code for it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Error::Flag { .. }
            | Error::Settings(_)
            | Error::Config(_)
            | Error::ValueFile { .. }
            | Error::Secrets { .. }
            | Error::KnownFailing(_)
            | Error::DriverLog { .. }
            | Error::Draft { .. }
            | Error::Case(_)
            | Error::Definition(_)
            | Error::DefinedClasses(_)
            | Error::Connect(_)
            | Error::OtherDriver { .. }
            | Error::StoredReport(_)
            | Error::LoadResults(_)
            | Error::ReportDirectory { .. }
            | Error::NoBundle { .. }
            | Error::UnreadableBundle { .. }
            | Error::UnknownId(_) => Exit::Usage,
            Error::Report { source, .. }
            | Error::Results { source, .. }
            | Error::List { source }
            | Error::Bundle { source } => match source {
                DestinationError::Open { .. } => Exit::Usage,
                DestinationError::Write { .. } => Exit::Broken,
            },
            // The missing part may contain the failure.
            Error::Merge(MergeError::Missing { .. }) | Error::LoadMerge(LoadMergeError::Missing { .. }) => {
                Exit::Broken
            }
            Error::Merge(_) | Error::LoadMerge(_) => Exit::Usage,
            Error::DefinedInCluster { source, .. } => match source {
                DefinedError::Cluster(_) => Exit::Broken,
                DefinedError::File(_) | DefinedError::Missing { .. } | DefinedError::Wrong { .. } => {
                    Exit::Usage
                }
            },
            Error::Target(source) => match source {
                TargetError::NoEndpoint
                | TargetError::Endpoint(_)
                | TargetError::Workdir(_)
                | TargetError::Proxy { .. } => Exit::Usage,
                TargetError::Dial(_)
                | TargetError::Start(_)
                | TargetError::Ended { .. }
                | TargetError::NotADriver { .. } => Exit::Broken,
            },
            Error::KnownFailingStale(_) => Exit::KnownFailingStale,
            Error::NothingSelected
            | Error::IdleFilter(_)
            | Error::IdleRequirement(_)
            | Error::NothingFailed(_) => Exit::NothingSelected,
            // `csi-sanity list | head` has read enough.
            Error::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
            Error::Cluster(_)
            | Error::Reports(_)
            | Error::Packing(_)
            | Error::Embedded(_)
            | Error::Output(_)
            | Error::Remains(_)
            | Error::Sandbox(_)
            | Error::Scratch(_)
            | Error::Runtime(_) => Exit::Broken,
        }
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Error {
        match error {
            PlanError::KnownFailing(source) => source.into(),
            PlanError::KnownFailingStale(patterns) => Error::KnownFailingStale(patterns),
            PlanError::NothingSelected => Error::NothingSelected,
        }
    }
}
