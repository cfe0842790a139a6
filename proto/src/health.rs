//! Health as files tell it, for drivers that are told what to report.
//!
//! The files are those that the Go hostpath driver reads, so that a script for one drives the others: `VOLUME.health` for
//! what controller and nodes see of a volume, `VOLUME.controller.health` and `VOLUME.node.health` for what one of them
//! sees, and `storage.health` for the storage system. A file holds an object with `status`, `reason` and `message`, or a
//! list of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::v1;
use crate::v1::node_get_storage_health_response::StorageBackendHealth;
use crate::v1::volume_health::VolumeHealthEntry;

/// Bytes read of a file at the most.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Things that a file can say are wrong at the most.
const ENTRIES_MAX: usize = 256;

/// Who looks at a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The Controller service.
    Controller,
    /// The Node service.
    Node,
}

/// A directory with files that tell health.
#[derive(Clone, Debug)]
pub struct HealthFiles {
    directory: PathBuf,
}

/// A file that does not tell how things are. Nobody may take that for health.
#[derive(Debug, thiserror::Error)]
#[error("failed to read health from {}: {problem}", path.display())]
pub struct HealthFileError {
    path: PathBuf,
    problem: String,
}

/// Messages, by status and reason, of which no pair may be told twice.
type Said = BTreeMap<(i32, String), String>;

impl HealthFiles {
    /// The files in this directory, which need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> HealthFiles {
        HealthFiles { directory: directory.into() }
    }

    /// What is wrong with a volume, as this side sees it.
    ///
    /// # Errors
    /// A file is there and cannot be read.
    pub fn of_volume(&self, id: &str, side: Side) -> Result<Vec<VolumeHealthEntry>, HealthFileError> {
        // An id that is no name of a file has none.
        if id.is_empty() || id.contains(['/', '\0']) || id == "storage" {
            return Ok(Vec::new());
        }
        let own = match side {
            Side::Controller => "controller",
            Side::Node => "node",
        };
        let status = |text: &str| v1::VolumeHealthErrorType::from_str_name(text).map(|status| status as i32);
        let mut said = self.read(&format!("{id}.health"), status)?;
        said.extend(self.read(&format!("{id}.{own}.health"), status)?);
        let entry = |((status, reason), message)| VolumeHealthEntry { status, reason, message };
        Ok(said.into_iter().map(entry).collect())
    }

    /// What is wrong with the storage system.
    ///
    /// # Errors
    /// The file is there and cannot be read.
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

    /// What a file says; nothing if there is none.
    fn read(&self, name: &str, status: impl Fn(&str) -> Option<i32>) -> Result<Said, HealthFileError> {
        let path = self.directory.join(name);
        let failed = |problem: String| HealthFileError { path: path.clone(), problem };
        let Some(text) = contents(&path).map_err(|error| failed(error.to_string()))? else {
            return Ok(Said::new());
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        if values.len() > ENTRIES_MAX {
            return Err(failed(format!("more than {ENTRIES_MAX} entries")));
        }
        let said = values.iter().map(|value| said(value, &status).map_err(failed));
        said.collect()
    }
}

/// The text of a file, or nothing if there is none, or none any more.
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

/// The status is the name of csi.proto, or the word that Kubernetes has for it, in whatever case.
fn said(value: &Value, status: &impl Fn(&str) -> Option<i32>) -> Result<((i32, String), String), String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let given = text("status");
    let number = status(&given.to_ascii_uppercase()).or_else(|| status(&snake(&given)));
    let status = number.filter(|number| *number != 0).ok_or_else(|| format!("{given:?} is no status"))?;
    Ok(((status, text("reason")), text("message")))
}

/// `DataLoss` as `DATA_LOSS`.
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
    fn each_side_sees_what_is_told_to_both_and_what_is_told_to_it() {
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
    fn the_storage_system_has_words_of_its_own() {
        for word in ["STORAGE_UNREACHABLE", "StorageUnreachable", "unreachable"] {
            let text = format!(r#"{{"status": "{word}", "reason": "CutOff"}}"#);
            let (_directory, files) = files(&[("storage.health", &text)]);
            assert_eq!(files.of_storage().unwrap()[0].status, 2, "{word}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_health() {
        for text in
            ["", "{}", "[{}]", "healthy", r#"{"status": "FINE", "reason": "Fine"}"#, r#"{"status": 1}"#]
        {
            let (_directory, files) = files(&[("v.health", text)]);
            assert!(files.of_volume("v", Side::Controller).is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_leads_to_no_other_directory() {
        let (directory, _) = files(&[("v.health", "no health")]);
        let below = HealthFiles::new(directory.path().join("below"));
        assert_eq!(below.of_volume("../v", Side::Node).unwrap(), []);
    }
}
