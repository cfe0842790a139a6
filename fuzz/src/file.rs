//! Makes the files and directories of a target.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// Makes a directory, in memory if possible, because thousands are made per second.
pub(crate) fn directory() -> TempDir {
    csi_test_support::mock::directory().expect("a directory for files")
}

/// Returns the directory of this thread, which is made once.
pub(crate) fn directory_of_thread() -> PathBuf {
    thread_local! {
        static DIRECTORY: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    }
    DIRECTORY.with_borrow_mut(|directory_slot| directory_slot.get_or_insert_with(directory).path().to_owned())
}

/// Writes a file of this name, which replaces the previous one.
pub(crate) fn with(name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory_of_thread().join(name);
    fs::write(&path, bytes).expect("a file in a directory of ours");
    path
}
