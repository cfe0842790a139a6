//! Reads the JSON report of an earlier run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;

use crate::journal::{Run, SCHEMA, SCHEMAS_BEFORE};

/// Bytes of a report that is read.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// The reasons why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error("failed to read the report {file}")]
    Read { file: String, source: std::io::Error },
    #[error("{file}: more than {REPORT_BYTES_MAX} bytes, which no report has")]
    TooLong { file: String },
    /// It is no JSON report.
    #[error("{file}: no JSON report of csi-sanity, which --report json=FILE writes: {problem}")]
    NotOne { file: String, problem: String },
    /// It has a form that this version does not know.
    #[error(
        "{file}: the schema {schema:?} is not known to this version, which reads {SCHEMA:?}; read it with the version of \
         csi-sanity that wrote it"
    )]
    Unknown {
        file: String,
        /// The form that it has.
        schema: String,
    },
}

/// The fields that all versions of the report have.
#[derive(Deserialize)]
struct Versioned {
    schema: Option<String>,
}

impl Run {
    /// Reads a report.
    ///
    /// # Errors
    /// The file cannot be read, is no report, or one of another version of the schema.
    pub fn load(path: &Path) -> Result<Run, StoredError> {
        let file = path.display().to_string();
        let mut text = Vec::new();
        let read = File::open(path).and_then(|open| open.take(REPORT_BYTES_MAX + 1).read_to_end(&mut text));
        match read {
            Ok(bytes) if bytes as u64 > REPORT_BYTES_MAX => Err(StoredError::TooLong { file }),
            Ok(_) => Run::parse(&file, &text),
            Err(source) => Err(StoredError::Read { file, source }),
        }
    }

    /// Reads the contents of a report. `file` is its name in errors.
    ///
    /// # Errors
    /// It is no report, or one of another version of the schema.
    pub fn parse(file: &str, contents: &[u8]) -> Result<Run, StoredError> {
        let not_one = |problem: String| StoredError::NotOne { file: file.to_owned(), problem };
        let Versioned { schema } =
            serde_json::from_slice(contents).map_err(|error| not_one(error.to_string()))?;
        match schema {
            Some(schema) if schema == SCHEMA || SCHEMAS_BEFORE.contains(&schema.as_str()) => {
                serde_json::from_slice(contents).map_err(|error| not_one(error.to_string()))
            }
            Some(schema) => Err(StoredError::Unknown { file: file.to_owned(), schema }),
            None => Err(not_one("it has no field `schema`".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use csi_harness::results::outcome::OutcomeKind;

    use super::*;
    use crate::entry::CheckEntry;

    #[test]
    fn a_report_of_another_version_is_refused_by_name() {
        let error_of = |text: &str| Run::parse("r.json", text.as_bytes()).unwrap_err().to_string();
        assert!(
            error_of("{}").contains("r.json") && error_of("{}").contains("`schema`"),
            "{}",
            error_of("{}")
        );
        assert!(error_of("<html>").contains("--report json=FILE"), "{}", error_of("<html>"));
        let newer = error_of(r#"{"schema": "csi-sanity/report/v9"}"#);
        assert!(newer.contains("csi-sanity/report/v9") && newer.contains(SCHEMA), "{newer}");
        let poor = error_of(&format!(r#"{{"schema": "{SCHEMA}"}}"#));
        assert!(poor.contains("missing field"), "{poor}");
    }

    #[test]
    fn reports_of_versions_before_are_read_by_their_names() {
        for schema in SCHEMAS_BEFORE {
            let before = Run::parse("r.json", format!(r#"{{"schema": "{schema}"}}"#).as_bytes());
            assert!(before.unwrap_err().to_string().contains("missing field"), "{schema} is known");
        }
        let check = r#"{"id": "x", "outcome": "skipped", "message": "", "told_in": "y"}"#;
        assert_eq!(serde_json::from_str::<CheckEntry>(check).unwrap().outcome(), OutcomeKind::SameFault);
    }
}
