//! Files belong to the group that a volume is published for.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use csi_harness::prelude::*;
use csi_harness::resources::mounts;
use v1::volume_capability::AccessType as Kind;

use crate::used::{Usage, Used};

/// A group that nothing on the machine belongs to.
const GROUP: u32 = 61_234;
/// Bits of a group that may read and write.
const GROUP_READS_AND_WRITES: u32 = 0o060;

check! {
    /// Kubelet leaves the group of the files to a driver that advertises VOLUME_MOUNT_GROUP, and no other program sets it. Some file
    /// systems have an option for that; on others, the directory or new files in it belong to the group.
    HONOURED {
        id: "data/mount-group/honoured",
        title: "files created in a volume published with volume_mount_group belong to that group",
        spec: [req::MSG_VOLCAP_005, req::MSG_VOLCAP_006],
        needs: [NODE, CREATE_DELETE_VOLUME, VOLUME_MOUNT_GROUP, MOUNT_ACCESS, ROOT],
        refuted_by: ["hostpath/ignores-group", "hostpath/group-of-directory-only"],
    }
    async |cx| {
        let mut capability = cx.capability();
        if let Some(Kind::Mount(mount)) = &mut capability.access_type {
            mount.volume_mount_group = GROUP.to_string();
        }
        let usage = Usage::with(capability);
        let volume = cx.create_volume(usage.request(cx).await?).setup("a volume for a group").await?.into();
        let used = Used::begin_with(cx, &volume, usage).await?;
        let looked = used.play(Look::at).await?;
        let look = looked.map_err(|error| Stop::broken(format!("failed to make a file: {error}")))?;
        ensure!(
            look.by_option || look.directory.0 == GROUP || look.file.0 == GROUP,
            "the mount does not show volume_mount_group";
            of: &req::MSG_VOLCAP_005,
            expected: format!("group {GROUP}, by an option of the mount, of the directory, or of a new file"),
            actual: look.described()
        );
        ensure!(
            look.file.0 == GROUP && look.file.1 & GROUP_READS_AND_WRITES == GROUP_READS_AND_WRITES,
            "the group cannot read and write a new file";
            of: &req::MSG_VOLCAP_006,
            expected: format!("group {GROUP}, with the bits {GROUP_READS_AND_WRITES:#o}"),
            actual: look.described()
        );
        used.end().await
    }
}

/// Group and permissions.
type Access = (u32, u32);

/// The group and permissions that are seen.
#[derive(Debug)]
struct Look {
    by_option: bool,
    directory: Access,
    /// Made with all permissions that a workload can ask for.
    file: Access,
}

impl Look {
    fn at(directory: &Path) -> io::Result<Look> {
        let file = directory.join("csi-sanity-of-the-group");
        std::fs::write(&file, "")?;
        // A mask of this process is no doing of the driver.
        std::fs::set_permissions(&file, Permissions::from_mode(0o666))?;
        let access = |path: &Path| path.metadata().map(|found| (found.gid(), found.mode() & 0o7777));
        let option = format!("gid={GROUP}");
        let by_option = mounts::at(directory)
            .pop()
            .is_some_and(|mount| mount.fs_options.contains(&option) || mount.options.contains(&option));
        Ok(Look { by_option, directory: access(directory)?, file: access(&file)? })
    }

    fn described(&self) -> String {
        let ((directory, of_directory), (file, of_file)) = (self.directory, self.file);
        format!(
            "the directory is of group {directory} ({of_directory:#o}), a new file of group {file} ({of_file:#o}), {}",
            if self.by_option { "and the mount has the option" } else { "and the mount has no such option" }
        )
    }
}

pub(crate) static CHECKS: &[&Check] = &[&HONOURED];
