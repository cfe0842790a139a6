//! The directory in which a driver keeps what it knows, where a check has left it in a state with which the driver does not start.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::resources::mounts;

/// States of one check that are kept: what it leaves after that shows nothing new.
const KEPT_OF_CHECK: usize = 3;
/// States of a run that are kept, unless they are the first of a check: no check takes that one from another.
const KEPT_MAX: usize = 20;

/// The states that a run has kept in other directories, with the check that left each.
#[derive(Debug, Default)]
pub(crate) struct CorruptState(Vec<(String, PathBuf)>);

/// The place of a state with which the driver does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It was moved to this path.
    Kept(PathBuf),
    /// It was deleted, because this many states of its check or of the run are kept already.
    Deleted(usize),
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disposition::Kept(path) => write!(f, "is kept in {}", path.display()),
            Disposition::Deleted(kept) => write!(f, "was deleted, since {kept} such states are kept already"),
        }
    }
}

impl CorruptState {
    /// Moves the directory away, with an empty one in its place: to `STATE.ruined-1` beside it, or deletes it if enough
    /// are kept. The first one is always kept, so that nothing is deleted that was there before the run.
    ///
    /// # Errors
    /// It can be neither renamed nor, where something is mounted on it, copied and emptied.
    pub(crate) fn quarantine(&mut self, dir: &Path, check: &str) -> io::Result<Disposition> {
        if let Some(kept) = self.enough(check) {
            free(dir)?;
            empty(dir)?;
            return Ok(Disposition::Deleted(kept));
        }
        let moved_to = keep(dir)?;
        // The table of loop devices has canonical paths, too.
        self.0.push((check.to_owned(), fs::canonicalize(&moved_to)?));
        Ok(Disposition::Kept(moved_to))
    }

    /// The number of states that are kept, if no more states of that check are to be kept.
    fn enough(&self, check: &str) -> Option<usize> {
        let of_check = self.0.iter().filter(|(known, _)| known == check).count();
        match of_check {
            0 => None,
            KEPT_OF_CHECK.. => Some(of_check),
            _ => Some(self.0.len()).filter(|kept| *kept >= KEPT_MAX),
        }
    }

    /// Returns true if a file is part of a state that is kept.
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.0.iter().any(|(_, moved_to)| file.starts_with(moved_to))
    }
}

/// Moves the directory away. Returns its new path.
fn keep(dir: &Path) -> io::Result<PathBuf> {
    let permissions = fs::metadata(dir)?.permissions();
    let name = dir.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let place = |number: u32| dir.with_file_name(format!("{}.ruined-{number}", name.to_string_lossy()));
    let mut places = (1..=u32::MAX).map(place);
    let moved_to = places.find(|place| place.symlink_metadata().is_err());
    let moved_to = moved_to.ok_or_else(|| io::Error::other("no name is free next to it"))?;
    match fs::rename(dir, &moved_to) {
        // Something is mounted on it.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            copy(dir, &moved_to)?;
            empty(dir)?;
        }
        renamed => {
            renamed?;
            fs::create_dir(dir)?;
            fs::set_permissions(dir, permissions)?;
        }
    }
    Ok(moved_to)
}

/// Removes what a driver that is gone has mounted in its directory, and the loop devices of its files, which would keep
/// their space.
fn free(dir: &Path) -> io::Result<()> {
    let dir = fs::canonicalize(dir)?;
    for point in mounted_in(&dir) {
        // The mount may have gone with one that contained it.
        let _ = mounts::unmount_below(&point);
    }
    detach_loops(&dir, |_| true).map(drop)
}

/// Detaches those loop devices of files in a directory that are meant, by their names, and returns their number.
///
/// # Errors
/// If losetup cannot be called.
pub fn detach_loops(dir: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<usize> {
    let mut detached = 0;
    for (device, file) in mounts::loops() {
        if is_meant(&device) && Path::new(&file).starts_with(dir) {
            Command::new("losetup").args(["--detach", &device]).stdin(Stdio::null()).output()?;
            detached += 1;
        }
    }
    Ok(detached)
}

/// The mount points in a directory of this canonical name.
fn mounted_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    mounts::points().into_iter().filter(move |point| point != dir && point.starts_with(dir))
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
///
/// # Errors
/// Something is mounted in it, of which nothing is removed.
fn empty(dir: &Path) -> io::Result<()> {
    if let Some(point) = mounted_in(&fs::canonicalize(dir)?).next() {
        return Err(io::Error::other(format!("something is mounted at {}", point.display())));
    }
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

    /// A driver has written a state into the directory that is new to it.
    fn ruin(state: &Path, contents: &str) {
        fs::write(state.join("state.json"), contents).expect("a file");
    }

    fn kept_in(root: &Path) -> usize {
        fs::read_dir(root).expect("a directory").count() - 1
    }

    #[test]
    fn the_first_states_of_each_check_are_kept() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("state");
        fs::create_dir(&state).expect("a directory");
        let mut states = CorruptState::default();
        for number in 1..=KEPT_OF_CHECK {
            ruin(&state, &number.to_string());
            let moved_to = root.path().join(format!("state.ruined-{number}"));
            assert_eq!(
                states.quarantine(&state, "power").expect("a free name"),
                Disposition::Kept(moved_to.clone())
            );
            assert_eq!(
                fs::read_to_string(moved_to.join("state.json")).expect("the file"),
                number.to_string()
            );
            assert_eq!(fs::read_dir(&state).expect("a directory").count(), 0);
            assert!(states.has(&fs::canonicalize(moved_to).expect("it is there").join("state.json")));
        }
        assert!(!states.has(&fs::canonicalize(&state).expect("it is there").join("state.json")));
        for _ in 0..=KEPT_MAX {
            ruin(&state, "one more");
            assert_eq!(
                states.quarantine(&state, "power").expect("it goes on"),
                Disposition::Deleted(KEPT_OF_CHECK)
            );
            assert_eq!(fs::read_dir(&state).expect("a directory").count(), 0);
        }
        for check in 0..=KEPT_MAX {
            for _ in 0..=1 {
                ruin(&state, "of another check");
                states.quarantine(&state, &check.to_string()).expect("it goes on");
            }
        }
        // The last checks have kept their first state, and no second one.
        let checks =
            [&["power".to_owned()][..], &(0..=KEPT_MAX).map(|n| n.to_string()).collect::<Vec<_>>()].concat();
        let kept_of = |check: &String| states.0.iter().filter(|(known, _)| known == check).count();
        assert!(checks.iter().all(|check| kept_of(check) >= 1), "{:?}", states.0);
        assert_eq!(kept_of(&KEPT_MAX.to_string()), 1);
        assert_eq!(kept_in(root.path()), states.0.len());
    }

    #[test]
    fn states_from_before_the_run_are_kept() {
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("state");
        fs::create_dir(&state).expect("a directory");
        for number in 1..=KEPT_MAX {
            let earlier = root.path().join(format!("state.ruined-{number}"));
            fs::create_dir(&earlier).expect("a directory");
            fs::write(earlier.join("state.json"), "of an earlier run").expect("a file");
        }
        ruin(&state, "a setting of the user's");
        let disposition = CorruptState::default().quarantine(&state, "power").expect("a free name");
        assert_eq!(
            disposition,
            Disposition::Kept(root.path().join(format!("state.ruined-{}", KEPT_MAX + 1)))
        );
        assert_eq!(kept_in(root.path()), KEPT_MAX + 1);
    }

    #[test]
    fn nothing_is_deleted_through_a_mount() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        let root = tempfile::tempdir().expect("a directory");
        let (state, export) = (root.path().join("state"), root.path().join("export"));
        fs::create_dir_all(state.join("work")).expect("a directory");
        fs::create_dir(&export).expect("a directory");
        fs::write(export.join("one"), "data").expect("a file");
        rustix::mount::mount_bind(&export, state.join("work")).expect("root can mount");
        assert!(empty(&state).is_err());
        let mut states = CorruptState(vec![("power".to_owned(), PathBuf::new()); KEPT_OF_CHECK]);
        let disposition = states.quarantine(&state, "power");
        // A failing test must leave no mounts behind.
        let _ = mounts::unmount_below(&state.join("work"));
        assert_eq!(
            disposition.expect("what the driver has mounted is taken away"),
            Disposition::Deleted(KEPT_OF_CHECK)
        );
        assert_eq!(fs::read_to_string(export.join("one")).expect("the file"), "data");
        assert_eq!(fs::read_dir(&state).expect("a directory").count(), 0);
    }

    #[test]
    fn the_loop_devices_of_a_deleted_state_are_freed() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root for loop devices");
            return;
        }
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().canonicalize().expect("it is there").join("state");
        fs::create_dir(&state).expect("a directory");
        let image = state.join("image");
        File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("a file");
        let attached = Command::new("losetup").arg("--find").arg(&image).status();
        assert!(attached.expect("losetup is there").success());
        let mut states = CorruptState(vec![("power".to_owned(), PathBuf::new()); KEPT_OF_CHECK]);
        assert_eq!(
            states.quarantine(&state, "power").expect("it is deleted"),
            Disposition::Deleted(KEPT_OF_CHECK)
        );
        // A program that looks into a new device holds it for a moment.
        let is_there = || mounts::loops().values().any(|file| Path::new(file).starts_with(&state));
        for _ in 0..100 {
            if !is_there() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the device of {} is still there", image.display());
    }

    #[test]
    fn what_is_mounted_there_is_copied_and_emptied() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root to mount");
            return;
        }
        let root = tempfile::tempdir().expect("a directory");
        let state = root.path().join("state");
        let kept = root.path().join("state.ruined-1");
        fs::create_dir_all(state.join("volumes")).expect("a directory");
        fs::write(state.join("volumes/one"), "data").expect("a file");
        rustix::mount::mount_bind(&state, &state).expect("root can mount");
        let disposition = CorruptState::default().quarantine(&state, "power");
        let left = fs::read_dir(&state).expect("a directory").count();
        rustix::mount::unmount(&state, rustix::mount::UnmountFlags::DETACH).expect("it was mounted");
        assert_eq!(disposition.expect("a state that was quarantined"), Disposition::Kept(kept.clone()));
        assert_eq!(fs::read_to_string(kept.join("volumes/one")).expect("the file"), "data");
        assert_eq!(left, 0);
    }
}
