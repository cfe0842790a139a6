//! Finds the remains of a volume after its life: mounts, loop devices, files beside those of the driver, and volumes in
//! its list. It only looks at places that the driver was seen to use, so that objects of other programs are not taken
//! for the driver's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::driver_directory::{loop_device, own_parent};
use csi_harness::resources::mounts;

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 10_000;
/// Leftovers that are named.
const NAMED_MAX: usize = 4;
/// Places where a driver puts its mounts and files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Mounts below these directories are the driver's.
    mounts: BTreeSet<PathBuf>,
    /// Loop devices on files below these directories are the driver's.
    images: BTreeSet<PathBuf>,
    /// New entries of these belong to the driver.
    directories: BTreeSet<PathBuf>,
}

/// The objects that exist at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    there: BTreeSet<String>,
    /// All mount points, including those that other programs made.
    points: BTreeSet<PathBuf>,
}

impl Places {
    /// The places of the tests, which no other program uses.
    pub(crate) fn of_tests(cx: &Cx, staging_path: &str) -> Places {
        let staging = Path::new(staging_path).parent().filter(|_| !staging_path.is_empty());
        let mounts = [Some(cx.kubelet_dir()), staging].into_iter().flatten().map(Path::to_owned).collect();
        Places { mounts, ..Places::default() }
    }

    /// Learns a place from the device behind a path of a volume: other programs may attach and mount meanwhile.
    pub(crate) fn learn_behind(&mut self, path: &str) {
        let devices: BTreeSet<String> = mounts::at(Path::new(path)).iter().filter_map(loop_device).collect();
        let files = mounts::loops().into_iter().filter(|(device, _)| devices.contains(device));
        self.images.extend(files.filter_map(|(_, file)| own_parent(Path::new(&file))));
    }

    /// Learns it from paths that the driver has named.
    pub(crate) fn learn_paths(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let of_tests = self.mounts.clone();
        let is_its = |dir: &PathBuf| dir.is_dir() && !of_tests.iter().any(|own| dir.starts_with(own));
        self.directories.extend(paths.into_iter().filter_map(|path| own_parent(&path)).filter(is_its));
    }

    /// The directories below which the tests have volumes mounted.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().map(PathBuf::as_path)
    }

    /// The directory in and below which most of these files lie, of those that are not everybody's.
    pub(crate) fn own_directory(&self, files: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
        let mut files_in = BTreeMap::<PathBuf, u32>::new();
        // Neither those of the tests nor one that they are in.
        let is_its = |dir: &PathBuf| {
            dir.is_dir() && !self.mounts.iter().any(|own| own.starts_with(dir) || dir.starts_with(own))
        };
        for dir in files.filter_map(|file| own_parent(&file)).filter(is_its) {
            *files_in.entry(dir).or_default() += 1;
        }
        let is_above = |dir: &PathBuf| !files_in.keys().any(|other| other != dir && dir.starts_with(other));
        let below = |dir: &PathBuf| -> u32 {
            files_in.iter().filter(|(other, _)| other.starts_with(dir)).map(|(_, files)| files).sum()
        };
        let dir = files_in.keys().filter(|dir| is_above(dir)).max_by_key(|dir| below(dir))?;
        fs::canonicalize(dir).ok()
    }

    /// Leaves out where something is left also of a life without fault.
    pub(crate) fn forget(&mut self, left: &[String]) {
        self.directories.retain(|dir| {
            let path = |one: &String| one.strip_prefix("mount ").map(PathBuf::from).or_else(|| file(one));
            !left.iter().filter_map(path).any(|path| path.starts_with(dir))
        });
    }
}

pub(crate) fn is_empty_directory(left: &str) -> bool {
    let entries = file(left).and_then(|path| fs::read_dir(path).ok());
    entries.is_some_and(|mut entries| entries.next().is_none())
}

fn file(left: &str) -> Option<PathBuf> {
    left.strip_prefix("file ").map(PathBuf::from)
}

impl Look {
    /// Looks at all places.
    pub(crate) async fn take(cx: &Cx, places: &Places) -> Look {
        let below = |path: &Path, dirs: &BTreeSet<PathBuf>| dirs.iter().any(|dir| path.starts_with(dir));
        let points = BTreeSet::from_iter(mounts::points());
        let of_tests = points.iter().filter(|point| below(point, &places.mounts));
        let mut there = BTreeSet::from_iter(of_tests.map(|point| mount(point)));
        // A volume that was given back and published again may have another device.
        let mut devices_of = BTreeMap::<String, u32>::new();
        for file in mounts::loops().into_values().filter(|file| below(Path::new(file), &places.images)) {
            let devices = devices_of.entry(file.clone()).or_default();
            *devices += 1;
            there.insert(format!("loop device {devices} of {file}"));
        }
        for dir in &places.directories {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(ENTRIES_MAX);
            there.extend(entries.map(|entry| format!("file {}", entry.path().display())));
        }
        if cx.target().capabilities().has(Capability::ListVolumes)
            && let Ok(listed) = cx.list_volumes().await
        {
            let ids = listed.into_iter().filter_map(|entry| Some(entry.volume?.volume_id));
            there.extend(ids.map(|id| format!("volume {id} in ListVolumes")));
        }
        Look { there, points }
    }

    /// The new objects since another look. A file at or below a new mount point is listed as the mount: it is no file
    /// of the driver's.
    pub(crate) fn since(&self, before: &Look) -> Vec<String> {
        let mounted: Vec<&PathBuf> = self.points.difference(&before.points).collect();
        let as_mount = |left: &String| {
            let over = file(left).and_then(|path| mounted.iter().find(|point| path.starts_with(point)));
            over.map_or_else(|| left.clone(), |point| mount(point))
        };
        let left: BTreeSet<String> = self.there.difference(&before.there).map(as_mount).collect();
        left.into_iter().collect()
    }
}

fn mount(point: &Path) -> String {
    format!("mount {}", point.display())
}

/// The first of them, and the number of the others.
pub(crate) fn listed(left: &[String]) -> String {
    let more = left.len().saturating_sub(NAMED_MAX);
    let named = left[..left.len() - more].join(", ");
    if more == 0 { named } else { format!("{named}, and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_right_life_are_not_counted() {
        let directories = ["/state/a", "/state/b"].map(PathBuf::from).into();
        let mut places = Places { directories, ..Places::default() };
        places.forget(&["file /state/a/journal".to_owned(), "mount /kubelet/b".to_owned()]);
        assert_eq!(places.directories, BTreeSet::from([PathBuf::from("/state/b")]));
        places.forget(&["mount /state/b/share".to_owned()]);
        assert_eq!(places.directories, BTreeSet::new());
    }

    fn look(there: &[&str], points: &[&str]) -> Look {
        Look {
            there: there.iter().map(|one| (*one).to_owned()).collect(),
            points: points.iter().map(PathBuf::from).collect(),
        }
    }

    #[test]
    fn files_in_a_mount_that_stays_count_as_the_mount() {
        let before = look(&["file /share/old"], &["/", "/state"]);
        for (there, points, left) in [
            // The directory that it is mounted at is new, too.
            (&["file /share/new"][..], &["/", "/state", "/share/new"][..], &["mount /share/new"][..]),
            // The files of an export.
            (&["file /share/a", "file /share/b"], &["/", "/state", "/share"], &["mount /share"]),
            // This was mounted before and after.
            (&["file /state/a"], &["/", "/state"], &["file /state/a"]),
            (&["file /share/old", "file /share/new"], &["/", "/share/old"], &["file /share/new"]),
        ] {
            assert_eq!(look(there, points).since(&before), left, "{there:?}");
        }
    }
}
