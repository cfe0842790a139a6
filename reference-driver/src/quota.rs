//! Project quotas, which limit a directory volume to its size on file systems that support them: ext4 and xfs that
//! are mounted with `prjquota`. On others, the size of a directory is only recorded.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use csi_proto::lock::Mutex;

use crate::error::{IoContext, Result};
use crate::kernel::{self, ProjectUsage};

/// Project ids of the driver have this bit, which keeps them apart from the small numbers that people and kubelet
/// choose.
const OURS: u32 = 1 << 30;
/// The number of random project ids that are tried.
const ATTEMPTS_MAX: usize = 16;

/// The project quotas of the file system that contains the volumes.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    volumes: Arc<File>,
    choosing: Arc<Mutex<()>>,
}

impl Quota {
    /// Returns `None` if the file system does not enforce project quotas.
    pub(crate) fn of(volumes: &Arc<File>) -> Option<Quota> {
        kernel::enforces_project_limits(volumes.as_fd())
            .then(|| Quota { volumes: Arc::clone(volumes), choosing: Arc::default() })
    }

    /// Adds an empty directory to an unused project, durably.
    pub(crate) fn claim(&self, directory: &Path) -> Result<u32> {
        let _alone = self.choosing.lock();
        let project = self.free_project().on("find a free project for", directory)?;
        self.assign(directory, project)?;
        Ok(project)
    }

    /// Adds an empty directory to a project, durably.
    pub(crate) fn assign(&self, directory: &Path, project: u32) -> Result<()> {
        let opened = File::open(directory).on("open", directory)?;
        kernel::set_project(opened.as_fd(), project).on("set the project of", directory)?;
        opened.sync_all().on("flush", directory)
    }

    pub(crate) fn limit(&self, directory: &Path, project: u32, limit_bytes: u64) -> Result<()> {
        kernel::limit_project(self.volumes.as_fd(), project, limit_bytes)
            .on("limit the project of", directory)
    }

    /// Removes the limit of a project that is no longer used.
    pub(crate) fn release(&self, project: u32) {
        if let Err(error) = kernel::limit_project(self.volumes.as_fd(), project, 0) {
            tracing::error!(project, %error, "the quota of a project could not be taken away");
        }
    }

    /// Releases the project of a directory without a record. This has to happen before limits are set for the others,
    /// because a workload may have moved the directory into the project of another volume.
    pub(crate) fn release_orphan(&self, directory: &Path) {
        let opened = File::open(directory);
        if let Ok(project) = opened.and_then(|opened| kernel::project_of(opened.as_fd()))
            && project & OURS != 0
        {
            self.release(project);
        }
    }

    fn free_project(&self) -> io::Result<u32> {
        for _ in 0..ATTEMPTS_MAX {
            let mut random = [0u8; 4];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
            let project = u32::from_ne_bytes(random) & (OURS - 1) | OURS;
            if kernel::project_usage(self.volumes.as_fd(), project)? == ProjectUsage::default() {
                return Ok(project);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Skips with a message unless it runs as root on a kernel with quotas.
    #[test]
    fn a_project_is_free_limited_and_free_again() {
        let root = tempfile::tempdir().unwrap();
        let (image, mounted) = (root.path().join("image"), root.path().join("mounted"));
        File::create_new(&image).unwrap().set_len(64 << 20).unwrap();
        std::fs::create_dir(&mounted).unwrap();
        let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let made = run(Command::new("mkfs.ext4").args(["-q", "-O", "quota,project"]).arg(&image));
        if !made || !run(Command::new("mount").args(["-o", "loop,prjquota"]).arg(&image).arg(&mounted)) {
            println!("skipped: ext4 cannot be mounted with project quotas here");
            return;
        }
        let volumes = Arc::new(File::open(&mounted).unwrap());
        let quota = Quota::of(&volumes).unwrap();
        let directory = mounted.join("v");
        std::fs::create_dir(&directory).unwrap();
        let project = quota.claim(&directory).unwrap();
        let usage = || kernel::project_usage(volumes.as_fd(), project).unwrap();
        assert!(project & OURS != 0);
        assert_eq!((usage().limit_bytes, usage().inodes), (0, 1), "the directory is in the project");
        quota.limit(&directory, project, 1025).unwrap();
        assert_eq!(usage().limit_bytes, 2048, "rounded up to KiB");
        quota.release_orphan(&directory);
        assert_eq!((usage().limit_bytes, usage().inodes), (0, 1));
        std::fs::remove_dir(&directory).unwrap();
        assert_eq!(usage(), ProjectUsage::default());
        drop((quota, volumes));
        assert!(run(Command::new("umount").arg(&mounted)));
    }
}
