//! Measures the parts of the driver that dominate the time of calls: reading the mount table, committing records, and
//! comparing images.
//!
//! ```text
//! cargo bench -p csi-hostpath-driver --bench parts
//! ```
#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use csi_hostpath_driver::args::Args;
use csi_hostpath_driver::ids::{ObjectId, ObjectKind};
use csi_hostpath_driver::store::{BackendKind, Change, FsState, Store, Volume};
use csi_hostpath_driver::{HostpathDriver, mount};
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume};
use csi_proto::v1::{
    CapacityRange, CreateSnapshotRequest, CreateVolumeRequest, GetMetadataAllocatedRequest,
    GetMetadataDeltaRequest, VolumeCapability,
};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;
use tonic::Request;

fn main() {
    divan::main();
}

/// Reads a mount table like that of a node with this many mounts of pods.
#[divan::bench(args = [100, 1_000, 10_000])]
fn read_mount_table(bencher: Bencher<'_, '_>, mounts: usize) {
    let line = |number: usize| {
        format!(
            "{number} 29 7:{number} / /var/lib/kubelet/pods/{number}/volumes/kubernetes.io~csi/pvc-{number}/mount \
             rw,relatime shared:{number} - ext4 /dev/loop{number} rw\n"
        )
    };
    let table: String = (0..mounts).map(line).collect();
    bencher
        .counter(ItemsCount::new(mounts))
        .bench_local(|| table.as_bytes().split(|byte| *byte == b'\n').filter_map(mount::parse_mount).count());
}

/// Measures one durable commit of one record, with this number of existing records and no concurrent commits.
#[divan::bench(args = [0, 10_000], sample_count = 50, sample_size = 1)]
fn commit_alone(bencher: Bencher<'_, '_>, present: usize) {
    let (_directory, store) = store_with(present);
    bencher
        .with_inputs(|| vec![Change::PutVolume(volume())])
        .bench_local_values(|changes| store.commit(changes));
}

/// Measures one commit by each of sixteen callers at once. Concurrent commits share flushes.
#[divan::bench(threads = 16, args = [0, 10_000], sample_count = 320, sample_size = 1)]
fn commit_together(bencher: Bencher<'_, '_>, present: usize) {
    let (_directory, store) = store_with(present);
    bencher.with_inputs(|| vec![Change::PutVolume(volume())]).bench_values(|changes| store.commit(changes));
}

#[divan::bench(args = [1_000, 10_000])]
fn look_up(bencher: Bencher<'_, '_>, present: usize) {
    let (_directory, store) = store_with(present - 1);
    let wanted = volume();
    store.commit(vec![Change::PutVolume(wanted.clone())]).unwrap();
    bencher.bench_local(|| store.view().unwrap().volume_by_name(&wanted.name).unwrap().unwrap());
}

fn store_with(volumes: usize) -> (TempDir, Store) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = Store::open(&directory.path().join("state.redb"), &[]).unwrap();
    store.commit((0..volumes).map(|_| Change::PutVolume(volume())).collect()).unwrap();
    (directory, store)
}

fn volume() -> Volume {
    let key = ObjectId::generate(ObjectKind::Volume).unwrap();
    Volume {
        project: None,
        name: format!("pvc-{key}"),
        key,
        inline_id: None,
        backend: BackendKind::named("directory").unwrap(),
        capacity_bytes: 1 << 30,
        pool: None,
        fs: FsState::Unknown,
        parameters: BTreeMap::new(),
        first_mutable_parameters: BTreeMap::new(),
        mutable_parameters: BTreeMap::new(),
        fs_types: BTreeSet::new(),
        source: None,
        attachments: BTreeMap::new(),
        untouched: false,
    }
}

/// Each of the compared images has this size.
const IMAGE_BYTES: u64 = 256 << 20;
/// Changed blocks have this distance.
const CHANGE_EVERY_BYTES: u64 = 16 << 20;
const BLOCK_BYTES: usize = 4096;

/// Measures GetMetadataAllocated of an image without holes.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn list_allocated(bencher: Bencher<'_, '_>) {
    let Some(pair) = Pair::make() else { return };
    bencher.counter(BytesCount::new(IMAGE_BYTES)).bench_local(|| pair.allocated());
}

/// Measures GetMetadataDelta of two images that differ in a few blocks.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn compare_images(bencher: Bencher<'_, '_>) {
    let Some(pair) = Pair::make() else { return };
    bencher.counter(BytesCount::new(IMAGE_BYTES)).bench_local(|| pair.delta());
}

/// A pair has two snapshots of a block volume; some blocks changed between them.
struct Pair {
    runtime: Runtime,
    driver: HostpathDriver,
    base: String,
    target: String,
    _directory: TempDir,
}

impl Pair {
    /// Returns `None` without the privilege to create block volumes.
    fn make() -> Option<Pair> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let state = directory.path().join("state");
        let flags =
            ["bench", "--nodeid=bench", "--enable-snapshot-metadata", "--statedir"].map(OsString::from);
        let config =
            Args::read(flags.into_iter().chain([state.clone().into()])).unwrap().into_config().unwrap();
        let runtime = Runtime::new().unwrap();
        let driver = HostpathDriver::new(config).unwrap();
        let (base, target) = runtime.block_on(async {
            driver.ready().await;
            let volume = create_volume(&driver).await;
            let image = state.join("volumes").join(&volume);
            fill(&image);
            let base = create_snapshot(&driver, &volume, "base").await;
            change(&image);
            (base, create_snapshot(&driver, &volume, "target").await)
        });
        Some(Pair { runtime, driver, base, target, _directory: directory })
    }

    fn allocated(&self) -> usize {
        self.runtime.block_on(async {
            let request =
                GetMetadataAllocatedRequest { snapshot_id: self.base.clone(), ..Default::default() };
            let stream =
                self.driver.get_metadata_allocated(Request::new(request)).await.unwrap().into_inner();
            stream
                .map(|message| message.unwrap().block_metadata.len())
                .fold(0, |sum, count| sum + count)
                .await
        })
    }

    fn delta(&self) -> usize {
        self.runtime.block_on(async {
            let request = GetMetadataDeltaRequest {
                base_snapshot_id: self.base.clone(),
                target_snapshot_id: self.target.clone(),
                ..Default::default()
            };
            let stream = self.driver.get_metadata_delta(Request::new(request)).await.unwrap().into_inner();
            stream
                .map(|message| message.unwrap().block_metadata.len())
                .fold(0, |sum, count| sum + count)
                .await
        })
    }
}

async fn create_volume(driver: &HostpathDriver) -> String {
    let capability = VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    };
    let request = CreateVolumeRequest {
        name: "bench".to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: IMAGE_BYTES.cast_signed(), limit_bytes: 0 }),
        volume_capabilities: vec![capability],
        ..Default::default()
    };
    let answer = driver.create_volume(Request::new(request)).await.unwrap().into_inner();
    answer.volume.unwrap().volume_id
}

async fn create_snapshot(driver: &HostpathDriver, volume: &str, name: &str) -> String {
    let request = CreateSnapshotRequest {
        source_volume_id: volume.to_owned(),
        name: name.to_owned(),
        ..Default::default()
    };
    let answer = driver.create_snapshot(Request::new(request)).await.unwrap().into_inner();
    answer.snapshot.unwrap().snapshot_id
}

fn fill(image: &Path) {
    let mut random = File::open("/dev/urandom").unwrap();
    let mut file = OpenOptions::new().write(true).open(image).unwrap();
    std::io::copy(&mut std::io::Read::take(&mut random, IMAGE_BYTES), &mut file).unwrap();
    file.sync_all().unwrap();
}

fn change(image: &Path) {
    let file = OpenOptions::new().write(true).open(image).unwrap();
    for at in (0..IMAGE_BYTES).step_by(usize::try_from(CHANGE_EVERY_BYTES).unwrap()) {
        file.write_all_at(&[0x5a; BLOCK_BYTES], at).unwrap();
    }
    file.sync_all().unwrap();
}
