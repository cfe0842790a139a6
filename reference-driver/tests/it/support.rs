//! The tests run a driver in its own directory, make calls with these helpers, and check that the driver leaves nothing behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use csi_hostpath_driver::HostpathDriver;
use csi_hostpath_driver::mount::mounts;
pub(crate) use csi_proto::v1::VolumeContentSource as Source;
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode};
use csi_proto::v1::*;
pub(crate) use csi_test_support::hostpath::config;
use tempfile::TempDir;
use tonic::{Request, Status};

pub(crate) const MIB: i64 = 1 << 20;

/// Ends a test if this machine cannot mount file systems.
macro_rules! needs_mounts {
    () => {
        if !csi_test_support::machine::can_mount() {
            return;
        }
    };
}
pub(crate) use needs_mounts;

/// A fixture is the directory of a test. On drop it removes remaining mounts and loop devices, and fails the test if there were any.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) root: PathBuf,
    _directory: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let directory = tempfile::Builder::new().prefix("hostpath-test-").tempdir().unwrap();
        Fixture { root: directory.path().canonicalize().unwrap(), _directory: directory }
    }

    /// Returns the mount points below the directory.
    pub(crate) fn mount_points(&self) -> Vec<PathBuf> {
        let all = mounts().unwrap().into_iter().map(|entry| entry.mount_point);
        all.filter(|point| point.starts_with(&self.root)).collect()
    }

    /// Returns the loop devices whose files are named like volumes of this driver, regardless of the path that the kernel reports.
    pub(crate) fn loop_devices_by_name(&self) -> Vec<PathBuf> {
        let volumes = fs::read_dir(self.root.join("state/volumes")).unwrap().flatten();
        let names: Vec<_> = volumes.map(|entry| entry.file_name()).collect();
        let blocks = fs::read_dir("/sys/block").unwrap().flatten();
        let backing = |block: &fs::DirEntry| {
            fs::read_to_string(block.path().join("loop/backing_file")).unwrap_or_default()
        };
        let ours = |block: &fs::DirEntry| {
            Path::new(backing(block).trim_end())
                .file_name()
                .is_some_and(|name| names.iter().any(|known| known == name))
        };
        blocks.filter(ours).map(|block| Path::new("/dev").join(block.file_name())).collect()
    }

    /// Returns whether no loop device is left.
    pub(crate) fn has_no_loop_devices(&self) -> bool {
        self.settled_loop_devices(0).is_empty()
    }

    /// Returns the loop devices. If there are more than `count`, waits until those that are being detached are no longer open.
    pub(crate) fn settled_loop_devices(&self, count: usize) -> Vec<PathBuf> {
        let settled = || Some(self.loop_devices()).filter(|devices| devices.len() == count);
        unless_held(settled).unwrap_or_else(|| self.loop_devices())
    }

    /// Returns the loop devices whose files are below the directory.
    pub(crate) fn loop_devices(&self) -> Vec<PathBuf> {
        let blocks = fs::read_dir("/sys/block").unwrap().flatten();
        blocks
            .filter(|block| {
                let backing = fs::read_to_string(block.path().join("loop/backing_file")).unwrap_or_default();
                Path::new(backing.trim_end()).starts_with(&self.root)
            })
            .map(|block| Path::new("/dev").join(block.file_name()))
            .collect()
    }
}

/// The child of another test may hold the files of this process for this time, until it executes its program.
const HELD_BY_OTHERS_S: u64 = 10;

/// Repeats a function until it returns a value, for as long as the child of another test may hold a file.
pub(crate) fn unless_held<T>(try_once: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(HELD_BY_OTHERS_S);
    loop {
        let got = try_once();
        if got.is_some() || Instant::now() > deadline {
            return got;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Unmounts a path that is not in use.
pub(crate) fn unmount(path: impl AsRef<Path>) {
    let path = path.as_ref();
    let tried = || match rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty()) {
        Err(rustix::io::Errno::BUSY) => None,
        ended => Some(ended),
    };
    unless_held(tried).unwrap_or_else(|| panic!("{} is in use", path.display())).unwrap();
}

/// Fills a file system with a new file.
pub(crate) fn fill(filler: &Path) {
    let mut file = fs::File::create(filler).unwrap();
    let full = std::io::copy(&mut std::io::repeat(1), &mut file).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
}

/// Removes the file that fills a file system. The file is truncated first, because removing it frees nothing while
/// the child of another test has it open.
pub(crate) fn make_room(filler: &Path) {
    fs::File::options().write(true).truncate(true).open(filler).unwrap();
    fs::remove_file(filler).unwrap();
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let mounts = self.mount_points();
        let devices = self.settled_loop_devices(0);
        for mount in mounts.iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(mount).status();
        }
        for device in &devices {
            let _ = Command::new("losetup").arg("-d").arg(device).status();
        }
        if !std::thread::panicking() {
            assert!(mounts.is_empty(), "mounts are left: {mounts:?}");
            assert!(devices.is_empty(), "loop devices are left: {devices:?}");
        }
    }
}

/// A rig has a driver in this process, with the directories that kubelet would create.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) driver: HostpathDriver,
    pub(crate) fixture: Fixture,
}

impl Rig {
    pub(crate) async fn new(flags: &[&str]) -> Rig {
        Rig::on(Fixture::new(), flags).await
    }

    pub(crate) async fn on(fixture: Fixture, flags: &[&str]) -> Rig {
        let driver = HostpathDriver::new(config(&fixture.root, flags)).unwrap();
        assert!(driver.ready().await);
        fs::create_dir_all(fixture.root.join("targets")).unwrap();
        Rig { driver, fixture }
    }

    /// Restarts the driver on the same state.
    pub(crate) async fn restart(self, flags: &[&str]) -> Rig {
        let Rig { driver, fixture } = self;
        drop(driver);
        Rig::on(fixture, flags).await
    }

    fn staging_path(&self, name: &str) -> String {
        self.fixture.root.join("staging").join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn staging(&self, name: &str) -> String {
        let path = self.staging_path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn target(&self, name: &str) -> String {
        self.fixture.root.join("targets").join(name).to_str().unwrap().to_owned()
    }

    pub(crate) async fn try_create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        Ok(self.driver.create_volume(Request::new(request)).await?.into_inner().volume.unwrap())
    }

    pub(crate) async fn create(&self, name: &str, bytes: i64, capability: VolumeCapability) -> Volume {
        self.try_create(create_request(name, bytes, capability)).await.unwrap()
    }

    /// Creates a volume from a snapshot or another volume.
    pub(crate) async fn copy(
        &self,
        name: &str,
        bytes: i64,
        capability: VolumeCapability,
        source: Source,
    ) -> Volume {
        let mut request = create_request(name, bytes, capability);
        request.volume_content_source = Some(source);
        self.try_create(request).await.unwrap()
    }

    pub(crate) async fn try_delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest { volume_id: id.to_owned(), ..DeleteVolumeRequest::default() };
        self.driver.delete_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn delete(&self, id: &str) {
        self.try_delete(id).await.unwrap();
    }

    /// Waits until the data of all deleted objects are removed.
    pub(crate) async fn removed(&self) {
        until_removed(&self.fixture.root).await;
    }

    pub(crate) async fn try_attach(&self, id: &str, node: &str, readonly: bool) -> Result<(), Status> {
        let request = ControllerPublishVolumeRequest { readonly, ..attach_request(id, node, mount("")) };
        self.driver.controller_publish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn try_attach_as(
        &self,
        id: &str,
        node: &str,
        capability: VolumeCapability,
    ) -> Result<(), Status> {
        let request = attach_request(id, node, capability);
        self.driver.controller_publish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn try_detach(&self, id: &str, node: &str) -> Result<(), Status> {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: id.to_owned(),
            node_id: node.to_owned(),
            ..ControllerUnpublishVolumeRequest::default()
        };
        self.driver.controller_unpublish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn try_stage(
        &self,
        id: &str,
        path: &str,
        capability: VolumeCapability,
    ) -> Result<(), Status> {
        let request = NodeStageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: path.to_owned(),
            volume_capability: Some(capability),
            ..NodeStageVolumeRequest::default()
        };
        self.driver.node_stage_volume(Request::new(request)).await.map(|_| ())
    }

    /// Stages a volume at a path named after it.
    pub(crate) async fn stage(&self, id: &str, capability: VolumeCapability) -> String {
        let path = self.staging(id);
        self.try_stage(id, &path, capability).await.unwrap();
        path
    }

    pub(crate) async fn try_publish(
        &self,
        id: &str,
        target: &str,
        capability: VolumeCapability,
        readonly: bool,
    ) -> Result<(), Status> {
        let request = NodePublishVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: self.staging(id),
            target_path: target.to_owned(),
            volume_capability: Some(capability),
            readonly,
            ..NodePublishVolumeRequest::default()
        };
        self.driver.node_publish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn publish(&self, id: &str, capability: VolumeCapability, readonly: bool) -> PathBuf {
        let target = self.target(id);
        self.try_publish(id, &target, capability, readonly).await.unwrap();
        PathBuf::from(target)
    }

    pub(crate) async fn bring(&self, id: &str, capability: VolumeCapability) -> PathBuf {
        self.stage(id, capability.clone()).await;
        self.publish(id, capability, false).await
    }

    pub(crate) async fn try_unpublish(&self, id: &str, target: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path: target.to_owned() };
        self.driver.node_unpublish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn try_unstage(&self, id: &str) -> Result<(), Status> {
        let staging_target_path = self.staging_path(id);
        let request = NodeUnstageVolumeRequest { volume_id: id.to_owned(), staging_target_path };
        self.driver.node_unstage_volume(Request::new(request)).await.map(|_| ())
    }

    pub(crate) async fn take(&self, id: &str) {
        self.try_unpublish(id, &self.target(id)).await.unwrap();
        self.try_unstage(id).await.unwrap();
    }

    pub(crate) async fn snapshot(&self, name: &str, id: &str) -> Snapshot {
        let request = CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: id.to_owned(),
            ..CreateSnapshotRequest::default()
        };
        self.driver.create_snapshot(Request::new(request)).await.unwrap().into_inner().snapshot.unwrap()
    }

    pub(crate) async fn delete_snapshot(&self, id: &str) {
        let request =
            DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..DeleteSnapshotRequest::default() };
        self.driver.delete_snapshot(Request::new(request)).await.unwrap();
    }

    pub(crate) async fn expand(&self, id: &str, bytes: i64) -> ControllerExpandVolumeResponse {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
            ..ControllerExpandVolumeRequest::default()
        };
        self.driver.controller_expand_volume(Request::new(request)).await.unwrap().into_inner()
    }

    pub(crate) async fn stats(&self, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: path.to_owned(),
            staging_target_path: String::new(),
        };
        Ok(self.driver.node_get_volume_stats(Request::new(request)).await?.into_inner())
    }
}

/// The driver removes within this time what was deleted. On a busy machine, 15,000 nested directories take most of a minute.
const REMOVAL_MAX: Duration = Duration::from_secs(180);

/// Waits until no data of volumes and snapshots exist. The driver removes them some time after the reply to a
/// deletion.
pub(crate) async fn until_removed(root: &Path) {
    let is_empty = |part: &str| fs::read_dir(root.join("state").join(part)).unwrap().next().is_none();
    let polled = async {
        while !is_empty("volumes") || !is_empty("snapshots") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(REMOVAL_MAX, polled).await.expect("data of what was deleted are left");
}

pub(crate) fn create_request(name: &str, bytes: i64, capability: VolumeCapability) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
        volume_capabilities: vec![capability],
        ..CreateVolumeRequest::default()
    }
}

fn attach_request(volume: &str, node: &str, capability: VolumeCapability) -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: volume.to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(capability),
        ..ControllerPublishVolumeRequest::default()
    }
}

pub(crate) fn capability(mode: Mode, access: AccessType) -> VolumeCapability {
    VolumeCapability { access_mode: Some(AccessMode { mode: mode.into() }), access_type: Some(access) }
}

/// Returns a capability to mount a volume for one writer.
pub(crate) fn mount(fs_type: &str) -> VolumeCapability {
    mount_mode(fs_type, Mode::SingleNodeWriter)
}

pub(crate) fn mount_mode(fs_type: &str, mode: Mode) -> VolumeCapability {
    capability(mode, AccessType::Mount(MountVolume { fs_type: fs_type.to_owned(), ..MountVolume::default() }))
}

/// Returns a capability to mount a volume for one writer, with a mount flag.
pub(crate) fn mount_with_flag(fs_type: &str, flag: &str) -> VolumeCapability {
    let mount =
        MountVolume { fs_type: fs_type.to_owned(), mount_flags: vec![flag.to_owned()], ..Default::default() };
    capability(Mode::SingleNodeWriter, AccessType::Mount(mount))
}

/// Returns a capability to use a raw block volume for one writer.
pub(crate) fn block() -> VolumeCapability {
    capability(Mode::SingleNodeWriter, AccessType::Block(BlockVolume {}))
}

pub(crate) fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Writes a file and flushes it.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

/// Returns the size of the file system at a path, in bytes.
pub(crate) fn file_system_bytes(path: &Path) -> i64 {
    let space = rustix::fs::statvfs(path).unwrap();
    i64::try_from(space.f_blocks * space.f_frsize).unwrap()
}

pub(crate) fn codes<T>(results: &[Result<T, Status>]) -> Vec<tonic::Code> {
    results.iter().map(|result| result.as_ref().map_or_else(Status::code, |_| tonic::Code::Ok)).collect()
}

/// This is a repeatable random generator (xorshift).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
