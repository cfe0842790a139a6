//! Tests of calls whose commit fails, and of what the next start makes of them.

use std::fs;
use std::path::Path;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::v1::{
    CapacityRange, ControllerExpandVolumeRequest, CreateSnapshotRequest, CreateVolumeRequest,
    NodeExpandVolumeRequest, NodeStageVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};
use csi_test_support::machine::can_mount;
use rustix::mount::UnmountFlags;

use crate::args::Args;
use crate::capacity_range::signed;
use crate::controller::{controller_expand_volume, create_snapshot, create_volume};
use crate::driver::Driver;
use crate::error::Result;
use crate::store::faults::{FailedOperation, Faults};
use crate::{node, reconcile};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// A driver whose state file fails on demand.
struct TestDriver {
    driver: Driver,
    faults: Faults,
}

impl TestDriver {
    fn new(root: &Path) -> TestDriver {
        let faults = Faults::default();
        TestDriver { driver: driver(root, &faults), faults }
    }

    /// Restarts the driver on the same state, without faults.
    fn restart(self, root: &Path) -> TestDriver {
        let TestDriver { driver: old, faults } = self;
        drop(old);
        faults.set(None);
        TestDriver { driver: driver(root, &faults), faults }
    }

    fn create(&self, name: &str, bytes: i64, access: AccessType) -> Result<String> {
        let request = CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: range(bytes),
            volume_capabilities: vec![capability(access)],
            ..Default::default()
        };
        Ok(create_volume(&self.driver, &request)?.volume.unwrap().volume_id)
    }

    fn snapshot(&self, name: &str, volume_id: &str) -> Result<()> {
        let (name, source_volume_id) = (name.to_owned(), volume_id.to_owned());
        let request = CreateSnapshotRequest { name, source_volume_id, ..Default::default() };
        create_snapshot(&self.driver, &request).map(|_| ())
    }

    fn expand(&self, volume_id: &str, bytes: i64) -> Result<()> {
        let (volume_id, capacity_range) = (volume_id.to_owned(), range(bytes));
        let request = ControllerExpandVolumeRequest { volume_id, capacity_range, ..Default::default() };
        controller_expand_volume(&self.driver, &request).map(|_| ())
    }

    fn node_expand(&self, volume_id: &str, path: &Path, bytes: i64) {
        let request = NodeExpandVolumeRequest {
            volume_id: volume_id.to_owned(),
            volume_path: path.to_str().unwrap().to_owned(),
            capacity_range: range(bytes),
            ..Default::default()
        };
        node::node_expand_volume(&self.driver, &request).unwrap();
    }

    fn stage(&self, volume_id: &str, path: &Path, access: AccessType) {
        let request = NodeStageVolumeRequest {
            volume_id: volume_id.to_owned(),
            staging_target_path: path.to_str().unwrap().to_owned(),
            volume_capability: Some(capability(access)),
            ..Default::default()
        };
        node::node_stage_volume(&self.driver, &request).unwrap();
    }

    fn unstage(&self, volume_id: &str, path: &Path) {
        let (volume_id, staging_target_path) = (volume_id.to_owned(), path.to_str().unwrap().to_owned());
        let request = NodeUnstageVolumeRequest { volume_id, staging_target_path };
        node::node_unstage_volume(&self.driver, &request).unwrap();
    }

    /// The sizes of a volume's record and image, and the free storage in the pool.
    fn sizes(&self, volume_id: &str) -> (i64, i64, i64) {
        let volume = self.driver.store.view().unwrap().volume(volume_id).unwrap().unwrap();
        let image = fs::metadata(self.driver.layout.volume(&volume.key)).unwrap();
        let left = self.driver.ledger.available_bytes(Some("pool")).unwrap();
        (signed(volume.capacity_bytes), signed(image.len()), signed(left))
    }

    /// The numbers of records and of data on disk for volumes, the same for snapshots, and the free storage in the
    /// pool.
    fn counts(&self) -> ([usize; 2], [usize; 2], i64) {
        let view = self.driver.store.view().unwrap();
        let on_disk = |directory| fs::read_dir(directory).unwrap().count();
        let volumes = [view.volume_count().unwrap() as usize, on_disk(self.driver.layout.volumes())];
        let snapshots = [view.snapshot_count().unwrap() as usize, on_disk(self.driver.layout.snapshots())];
        (volumes, snapshots, signed(self.driver.ledger.available_bytes(Some("pool")).unwrap()))
    }
}

/// Unmounts what a failing test would leave mounted.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, UnmountFlags::DETACH);
    }
}

fn driver(root: &Path, faults: &Faults) -> Driver {
    let state = format!("--statedir={}", root.join("state").display());
    let flags = ["driver", "--nodeid=node", "--capacity=pool=1Gi", &state];
    let config = Args::read(flags.map(Into::into)).unwrap().into_config().unwrap();
    let driver = Driver::open_with(config, |path, data| faults.open_store(path, data)).unwrap();
    reconcile::run(&driver).unwrap();
    driver
}

fn range(bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 })
}

fn capability(access: AccessType) -> VolumeCapability {
    let mode = AccessMode { mode: Mode::SingleNodeWriter.into() };
    VolumeCapability { access_mode: Some(mode), access_type: Some(access) }
}

fn mount(fs_type: &str) -> AccessType {
    AccessType::Mount(MountVolume { fs_type: fs_type.to_owned(), ..Default::default() })
}

#[test]
fn data_and_record_exist_together_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let mut test = TestDriver::new(root.path());
    let volume = test.create("v", MIB, mount("")).unwrap();
    let alone = ([1, 1], [0, 0], GIB - MIB);
    test.faults.set(FailedOperation::After(0));
    test.create("w", MIB, mount("")).unwrap_err();
    test.faults.set(FailedOperation::After(0));
    test.snapshot("s", &volume).unwrap_err();
    assert_eq!(test.counts(), alone);
    // An error of the last flush: by then the commit is in the file, so it has taken place.
    test.faults.set(FailedOperation::Flush);
    test.create("w", MIB, mount("")).unwrap();
    test.faults.set(FailedOperation::Flush);
    test.snapshot("s", &volume).unwrap();
    let both = ([2, 2], [1, 1], GIB - 2 * MIB);
    assert_eq!(test.counts(), both);
    test = test.restart(root.path());
    assert_eq!(test.counts(), both);
}

#[test]
fn data_of_an_unsettled_commit_stay_until_a_restart() {
    let root = tempfile::tempdir().unwrap();
    for (fault, recorded) in [(FailedOperation::After(0), 0), (FailedOperation::Flush, 1)] {
        let root = root.path().join(recorded.to_string());
        fs::create_dir(&root).unwrap();
        let mut test = TestDriver::new(&root);
        test.faults.set_lasting(fault);
        test.create("v", MIB, mount("")).unwrap_err();
        test.faults.set(None);
        let left = GIB - MIB;
        assert_eq!(test.counts(), ([recorded, 1], [0, 0], left), "{fault:?}");
        test = test.restart(&root);
        let left = GIB - recorded as i64 * MIB;
        assert_eq!(test.counts(), ([recorded, recorded], [0, 0], left), "{fault:?}");
    }
}

#[test]
fn failed_expansion_is_undone_or_completed() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut test = TestDriver::new(root.path());
    let volume = test.create("v", MIB, AccessType::Block(BlockVolume {})).unwrap();
    test.faults.set(FailedOperation::After(0));
    test.expand(&volume, 4 * MIB).unwrap_err();
    assert_eq!(test.sizes(&volume), (MIB, MIB, GIB - MIB));
    test.faults.set(FailedOperation::Flush);
    test.expand(&volume, 4 * MIB).unwrap();
    let grown = (4 * MIB, 4 * MIB, GIB - 4 * MIB);
    assert_eq!(test.sizes(&volume), grown);
    test = test.restart(root.path());
    assert_eq!(test.sizes(&volume), grown);
}

#[test]
fn restart_keeps_expansion_with_unsettled_commit() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut test = TestDriver::new(root.path());
    let volume = test.create("v", MIB, AccessType::Block(BlockVolume {})).unwrap();
    for (fault, bytes) in [(FailedOperation::After(0), 2 * MIB), (FailedOperation::Flush, 4 * MIB)] {
        test.faults.set_lasting(fault);
        test.expand(&volume, bytes).unwrap_err();
        test = test.restart(root.path());
        assert_eq!(test.sizes(&volume), (bytes, bytes, GIB - bytes), "{fault:?}");
    }
}

#[test]
fn failed_growth_of_a_file_system_survives_restart() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let staging = root.path().join("staging");
    fs::create_dir(&staging).unwrap();
    let _mounted = Mounted(&staging);
    let mut test = TestDriver::new(root.path());
    let volume = test.create("v", 320 * MIB, mount("xfs")).unwrap();
    test.stage(&volume, &staging, mount("xfs"));
    test.faults.set(FailedOperation::After(0));
    test.expand(&volume, 640 * MIB).unwrap_err();
    // The file system grows to the end of its device, which is where the image ended when the device was attached.
    test.unstage(&volume, &staging);
    test.stage(&volume, &staging, mount("xfs"));
    test.node_expand(&volume, &staging, 400 * MIB);
    fs::write(staging.join("file"), "kept").unwrap();
    test = test.restart(root.path());
    let (recorded, present, _) = test.sizes(&volume);
    assert_eq!(recorded, present);
    let space = rustix::fs::statvfs(&staging).unwrap();
    assert!(signed(space.f_blocks * space.f_frsize) <= present, "the end of the file system is cut off");
    assert_eq!(fs::read(staging.join("file")).unwrap(), b"kept");
    test.unstage(&volume, &staging);
}

/// A driver that is killed between growing the image and committing the record leaves this state.
#[test]
fn image_larger_than_its_record_keeps_its_end() {
    if !can_mount() {
        return;
    }
    use std::os::unix::fs::FileExt;
    let root = tempfile::tempdir().unwrap();
    let mut test = TestDriver::new(root.path());
    let volume = test.create("v", MIB, AccessType::Block(BlockVolume {})).unwrap();
    let image = root.path().join("state/volumes").join(&volume);
    let file = fs::OpenOptions::new().read(true).write(true).open(image).unwrap();
    file.set_len(2 * MIB as u64).unwrap();
    file.write_all_at(b"kept", 2 * MIB as u64 - 4).unwrap();
    test = test.restart(root.path());
    assert_eq!(test.sizes(&volume), (2 * MIB, 2 * MIB, GIB - 2 * MIB));
    let mut end = [0; 4];
    file.read_exact_at(&mut end, 2 * MIB as u64 - 4).unwrap();
    assert_eq!(&end, b"kept");
}
