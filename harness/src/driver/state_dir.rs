//! The directory in which a driver keeps what it knows, where a check has left it in a state with which the driver does not start.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Times that one directory is put aside.
const ASIDE_MAX: u32 = 20;

/// Puts the directory aside, with an empty one in its place. Returns where the old one is now: `STATE.ruined-1` beside it.
///
/// # Errors
/// It can be neither renamed nor, where something is mounted on it, copied and emptied; or that was done too often.
pub(crate) fn put_aside(dir: &Path) -> io::Result<PathBuf> {
    let permissions = fs::metadata(dir)?.permissions();
    let name = dir.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let place = |number: u32| dir.with_file_name(format!("{}.ruined-{number}", name.to_string_lossy()));
    let free = (1..=ASIDE_MAX).map(place).find(|place| place.symlink_metadata().is_err());
    let aside = free.ok_or_else(|| io::Error::other(format!("{ASIDE_MAX} states were put aside already")))?;
    match fs::rename(dir, &aside) {
        // Something is mounted on it.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            copy(dir, &aside)?;
            empty(dir)?;
        }
        renamed => {
            renamed?;
            fs::create_dir(dir)?;
            fs::set_permissions(dir, permissions)?;
        }
    }
    Ok(aside)
}

/// Copies a directory with all that is in it, to one that is not there yet; holes of files stay holes.
fn copy(dir: &Path, to: &Path) -> io::Result<()> {
    let copied = Command::new("cp").arg("-a").arg("--").arg(dir).arg(to).stdin(Stdio::null()).output()?;
    match copied.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&copied.stderr).trim().to_owned())),
    }
}

/// Removes what is in a directory, for good: no loss of power brings it back.
fn empty(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    File::open(dir)?.sync_all()
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

    #[test]
    fn what_is_mounted_there_is_copied_and_emptied() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("state");
        fs::create_dir_all(state.join("volumes")).expect("a directory");
        fs::write(state.join("volumes/one"), "data").expect("a file");
        rustix::mount::mount_bind(&state, &state).expect("root can mount");
        let aside = put_aside(&state);
        let left = fs::read_dir(&state).expect("a directory").count();
        rustix::mount::unmount(&state, rustix::mount::UnmountFlags::DETACH).expect("it was mounted");
        let aside = aside.expect("a state that was put aside");
        assert_eq!(fs::read_to_string(aside.join("volumes/one")).expect("the file"), "data");
        assert_eq!(left, 0);
    }
}
