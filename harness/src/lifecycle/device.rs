use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::lifecycle::cx::Cx;
use crate::resources::paths::PathKind;
use crate::spec::verdict::Stop;

impl Cx {
    /// Writes random bytes into ranges of the device at a target path, and waits until they are stored. False where the tests
    /// cannot: nothing that they see there is the volume, or they may not write to it.
    ///
    /// # Errors
    /// Broken if the device cannot be written to.
    pub async fn write_device(&self, path: &str, ranges: &[Range<i64>]) -> Result<bool, Stop> {
        if self.paths().commands().is_some() || !self.is_volume(path).await? {
            return Ok(false);
        }
        let (path, ranges, mut rng) = (PathBuf::from(path), ranges.to_vec(), self.rng());
        let failed = format!("failed to write to the device at {}", path.display());
        let writing = tokio::task::spawn_blocking(move || write(&path, &ranges, &mut rng));
        match tokio::time::timeout(self.remaining(), writing).await {
            Ok(Ok(Ok(()))) => Ok(true),
            Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            Ok(Ok(Err(error))) => Err(Stop::broken(format!("{failed}: {error}"))),
            Ok(Err(panic)) => Err(Stop::broken(format!("{failed}: {panic}"))),
            Err(_) => {
                Err(Stop::broken(format!("{failed}: the write did not end within the time of the check")))
            }
        }
    }

    /// A driver without privileges has a file stand for the device. Only where its mounts are seen is that what it has made.
    async fn is_volume(&self, path: &str) -> Result<bool, Stop> {
        Ok(match self.path_kind(path).await? {
            PathKind::Device => true,
            PathKind::File => self.shares_files_with_driver().await,
            PathKind::Directory | PathKind::NotFound | PathKind::Other => false,
        })
    }
}

fn write(path: &Path, ranges: &[Range<i64>], rng: &mut fastrand::Rng) -> io::Result<()> {
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let device = OpenOptions::new().write(true).custom_flags(no_links).open(path)?;
    for range in ranges {
        let start = u64::try_from(range.start).map_err(io::Error::other)?;
        let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
        // Zeros may count as nothing written.
        let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(1..)).take(length).collect();
        device.write_all_at(&bytes, start)?;
    }
    device.sync_all()
}
