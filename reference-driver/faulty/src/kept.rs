//! Lines in files of the driver's directory, so that a defect finds after a kill or a reboot what the driver noted before.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_proto::lock::Mutex;

/// The targets of volumes in use.
pub(crate) const TARGETS: &str = "targets";
/// Paths at which the driver that trusts its records has recorded a volume.
pub(crate) const RECORDED_PATHS: &str = "recorded-paths";
/// Calls that were begun and are not finished.
pub(crate) const UNFINISHED: &str = "unfinished";

/// The directory of the driver.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    directory: PathBuf,
    /// Held while a file changes, since all nodes of the driver share it.
    changes: Arc<Mutex<()>>,
}

impl Kept {
    pub(crate) fn new(directory: &Path) -> Kept {
        Kept { directory: directory.to_owned(), changes: Arc::default() }
    }

    /// The lines of a file, which may not be there.
    pub(crate) fn lines(&self, file: &str) -> BTreeSet<String> {
        let text = fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Removes a file, and returns its lines.
    pub(crate) fn take(&self, file: &str) -> BTreeSet<String> {
        let _changes = self.changes.lock();
        let lines = self.lines(file);
        // It may not be there.
        let _ = fs::remove_file(self.directory.join(file));
        lines
    }

    /// Changes the lines of a file, and returns the result of the change; `None` if the file system is full, so that nothing is noted.
    pub(crate) fn change<T>(&self, file: &str, change: impl FnOnce(&mut BTreeSet<String>) -> T) -> Option<T> {
        let _changes = self.changes.lock();
        let mut lines = self.lines(file);
        let result = change(&mut lines);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        write(&self.directory.join(file), &text).then_some(result)
    }
}

/// Writes a file. Returns false if the file system is full, as some tests make it.
fn write(file: &Path, text: &str) -> bool {
    match fs::write(file, text) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => false,
        written => {
            written.unwrap();
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_there_for_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let kept = Kept::new(directory.path());
        assert_eq!(kept.change(TARGETS, |lines| lines.insert("/a b".to_owned())), Some(true));
        assert_eq!(kept.change(TARGETS, |lines| lines.insert("/a b".to_owned())), Some(false));
        let next = Kept::new(directory.path());
        assert_eq!(next.take(TARGETS), BTreeSet::from(["/a b".to_owned()]));
        assert_eq!(next.lines(TARGETS), BTreeSet::new());
    }

    #[test]
    fn a_full_file_system_is_no_panic() {
        assert!(!write(Path::new("/dev/full"), "a snapshot\n"));
    }
}
