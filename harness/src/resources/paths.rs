//! Target and staging paths, made where the driver sees them: directly, or by the user's commands.
//!
//! Nothing is ever removed recursively: a mount that a driver left behind would take its data along. Such a mount is unmounted
//! at the end of a run if it is at a path that was made for it.

mod layout;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::lock::Mutex;
use futures_util::future::BoxFuture;

use crate::config::{Config, PathCommands, PathLayout};
use crate::driver::Notebook;
use crate::resources::logbook::Logbook;
use crate::resources::mounts;
use crate::resources::resource::Resource;
use crate::text::shorten::named;
pub(crate) use layout::{Layout, PathParts};

/// Time limit of a path command, where the user sets none.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Permissions of the directories that kubelet makes.
const KUBELET_MODE: u32 = 0o750;

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A regular file; or a block device where the path is looked up by a command, which reports both alike.
    File,
    /// A block device: what block access is published at.
    Device,
    /// A directory.
    Directory,
    /// Nothing.
    NotFound,
    /// Something else, such as a socket or a symbolic link.
    Other,
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathKind::File => "a file",
            PathKind::Device => "a block device",
            PathKind::Directory => "a directory",
            PathKind::NotFound => "nothing",
            PathKind::Other => "neither a file nor a directory",
        })
    }
}

/// Makes and removes target and staging paths of one node.
#[derive(Debug)]
pub(crate) struct Paths {
    layout: Layout,
    mount_dir: PathBuf,
    staging_dir: PathBuf,
    commands: PathCommands,
    common: Arc<Common>,
    logbook: Option<Arc<Logbook>>,
    /// The directories that were made for each path alone, the higher ones first.
    made: Mutex<BTreeMap<PathBuf, Vec<PathBuf>>>,
}

impl Paths {
    /// The places for paths that a driver of this name gets on each of the nodes.
    pub(crate) fn of_nodes(
        config: &Config,
        driver: &str,
        logbook: Option<&Arc<Logbook>>,
    ) -> io::Result<Vec<Paths>> {
        let common = Arc::<Common>::default();
        let mut default = PathBuf::new();
        if config.mount_dir.is_none() || config.staging_dir.is_none() {
            default = tempfile::Builder::new().prefix("csi-sanity-").tempdir()?.keep();
            if let Some(logbook) = logbook {
                logbook.directory(&default);
            }
            common.add(vec![default.clone()]);
        }
        let below = |name: &str| match config.path_layout {
            PathLayout::Flat => default.join(name),
            PathLayout::Kubelet => default.clone(),
        };
        let mount_dir = config.mount_dir.clone().unwrap_or_else(|| below("mount"));
        let staging_dir = config.staging_dir.clone().unwrap_or_else(|| below("staging"));
        let paths = |mount_dir, staging_dir, commands: &PathCommands| Paths {
            layout: Layout::new(config.path_layout, driver),
            mount_dir,
            staging_dir,
            commands: commands.clone(),
            common: common.clone(),
            logbook: logbook.cloned(),
            made: Mutex::default(),
        };
        let others = (2..).zip(&config.nodes).map(|(number, node)| {
            // Nodes may share one host, and must not get one staging path for a volume there.
            let own = format!("node-{number}");
            paths(
                node.mount_dir.clone().unwrap_or_else(|| mount_dir.join(&own)),
                node.staging_dir.clone().unwrap_or_else(|| staging_dir.join(&own)),
                node.paths.as_ref().unwrap_or(&config.paths),
            )
        });
        let first = paths(mount_dir.clone(), staging_dir.clone(), &config.paths);
        Ok(std::iter::once(first).chain(others).collect())
    }

    /// Commands that reach the file system, if the tests do not share it.
    pub(crate) fn commands(&self) -> Option<&PathCommands> {
        Some(&self.commands).filter(|commands| commands.any())
    }

    /// Directories under which mounts of this run can be.
    pub(crate) fn roots(&self) -> [&Path; 2] {
        [&self.mount_dir, &self.staging_dir]
    }

    /// Directory under which target paths are made.
    pub(crate) fn mount_dir(&self) -> &Path {
        &self.mount_dir
    }

    /// Directory under which staging directories are made.
    pub(crate) fn staging_dir(&self) -> &Path {
        &self.staging_dir
    }

    /// The layout of paths below the configured directories.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes the directories above a target path, as the orchestrator does, and returns the path, which is for the driver
    /// to make.
    pub(crate) async fn make_target(&self, place: &PathParts) -> Result<PathBuf, String> {
        let command = self.commands.create_mount_path_command.as_deref();
        let (parent, levels) = self.make(&self.mount_dir, place, command).await?;
        let target = parent.join(&place.target);
        self.note(&target, levels);
        Ok(target)
    }

    /// Makes a staging directory, as the orchestrator does, and returns it.
    pub(crate) async fn make_staging(&self, place: &PathParts) -> Result<PathBuf, String> {
        let command = self.commands.create_staging_path_command.as_deref();
        let (path, levels) = self.make(&self.staging_dir, place, command).await?;
        self.note(&path, levels);
        Ok(path)
    }

    /// Removes what was made for a target path, and before it what an unsuccessful NodePublishVolume, or one that was
    /// undone badly, has left at the target path itself: an empty directory or file, as kubelet does.
    pub(crate) async fn remove_target(&self, target: &Path) -> Result<(), String> {
        let command = self.commands.remove_mount_path_command.as_deref();
        if command.is_none() {
            remove_empty(target).await;
        }
        self.remove(target, command).await
    }

    /// Removes what was made for a staging path.
    pub(crate) async fn remove_staging(&self, path: &Path) -> Result<(), String> {
        self.remove(path, self.commands.remove_staging_path_command.as_deref()).await
    }

    /// Takes over the directories that a command has made for an earlier run, of which only the lowest is known.
    pub(crate) fn adopt(&self, resource: &Resource) {
        let lowest = match resource {
            Resource::StagingDirectory(path) => Some((path, path.as_path())),
            Resource::TargetDirectories(target) => target.parent().map(|parent| (target, parent)),
            _ => None,
        };
        if let Some((path, lowest)) = lowest.filter(|_| self.commands.any()) {
            self.note(path, vec![lowest.to_owned()]);
        }
    }

    /// Makes a staging directory again that the driver has removed together with what was staged there. The caller has
    /// to ensure that it exists before each NodeStageVolume.
    pub(crate) fn renew_staging(&self, path: &Path) {
        if self.commands.create_staging_path_command.is_none() && self.made.lock().contains_key(path) {
            // It may still exist. If it cannot be made, the driver reports that.
            let _ = std::fs::create_dir(path);
        }
    }

    /// Makes all levels of a place. Returns the lowest, and those that were made for the place alone.
    fn make<'a>(
        &'a self,
        root: &'a Path,
        place: &'a PathParts,
        command: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<(PathBuf, Vec<PathBuf>), String>> {
        Box::pin(async move {
            let above = root.join(&place.shared);
            let path = above.join(&place.own);
            let Some(command) = command else {
                // Both are made in one step, so that an interruption, as by Ctrl-C, leaves no unknown directory.
                let (mut common, mut own) = (Vec::new(), Vec::new());
                let made = self.make_all(&above, &mut common).and_then(|()| self.make_all(&path, &mut own));
                let made = made.map_err(|error| format!("failed to make {}: {error}", path.display()));
                self.common.add(common);
                if made.is_err() {
                    for level in own.iter().rev() {
                        // The first error is the one to report.
                        let _ = std::fs::remove_dir(level);
                    }
                }
                return made.map(|()| (path, own));
            };
            let limit = limit(self.commands.create_timeout_ms);
            let printed = PathBuf::from(self.commands.run(command, &path, limit).await?);
            if printed.as_os_str().is_empty() {
                return Err(format!(
                    "{} printed nothing; it has to print the path that it created",
                    command.display()
                ));
            }
            // If the command has printed another place, only the user knows what lies above it.
            let levels = if printed == path { levels_below(&above, &path) } else { vec![printed.clone()] };
            Ok((printed, levels))
        })
    }

    /// Makes a directory and all that is missing above it, and notes what it has made.
    fn make_all(&self, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        if self.layout.kind() == PathLayout::Kubelet {
            builder.mode(KUBELET_MODE);
        }
        let mut missing = vec![path];
        while let Some(level) = missing.last() {
            // A directory is recorded before it is made, so that it is known in any case. One that exists already is
            // not the run's to remove.
            if let Some(logbook) = &self.logbook
                && !level.exists()
            {
                logbook.directory(level);
            }
            match (builder.create(level), level.parent()) {
                (Ok(()), _) => made.push(level.to_path_buf()),
                (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
                    missing.push(parent);
                    continue;
                }
                (Err(error), _) if error.kind() == ErrorKind::AlreadyExists && level.is_dir() => {}
                (Err(error), _) => return Err(error),
            }
            missing.pop();
        }
        Ok(())
    }

    fn note(&self, path: &Path, levels: Vec<PathBuf>) {
        let mut made = self.made.lock();
        let known = made.entry(path.to_owned()).or_default();
        // A place can be made again while it is there.
        known.extend(levels.into_iter().filter(|level| !known.contains(level)).collect::<Vec<_>>());
    }

    /// Removes the levels of a path from below. What could not be removed can be tried again.
    fn remove<'a>(&'a self, path: &'a Path, command: Option<&'a Path>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let limit = limit(self.commands.remove_timeout_ms);
            let lowest = || self.made.lock().get(path).and_then(|levels| levels.last().cloned());
            while let Some(level) = lowest() {
                match command {
                    Some(command) => self.commands.run(command, &level, limit).await.map(drop)?,
                    None => remove(&level).await?,
                }
                // The entry goes only after the directory, so that it is known in any case if this is interrupted.
                if let Some(levels) = self.made.lock().get_mut(path) {
                    levels.retain(|other| *other != level);
                }
            }
            self.made.lock().remove(path);
            Ok(())
        })
    }

    /// Unmounts what is left at a path that was made for this run, and removes what was made for it: whether nothing is
    /// mounted there any more. A path that leads elsewhere by now is left alone.
    pub(crate) async fn clear(&self, point: &Path) -> bool {
        // The directory may have been made for a check under another name than that of the target.
        let of_the_run = |made: &BTreeMap<PathBuf, Vec<PathBuf>>| {
            let is_over = |path: &PathBuf| point.starts_with(path);
            let place = made.iter().find(|(path, levels)| is_over(path) || levels.iter().any(is_over));
            place.map(|(path, levels)| (path.clone(), levels.iter().rfind(|level| is_over(level)).cloned()))
        };
        let Some((place, level)) = of_the_run(&self.made.lock()) else { return false };
        let path = level.unwrap_or_else(|| place.clone());
        let is_ours = |root: &Path| is_below(&path, root).unwrap_or(false);
        if self.commands().is_some()
            || !self.roots().into_iter().any(is_ours)
            || mounts::unmount_below(&path).is_err()
        {
            return false;
        }
        // A remaining directory does no harm.
        let _ = std::fs::remove_dir(point);
        let _ = self.remove_target(&place).await;
        true
    }

    /// Finds out what lies at a path.
    pub(crate) async fn check(&self, path: &Path) -> Result<PathKind, String> {
        let Some(command) = &self.commands.check_path_command else { return look(path).await };
        let printed = self.commands.run(command, path, limit(self.commands.check_timeout_ms)).await?;
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

/// Returns true if a path is below a directory, also if links are followed.
fn is_below(path: &Path, root: &Path) -> io::Result<bool> {
    let parent = std::fs::canonicalize(path.parent().unwrap_or(path))?;
    Ok(parent.starts_with(std::fs::canonicalize(root)?))
}

fn limit(timeout_ms: Option<u64>) -> Duration {
    timeout_ms.map_or(COMMAND_LIMIT, Duration::from_millis)
}

/// The directories on the way from one, which is left out, down to another.
fn levels_below(above: &Path, path: &Path) -> Vec<PathBuf> {
    let levels = path.ancestors().take_while(|level| *level != above).map(Path::to_owned);
    let mut levels: Vec<PathBuf> = levels.collect();
    levels.reverse();
    levels
}

/// Directories that were made for all paths of a run. They are removed with the value.
#[derive(Debug, Default)]
struct Common(Mutex<Vec<PathBuf>>);

impl Common {
    fn add(&self, made: Vec<PathBuf>) {
        self.0.lock().extend(made);
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        let mut made = std::mem::take(&mut *self.0.lock());
        made.sort_by_key(|level| level.components().count());
        for level in made.iter().rev() {
            // Files that others have put there stay.
            let _ = std::fs::remove_dir(level);
        }
    }
}

async fn remove(path: &Path) -> Result<(), String> {
    match tokio::fs::remove_dir(path).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            // A mount point is busy instead, and reading it could hang.
            let is_full = error.kind() == ErrorKind::DirectoryNotEmpty;
            let left = is_full.then(|| first_entry(path)).flatten();
            let left = left.map_or_else(String::new, |name| format!(", since {name} is still in it"));
            Err(format!("failed to remove {}{left}: {error}", path.display()))
        }
    }
}

/// The name of something in a directory.
fn first_entry(directory: &Path) -> Option<String> {
    let entry = std::fs::read_dir(directory).ok()?.next()?.ok()?;
    Some(named(&entry.file_name().to_string_lossy()))
}

/// Removes an empty directory or file, as kubelet does where a driver leaves its target path. Anything that cannot be removed, such as a
/// mount point, shows when its parent is removed.
pub async fn remove_empty(path: &Path) {
    let _ = match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_dir() => tokio::fs::remove_dir(path).await,
        Ok(found) if found.is_file() && found.len() == 0 => tokio::fs::remove_file(path).await,
        _ => Ok(()),
    };
}

async fn look(path: &Path) -> Result<PathKind, String> {
    match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_dir() => Ok(PathKind::Directory),
        Ok(found) if found.is_file() => Ok(PathKind::File),
        Ok(found) if is_device(&found) => Ok(PathKind::Device),
        Ok(_) => Ok(PathKind::Other),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(PathKind::NotFound),
        Err(error) => Err(format!("failed to look at {}: {error}", path.display())),
    }
}

fn is_device(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    found.file_type().is_block_device()
}
