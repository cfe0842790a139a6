//! The directory in which a driver keeps what it knows, where a check has left it in a state with which the driver does not start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Times that one directory is put aside.
const ASIDE_MAX: u32 = 20;

/// Puts the directory aside, with an empty one in its place. Returns where the old one is now: `STATE.ruined-1` beside it.
///
/// # Errors
/// It cannot be renamed, as where it is a mount point, or that was done too often.
pub(crate) fn put_aside(dir: &Path) -> io::Result<PathBuf> {
    let permissions = fs::metadata(dir)?.permissions();
    let name = dir.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let place = |number: u32| dir.with_file_name(format!("{}.ruined-{number}", name.to_string_lossy()));
    let free = (1..=ASIDE_MAX).map(place).find(|place| place.symlink_metadata().is_err());
    let aside = free.ok_or_else(|| io::Error::other(format!("{ASIDE_MAX} states were put aside already")))?;
    fs::rename(dir, &aside)?;
    fs::create_dir(dir)?;
    fs::set_permissions(dir, permissions)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_and_the_driver_finds_an_empty_directory() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("state");
        fs::create_dir(&state).expect("a directory");
        for number in 1..=ASIDE_MAX {
            fs::write(state.join("state.json"), number.to_string()).expect("a file");
            let aside = put_aside(&state).expect("a name that is free");
            assert_eq!(aside, root.path().join(format!("state.ruined-{number}")));
            assert_eq!(fs::read_to_string(aside.join("state.json")).expect("the file"), number.to_string());
            assert_eq!(fs::read_dir(&state).expect("a directory").count(), 0);
        }
        assert!(put_aside(&state).is_err());
    }
}
