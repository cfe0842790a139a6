//! Files and directories of a target.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// A new directory: in memory if there is such a place, since there are thousands a second.
pub(crate) fn directory() -> TempDir {
    csi_test_support::mock::directory().expect("a directory for files")
}

/// The directory of this thread, the same each time.
pub(crate) fn directory_of_thread() -> PathBuf {
    thread_local! {
        static DIRECTORY: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    }
    DIRECTORY.with_borrow_mut(|kept| kept.get_or_insert_with(directory).path().to_owned())
}

/// A file of this name with these bytes, until the next one.
pub(crate) fn with(name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory_of_thread().join(name);
    fs::write(&path, bytes).expect("a file in a directory of ours");
    path
}
