//! Kills the driver at random moments under load, and checks what is left.
//!
//! Workers take volumes through their lifecycle and remember what was acknowledged. After each kill, the next driver
//! has to know all of that, and nothing half done. The interrupted call is repeated and has to succeed. Then mounts,
//! loop devices, files and their data are compared with what the workers remember.
//!
//! `HOSTPATH_CRASH_SEED` repeats a run, and `HOSTPATH_CRASH_KILLS` sets the number of kills.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use csi_proto::v1::controller_client::ControllerClient;
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::node_client::NodeClient;
use csi_proto::v1::*;
use csi_test_support::run::from_environment;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::process::Process;
use crate::support::*;

const KILLS: u64 = 200;
const WORKERS: usize = 4;
const SIZE: i64 = 4 * MIB;
/// A kill comes after the beginning of the load by this time at the latest.
const LOAD_MS_MAX: u64 = 60;
/// A worker notices the kill within this time.
const WORKER_LIMIT: Duration = Duration::from_secs(60);
/// A call that fails with ABORTED is repeated at most this many times.
const REPEATS_MAX: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    Image,
    Block,
}

impl Kind {
    fn capability(self) -> VolumeCapability {
        if self == Kind::Block { block() } else { mount("") }
    }

    /// Returns the file that contains the token: one in a directory, or the device itself.
    fn token_file(self, at: &Path) -> PathBuf {
        if self == Kind::Block { at.to_owned() } else { at.join("token") }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Created,
    Staged,
    Published,
}

#[derive(Clone, Debug)]
struct KnownVolume {
    id: String,
    life: Life,
    bytes: i64,
    token: Option<u64>,
}

#[derive(Clone, Debug)]
struct KnownSnapshot {
    id: String,
    bytes: i64,
    token: Option<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    Create { name: String, restore: bool },
    Delete,
    Stage,
    Unstage,
    Publish,
    Unpublish,
    Expand,
    Write,
    Snapshot { name: String },
    DeleteSnapshot,
}

#[derive(Clone, Debug)]
struct Worker {
    number: usize,
    kind: Kind,
    root: PathBuf,
    random: Random,
    names: u64,
    volume: Option<KnownVolume>,
    snapshot: Option<KnownSnapshot>,
    /// This step has begun and was not acknowledged.
    pending: Option<Step>,
}

impl Worker {
    fn new(number: usize, root: &Path, seed: u64) -> Worker {
        let kind = [Kind::Directory, Kind::Image, Kind::Block][number % 3];
        for part in ["staging", "targets"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        fs::create_dir_all(root.join("staging").join(number.to_string())).unwrap();
        let random = Random::new(seed.wrapping_add(number as u64 * 1_000_003));
        Worker {
            number,
            kind,
            root: root.to_owned(),
            random,
            names: 0,
            volume: None,
            snapshot: None,
            pending: None,
        }
    }

    fn staging(&self) -> String {
        self.root.join("staging").join(self.number.to_string()).to_str().unwrap().to_owned()
    }

    fn target(&self) -> PathBuf {
        self.root.join("targets").join(self.number.to_string())
    }

    fn fresh_name(&mut self) -> String {
        self.names += 1;
        format!("w{}-{}", self.number, self.names)
    }

    fn choose(&mut self) -> Step {
        let dice = self.random.below(6);
        let Some(life) = self.volume.as_ref().map(|volume| volume.life) else {
            let restore = self.snapshot.is_some() && dice < 3;
            return Step::Create { name: self.fresh_name(), restore };
        };
        match (dice, life) {
            (0, _) if self.snapshot.is_none() => Step::Snapshot { name: self.fresh_name() },
            (0, _) => Step::DeleteSnapshot,
            (1, _) => Step::Expand,
            (2, Life::Created) => Step::Delete,
            (_, Life::Created) => Step::Stage,
            (2, Life::Staged) => Step::Unstage,
            (_, Life::Staged) => Step::Publish,
            (2 | 3, Life::Published) => Step::Unpublish,
            (_, Life::Published) => Step::Write,
        }
    }

    /// Works until `stop` is set or a call is interrupted, whose step is then in `pending`.
    async fn work(mut self, channel: Channel, stop: Arc<AtomicBool>) -> Worker {
        while !stop.load(Ordering::Relaxed) {
            let step = self.choose();
            self.pending = Some(step.clone());
            if self.take_step(&channel, step).await.is_err() {
                return self;
            }
            self.pending = None;
        }
        self
    }

    /// Repeats the interrupted step, which has to succeed now.
    async fn catch_up(&mut self, channel: &Channel) {
        if let Some(step) = self.pending.clone() {
            let shown = format!("worker {} ({:?}): {step:?}", self.number, self.kind);
            self.take_step(channel, step).await.unwrap_or_else(|status| panic!("{shown}: {status:?}"));
            self.pending = None;
        }
    }

    async fn take_step(&mut self, channel: &Channel, step: Step) -> Result<(), Status> {
        for _ in 0..REPEATS_MAX {
            match self.try_step(channel, step.clone()).await {
                Err(status) if status.code() == Code::Aborted => tokio::task::yield_now().await,
                Err(status)
                    if matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled) =>
                {
                    return Err(status);
                }
                Err(status) => panic!("worker {} ({:?}): {step:?}: {status:?}", self.number, self.kind),
                Ok(()) => return Ok(()),
            }
        }
        panic!("worker {} ({:?}): {step:?} is aborted for ever", self.number, self.kind);
    }

    async fn try_step(&mut self, channel: &Channel, step: Step) -> Result<(), Status> {
        let mut controller = ControllerClient::new(channel.clone());
        let mut node = NodeClient::new(channel.clone());
        let volume_id = self.volume.as_ref().map(|volume| volume.id.clone()).unwrap_or_default();
        let capability = self.kind.capability();
        let target_path = self.target().to_str().unwrap().to_owned();
        match step {
            Step::Create { name, restore } => self.create(&mut controller, name, restore).await?,
            Step::Delete => {
                controller.delete_volume(DeleteVolumeRequest { volume_id, ..Default::default() }).await?;
                self.volume = None;
            }
            Step::Stage => {
                let request = NodeStageVolumeRequest {
                    volume_id,
                    staging_target_path: self.staging(),
                    volume_capability: Some(capability),
                    ..Default::default()
                };
                node.node_stage_volume(request).await?;
                self.known().life = Life::Staged;
            }
            Step::Unstage => {
                let staging_target_path = self.staging();
                node.node_unstage_volume(NodeUnstageVolumeRequest { volume_id, staging_target_path }).await?;
                self.known().life = Life::Created;
            }
            Step::Publish => {
                let request = NodePublishVolumeRequest {
                    volume_id,
                    staging_target_path: self.staging(),
                    target_path,
                    volume_capability: Some(capability),
                    ..Default::default()
                };
                node.node_publish_volume(request).await?;
                self.known().life = Life::Published;
                self.check_token();
            }
            Step::Unpublish => {
                node.node_unpublish_volume(NodeUnpublishVolumeRequest { volume_id, target_path }).await?;
                self.known().life = Life::Staged;
            }
            Step::Expand => {
                let required_bytes = self.known().bytes + 4096;
                let request = ControllerExpandVolumeRequest {
                    volume_id,
                    capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
                    ..Default::default()
                };
                self.known().bytes =
                    controller.controller_expand_volume(request).await?.into_inner().capacity_bytes;
            }
            Step::Write => self.write_token().await,
            Step::Snapshot { name } => {
                let request =
                    CreateSnapshotRequest { source_volume_id: volume_id, name, ..Default::default() };
                let snapshot = controller.create_snapshot(request).await?.into_inner().snapshot.unwrap();
                let token = self.known().token;
                self.snapshot =
                    Some(KnownSnapshot { id: snapshot.snapshot_id, bytes: snapshot.size_bytes, token });
            }
            Step::DeleteSnapshot => {
                let snapshot_id = self.snapshot.as_ref().unwrap().id.clone();
                controller
                    .delete_snapshot(DeleteSnapshotRequest { snapshot_id, ..Default::default() })
                    .await?;
                self.snapshot = None;
            }
        }
        Ok(())
    }

    async fn create(
        &mut self,
        controller: &mut ControllerClient<Channel>,
        name: String,
        restore: bool,
    ) -> Result<(), Status> {
        let source = self.snapshot.clone().filter(|_| restore);
        let bytes = source.as_ref().map_or(SIZE, |snapshot| snapshot.bytes);
        let mut request = create_request(&name, bytes, self.kind.capability());
        if self.kind == Kind::Image {
            request.parameters = map(&[("backend", "image")]);
        }
        request.volume_content_source = source.as_ref().map(|snapshot| Source::snapshot(&snapshot.id));
        let volume = controller.create_volume(request).await?.into_inner().volume.unwrap();
        let token = source.and_then(|snapshot| snapshot.token);
        let bytes = volume.capacity_bytes;
        self.volume = Some(KnownVolume { id: volume.volume_id, life: Life::Created, bytes, token });
        Ok(())
    }

    fn known(&mut self) -> &mut KnownVolume {
        self.volume.as_mut().unwrap()
    }

    /// Writes a new token into the volume, on its own thread: the driver may die with the file system frozen, which
    /// blocks the write.
    async fn write_token(&mut self) {
        let token = self.random.below(u64::MAX);
        let file = self.kind.token_file(&self.target());
        tokio::task::spawn_blocking(move || write_synced(&file, format!("{token:020}").as_bytes()))
            .await
            .unwrap();
        self.known().token = Some(token);
    }

    fn check_token(&mut self) {
        let (file, expected) = (self.kind.token_file(&self.target()), self.known().token);
        let found = read_token(&file);
        assert_eq!(found, expected, "worker {} ({:?}): the data of the volume", self.number, self.kind);
    }

    fn check_data(&mut self) {
        if self.volume.as_ref().is_some_and(|volume| volume.life == Life::Published) {
            self.check_token();
        }
        if let Some(snapshot) = self.snapshot.as_ref().filter(|_| self.kind != Kind::Image) {
            let file = self.kind.token_file(&self.root.join("state/snapshots").join(&snapshot.id));
            assert_eq!(read_token(&file), snapshot.token, "worker {}: the data of the snapshot", self.number);
        }
    }

    /// Tears everything down.
    async fn finish(&mut self, channel: &Channel) {
        while let Some(life) = self.volume.as_ref().map(|volume| volume.life) {
            let step = match life {
                Life::Published => Step::Unpublish,
                Life::Staged => Step::Unstage,
                Life::Created => Step::Delete,
            };
            self.take_step(channel, step).await.unwrap();
        }
        if self.snapshot.is_some() {
            self.take_step(channel, Step::DeleteSnapshot).await.unwrap();
        }
    }
}

/// Returns the token in a file or at the beginning of a device, or nothing if nothing has been written.
fn read_token(file: &Path) -> Option<u64> {
    use std::io::Read;
    let mut found = Vec::new();
    fs::File::open(file).ok()?.take(20).read_to_end(&mut found).unwrap();
    std::str::from_utf8(&found).ok()?.parse().ok()
}

async fn listed(channel: &Channel) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut controller = ControllerClient::new(channel.clone());
    let volumes = controller.list_volumes(ListVolumesRequest::default()).await.unwrap().into_inner().entries;
    let snapshots =
        controller.list_snapshots(ListSnapshotsRequest::default()).await.unwrap().into_inner().entries;
    (
        volumes.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect(),
        snapshots.into_iter().map(|entry| entry.snapshot.unwrap().snapshot_id).collect(),
    )
}

fn names_in(directory: PathBuf) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Waits until the data on disk are exactly those of the listed objects. The last deletion may have reached this
/// process, and data are removed after the reply.
async fn until_on_disk(directory: &Path, listed: &BTreeSet<String>) {
    let polled = async {
        while names_in(directory.to_owned()) != *listed {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(10), polled).await.is_err() {
        assert_eq!(names_in(directory.to_owned()), *listed, "on disk and listed");
    }
}

/// Checks that everything acknowledged is listed, and that nothing on disk is unlisted.
async fn check_after_restart(channel: &Channel, root: &Path, workers: &[Worker]) {
    let (volumes, snapshots) = listed(channel).await;
    until_on_disk(&root.join("state/volumes"), &volumes).await;
    until_on_disk(&root.join("state/snapshots"), &snapshots).await;
    for worker in workers {
        let deleting = matches!(worker.pending, Some(Step::Delete));
        for volume in worker.volume.iter().filter(|_| !deleting) {
            assert!(volumes.contains(&volume.id), "an acknowledged volume is lost: {worker:?}");
        }
        let deleting = matches!(worker.pending, Some(Step::DeleteSnapshot));
        for snapshot in worker.snapshot.iter().filter(|_| !deleting) {
            assert!(snapshots.contains(&snapshot.id), "an acknowledged snapshot is lost: {worker:?}");
        }
    }
}

/// Checks, after all interrupted calls were repeated, that everything is exactly as the workers remember it.
async fn check_exactly(channel: &Channel, fixture: &Fixture, workers: &mut [Worker]) {
    let (volumes, snapshots) = listed(channel).await;
    let known = |ids: Vec<Option<&String>>| ids.into_iter().flatten().cloned().collect::<BTreeSet<_>>();
    assert_eq!(volumes, known(workers.iter().map(|w| w.volume.as_ref().map(|v| &v.id)).collect()));
    assert_eq!(snapshots, known(workers.iter().map(|w| w.snapshot.as_ref().map(|s| &s.id)).collect()));
    let (mut mounts, mut devices) = (BTreeSet::new(), 0);
    for worker in workers.iter_mut() {
        worker.check_data();
        let Some(volume) = &worker.volume else { continue };
        if volume.life == Life::Published {
            mounts.insert(worker.target());
        }
        if volume.life != Life::Created {
            devices += usize::from(worker.kind != Kind::Directory);
            if worker.kind != Kind::Block {
                mounts.insert(PathBuf::from(worker.staging()));
            }
        }
    }
    let found = fixture.mount_points();
    assert_eq!(found.len(), mounts.len(), "no mount is stacked: {found:?}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), mounts);
    assert_eq!(fixture.settled_loop_devices(devices).len(), devices);
}

async fn wait_until_ready(channel: &Channel) {
    let mut identity = IdentityClient::new(channel.clone());
    while identity.probe(ProbeRequest {}).await.unwrap().into_inner().ready != Some(true) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_driver_loses_nothing_acknowledged() {
    needs_mounts!();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = from_environment("HOSTPATH_CRASH_SEED").unwrap_or(now);
    let kills = from_environment("HOSTPATH_CRASH_KILLS").unwrap_or(KILLS);
    println!("HOSTPATH_CRASH_SEED={seed} HOSTPATH_CRASH_KILLS={kills}");
    let mut random = Random::new(seed);
    let fixture = Fixture::new();
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|number| Worker::new(number, &fixture.root, seed)).collect();
    let mut process = Process::start(&fixture.root, &[]);
    for _ in 0..kills {
        let channel = process.channel().await;
        let stop = Arc::new(AtomicBool::new(false));
        let begin = |worker: Worker| tokio::spawn(worker.work(channel.clone(), Arc::clone(&stop)));
        let load: Vec<_> = workers.drain(..).map(begin).collect();
        tokio::time::sleep(Duration::from_micros(random.below(LOAD_MS_MAX * 1000))).await;
        process.kill();
        stop.store(true, Ordering::Relaxed); // Channels reconnect on their own.
        process = Process::start(&fixture.root, &[]);
        let channel = process.channel().await;
        wait_until_ready(&channel).await;
        for worker in load {
            workers.push(tokio::time::timeout(WORKER_LIMIT, worker).await.unwrap().unwrap());
        }
        check_after_restart(&channel, &fixture.root, &workers).await;
        for worker in &mut workers {
            worker.catch_up(&channel).await;
        }
        check_exactly(&channel, &fixture, &mut workers).await;
    }
    let channel = process.channel().await;
    for worker in &mut workers {
        worker.finish(&channel).await;
    }
    until_removed(&fixture.root).await;
    drop(process);
    assert_eq!(
        names_in(fixture.root.join("state")),
        ["snapshots", "state.redb", "volumes"].map(String::from).into()
    );
}
