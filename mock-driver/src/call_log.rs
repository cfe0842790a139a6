//! A log file with a line of JSON for every call.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use csi_proto::lock::Mutex;
use csi_proto::{code_name, redact};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::config::ConfigError;

/// Appends calls to a file, without their secrets.
#[derive(Debug)]
pub(crate) struct CallLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl CallLog {
    pub(crate) fn open(path: &Path) -> Result<Self, ConfigError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| ConfigError::CallLog { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Logs the request, the reply and the duration of a call. The reply of a stream is its list of messages.
    pub(crate) fn write<Q, S>(
        &self,
        method: &str,
        request: &Q,
        answer: Result<&[S], &Status>,
        duration: Duration,
    ) -> Result<(), Status>
    where
        Q: prost::Name,
        S: prost::Name,
    {
        let mut line = json!({
            "rpc": method,
            "request": redact::json(request),
            "code": code_name(answer.map_or_else(Status::code, |_| Code::Ok)),
            "duration_us": u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        });
        match answer {
            Ok([response]) => line["response"] = redact::json(response),
            Ok(responses) => line["responses"] = Value::from(responses.len()),
            Err(status) => line["message"] = Value::from(status.message()),
        }
        let mut file = self.file.lock();
        // A line is written in one piece, so that lines of concurrent calls do not mix.
        file.write_all(format!("{line}\n").as_bytes())
            .map_err(|error| Status::internal(format!("write call log {}: {error}", self.path.display())))
    }
}
