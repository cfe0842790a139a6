//! Freezes mounted file systems while they are copied, and makes sure that none stays frozen.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::error::{IoContext, Result};
use crate::kernel;
use crate::paths::PathEntry;

/// A file system whose writers are blocked until this value is dropped.
#[derive(Debug)]
pub(crate) struct Frozen {
    mount_point: OwnedFd,
    path: PathBuf,
}

impl Frozen {
    /// Flushes the file system and blocks writers.
    pub(crate) fn freeze(at: &PathEntry) -> Result<Frozen> {
        let mount_point = at.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let path = at.path().to_owned();
        kernel::freeze(mount_point.as_fd()).on("freeze", &path)?;
        Ok(Frozen { mount_point, path })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = kernel::thaw(self.mount_point.as_fd()) {
            tracing::error!(path = %self.path.display(), %error, "a file system could not be thawed");
        }
    }
}

/// Thaws a file system that a killed process may have left frozen; returns whether it was.
pub(crate) fn thaw_leftover(at: &PathEntry) -> Result<bool> {
    let mount_point = at.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    Ok(kernel::thaw(mount_point.as_fd()).is_ok())
}
