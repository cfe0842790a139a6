//! Target and staging paths, made where the driver sees them: directly, or by the user's commands.
//!
//! Nothing is ever removed recursively: a mount that a driver left behind would take its data along.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::command::run;
use crate::config::{Config, PathCommands};

/// Time limit of a path command, where the user sets none.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// Name of a target path below its parent.
pub(crate) const TARGET: &str = "target";

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file, or a device: what block access is published at.
    File,
    /// A directory.
    Directory,
    /// Nothing.
    NotFound,
    /// Something else, such as a socket or a symbolic link.
    Other,
}

/// Where target and staging paths are made.
#[derive(Debug)]
pub(crate) struct Paths {
    mount_dir: PathBuf,
    staging_dir: PathBuf,
    commands: PathCommands,
    _own: Option<TempDir>,
}

impl Paths {
    pub(crate) fn new(config: &Config) -> std::io::Result<Paths> {
        let mut own = None;
        if config.mount_dir.is_none() || config.staging_dir.is_none() {
            own = Some(tempfile::Builder::new().prefix("csi-sanity-").tempdir()?);
        }
        let default = |name: &str| own.as_ref().map(|dir| dir.path().join(name)).unwrap_or_default();
        Ok(Paths {
            mount_dir: config.mount_dir.clone().unwrap_or_else(|| default("mount")),
            staging_dir: config.staging_dir.clone().unwrap_or_else(|| default("staging")),
            commands: config.paths.clone(),
            _own: own,
        })
    }

    /// Directories under which mounts of this run can be.
    pub(crate) fn roots(&self) -> [&Path; 2] {
        [&self.mount_dir, &self.staging_dir]
    }

    /// Directory under which staging directories are made.
    pub(crate) fn staging_dir(&self) -> &Path {
        &self.staging_dir
    }

    /// Makes the parent of a target path, as the orchestrator does, and returns it.
    pub(crate) async fn make_target_parent(&self, name: &str) -> Result<PathBuf, String> {
        let limit = limit(self.commands.create_timeout_ms);
        make(&self.mount_dir.join(name), self.commands.create_mount_path_command.as_deref(), limit).await
    }

    /// Makes a staging directory, as the orchestrator does, and returns it.
    pub(crate) async fn make_staging(&self, name: &str) -> Result<PathBuf, String> {
        let limit = limit(self.commands.create_timeout_ms);
        make(&self.staging_dir.join(name), self.commands.create_staging_path_command.as_deref(), limit).await
    }

    /// Removes the parent of a target path, and before it what an unsuccessful NodePublishVolume, or one that was
    /// undone badly, has left at the target path itself: an empty directory or file, as kubelet does.
    pub(crate) async fn remove_target_parent(&self, path: &Path) -> Result<(), String> {
        let limit = limit(self.commands.remove_timeout_ms);
        if self.commands.remove_mount_path_command.is_none() {
            remove_empty(&path.join(TARGET)).await;
        }
        remove(path, self.commands.remove_mount_path_command.as_deref(), limit).await
    }

    pub(crate) async fn remove_staging(&self, path: &Path) -> Result<(), String> {
        let limit = limit(self.commands.remove_timeout_ms);
        remove(path, self.commands.remove_staging_path_command.as_deref(), limit).await
    }

    /// What lies at a path.
    pub(crate) async fn check(&self, path: &Path) -> Result<PathKind, String> {
        let Some(command) = &self.commands.check_path_command else { return look(path).await };
        let printed = run(command, path.as_os_str(), limit(self.commands.check_timeout_ms)).await?;
        match printed.as_str() {
            "file" => Ok(PathKind::File),
            "directory" => Ok(PathKind::Directory),
            "not_found" => Ok(PathKind::NotFound),
            "other" => Ok(PathKind::Other),
            _ => Err(format!(
                "{} printed {printed:?}; it has to print file, directory, not_found or other",
                command.display()
            )),
        }
    }
}

fn limit(timeout_ms: Option<u64>) -> Duration {
    timeout_ms.map_or(COMMAND_LIMIT, Duration::from_millis)
}

async fn make(path: &Path, command: Option<&Path>, limit: Duration) -> Result<PathBuf, String> {
    let Some(command) = command else {
        return match tokio::fs::create_dir_all(path).await {
            Ok(()) => Ok(path.to_owned()),
            Err(error) => Err(format!("failed to make {}: {error}", path.display())),
        };
    };
    let printed = run(command, path.as_os_str(), limit).await?;
    if printed.is_empty() {
        return Err(format!("{} printed nothing; it has to print the path it made", command.display()));
    }
    Ok(PathBuf::from(printed))
}

async fn remove(path: &Path, command: Option<&Path>, limit: Duration) -> Result<(), String> {
    if let Some(command) = command {
        return run(command, path.as_os_str(), limit).await.map(|_| ());
    }
    match tokio::fs::remove_dir(path).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("failed to remove {}: {error}", path.display())),
    }
}

/// Removes an empty directory or file. What cannot be removed, such as a mount point, shows when its parent is.
async fn remove_empty(path: &Path) {
    let _ = match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_dir() => tokio::fs::remove_dir(path).await,
        Ok(found) if found.is_file() && found.len() == 0 => tokio::fs::remove_file(path).await,
        _ => Ok(()),
    };
}

async fn look(path: &Path) -> Result<PathKind, String> {
    match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_dir() => Ok(PathKind::Directory),
        Ok(found) if found.is_file() || is_device(&found) => Ok(PathKind::File),
        Ok(_) => Ok(PathKind::Other),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(PathKind::NotFound),
        Err(error) => Err(format!("failed to look at {}: {error}", path.display())),
    }
}

fn is_device(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    found.file_type().is_block_device()
}
