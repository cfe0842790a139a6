//! Calls whose commits fail, and what a restart makes of them.

use std::fs;
use std::path::Path;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::{CapacityRange, CreateSnapshotRequest, CreateVolumeRequest, VolumeCapability};

use crate::args::Args;
use crate::controller::{create_snapshot, create_volume, signed};
use crate::driver::Driver;
use crate::error::Result;
use crate::reconcile;
use crate::store::faults::{Fault, Faults};

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// A driver whose state fails on demand.
struct Stand {
    driver: Driver,
    faults: Faults,
}

impl Stand {
    fn new(root: &Path) -> Stand {
        let faults = Faults::default();
        Stand { driver: driver(root, &faults), faults }
    }

    /// Ends the driver and starts it on the same state, which fails no more.
    fn restart(self, root: &Path) -> Stand {
        let Stand { driver: old, faults } = self;
        drop(old);
        faults.set(None);
        Stand { driver: driver(root, &faults), faults }
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

    /// How many records and how many data there are of volumes, and of snapshots, and what is left of the pool.
    fn counts(&self) -> ([usize; 2], [usize; 2], i64) {
        let view = self.driver.store.view().unwrap();
        let on_disk = |directory| fs::read_dir(directory).unwrap().count();
        let volumes = [view.volume_count().unwrap() as usize, on_disk(self.driver.layout.volumes())];
        let snapshots = [view.snapshot_count().unwrap() as usize, on_disk(self.driver.layout.snapshots())];
        (volumes, snapshots, signed(self.driver.ledger.available_bytes(Some("pool")).unwrap()))
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
fn what_is_made_and_its_record_are_both_there_or_neither() {
    let root = tempfile::tempdir().unwrap();
    let mut stand = Stand::new(root.path());
    let volume = stand.create("v", MIB, mount("")).unwrap();
    let alone = ([1, 1], [0, 0], GIB - MIB);
    stand.faults.set(Fault::After(0));
    stand.create("w", MIB, mount("")).unwrap_err();
    stand.faults.set(Fault::After(0));
    stand.snapshot("s", &volume).unwrap_err();
    assert_eq!(stand.counts(), alone);
    // An error that only the last flush has reported: all of it is there.
    stand.faults.set(Fault::Flush);
    stand.create("w", MIB, mount("")).unwrap();
    stand.faults.set(Fault::Flush);
    stand.snapshot("s", &volume).unwrap();
    let both = ([2, 2], [1, 1], GIB - 2 * MIB);
    assert_eq!(stand.counts(), both);
    stand = stand.restart(root.path());
    assert_eq!(stand.counts(), both);
}

#[test]
fn what_may_have_a_record_stays_until_a_restart_knows() {
    let root = tempfile::tempdir().unwrap();
    for (fault, recorded) in [(Fault::After(0), 0), (Fault::Flush, 1)] {
        let root = root.path().join(recorded.to_string());
        fs::create_dir(&root).unwrap();
        let mut stand = Stand::new(&root);
        stand.faults.set_lasting(fault);
        stand.create("v", MIB, mount("")).unwrap_err();
        stand.faults.set(None);
        let left = GIB - MIB;
        assert_eq!(stand.counts(), ([recorded, 1], [0, 0], left), "{fault:?}");
        stand = stand.restart(&root);
        let left = GIB - recorded as i64 * MIB;
        assert_eq!(stand.counts(), ([recorded, recorded], [0, 0], left), "{fault:?}");
    }
}
