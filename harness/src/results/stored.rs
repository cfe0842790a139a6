//! Files that a run leaves for later ones, such as failing cases.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::text::error::error_chain;

/// Writes a file in one step, so that nobody ever reads half of it. Directories above it are made.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// Says how to run a case again, or why it is not stored.
pub fn told<E: Error + 'static>(stored: Result<PathBuf, E>) -> String {
    match stored {
        Ok(path) => format!("stored; to run it again: csi-sanity replay {}", path.display()),
        Err(error) => format!("not stored: {}", error_chain(&error)),
    }
}
