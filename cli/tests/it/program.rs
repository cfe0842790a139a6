//! Runs the program.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Returns the program as a command, without the environment variables that set endpoints and colours.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-sanity"));
    command.env_remove("CSI_ENDPOINT").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// This is the output of a program that has finished.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Said {
    program().args(arguments).output().unwrap().into()
}

/// Runs the program, and demands an exit code and these texts on the standard error.
pub(crate) fn check(arguments: &[&str], code: i32, in_stderr: &[&str]) -> Said {
    let said = run(arguments);
    let printed = format!("{arguments:?}\n--- stdout\n{}\n--- stderr\n{}", said.stdout, said.stderr);
    assert_eq!(said.code, Some(code), "{printed}");
    for text in in_stderr {
        assert!(said.stderr.contains(text), "{text:?} is missing: {printed}");
    }
    said
}

/// This directory has the files of a test, and is removed with this value.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of a file, which need not exist.
    pub(crate) fn path(&self, name: &str) -> String {
        self.root().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.root().join(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs the program to its end, with this directory for its temporary files.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        program().env("TMPDIR", self.root()).args(arguments).output().unwrap().into()
    }
}

/// Reads a file with JSON, such as a report.
pub(crate) fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
