use std::path::Path;
use std::{fs, io};

use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;
use rustix::mount::{UnmountFlags, unmount};

use crate::cluster::Feature;
use crate::pattern;
use crate::scene::path_of;
use crate::test;
use crate::test::{Need, Suite};

/// The suite is one of OpenShift's, for drivers whose manifest has the capability.
pub(crate) static SUITE: Suite = Suite {
    name: "OpenShift CSI extended - Pod delete after umount",
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    needs: &[Need::Can(Capability::PodDeleteAfterUmount), Need::Offers(Feature::LocalPods)],
    tests: &[&DELETED],
    ..Suite::PLAIN
};

test! {
    /// A pod can be deleted although the mount of its volume and the target path are already gone.
    DELETED {
        name: "should delete pod after volume directory was umounted on the node",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        let target = scene.cluster().local_path(&pod.name, &pod.container, &path_of(0)).await?;
        remove(&target)
            .map_err(|error| Stop::broken(format!("failed to unmount and remove {}: {error}", target.display())))?;
        pod.delete().await
    }
}

/// Unmounts a target path by force and removes its directory, as an administrator does.
fn remove(target: &Path) -> io::Result<()> {
    unmount(target, UnmountFlags::FORCE)?;
    fs::remove_dir(target)
}
