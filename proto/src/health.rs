//! Reads the health of volumes and storage from files, so that a test can make a driver report it.
//!
//! The Go hostpath driver reads files of this form, so a script for one driver works with the other: `VOLUME.health`
//! holds what controller and nodes report of a volume, `VOLUME.controller.health` and `VOLUME.node.health` what one
//! of the two reports, and `storage.health` what is reported of the storage system. A file contains an object with
//! `status`, `reason` and `message`, or a list of such objects.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::v1;
use crate::v1::node_get_storage_health_response::StorageBackendHealth;
use crate::v1::volume_health::VolumeHealthEntry;

/// The limit on the bytes read from one file.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The limit on the entries in one file.
const ENTRIES_MAX: usize = 256;

/// The service that reports the health of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The Controller service, which reads `VOLUME.controller.health`.
    Controller,
    /// The Node service, which reads `VOLUME.node.health`.
    Node,
}

/// A directory with health files.
#[derive(Clone, Debug)]
pub struct HealthFiles {
    directory: PathBuf,
}

/// A health file cannot be read or parsed. The caller must not report that as good health.
#[derive(Debug, thiserror::Error)]
#[error("failed to read health from {}: {problem}", path.display())]
pub struct HealthFileError {
    path: PathBuf,
    problem: String,
}

/// The messages by status and reason, because one answer must not repeat a pair.
type Entries = BTreeMap<(i32, String), String>;

impl HealthFiles {
    /// Names the directory, which need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> HealthFiles {
        HealthFiles { directory: directory.into() }
    }

    /// Returns the problems of a volume that this service reports.
    ///
    /// # Errors
    /// Fails if a file exists and cannot be read or parsed.
    pub fn of_volume(&self, id: &str, side: Side) -> Result<Vec<VolumeHealthEntry>, HealthFileError> {
        // Such an id cannot be part of a file's name, or would name the file of the storage system.
        if id.is_empty() || id.contains(['/', '\0']) || id == "storage" {
            return Ok(Vec::new());
        }
        let own = match side {
            Side::Controller => "controller",
            Side::Node => "node",
        };
        let status = |text: &str| v1::VolumeHealthErrorType::from_str_name(text).map(|status| status as i32);
        let mut entries = self.read(&format!("{id}.health"), status)?;
        entries.extend(self.read(&format!("{id}.{own}.health"), status)?);
        let entry = |((status, reason), message)| VolumeHealthEntry { status, reason, message };
        Ok(entries.into_iter().map(entry).collect())
    }

    /// Returns the problems of the storage system.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read or parsed.
    pub fn of_storage(&self) -> Result<Vec<StorageBackendHealth>, HealthFileError> {
        let status = |text: &str| {
            let known = v1::StorageHealthErrorType::from_str_name;
            known(text).or_else(|| known(&format!("STORAGE_{text}"))).map(|status| status as i32)
        };
        let entry = |((status, reason), message)| StorageBackendHealth {
            status,
            reason,
            message,
            volume_capability: None,
        };
        Ok(self.read("storage.health", status)?.into_iter().map(entry).collect())
    }

    /// Returns the entries of a file, or none if it does not exist.
    fn read(&self, name: &str, status: impl Fn(&str) -> Option<i32>) -> Result<Entries, HealthFileError> {
        let path = self.directory.join(name);
        let failed = |problem: String| HealthFileError { path: path.clone(), problem };
        let Some(text) = contents(&path).map_err(|error| failed(error.to_string()))? else {
            return Ok(Entries::new());
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        if values.len() > ENTRIES_MAX {
            return Err(failed(format!("more than {ENTRIES_MAX} entries")));
        }
        values.iter().map(|value| parse_entry(value, &status).map_err(failed)).collect()
    }
}

/// Returns the text of a file, or `None` if it does not exist or was removed meanwhile.
fn contents(path: &Path) -> io::Result<Option<String>> {
    match text_of(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
            Ok(None)
        }
        text => text.map(Some),
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Parses one entry. Its status is the name in csi.proto or the word of Kubernetes for it, in any case.
fn parse_entry(
    value: &Value,
    status: &impl Fn(&str) -> Option<i32>,
) -> Result<((i32, String), String), String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text("status");
    let number = status(&name.to_ascii_uppercase()).or_else(|| status(&snake(&name)));
    let status = number.filter(|number| *number != 0).ok_or_else(|| format!("{name:?} is no status"))?;
    Ok(((status, text("reason")), text("message")))
}

/// Turns `DataLoss` into `DATA_LOSS`.
fn snake(word: &str) -> String {
    let mut snake = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_uppercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(contents: &[(&str, &str)]) -> (tempfile::TempDir, HealthFiles) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in contents {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let files = HealthFiles::new(directory.path());
        (directory, files)
    }

    #[test]
    fn each_service_reads_the_shared_file_and_its_own() {
        let (_directory, files) = files(&[
            ("v.health", r#"{"status": "DEGRADED", "reason": "Slow", "message": "very"}"#),
            (
                "v.node.health",
                r#"[{"status": "DataLoss", "reason": "Gone"}, {"status": "degraded", "reason": "Slow"}]"#,
            ),
        ]);
        let seen = |side| {
            let entries = files.of_volume("v", side).unwrap();
            entries.into_iter().map(|entry| (entry.status, entry.reason)).collect::<Vec<_>>()
        };
        assert_eq!(seen(Side::Controller), [(1, "Slow".to_owned())]);
        assert_eq!(seen(Side::Node), [(1, "Slow".to_owned()), (3, "Gone".to_owned())]);
        assert_eq!(files.of_volume("w", Side::Node).unwrap(), []);
        assert_eq!(files.of_storage().unwrap(), []);
    }

    #[test]
    fn storage_health_has_names_of_its_own() {
        for word in ["STORAGE_UNREACHABLE", "StorageUnreachable", "unreachable"] {
            let text = format!(r#"{{"status": "{word}", "reason": "CutOff"}}"#);
            let (_directory, files) = files(&[("storage.health", &text)]);
            assert_eq!(files.of_storage().unwrap()[0].status, 2, "{word}");
        }
    }

    #[test]
    fn unparsable_file_is_not_health() {
        for text in
            ["", "{}", "[{}]", "healthy", r#"{"status": "FINE", "reason": "Fine"}"#, r#"{"status": 1}"#]
        {
            let (_directory, files) = files(&[("v.health", text)]);
            assert!(files.of_volume("v", Side::Controller).is_err(), "{text}");
        }
    }

    #[test]
    fn id_cannot_name_another_directory() {
        let (directory, _) = files(&[("v.health", "no health")]);
        let below = HealthFiles::new(directory.path().join("below"));
        assert_eq!(below.of_volume("../v", Side::Node).unwrap(), []);
    }
}
