//! Hands the files of a volume over to a pod's group, where that is kubelet's part.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use csi_driver_definitions::FsGroupPolicy as OfDriver;

use crate::cluster::{AccessMode, FsGroupPolicy, PersistentVolume, VolumeMode};

/// What the group may do with files.
const FILE_BITS: u32 = 0o660;
/// What it may do with directories besides.
const DIRECTORY_BITS: u32 = 0o110;
/// New files get the group of their directory.
const SET_GID: u32 = 0o2000;

/// Whether kubelet changes anything in a volume.
pub(super) fn applies(policy: OfDriver, volume: &PersistentVolume, read_only: bool) -> bool {
    let one_writer =
        |mode: &AccessMode| matches!(mode, AccessMode::ReadWriteOnce | AccessMode::ReadWriteOncePod);
    volume.mode == VolumeMode::Filesystem
        && !read_only
        && match policy {
            OfDriver::None => false,
            OfDriver::File => true,
            OfDriver::ReadWriteOnceWithFsType => {
                !volume.fs_type.is_empty() && volume.access_modes.iter().any(one_writer)
            }
        }
}

/// Says that kubelet left the files of a volume to the group that they had, and why.
pub(super) fn left_alone(policy: OfDriver, has_object: bool, volume: &PersistentVolume) -> String {
    let policy_name = match policy {
        OfDriver::None => "None",
        OfDriver::File => "File",
        OfDriver::ReadWriteOnceWithFsType => "ReadWriteOnceWithFSType",
    };
    let source = match has_object {
        true => format!("the CSIDriver object has fsGroupPolicy: {policy_name}"),
        false => format!(
            "no --manifest has a CSIDriver object of this driver, so fsGroupPolicy is {policy_name}, the default"
        ),
    };
    let wants = match policy {
        OfDriver::ReadWriteOnceWithFsType => {
            ": it needs a file system type in the class or --default-fstype, and a claim for a single writer"
        }
        OfDriver::File | OfDriver::None => "",
    };
    format!("kubelet did not apply the fsGroup of a pod to the volume {}: {source}{wants}", volume.name)
}

/// Hands everything in a directory over to a group, children first. What cannot be changed stays as it is.
pub(super) async fn hand_over(root: PathBuf, group: u32, policy: FsGroupPolicy) {
    let change = move || {
        let right = fs::symlink_metadata(&root).is_ok_and(|found| is_right(&found, group));
        if !(right && policy == FsGroupPolicy::OnRootMismatch) {
            change(&root, group);
        }
    };
    // The thread cannot fail: it reports nothing.
    let _ = tokio::task::spawn_blocking(change).await;
}

/// Whether a root directory shows that all below it was handed over before.
fn is_right(found: &Metadata, group: u32) -> bool {
    let wanted = FILE_BITS | DIRECTORY_BITS | SET_GID;
    found.gid() == group && found.mode() & wanted == wanted
}

fn change(path: &Path, group: u32) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            change(&entry.path(), group);
        }
    }
    // As kubelet, which logs an error with a file and goes on.
    let _ = std::os::unix::fs::lchown(path, None, Some(group));
    if !found.is_symlink() {
        let more = if found.is_dir() { FILE_BITS | DIRECTORY_BITS | SET_GID } else { FILE_BITS };
        let _ = fs::set_permissions(path, fs::Permissions::from_mode((found.mode() & 0o7777) | more));
    }
}
