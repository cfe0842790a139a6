//! All errors of a call, and the one place that maps them to gRPC codes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

use crate::store::error::{StoreError, is_full};
use crate::tool::ToolError;
use csi_proto::health::HealthFileError;

/// The longest message of a status in bytes. It is sent in a header, where percent-encoding can make it three times
/// as long.
const MESSAGE_BYTES_MAX: usize = 2048;
/// The number of characters of a string from a peer that a message shows.
const SHOWN_CHARS_MAX: usize = 128;

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A mandatory field is empty (GEN-ERR-004).
    #[error("{field} is missing")]
    Missing { field: &'static str },
    /// The value is malformed or not supported (GEN-ERR-005).
    #[error("{field} is not valid: {reason}")]
    Invalid { field: &'static str, reason: String },
    #[error("{kind} {id} does not exist")]
    NotFound {
        /// Volume, snapshot, group snapshot or node.
        kind: &'static str,
        id: String,
    },
    /// The volume is not staged or published at the path that the call names.
    #[error("volume {id} is not at {path}")]
    NotAtPath { id: String, path: String },
    /// Something incompatible already has the name, the attachment or the path.
    #[error("{what} exists already: {reason}")]
    Exists {
        what: String,
        /// The difference from the request.
        reason: String,
    },
    /// Another operation on the same object is in progress (GEN-ERR-007).
    #[error("another operation on {what} is under way")]
    Busy { what: String },
    #[error("{what}: {reason}")]
    Precondition { what: String, reason: String },
    #[error("capacity range cannot be met: {reason}")]
    OutOfRange { reason: String },
    #[error("not enough {resource}: {reason}")]
    Exhausted {
        /// Storage, loop devices, or attachment slots.
        resource: &'static str,
        /// The requested and the available amount.
        reason: String,
    },
    #[error("starting_token does not come from this list")]
    Token,
    #[error("{what} is switched off")]
    Disabled { what: &'static str },
    #[error("{what} needs CAP_SYS_ADMIN, which this driver runs without")]
    Unprivileged { what: &'static str },
    #[error("failed to access the state: {0}")]
    Store(#[from] StoreError),
    /// A file with injected health cannot be read. This is an error, because taking it for good health would be
    /// wrong.
    #[error(transparent)]
    Health(#[from] HealthFileError),
    #[error("failed to run a helper program: {0}")]
    Tool(#[from] ToolError),
    #[error("failed to {action} {}: {source}", path.display())]
    Io {
        /// A verb that reads well after "failed to".
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

pub(crate) type Result<T, E = DriverError> = std::result::Result<T, E>;

impl DriverError {
    pub fn invalid(field: &'static str, reason: impl Into<String>) -> DriverError {
        DriverError::Invalid { field, reason: reason.into() }
    }

    pub fn not_found(kind: &'static str, id: &str) -> DriverError {
        DriverError::NotFound { kind, id: Shown(id).to_string() }
    }

    pub fn precondition(what: impl Into<String>, reason: impl Into<String>) -> DriverError {
        DriverError::Precondition { what: what.into(), reason: reason.into() }
    }

    pub fn out_of_range(reason: impl Into<String>) -> DriverError {
        DriverError::OutOfRange { reason: reason.into() }
    }

    /// The gRPC code that the specification asks for.
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

/// Displays a string from a peer: quoted, escaped, and cut after 128 characters.
#[derive(Debug)]
pub(crate) struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((cut, _)) => write!(f, "{:?}…", &self.0[..cut]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// Adds the operation and the path to an error of the operating system.
pub(crate) trait IoContext<T> {
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

    #[test]
    fn shown_text_is_escaped_and_cut() {
        assert_eq!(Shown("a\nb").to_string(), r#""a\nb""#);
        assert!(Shown(&"ü".repeat(1 << 20)).to_string().len() < 300);
    }
}
