//! The file for the output of the driver.

use std::io;
use std::path::{Path, PathBuf};

use csi_harness::config::Config;
use csi_harness::driver::DriverLog;
use tempfile::TempPath;

use crate::args::OutputArgs;
use crate::error::Error;
use crate::stop::say;

/// The file for the driver's output: the one that the user names, or else one beside the first report, or else a temporary file,
/// which is kept only if something failed.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    temporary: Option<TempPath>,
    keep: bool,
}

impl LogFile {
    /// Chooses the place and opens it.
    pub(crate) fn open(args: &OutputArgs, config: &Config) -> Result<(LogFile, DriverLog), Error> {
        let beside = || args.words.report.iter().find_map(|report| beside(&report.path));
        let (path, temporary) = match args.driver_log.clone().or_else(beside) {
            Some(path) => (path, None),
            None => {
                let file = tempfile::Builder::new().prefix("csi-sanity-driver-").suffix(".log").tempfile();
                let path = file.map_err(|source| failed(&std::env::temp_dir(), source))?.into_temp_path();
                (path.to_path_buf(), Some(path))
            }
        };
        let log = DriverLog::create(&path, config).map_err(|source| failed(&path, source))?;
        Ok((LogFile { path, temporary, keep: false }, log))
    }

    /// Keeps the file in any case, because the user has been given its path.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    /// Closes the file. If the run failed, a message names its path.
    pub(crate) fn close(self, run_failed: bool) {
        let said_something = std::fs::metadata(&self.path).is_ok_and(|file| file.len() > 0);
        let wanted = said_something && (run_failed || self.keep);
        if let Some(temporary) = self.temporary.filter(|_| wanted)
            && let Err(error) = temporary.keep()
        {
            return say(&format!("failed to keep {}: {}", self.path.display(), error.error));
        }
        if said_something && run_failed {
            say(&format!("the output of the driver is in {}", self.path.display()));
        }
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::DriverLog { path: path.to_owned(), source }
}

/// The path of a log beside a report; `None` if the report is no regular file.
fn beside(report: &Path) -> Option<PathBuf> {
    let other = std::fs::metadata(report).is_ok_and(|found| !found.is_file());
    (report != Path::new("-") && !other).then(|| report.with_extension("driver.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_beside_reports_that_are_files() {
        for (report, log) in [
            ("a/r.xml", Some("a/r.driver.log")),
            ("summary", Some("summary.driver.log")),
            ("-", None),
            ("/dev/null", None),
            ("/", None),
        ] {
            assert_eq!(beside(Path::new(report)), log.map(PathBuf::from), "{report}");
        }
    }
}
