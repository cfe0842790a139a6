use std::sync::Arc;

use csi_mock_driver::{Config, Defect, MockDriver, Quirk};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::v1::{self};
use tonic::{Code, Request, Response, Status};

pub(crate) const GIB: i64 = 1 << 30;

pub(crate) fn driver() -> Arc<MockDriver> {
    with(Config::default())
}

pub(crate) fn with(config: Config) -> Arc<MockDriver> {
    MockDriver::new(config).expect("the configuration is possible")
}

pub(crate) fn quirky(quirk: Quirk) -> Arc<MockDriver> {
    with(Config { quirks: vec![quirk], ..Config::default() })
}

pub(crate) fn defective(defect: Defect) -> Arc<MockDriver> {
    with(Config { defects: vec![defect], ..Config::default() })
}

pub(crate) fn mount(mode: Mode) -> v1::VolumeCapability {
    v1::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode as i32 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

pub(crate) fn block(mode: Mode) -> v1::VolumeCapability {
    let access_type = Some(AccessType::Block(BlockVolume {}));
    v1::VolumeCapability { access_type, ..mount(mode) }
}

pub(crate) fn writer() -> v1::VolumeCapability {
    mount(Mode::SingleNodeWriter)
}

pub(crate) fn range(required_bytes: i64, limit_bytes: i64) -> Option<v1::CapacityRange> {
    Some(v1::CapacityRange { required_bytes, limit_bytes })
}

pub(crate) fn volume_request(name: &str) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: vec![writer()],
        capacity_range: range(GIB, 0),
        ..Default::default()
    }
}

/// Sends a CreateVolume request and returns the volume.
pub(crate) async fn create(driver: &MockDriver, request: v1::CreateVolumeRequest) -> v1::Volume {
    ok(driver.create_volume(Request::new(request)).await).volume.expect("the reply has a volume")
}

/// Makes an ordinary volume and returns its id.
pub(crate) async fn volume(driver: &MockDriver, name: &str) -> String {
    create(driver, volume_request(name)).await.volume_id
}

pub(crate) async fn snapshot(driver: &MockDriver, name: &str, source: &str) -> v1::Snapshot {
    let request = snapshot_request(name, source);
    ok(driver.create_snapshot(Request::new(request)).await).snapshot.expect("the reply has a snapshot")
}

pub(crate) fn snapshot_request(name: &str, source: &str) -> v1::CreateSnapshotRequest {
    v1::CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: source.to_owned(),
        ..Default::default()
    }
}

pub(crate) fn from_snapshot(id: &str) -> Option<v1::VolumeContentSource> {
    Some(v1::VolumeContentSource::snapshot(id))
}

pub(crate) fn from_volume(id: &str) -> Option<v1::VolumeContentSource> {
    Some(v1::VolumeContentSource::volume(id))
}

pub(crate) fn publish_request(volume_id: &str, node_id: &str) -> v1::ControllerPublishVolumeRequest {
    v1::ControllerPublishVolumeRequest {
        volume_id: volume_id.to_owned(),
        node_id: node_id.to_owned(),
        volume_capability: Some(writer()),
        ..Default::default()
    }
}

pub(crate) fn map(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[track_caller]
pub(crate) fn ok<T>(answer: Result<Response<T>, Status>) -> T {
    answer.expect("the call succeeds").into_inner()
}

#[track_caller]
pub(crate) fn code<T>(answer: Result<Response<T>, Status>) -> Code {
    match answer {
        Ok(_) => Code::Ok,
        Err(status) => {
            assert!(!status.message().is_empty(), "an error says why");
            status.code()
        }
    }
}

/// Returns an empty request.
pub(crate) fn empty<T: Default>() -> Request<T> {
    Request::new(T::default())
}
