//! Runs the program.

use std::process::{Command, Output};

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
