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

/// The number of attempts to lock the state directory, and the pause between them.
const LOCK_ATTEMPTS_MAX: usize = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The files and directories in the state directory.
///
/// ```text
/// state.redb          the records
/// volumes/<key>       a directory or an image for each volume
/// snapshots/<key>     the same for each snapshot
/// ```
///
/// The data of an object exist before its record is committed, and until after its record is deleted. Data without a
/// record are therefore remains of a crash. The reverse is only possible for an empty directory volume that has never
/// been staged.
#[derive(Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    volumes: Arc<File>,
    snapshots: Arc<File>,
    _lock: File,
}

impl Layout {
    /// Creates the missing directories, and locks the state directory against a second driver.
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

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.root.join("state.redb")
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    pub(crate) fn volume(&self, key: &ObjectId) -> PathBuf {
        self.volumes().join(key.as_str())
    }

    pub(crate) fn snapshot(&self, key: &ObjectId) -> PathBuf {
        self.snapshots().join(key.as_str())
    }

    /// The open directory of volumes, for flushing.
    pub(crate) fn volumes_directory(&self) -> &Arc<File> {
        &self.volumes
    }

    /// The open directory of snapshots, for flushing.
    pub(crate) fn snapshots_directory(&self) -> &Arc<File> {
        &self.snapshots
    }
}

/// Locks the directory against other drivers. A driver that is just exiting, or a program that it started last, may
/// hold the lock for a moment longer.
fn lock_alone(directory: &File) -> bool {
    (0..LOCK_ATTEMPTS_MAX).any(|attempt| {
        if attempt > 0 {
            thread::sleep(LOCK_PAUSE);
        }
        rustix::fs::flock(directory, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

/// Creates a directory that only its owner can enter.
fn make_private(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).on("make", path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700)).on("restrict", path)
}
