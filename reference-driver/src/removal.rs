//! Removing a directory with all that is in it, however deep a workload has nested it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir};
use rustix::io::Errno;

use crate::copy::open_directory;

/// Removes a directory and everything in it. Only one directory is open at a time and nothing recurses, so that neither
/// descriptors nor the stack run out. Nobody else may use the directory meanwhile.
pub(crate) fn remove_tree(root: &Path) -> io::Result<()> {
    let mut here = open_directory(CWD, root)?;
    let mut way: Vec<CString> = Vec::new();
    while let Some(step) = next_step(&here, &mut way)? {
        here = step;
    }
    Ok(rustix::fs::unlinkat(CWD, root, AtFlags::REMOVEDIR)?)
}

/// Empties a directory as far as it holds no full ones, then goes down into the first of those, or back up; `None` at
/// the end of the way.
fn next_step(here: &OwnedFd, way: &mut Vec<CString>) -> io::Result<Option<OwnedFd>> {
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
                way.push(name.to_owned());
                return Ok(Some(below));
            }
            result => result?,
        }
    }
    let Some(name) = way.pop() else { return Ok(None) };
    let above = open_directory(here, c"..")?;
    rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR)?;
    Ok(Some(above))
}
