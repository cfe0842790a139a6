//! The state directory.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::{IoContext, Result};
use crate::ids::ObjectId;
use crate::store::StoreError;

/// How often, and with what pause, the state directory is tried to be locked.
const LOCK_ATTEMPTS_MAX: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The directories and files under the state directory.
///
/// ```text
/// state.redb          the records
/// volumes/<key>       a directory or an image for each volume
/// snapshots/<key>     the same for each snapshot
/// ```
///
/// Data get their name before their record is committed and lose it after the record is gone, so data without a record
/// are left over from a crash. Only the empty directory of a volume that nobody could write to yet may be missing.
#[derive(Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    volumes: Arc<File>,
    snapshots: Arc<File>,
    _lock: File,
}

impl Layout {
    /// Makes what is missing and locks the directory against a second driver.
    pub(crate) fn open(root: &Path) -> Result<Layout> {
        make_private(root)?;
        let root = root.canonicalize().on("resolve", root)?;
        let lock = File::open(&root).on("open", &root)?;
        if !lock_alone(&lock) {
            return Err(StoreError::InUse(root).into());
        }
        for part in ["volumes", "snapshots"] {
            make_private(&root.join(part))?;
        }
        let open = |part: &str| -> Result<Arc<File>> {
            let path = root.join(part);
            Ok(Arc::new(File::open(&path).on("open", &path)?))
        };
        Ok(Layout { volumes: open("volumes")?, snapshots: open("snapshots")?, root, _lock: lock })
    }

    /// The state directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The file with the records.
    pub(crate) fn state_file(&self) -> PathBuf {
        self.root.join("state.redb")
    }

    /// Where volumes are.
    pub(crate) fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    /// Where snapshots are.
    pub(crate) fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// The data of a volume.
    pub(crate) fn volume(&self, key: &ObjectId) -> PathBuf {
        self.volumes().join(key.as_str())
    }

    /// The data of a snapshot.
    pub(crate) fn snapshot(&self, key: &ObjectId) -> PathBuf {
        self.snapshots().join(key.as_str())
    }

    /// The open directory of volumes, to be flushed.
    pub(crate) fn volumes_directory(&self) -> &Arc<File> {
        &self.volumes
    }

    /// The open directory of snapshots, to be flushed.
    pub(crate) fn snapshots_directory(&self) -> &Arc<File> {
        &self.snapshots
    }
}

/// Locks against other drivers. One that is just ending, or a program that its last call has just started, may hold
/// the lock for a moment longer.
fn lock_alone(directory: &File) -> bool {
    (0..LOCK_ATTEMPTS_MAX).any(|attempt| {
        if attempt > 0 {
            thread::sleep(LOCK_PAUSE);
        }
        rustix::fs::flock(directory, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// Makes a directory that only its owner can enter.
fn make_private(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).on("make", path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700)).on("restrict", path)
}
