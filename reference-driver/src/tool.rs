//! Runs the helper programs of file systems, with limits on their time and output.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The largest part of the output that is kept.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024;
/// The first and the largest pause between looks at a running program.
const POLL_FIRST: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It could not be started, usually because it is not installed.
    #[error("{program} could not be started: {source}")]
    Start { program: &'static str, source: io::Error },
    #[error("{program} was not started: {} cannot be opened: {source}", path.display())]
    Open { program: &'static str, path: PathBuf, source: io::Error },
    #[error("{program} ended with {status}: {output}")]
    Failed {
        program: &'static str,
        status: ExitStatus,
        /// The beginning of its output.
        output: String,
    },
    #[error("{program} was stopped after {seconds} s")]
    Timeout { program: &'static str, seconds: u64 },
}

/// Runs a program to its end on a device or a mount point, which becomes its last argument. Exit codes other than the
/// accepted ones are errors.
///
/// The program has the device open from its first moment, as its standard input. If this process is killed before the
/// program has opened the device itself, the kernel would otherwise detach it and give its number to the next one who
/// asks, and the program would format that one's data.
pub(crate) fn run(
    program: &'static str,
    options: impl IntoIterator<Item = impl AsRef<OsStr>>,
    on: &Path,
    accepted: &[i32],
    limit: Duration,
) -> Result<(), ToolError> {
    let start = |source| ToolError::Start { program, source };
    let held = File::open(on).map_err(|source| ToolError::Open { program, path: on.to_owned(), source })?;
    let mut child = Command::new(program)
        .args(options)
        .arg(on)
        .env("LC_ALL", "C")
        .stdin(held)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let readers = [child.stdout.take().map(keep_start), child.stderr.take().map(keep_start)];
    let status = wait(&mut child, limit).map_err(start)?;
    let output =
        readers.into_iter().flatten().filter_map(|reader| reader.join().ok()).collect::<Vec<_>>().join("; ");
    match status {
        None => Err(ToolError::Timeout { program, seconds: limit.as_secs() }),
        Some(status) if status.code().is_some_and(|code| accepted.contains(&code)) => Ok(()),
        Some(status) => Err(ToolError::Failed { program, status, output }),
    }
}

/// Waits for the child; returns `None` if it had to be killed after the time limit.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    let mut poll = POLL_FIRST;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(poll);
        poll = (poll * 2).min(POLL_MAX);
    }
}

/// Reads a pipe to its end, so that the child never blocks, and keeps the beginning.
fn keep_start(pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut pipe = pipe.take(u64::MAX);
        let _ = (&mut pipe).take(OUTPUT_BYTES_MAX).read_to_end(&mut kept);
        let _ = io::copy(&mut pipe, &mut io::sink());
        String::from_utf8_lossy(&kept).trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn exit_codes_are_judged_and_output_is_kept() {
        run("sh", ["-c", "exit 1"], Path::new("/"), &[0, 1], LIMIT).unwrap();
        let error = run("sh", ["-c", "echo why >&2; exit 3"], Path::new("/"), &[0], LIMIT).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
    }

    #[test]
    fn a_program_has_its_device_open_from_its_first_moment() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let same = r#"test "$(readlink /proc/self/fd/0)" = "$0""#;
        run("sh", ["-c", same], device.path(), &[0], LIMIT).unwrap();
    }

    #[test]
    fn a_missing_program_is_an_error() {
        assert!(matches!(
            run("no-such-program", [""], Path::new("/"), &[0], LIMIT),
            Err(ToolError::Start { .. })
        ));
    }

    #[test]
    fn a_hanging_program_is_stopped() {
        let result = run("sh", ["-c", "sleep 60"], Path::new("/"), &[0], Duration::from_millis(50));
        assert!(matches!(result, Err(ToolError::Timeout { .. })));
    }
}
