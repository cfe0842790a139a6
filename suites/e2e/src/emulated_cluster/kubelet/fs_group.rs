//! Gives the files of a volume to a pod's group, if that is kubelet's part.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use csi_driver_definitions::FsGroupPolicy as OfDriver;

use crate::cluster::{AccessMode, FsGroupPolicy, PersistentVolume, VolumeMode};

/// The group's permissions on files.
const FILE_BITS: u32 = 0o660;
/// The group's additional permissions on directories.
const DIRECTORY_BITS: u32 = 0o110;
/// New files get the group of their directory.
const SET_GID: u32 = 0o2000;

/// Returns whether kubelet changes anything in a volume.
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

/// Explains why kubelet did not change the group of a volume's files.
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

/// Gives everything in a directory to a group, children first. A file that cannot be changed stays unchanged.
pub(super) async fn hand_over(root: PathBuf, group: u32, policy: FsGroupPolicy) {
    let change = move || {
        let right = fs::symlink_metadata(&root).is_ok_and(|found| is_right(&found, group));
        if !(right && policy == FsGroupPolicy::OnRootMismatch) {
            change(&root, group);
        }
    };
    // The thread reports nothing, so it cannot fail.
    let _ = tokio::task::spawn_blocking(change).await;
}

/// Returns whether a root directory shows that everything below it was changed before.
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
    // Kubelet logs an error of a file and continues.
    let _ = std::os::unix::fs::lchown(path, None, Some(group));
    if !found.is_symlink() {
        let more = if found.is_dir() { FILE_BITS | DIRECTORY_BITS | SET_GID } else { FILE_BITS };
        let _ = fs::set_permissions(path, fs::Permissions::from_mode((found.mode() & 0o7777) | more));
    }
}
