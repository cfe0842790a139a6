//! Removing a directory with all that is in it, however deep a workload has nested it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, fstat};
use rustix::io::Errno;

use crate::copy::open_directory;

/// Removes a directory and everything in it. Only one directory is open at a time and nothing recurses, so that neither
/// descriptors nor the stack run out.
pub(crate) fn remove_tree(root: &Path) -> io::Result<()> {
    let mut here = open_directory(CWD, root)?;
    let mut way: Vec<Descent> = Vec::new();
    while let Some(next) = next_step(&here, &mut way)? {
        here = next;
    }
    Ok(rustix::fs::unlinkat(CWD, root, AtFlags::REMOVEDIR)?)
}

/// A step down, as it has to be found on the way back.
struct Descent {
    /// The device and the inode of the directory above.
    above: (u64, u64),
    /// The name below it.
    name: CString,
}

/// Empties a directory as far as it holds no full ones, then goes down into the first of those, or back up; `None` at
/// the end of the way.
fn next_step(here: &OwnedFd, way: &mut Vec<Descent>) -> io::Result<Option<OwnedFd>> {
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
                way.push(Descent { above: identity(here)?, name: name.to_owned() });
                return Ok(Some(below));
            }
            result => result?,
        }
    }
    let Some(step) = way.pop() else { return Ok(None) };
    let above = open_directory(here, c"..")?;
    // Somebody who still has the directory open may have moved it, and the way up must not lead out of the root.
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
    fn a_way_back_that_has_changed_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("volume/inner");
        std::fs::create_dir_all(inner.join("full")).unwrap();
        let here = open_directory(CWD, root.path().join("volume")).unwrap();
        std::fs::create_dir(inner.join("full/x")).unwrap();
        let mut way = Vec::new();
        let below = next_step(&here, &mut way).unwrap().unwrap();
        let moved = root.path().join("moved");
        std::fs::rename(&inner, &moved).unwrap();
        std::fs::remove_dir_all(moved.join("full")).unwrap();
        let error = next_step(&below, &mut way).unwrap_err();
        assert!(error.to_string().contains("moved while"), "{error}");
        assert!(moved.exists());
    }
}
