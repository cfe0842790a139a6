//! Effects on the host of a careless driver that takes a text from a request for a path or a command. These defects
//! really have such effects, so that tests can look for them, but they only touch files that csi-sanity has created
//! for its tests.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use csi_proto::v1::volume_capability::AccessType;
use csi_proto::v1::{
    CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::defect::Defect;
use crate::driver::MockDriver;
use crate::state::{Source, Volume};

/// The prefix of the names of all directories that csi-sanity creates.
const TESTS: &str = "csi-sanity-";
/// The command that csi-sanity provides to a driver that it has started.
const COMMAND: &str = "csisanityruns";
/// A shell expression for a slash, for names that may not contain one.
const SLASH: &str = "${PWD%${PWD#?}}";
/// The directory that the driver pretends to use for volumes.
const VOLUMES: &str = "/var/lib/csi-mock-driver/volumes";

/// Applies the effects before the request is handled.
pub(super) fn before_create_volume(driver: &MockDriver, request: &CreateVolumeRequest) {
    if driver.has(Defect::CreateVolumeMakesDirectoryOfName) {
        make(&request.name);
    }
    if driver.has(Defect::CreateVolumeFollowsSubdir) {
        request.parameters.get("subDir").into_iter().for_each(|sub_dir| make(sub_dir));
    }
    if driver.has(Defect::CreateVolumeRunsNames) {
        run(&request.name.replace('/', ""));
    }
    if driver.has(Defect::CreateVolumeRunsParameters) {
        request.parameters.values().for_each(|value| run(value));
    }
}

pub(super) fn before_delete_volume(driver: &MockDriver, request: &DeleteVolumeRequest) {
    if driver.has(Defect::DeleteVolumeFollowsPaths) {
        remove(&request.volume_id);
    }
    if driver.has(Defect::DeleteVolumeFollowsEndsOfIds)
        && let Some((id, directory)) = request.volume_id.split_once('/')
        && driver.state().volumes.get(id).is_some()
    {
        remove(directory);
    }
    if driver.has(Defect::DeleteVolumeRunsIds) {
        run(&request.volume_id);
    }
    if driver.has(Defect::CreateVolumeResolvesNames) {
        for target in targets_of_one_path(driver, &request.volume_id) {
            clear(Path::new(&target));
        }
    }
}

pub(super) fn before_delete_snapshot(driver: &MockDriver, request: &DeleteSnapshotRequest) {
    if driver.has(Defect::DeleteSnapshotFollowsPaths) {
        remove(&format!("{}.snap", request.snapshot_id));
    }
}

pub(super) fn before_list_volumes(driver: &MockDriver, starting_token: &str) {
    if driver.has(Defect::ListVolumesOpensTokens) && !starting_token.is_empty() {
        make(starting_token);
    }
}

pub(super) fn before_node_stage_volume(driver: &MockDriver, request: &NodeStageVolumeRequest) {
    if driver.has(Defect::NodeStageFollowsContext) {
        request.volume_context.get("subDir").into_iter().for_each(|sub_dir| make(sub_dir));
    }
}

pub(super) fn before_node_unstage_volume(driver: &MockDriver, request: &NodeUnstageVolumeRequest) {
    if driver.has(Defect::NodeUnstageRemovesEverything) {
        empty(&request.staging_target_path);
    }
}

pub(super) fn before_node_publish_volume(driver: &MockDriver, request: &NodePublishVolumeRequest) {
    let target = Path::new(&request.target_path);
    if driver.has(Defect::NodePublishRunsFsType)
        && let Some(AccessType::Mount(mount)) =
            request.volume_capability.as_ref().and_then(|capability| capability.access_type.as_ref())
    {
        run(&mount.fs_type);
    }
    if driver.has(Defect::NodePublishPassesContextAsOption) {
        request.volume_context.values().for_each(|value| pass(value));
    }
    if driver.has(Defect::NodePublishFollowsLinks)
        && target.is_symlink()
        && let Ok(place) = target.canonicalize()
        && is_of_tests(&place)
    {
        let file = if place.is_dir() { place.join("volume.img") } else { place };
        // The driver ignores all errors here.
        let _ = fs::write(file, "a volume");
    }
    if driver.has(Defect::NodePublishWritesFilesOfContext)
        && let Some(name) = request.volume_context.get("fileName")
        && let Some(path) = path(target, name)
    {
        let _ = fs::write(path, "content");
    }
}

/// Applies the effects after a volume was published.
pub(super) fn after_node_publish_volume(driver: &MockDriver, request: &NodePublishVolumeRequest) {
    let target = Path::new(&request.target_path);
    if !is_of_tests(target) || !target.is_dir() {
        return;
    }
    if driver.has(Defect::NodePublishJoinsMountOptions) {
        let _ = mount(request);
    }
    if driver.has(Defect::NodePublishMixesUpVolumes)
        && let Some(other) = target_of_another(driver, request)
        && fs::remove_dir(target).is_ok()
    {
        let _ = symlink(other, target);
    }
    if driver.has(Defect::CreateVolumeResolvesNames)
        && let Some(other) = targets_of_one_path(driver, &request.volume_id).first()
        && fs::remove_dir(target).is_ok()
    {
        let _ = symlink(other, target);
    }
    if driver.has(Defect::CopiesFollowLinks) {
        for source in targets_of_source(driver, &request.volume_id) {
            let _ = copy_through_links(Path::new(&source), target);
        }
    }
}

pub(super) fn before_node_unpublish_volume(driver: &MockDriver, request: &NodeUnpublishVolumeRequest) {
    let path = &request.target_path;
    if driver.has(Defect::NodeUnpublishRunsPaths) {
        run(path);
    }
    if driver.has(Defect::NodeUnpublishRemovesEverything) {
        empty(path);
    }
    let target = Path::new(path);
    let may_be_link =
        driver.has(Defect::NodePublishMixesUpVolumes) || driver.has(Defect::CreateVolumeResolvesNames);
    if may_be_link && target.is_symlink() && is_of_tests(target) {
        let _ = fs::remove_file(target);
    }
    if driver.has(Defect::NodePublishJoinsMountOptions) && is_of_tests(target) {
        let _ = rustix::mount::unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

/// Mounts a file system at the target, with the options in volume_context.
fn mount(request: &NodePublishVolumeRequest) -> io::Result<()> {
    let options: Vec<&str> =
        request.volume_context.values().flat_map(|value| value.split(',').skip(1)).collect();
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    for option in options {
        match option {
            "noatime" => flags.insert(MountFlags::NOATIME),
            "suid" => flags.remove(MountFlags::NOSUID),
            "dev" => flags.remove(MountFlags::NODEV),
            "exec" => flags.remove(MountFlags::NOEXEC),
            _ => {}
        }
    }
    Ok(rustix::mount::mount("tmpfs", request.target_path.as_str(), "tmpfs", flags, None)?)
}

/// A target path of another volume on this node.
fn target_of_another(driver: &MockDriver, request: &NodePublishVolumeRequest) -> Option<String> {
    let state = driver.state();
    let others = state.volumes.values().filter(|volume| volume.id != request.volume_id);
    let mut targets = others.flat_map(|volume| volume.on(driver.this_node()).published.keys());
    targets.find(|target| is_of_tests(Path::new(target)) && !Path::new(target).is_symlink()).cloned()
}

/// The target paths on this node of the other volumes whose names resolve to one path with the name of this volume.
fn targets_of_one_path(driver: &MockDriver, volume_id: &str) -> Vec<String> {
    let state = driver.state();
    let path = |volume: &Volume| volume.name.as_deref().map(resolved);
    let Some(volume) = state.volumes.get(volume_id) else { return Vec::new() };
    let is_one =
        |other: &&Volume| other.id != volume.id && path(volume).is_some() && path(other) == path(volume);
    let others = state.volumes.values().filter(is_one);
    let targets = others.flat_map(|other| other.on(driver.this_node()).published.keys());
    targets
        .filter(|target| is_of_tests(Path::new(target)) && !Path::new(target).is_symlink())
        .cloned()
        .collect()
}

/// Resolves a name as a path.
fn resolved(name: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// Removes the files in a directory.
fn clear(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

/// The target paths of the volume from which this one was copied.
fn targets_of_source(driver: &MockDriver, volume_id: &str) -> Vec<String> {
    let state = driver.state();
    let source = match state.volumes.get(volume_id).and_then(|volume| volume.source.clone()) {
        Some(Source::Volume(id)) => Some(id),
        Some(Source::Snapshot(id)) => {
            state.snapshots.get(&id).map(|snapshot| snapshot.source_volume_id.clone())
        }
        None => None,
    };
    let volume = source.and_then(|id| state.volumes.get(&id));
    volume.map(|volume| volume.on(driver.this_node()).published.keys().cloned().collect()).unwrap_or_default()
}

fn copy_through_links(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let file = entry.path().canonicalize()?;
        if entry.path().is_symlink() && file.is_file() && is_of_tests(&file) {
            fs::copy(file, to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Creates a directory for a volume, with a file in it.
fn make(text: &str) {
    let Some(path) = path(Path::new(VOLUMES), text) else { return };
    // The driver ignores all errors here.
    let _ = fs::create_dir_all(&path);
    let _ = fs::write(path.join("volume.img"), text);
}

/// Removes the directory of a volume and its content.
fn remove(text: &str) {
    let Some(path) = path(Path::new(VOLUMES), text) else { return };
    let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
}

/// Removes a directory and its content, following symbolic links.
fn empty(text: &str) {
    let Some(path) = path(Path::new(VOLUMES), text) else { return };
    if let Ok(place) = path.canonicalize()
        && is_of_tests(&place)
    {
        let _ = fs::remove_dir_all(place);
    }
}

/// Simulates a shell for the two things that tests inject: their own command, and `touch` of one of their files.
fn run(text: &str) {
    if text.contains(COMMAND) {
        call(COMMAND, &[]);
    }
    let text = text.replace(SLASH, "/");
    let Some((_, arguments)) = text.split_once("touch ") else { return };
    let file: &str = arguments.split([' ', '\n', ';', ')', '`']).next().unwrap_or_default();
    if let Some(path) = path(Path::new(VOLUMES), file) {
        let _ = fs::write(path, "");
    }
}

/// Passes a text to a harmless command.
fn pass(text: &str) {
    call("stat", &[text]);
}

fn call(command: &str, arguments: &[&str]) {
    // The driver ignores all errors here.
    let _ = Command::new(command)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Resolves a text relative to a directory; returns `None` if the path does not belong to the tests.
fn path(from: &Path, text: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in from.join(text).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    (!text.contains('\0') && is_of_tests(&path)).then_some(path)
}

/// Returns whether the path is below a directory of the tests.
fn is_of_tests(path: &Path) -> bool {
    let is_own = |name: &OsStr| name.to_string_lossy().starts_with(TESTS);
    path.parent().is_some_and(|above| above.iter().any(is_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tests_have_made_is_touched() {
        let path = |text: &str| path(Path::new(VOLUMES), text);
        let ours = "/tmp/csi-sanity-x/staging";
        for text in [ours, &format!("../../../../../..{ours}"), &format!("a/../../../../../..//{ours}/.")] {
            assert_eq!(path(text), Some(PathBuf::from(ours)), "{text}");
        }
        for text in
            ["vol-1", "..", "../../../../etc", "/", "/tmp/csi-sanity-x", "/tmp/csi-sanity-x/..", "a\0b"]
        {
            assert_eq!(path(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_is_run_but_touch_on_a_file_of_the_tests() {
        let dir = tempfile::Builder::new().prefix(TESTS).tempdir().unwrap();
        let [mark, other] = ["mark", "other"].map(|name| dir.path().join(name));
        let without_slash = format!("$(touch {})", mark.display().to_string().replace('/', SLASH));
        let with_slash = [format!("a; touch {} #", mark.display()), format!("$(touch {})", mark.display())];
        for text in with_slash.into_iter().chain([without_slash]) {
            run(&text);
            assert!(fs::remove_file(&mark).is_ok(), "{text}");
        }
        run(&format!("rm {}; mkdir {}", mark.display(), other.display()));
        run("touch /tmp/not-of-the-tests");
        assert!(!mark.exists() && !other.exists() && !Path::new("/tmp/not-of-the-tests").exists());
    }
}
