//! File systems of the tests over directories of the driver. Each is noted before it is mounted, so that it is taken away whatever
//! happens, also by `--cleanup` after a run that was killed.

use std::io;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

use crate::lifecycle::cx::Cx;
use crate::resources::mounts;
use crate::resources::resource::Resource;

/// The prefix of the source that such a file system has in the mount table.
pub const SOURCE: &str = "csi-sanity-";

impl Cx {
    /// Notes that a file system of the tests is about to be mounted over a directory.
    pub fn will_mount(&self, directory: &Path) {
        self.may_own(Resource::Mount(directory.to_owned()));
    }

    /// Records that the mount is gone.
    pub fn has_unmounted(&self, directory: &Path) {
        self.disowns(&Resource::Mount(directory.to_owned()));
    }
}

/// Unmounts what the tests have mounted over a directory, in this run or an earlier one.
pub(crate) fn take_away(directory: &Path) -> io::Result<()> {
    // The server of the mount may be gone, so that nothing in the directory can be read.
    let mounts = mounts::table().into_iter().filter(|mount| mount.point == directory);
    let is_ours = |source: &Path| {
        source.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(SOURCE.as_bytes()))
    };
    for _ in mounts.filter(|mount| is_ours(Path::new(&mount.source))) {
        unmount(directory, UnmountFlags::DETACH)?;
    }
    Ok(())
}
