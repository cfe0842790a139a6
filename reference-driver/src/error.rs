//! Everything that can go wrong while a call is served, and the one place that turns it into a gRPC code.

use std::io;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

use crate::ids::Shown;
use crate::store::StoreError;
use crate::tool::ToolError;
use csi_proto::health::HealthFileError;

/// The longest text of a status in bytes; it travels in a header, where escapes make it three times as long.
const MESSAGE_BYTES_MAX: usize = 2048;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A mandatory field is empty (GEN-ERR-004).
    #[error("{field} is missing")]
    Missing {
        /// The field as the protocol spells it.
        field: &'static str,
    },
    /// A field has a bad or unsupported value (GEN-ERR-005).
    #[error("{field} is not valid: {reason}")]
    Invalid {
        /// The field as the protocol spells it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// No object has that identifier.
    #[error("{kind} {id} does not exist")]
    NotFound {
        /// Volume, snapshot, group snapshot or node.
        kind: &'static str,
        /// The identifier, fit to be shown.
        id: String,
    },
    /// The volume is not where the call says it is.
    #[error("volume {id} is not at {path}")]
    NotAtPath {
        /// The identifier, fit to be shown.
        id: String,
        /// The path, fit to be shown.
        path: String,
    },
    /// Something incompatible has the name, the attachment or the path already.
    #[error("{what} exists already: {reason}")]
    Exists {
        /// What exists.
        what: String,
        /// In what it differs from the request.
        reason: String,
    },
    /// Another operation on the same object is under way (GEN-ERR-007).
    #[error("another operation on {what} is under way")]
    Busy {
        /// The object that is busy.
        what: String,
    },
    /// The object is not in the state that the call needs.
    #[error("{what}: {reason}")]
    Precondition {
        /// The object.
        what: String,
        /// What stands in the way.
        reason: String,
    },
    /// A size that is never allowed.
    #[error("capacity range cannot be met: {reason}")]
    OutOfRange {
        /// Which bound is broken.
        reason: String,
    },
    /// There is no room or slot left.
    #[error("not enough {resource}: {reason}")]
    Exhausted {
        /// Storage, or volumes on the node.
        resource: &'static str,
        /// Asked for, and available.
        reason: String,
    },
    /// The list does not continue from that token.
    #[error("starting_token does not come from this list")]
    Token,
    /// The call is switched off.
    #[error("{what} is switched off")]
    Disabled {
        /// The RPC or feature.
        what: &'static str,
    },
    /// The process lacks CAP_SYS_ADMIN.
    #[error("{what} needs CAP_SYS_ADMIN, which this driver runs without")]
    Unprivileged {
        /// What would need it.
        what: &'static str,
    },
    /// The state could not be read or written.
    #[error("failed to access the state: {0}")]
    Store(#[from] StoreError),
    /// A file that tells health cannot be read, which nobody may take for health.
    #[error(transparent)]
    Health(#[from] HealthFileError),
    /// A helper program failed.
    #[error("failed to run a helper program: {0}")]
    Tool(#[from] ToolError),
    /// An operation of the operating system failed.
    #[error("failed to {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The result of serving a call.
pub(crate) type Result<T> = std::result::Result<T, DriverError>;

impl DriverError {
    /// An invalid field.
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> DriverError {
        DriverError::Invalid { field, reason: reason.into() }
    }

    /// An unknown object.
    pub fn not_found(kind: &'static str, id: &str) -> DriverError {
        DriverError::NotFound { kind, id: Shown(id).to_string() }
    }

    /// An object in the wrong state.
    pub fn precondition(what: impl Into<String>, reason: impl Into<String>) -> DriverError {
        DriverError::Precondition { what: what.into(), reason: reason.into() }
    }

    /// A range that cannot be met.
    pub fn out_of_range(reason: impl Into<String>) -> DriverError {
        DriverError::OutOfRange { reason: reason.into() }
    }

    /// The code that the catalogue asks for.
    pub fn code(&self) -> Code {
        match self {
            DriverError::Missing { .. } | DriverError::Invalid { .. } => Code::InvalidArgument,
            DriverError::NotFound { .. } | DriverError::NotAtPath { .. } => Code::NotFound,
            DriverError::Exists { .. } => Code::AlreadyExists,
            DriverError::Busy { .. } | DriverError::Token => Code::Aborted,
            DriverError::Precondition { .. } | DriverError::Unprivileged { .. } => Code::FailedPrecondition,
            DriverError::OutOfRange { .. } => Code::OutOfRange,
            DriverError::Exhausted { .. } => Code::ResourceExhausted,
            DriverError::Disabled { .. } => Code::Unimplemented,
            DriverError::Io { source, .. } if is_full(source) => Code::ResourceExhausted,
            DriverError::Store(error) if error.is_full() => Code::ResourceExhausted,
            DriverError::Store(_)
            | DriverError::Health(_)
            | DriverError::Tool(_)
            | DriverError::Io { .. } => Code::Internal,
        }
    }
}

impl From<DriverError> for Status {
    fn from(error: DriverError) -> Status {
        let mut message = error.to_string();
        let cut = (0..=MESSAGE_BYTES_MAX.min(message.len())).rfind(|at| message.is_char_boundary(*at));
        message.truncate(cut.unwrap_or(0));
        Status::new(error.code(), message)
    }
}

/// Whether the error says that storage has run out.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds what was tried, and on what, to an error of the operating system.
pub(crate) trait IoContext<T> {
    /// Turns the error into a [`DriverError::Io`].
    fn on(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn on(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|error| DriverError::Io { action, path: path.to_owned(), source: error.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let status = Status::from(DriverError::invalid("name", "ü".repeat(100_000)));
        assert!(status.message().len() <= MESSAGE_BYTES_MAX && status.message().ends_with('ü'));
    }

    #[test]
    fn a_full_disk_is_resource_exhausted() {
        let full: std::result::Result<(), _> = Err(io::Error::from_raw_os_error(28));
        assert_eq!(full.on("write", Path::new("/x")).unwrap_err().code(), Code::ResourceExhausted);
    }
}
