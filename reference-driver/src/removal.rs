//! Removes a directory with its content, even if a workload has nested it deeply.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, fstat};
use rustix::io::Errno;

use crate::copy::open_directory;

/// Removes a directory and its content. It keeps a single directory open and does not recurse, so that neither file
/// descriptors nor the stack run out.
pub(crate) fn remove_tree(root: &Path) -> io::Result<()> {
    let mut here = open_directory(CWD, root)?;
    let mut ancestors: Vec<Descent> = Vec::new();
    while let Some(next) = next_step(&here, &mut ancestors)? {
        here = next;
    }
    Ok(rustix::fs::unlinkat(CWD, root, AtFlags::REMOVEDIR)?)
}

/// A step into a subdirectory, with what is needed to go back.
struct Descent {
    /// The device and inode of the parent.
    above: (u64, u64),
    /// The name of the subdirectory in its parent.
    name: CString,
}

/// Removes everything in a directory except subdirectories with content. Then enters the first of those, or goes back
/// to the parent; returns `None` when the root is empty.
fn next_step(here: &OwnedFd, ancestors: &mut Vec<Descent>) -> io::Result<Option<OwnedFd>> {
    for entry in Dir::read_from(here)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match rustix::fs::unlinkat(here, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            result => {
                result?;
                continue;
            }
        }
        match rustix::fs::unlinkat(here, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let below = open_directory(here, name)?;
                ancestors.push(Descent { above: identity(here)?, name: name.to_owned() });
                return Ok(Some(below));
            }
            result => result?,
        }
    }
    let Some(step) = ancestors.pop() else { return Ok(None) };
    let above = open_directory(here, c"..")?;
    // A process that still has the directory open may have moved it, and then `..` would lead out of the tree.
    if identity(&above)? != step.above {
        return Err(io::Error::other("a directory was moved while it was being removed"));
    }
    rustix::fs::unlinkat(&above, step.name, AtFlags::REMOVEDIR)?;
    Ok(Some(above))
}

fn identity(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_moved_during_removal_is_left() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("volume/inner");
        std::fs::create_dir_all(inner.join("full")).unwrap();
        let here = open_directory(CWD, root.path().join("volume")).unwrap();
        std::fs::create_dir(inner.join("full/x")).unwrap();
        let mut ancestors = Vec::new();
        let below = next_step(&here, &mut ancestors).unwrap().unwrap();
        let moved = root.path().join("moved");
        std::fs::rename(&inner, &moved).unwrap();
        std::fs::remove_dir_all(moved.join("full")).unwrap();
        let error = next_step(&below, &mut ancestors).unwrap_err();
        assert!(error.to_string().contains("moved while"), "{error}");
        assert!(moved.exists());
    }
}
