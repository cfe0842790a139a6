//! Makes calls from bytes: usual ones, and ones that no orchestrator makes.

use std::path::{Path, PathBuf};

use csi_hostpath_driver::HostpathDriver;
use csi_proto::v1;
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata as _;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use tonic::{Request, Response, Status};

use crate::CANARY;

/// The number of kinds of calls.
pub(super) const CALLS: u8 = 23;

const NAMES: [&str; 8] = ["a", "b", "c", "../../bystander", "/etc/passwd", "\u{202e}ü\t", "a\0b", ""];
/// Ids that the driver never returns.
const ODD_IDS: [&str; 8] = [
    "",
    "../../bystander",
    "..",
    "/etc/passwd",
    "vol-../../../bystander",
    "a\0b",
    "vol-",
    "vol-00000000000000000000000000000000",
];
/// Paths below the root directory of the run.
const PATHS: [&str; 10] = [
    "pods/a",
    "pods/b",
    "pods/a/c",
    "pods/../bystander/a",
    "link/a",
    "pods/link",
    "pods/link/a",
    "state/volumes",
    "state/state.redb",
    "pods//a/",
];
/// Paths that are used unchanged.
const ODD_PATHS: [&str; 4] = ["", "pods/a", "/", "/proc/self/cwd/\0"];
const SIZES: [i64; 8] = [0, 1, 1 << 20, 1 << 30, 1 << 41, i64::MAX, -1, i64::MIN];
const MODES: [Mode; 8] = [
    Mode::SingleNodeWriter,
    Mode::SingleNodeWriter,
    Mode::SingleNodeReaderOnly,
    Mode::MultiNodeReaderOnly,
    Mode::MultiNodeMultiWriter,
    Mode::SingleNodeSingleWriter,
    Mode::SingleNodeMultiWriter,
    Mode::Unknown,
];

/// It calls the driver with any arguments, and remembers the ids that the driver returned.
pub(super) struct Caller<'a> {
    driver: &'a HostpathDriver,
    root: &'a Path,
    volumes: Vec<String>,
    snapshots: Vec<String>,
    groups: Vec<String>,
}

/// The bytes of a call after the first one.
#[derive(Clone, Copy)]
struct Choice {
    of: u8,
    at: u8,
    how: u8,
}

fn pick<T: Copy>(from: &[T], choice: u8) -> T {
    from[usize::from(choice) % from.len()]
}

/// Returns a known id, or an unusual one if the choice is high.
fn id(given: &[String], choice: u8) -> String {
    if choice >= 128 || given.is_empty() {
        return pick(&ODD_IDS, choice).to_owned();
    }
    given[usize::from(choice) % given.len()].clone()
}

impl Choice {
    fn capability(self) -> Option<v1::VolumeCapability> {
        let fs_type = pick(&["", "", "ext4", "../ext4"], self.how >> 3).to_owned();
        let mount = MountVolume {
            fs_type,
            mount_flags: Vec::new(),
            volume_mount_group: pick(&["", "", "1000", "x"], self.how >> 5).to_owned(),
        };
        let access_type =
            if self.how & 64 == 0 { AccessType::Mount(mount) } else { AccessType::Block(BlockVolume {}) };
        let access_mode = Some(AccessMode { mode: pick(&MODES, self.how).into() });
        (self.how != 255).then_some(v1::VolumeCapability { access_type: Some(access_type), access_mode })
    }

    fn range(self) -> Option<v1::CapacityRange> {
        let limit_bytes = pick(&[0, 0, 1 << 20, i64::MAX, -1], self.at >> 4);
        (self.at != 255).then_some(v1::CapacityRange { required_bytes: pick(&SIZES, self.at), limit_bytes })
    }

    fn parameters(self) -> std::collections::BTreeMap<String, String> {
        let pairs: &[(&str, &str)] = pick(
            &[
                &[][..],
                &[],
                &[],
                &[("kind", "slow")],
                &[("kind", "none")],
                &[("backend", "image")],
                &[("backend", "../x"), ("", "")],
            ],
            self.how >> 2,
        );
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }
}

/// Returns the response, if the call succeeded. Any error will do, but that of a panic.
fn response<T>(reply: Result<Response<T>, Status>) -> Option<T> {
    match reply {
        Ok(response) => Some(response.into_inner()),
        Err(status) => {
            // The driver answers so when a call panics.
            assert_ne!(status.message(), "the call ended unexpectedly");
            None
        }
    }
}

impl<'a> Caller<'a> {
    pub(super) fn new(driver: &'a HostpathDriver, root: &'a Path) -> Caller<'a> {
        Caller { driver, root, volumes: Vec::new(), snapshots: Vec::new(), groups: Vec::new() }
    }

    fn path(&self, choice: u8) -> String {
        if choice >= 224 {
            return pick(&ODD_PATHS, choice).to_owned();
        }
        format!("{}/{}", self.root.display(), pick(&PATHS, choice))
    }

    pub(super) async fn call(&mut self, [call, of, at, how]: [u8; 4]) {
        let choice = Choice { of, at, how };
        match call % CALLS {
            call @ 0..9 => self.volume(call, choice).await,
            call @ 9..15 => self.node(call, choice).await,
            call @ 15..18 => self.snapshot(call, choice).await,
            call @ 18..20 => self.list(call, choice).await,
            call => self.group(call, choice).await,
        }
    }

    async fn volume(&mut self, call: u8, choice: Choice) {
        let (driver, volume_id) = (self.driver, id(&self.volumes, choice.of));
        let node_id = pick(&["node", "node", "", "other"], choice.at).to_owned();
        match call {
            0 | 1 => self.create(choice).await,
            2 => {
                self.canary(&volume_id);
                let request = v1::DeleteVolumeRequest { volume_id, ..Default::default() };
                response(driver.delete_volume(Request::new(request)).await);
            }
            3 => {
                let (volume_capability, readonly) = (choice.capability(), choice.at & 64 != 0);
                let request = v1::ControllerPublishVolumeRequest {
                    volume_id,
                    node_id,
                    volume_capability,
                    readonly,
                    ..Default::default()
                };
                response(driver.controller_publish_volume(Request::new(request)).await);
            }
            4 => {
                let request =
                    v1::ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
                response(driver.controller_unpublish_volume(Request::new(request)).await);
            }
            5 => {
                let volume_capabilities = choice.capability().into_iter().collect();
                let request = v1::ValidateVolumeCapabilitiesRequest {
                    volume_id,
                    volume_capabilities,
                    ..Default::default()
                };
                response(driver.validate_volume_capabilities(Request::new(request)).await);
            }
            6 => {
                let (capacity_range, volume_capability) = (choice.range(), choice.capability());
                let request = v1::ControllerExpandVolumeRequest {
                    volume_id,
                    capacity_range,
                    volume_capability,
                    ..Default::default()
                };
                response(driver.controller_expand_volume(Request::new(request)).await);
            }
            7 => {
                let mutable_parameters = choice.parameters();
                let request =
                    v1::ControllerModifyVolumeRequest { volume_id, mutable_parameters, ..Default::default() };
                response(driver.controller_modify_volume(Request::new(request)).await);
            }
            _ => {
                let request = v1::ControllerGetVolumeRequest { volume_id };
                response(driver.controller_get_volume(Request::new(request)).await);
            }
        }
    }

    async fn create(&mut self, choice: Choice) {
        let source = match choice.how % 16 {
            9 => Some(Type::Volume(VolumeSource { volume_id: id(&self.volumes, choice.at >> 3) })),
            10 => Some(Type::Snapshot(SnapshotSource { snapshot_id: id(&self.snapshots, choice.at >> 3) })),
            _ => None,
        };
        let request = v1::CreateVolumeRequest {
            name: pick(&NAMES, choice.of).to_owned(),
            capacity_range: choice.range(),
            volume_capabilities: choice.capability().into_iter().collect(),
            parameters: choice.parameters(),
            volume_content_source: source.map(|source| v1::VolumeContentSource { r#type: Some(source) }),
            ..Default::default()
        };
        let made = response(self.driver.create_volume(Request::new(request)).await);
        self.volumes.extend(made.and_then(|made| made.volume).map(|volume| volume.volume_id));
    }

    async fn node(&mut self, call: u8, choice: Choice) {
        let (driver, volume_id) = (self.driver, id(&self.volumes, choice.of));
        let (path, other) = (self.path(choice.at), self.path(choice.how));
        match call {
            9 => {
                let volume_capability = choice.capability();
                let request = v1::NodeStageVolumeRequest {
                    volume_id,
                    staging_target_path: path,
                    volume_capability,
                    ..Default::default()
                };
                response(driver.node_stage_volume(Request::new(request)).await);
            }
            10 => {
                let request = v1::NodeUnstageVolumeRequest { volume_id, staging_target_path: path };
                response(driver.node_unstage_volume(Request::new(request)).await);
            }
            11 => {
                let request = v1::NodePublishVolumeRequest {
                    volume_id,
                    staging_target_path: other,
                    target_path: path,
                    volume_capability: choice.capability(),
                    readonly: choice.of & 64 != 0,
                    ..Default::default()
                };
                response(driver.node_publish_volume(Request::new(request)).await);
            }
            12 => {
                let request = v1::NodeUnpublishVolumeRequest { volume_id, target_path: path };
                response(driver.node_unpublish_volume(Request::new(request)).await);
            }
            13 => {
                let request = v1::NodeGetVolumeStatsRequest {
                    volume_id,
                    volume_path: path,
                    staging_target_path: other,
                };
                response(driver.node_get_volume_stats(Request::new(request)).await);
            }
            _ => {
                let request = v1::NodeExpandVolumeRequest {
                    volume_id,
                    volume_path: path,
                    staging_target_path: other,
                    ..Default::default()
                };
                response(driver.node_expand_volume(Request::new(request)).await);
            }
        }
    }

    async fn snapshot(&mut self, call: u8, choice: Choice) {
        let (driver, snapshot_id) = (self.driver, id(&self.snapshots, choice.of));
        match call {
            15 => {
                let (name, source_volume_id) =
                    (pick(&NAMES, choice.of).to_owned(), id(&self.volumes, choice.at));
                let request = v1::CreateSnapshotRequest { name, source_volume_id, ..Default::default() };
                let made = response(driver.create_snapshot(Request::new(request)).await);
                self.snapshots
                    .extend(made.and_then(|made| made.snapshot).map(|snapshot| snapshot.snapshot_id));
            }
            16 => {
                let request = v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() };
                response(driver.delete_snapshot(Request::new(request)).await);
            }
            _ => {
                let request = v1::GetMetadataAllocatedRequest {
                    snapshot_id,
                    starting_offset: pick(&SIZES, choice.at),
                    max_results: i32::from(choice.how) - 1,
                    ..Default::default()
                };
                response(driver.get_metadata_allocated(Request::new(request)).await);
            }
        }
    }

    /// Calls lists with unusual pages, and GetCapacity.
    async fn list(&mut self, call: u8, choice: Choice) {
        let starting_token = pick(&["", "0", "x", "99999999999999999999", "vol-"], choice.of).to_owned();
        let max_entries = pick(&[0, 1, 1000, i32::MAX, -1], choice.at);
        if call == 18 {
            let request = v1::ListVolumesRequest { max_entries, starting_token };
            response(self.driver.list_volumes(Request::new(request)).await);
            return;
        }
        let request = v1::GetCapacityRequest {
            volume_capabilities: choice.capability().into_iter().collect(),
            parameters: choice.parameters(),
            ..Default::default()
        };
        response(self.driver.get_capacity(Request::new(request)).await);
    }

    async fn group(&mut self, call: u8, choice: Choice) {
        let (driver, group_snapshot_id) = (self.driver, id(&self.groups, choice.of));
        match call {
            20 | 21 => {
                let sources = [choice.at, choice.at >> 2, choice.how];
                let request = v1::CreateVolumeGroupSnapshotRequest {
                    name: pick(&NAMES, choice.of).to_owned(),
                    source_volume_ids: sources[..usize::from(choice.how % 4)]
                        .iter()
                        .map(|one| id(&self.volumes, *one))
                        .collect(),
                    ..Default::default()
                };
                let made = response(driver.create_volume_group_snapshot(Request::new(request)).await);
                let group = made.and_then(|made| made.group_snapshot).unwrap_or_default();
                self.groups.push(group.group_snapshot_id);
                self.snapshots.extend(group.snapshots.into_iter().map(|snapshot| snapshot.snapshot_id));
            }
            _ => {
                let snapshot_ids = self.snapshots.iter().take(usize::from(choice.at % 8)).cloned().collect();
                let request = v1::DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id,
                    snapshot_ids,
                    ..Default::default()
                };
                response(driver.delete_volume_group_snapshot(Request::new(request)).await);
            }
        }
    }

    /// The canary removes the file that an id names before it validates the id.
    fn canary(&self, id: &str) {
        if CANARY && !id.is_empty() && !id.contains('\0') && !id.starts_with('/') {
            let path: PathBuf = self.root.join("state/volumes").join(id);
            if path.ends_with("bystander") {
                let _ = std::fs::remove_dir_all(path);
            }
        }
    }
}
