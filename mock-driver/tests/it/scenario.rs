//! Runs one long scenario that touches every rule, and checks that each defect changes its transcript.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use csi_mock_driver::{Config, CsiVersion, Defect, Delay, MockDriver, Quirk};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::identity_server::Identity as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadata as _;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessType, MountVolume};
use csi_proto::v1::{self};
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status};

use crate::support::{
    GIB, block, from_snapshot, from_volume, map, mount, range, volume_request, with, writer,
};

/// Runs the scenario and records the answers, independent of paths and times.
struct Recorder {
    driver: Arc<MockDriver>,
    directory: tempfile::TempDir,
    /// The directory of the health files.
    health: tempfile::TempDir,
    seen: Vec<String>,
}

/// Sends a request and records the answer, the panic, or that none came.
macro_rules! send {
    ($recorder:expr, $rpc:ident, $request:expr) => {{
        let (driver, request) = ($recorder.driver.clone(), Request::new($request));
        let call = tokio::spawn(async move { driver.$rpc(request).await });
        let answer = tokio::time::timeout(Duration::from_secs(5), call).await;
        let answer: Option<Result<Response<_>, Status>> = match answer {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(_)) => {
                $recorder.seen.push("panic".to_owned());
                None
            }
            Err(_) => {
                $recorder.seen.push("silence".to_owned());
                None
            }
        };
        let answer = answer.and_then(|answer| $recorder.note(stringify!($rpc), answer));
        answer.unwrap_or_default()
    }};
}

/// Sends a request whose answer is a stream, and records all messages.
macro_rules! read {
    ($recorder:expr, $rpc:ident, $request:expr) => {{
        match $recorder.driver.$rpc(Request::new($request)).await {
            Ok(stream) => {
                let messages = stream.into_inner().collect::<Vec<_>>().await;
                $recorder.seen.push(format!("{} {messages:?}", stringify!($rpc)));
            }
            Err(status) => drop($recorder.note::<()>(stringify!($rpc), Err(status))),
        }
    }};
}

impl Recorder {
    fn note<T: Debug>(&mut self, rpc: &str, answer: Result<Response<T>, Status>) -> Option<T> {
        let (line, answer) = match answer {
            Ok(answer) => (format!("{rpc} {:?}", answer.get_ref()), Some(answer.into_inner())),
            Err(status) => {
                let (code, message, details) = (status.code(), status.message(), status.details());
                (format!("{rpc} {code:?} {message} {details:?}"), None)
            }
        };
        self.seen.push(line);
        answer
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn report_problem(&self, name: &str, status: &str) {
        let text = format!(r#"{{"status": "{status}", "reason": "MadeIll"}}"#);
        // A defect may return an id that is no file name.
        let _ = std::fs::write(self.health.path().join(format!("{name}.health")), text);
    }

    fn well(&self, name: &str) {
        let _ = std::fs::remove_file(self.health.path().join(format!("{name}.health")));
    }

    fn look(&mut self) {
        let mut found: Vec<_> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        found.sort();
        self.seen.push(format!("{found:?}"));
    }

    /// Returns the record with paths and times replaced.
    fn transcript(self) -> String {
        let mut text = self.seen.join("\n").replace(self.directory.path().to_str().unwrap(), "DIR");
        for field in ["seconds: ", "nanos: ", "\"seconds\":", "\"nanos\":"] {
            text = blank_number(&text, field);
        }
        blank_times(&text)
    }
}

fn blank_number(text: &str, field: &str) -> String {
    let mut parts = text.split(field);
    let mut blanked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        blanked.push_str(field);
        blanked.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    blanked
}

/// Replaces timestamps, which are quoted in JSON and end in Z. The record only keeps their order, because their
/// values vary.
fn blank_times(text: &str) -> String {
    let pieces = text.split('"').map(|piece| if is_time(piece) { "TIME" } else { piece });
    pieces.collect::<Vec<_>>().join("\"")
}

fn is_time(piece: &str) -> bool {
    piece.ends_with('Z') && piece.contains('T') && piece.starts_with("20")
}

fn capability(fs_type: &str) -> v1::VolumeCapability {
    let mount = MountVolume { fs_type: fs_type.to_owned(), ..Default::default() };
    v1::VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..writer() }
}

fn zones(requisite: &[&str], preferred: &[&str]) -> Option<v1::TopologyRequirement> {
    Some(v1::TopologyRequirement {
        requisite: requisite.iter().map(|zone| topology(zone)).collect(),
        preferred: preferred.iter().map(|zone| topology(zone)).collect(),
    })
}

fn topology(zone: &str) -> v1::Topology {
    v1::Topology { segments: map(&[("mock.csi-sanity.example/zone", zone)]) }
}

async fn identity(recorder: &mut Recorder) {
    for _ in 0..2 {
        send!(recorder, get_plugin_info, v1::GetPluginInfoRequest {});
        send!(recorder, get_plugin_capabilities, v1::GetPluginCapabilitiesRequest {});
        send!(recorder, probe, v1::ProbeRequest {});
        send!(recorder, controller_get_capabilities, v1::ControllerGetCapabilitiesRequest {});
        send!(recorder, group_controller_get_capabilities, v1::GroupControllerGetCapabilitiesRequest {});
        send!(recorder, node_get_capabilities, v1::NodeGetCapabilitiesRequest {});
        for controller_get_node_info in [false, true] {
            send!(recorder, node_get_info, v1::NodeGetInfoRequest { controller_get_node_info });
        }
        for node_id in ["node-1", "", "node-0"] {
            node_info(recorder, node_id).await;
        }
    }
}

async fn node_info(recorder: &mut Recorder, node_id: &str) {
    let request = v1::ControllerGetNodeInfoRequest { node_id: node_id.to_owned() };
    send!(recorder, controller_get_node_info, request);
}

async fn malformed_volumes(recorder: &mut Recorder) {
    type Change = fn(&mut v1::CreateVolumeRequest);
    let changes: &[Change] = &[
        |r| r.name.clear(),
        |r| r.name = "n".repeat(100),
        |r| r.name = "n".repeat(129),
        |r| r.name = "ünïcode".to_owned(),
        |r| r.name = "a/b".to_owned(),
        |r| r.volume_capabilities.clear(),
        |r| r.volume_capabilities[0].access_type = None,
        |r| r.volume_capabilities[0].access_mode = None,
        |r| r.volume_capabilities[0] = mount(Mode::Unknown),
        |r| r.volume_capabilities[0] = capability("fat12"),
        |r| r.volume_capabilities[0] = mount(Mode::SingleNodeMultiWriter),
        |r| r.capacity_range = None,
        |r| r.capacity_range = range(0, 0),
        |r| r.capacity_range = range(-1, 0),
        |r| r.capacity_range = range(2, 1),
        |r| r.capacity_range = range(i64::MAX, 0),
        |r| r.capacity_range = range(0, 1),
        |r| r.capacity_range = range(GIB + 4096, GIB + 4096),
        |r| r.capacity_range = range(10_000 * GIB, 0),
        |r| r.volume_content_source = Some(Default::default()),
        |r| r.volume_content_source = from_snapshot(""),
        |r| r.volume_content_source = from_volume(""),
        |r| r.volume_content_source = from_snapshot("snap-0"),
        |r| r.parameters = map(&[("colour", "red")]),
        |r| r.mutable_parameters = map(&[("colour", "red")]),
        |r| r.accessibility_requirements = Some(Default::default()),
        |r| r.accessibility_requirements = zones(&["zone-z"], &[]),
        |r| r.accessibility_requirements = zones(&["zone-a"], &[]),
        |r| r.accessibility_requirements = zones(&["zone-a", "zone-b"], &["zone-b", "zone-a"]),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut request = volume_request(&format!("odd-{index}"));
        request.secrets = map(&[("password", "hunter2")]);
        change(&mut request);
        send!(recorder, create_volume, request);
    }
    for name in ["Case", "case", "case ", &format!("{}1", "x".repeat(50)), &format!("{}2", "x".repeat(50))] {
        send!(recorder, create_volume, volume_request(name));
    }
    let race = |name, driver: Arc<MockDriver>| {
        tokio::spawn(async move { driver.create_volume(Request::new(volume_request(name))).await })
    };
    let call = |name| race(name, recorder.driver.clone());
    let (one, two, other) = tokio::join!(call("race"), call("race"), call("other race"));
    for answer in [one, two, other].into_iter().flatten() {
        recorder.note("race", answer);
    }
}

async fn repeated_volumes(recorder: &mut Recorder) -> v1::Volume {
    let request = v1::CreateVolumeRequest {
        parameters: map(&[("tier", "silver")]),
        mutable_parameters: map(&[("tier", "gold")]),
        ..volume_request("main")
    };
    let first = send!(recorder, create_volume, request.clone()).volume.unwrap_or_default();
    type Change = fn(&mut v1::CreateVolumeRequest);
    let changes: &[Change] = &[
        |_| {},
        |r| r.capacity_range = range(1, 0),
        |r| r.capacity_range = range(2 * GIB, 0),
        |r| r.volume_capabilities = vec![block(Mode::SingleNodeWriter)],
        |r| r.parameters = map(&[("tier", "x")]),
        |r| r.mutable_parameters = map(&[("tier", "x")]),
        |r| r.volume_content_source = from_volume("vol-0"),
        |r| r.accessibility_requirements = zones(&["zone-b"], &[]),
    ];
    for change in changes {
        let mut again = request.clone();
        change(&mut again);
        send!(recorder, create_volume, again);
    }
    first
}

async fn capacity(recorder: &mut Recorder) {
    let cases = [
        v1::GetCapacityRequest::default(),
        v1::GetCapacityRequest { volume_capabilities: vec![capability("fat12")], ..Default::default() },
        v1::GetCapacityRequest { parameters: map(&[("colour", "red")]), ..Default::default() },
        v1::GetCapacityRequest { accessible_topology: Some(topology("zone-b")), ..Default::default() },
    ];
    for request in cases {
        send!(recorder, get_capacity, request);
    }
}

async fn attachments(recorder: &mut Recorder, id: &str) {
    let request = |node_id: &str| v1::ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node_id.to_owned(),
        volume_capability: Some(writer()),
        secrets: map(&[("password", "hunter2")]),
        ..Default::default()
    };
    let wrong = v1::ControllerPublishVolumeRequest {
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..request("node-1")
    };
    send!(recorder, controller_publish_volume, wrong.clone());
    detach(recorder, id, "").await;
    for node in ["node-1", "node-1", "node-2", "node-9", ""] {
        send!(recorder, controller_publish_volume, request(node));
    }
    send!(recorder, controller_publish_volume, wrong);
    let readonly = v1::ControllerPublishVolumeRequest { readonly: true, ..request("node-1") };
    send!(recorder, controller_publish_volume, readonly);
    let unknown = |volume_id: &str| v1::ControllerPublishVolumeRequest {
        volume_id: volume_id.to_owned(),
        ..request("node-1")
    };
    send!(recorder, controller_publish_volume, unknown(""));
    send!(recorder, controller_publish_volume, unknown("vol-0"));
    let bare = v1::ControllerPublishVolumeRequest { volume_capability: None, ..request("node-1") };
    send!(recorder, controller_publish_volume, bare);
    list_volumes(recorder).await;
    get_volume(recorder, id).await;
    let expand = v1::ControllerExpandVolumeRequest {
        volume_id: id.to_owned(),
        capacity_range: range(GIB + 4096, 0),
        ..Default::default()
    };
    send!(recorder, controller_expand_volume, expand);
    send!(
        recorder,
        delete_volume,
        v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }
    );
    for node in ["node-2", "node-1", "node-1"] {
        detach(recorder, id, node).await;
        get_volume(recorder, id).await;
    }
    send!(recorder, controller_publish_volume, request("node-1"));
    detach(recorder, id, "").await;
    get_volume(recorder, id).await;
    detach(recorder, id, "").await;
    detach(recorder, id, "node-1").await;
    detach(recorder, "", "").await;
    detach(recorder, "vol-0", "node-1").await;
}

async fn detach(recorder: &mut Recorder, id: &str, node: &str) {
    let (volume_id, node_id) = (id.to_owned(), node.to_owned());
    let request = v1::ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
    send!(recorder, controller_unpublish_volume, request);
    node_info(recorder, node).await;
}

async fn shared_attachments(recorder: &mut Recorder) {
    let shared = mount(Mode::MultiNodeMultiWriter);
    let mut ids = Vec::new();
    for index in 0..3 {
        let request = v1::CreateVolumeRequest {
            volume_capabilities: vec![shared.clone()],
            ..volume_request(&format!("shared-{index}"))
        };
        ids.push(send!(recorder, create_volume, request).volume.unwrap_or_default().volume_id);
    }
    let publish = |volume_id: &str, node_id: &str| v1::ControllerPublishVolumeRequest {
        volume_id: volume_id.to_owned(),
        node_id: node_id.to_owned(),
        volume_capability: Some(shared.clone()),
        ..Default::default()
    };
    for node in ["node-1", "node-2"] {
        send!(recorder, controller_publish_volume, publish(&ids[0], node));
    }
    for id in &ids[1..] {
        send!(recorder, controller_publish_volume, publish(id, "node-1"));
    }
    detach(recorder, &ids[0], "node-1").await;
    get_volume(recorder, &ids[0]).await;
    for id in &ids {
        detach(recorder, id, "").await;
    }
    let staging_target_path = recorder.path("staging");
    let stage = v1::NodeStageVolumeRequest {
        volume_id: ids[0].clone(),
        staging_target_path: staging_target_path.clone(),
        volume_capability: Some(shared.clone()),
        ..Default::default()
    };
    send!(recorder, node_stage_volume, stage);
    for name in ["shared-1", "shared-2"] {
        let request = v1::NodePublishVolumeRequest {
            volume_id: ids[0].clone(),
            staging_target_path: staging_target_path.clone(),
            target_path: recorder.path(name),
            volume_capability: Some(shared.clone()),
            ..Default::default()
        };
        send!(recorder, node_publish_volume, request);
    }
    for name in ["shared-1", "shared-2"] {
        unpublish(recorder, &ids[0], name).await;
        drop(std::fs::remove_dir(recorder.path(name)));
    }
}

async fn list_volumes(recorder: &mut Recorder) {
    let request =
        |max_entries, token: &str| v1::ListVolumesRequest { max_entries, starting_token: token.to_owned() };
    send!(recorder, list_volumes, request(0, ""));
    let first = send!(recorder, list_volumes, request(3, ""));
    send!(recorder, list_volumes, request(3, &first.next_token));
    for (max_entries, token) in [(-1, ""), (0, "0"), (0, "invalid")] {
        send!(recorder, list_volumes, request(max_entries, token));
    }
}

async fn get_volume(recorder: &mut Recorder, id: &str) {
    for volume_id in [id, "", "vol-0"] {
        send!(
            recorder,
            controller_get_volume,
            v1::ControllerGetVolumeRequest { volume_id: volume_id.to_owned() }
        );
    }
}

async fn validation(recorder: &mut Recorder, id: &str) {
    let request = |volume_id: &str, volume_capabilities| v1::ValidateVolumeCapabilitiesRequest {
        volume_id: volume_id.to_owned(),
        volume_capabilities,
        volume_context: map(&[("backend", "memory")]),
        ..Default::default()
    };
    let no_type = v1::VolumeCapability { access_type: None, ..writer() };
    let cases = [
        request(id, vec![writer()]),
        request(id, vec![writer(), capability("fat12")]),
        request(id, vec![block(Mode::SingleNodeWriter)]),
        request(id, vec![]),
        request(id, vec![no_type]),
        request(id, vec![mount(Mode::Unknown)]),
        request("", vec![writer()]),
        request("vol-0", vec![writer()]),
    ];
    for request in cases {
        send!(recorder, validate_volume_capabilities, request);
    }
}

async fn snapshots(recorder: &mut Recorder, id: &str) -> Vec<String> {
    let request = |name: &str, source: &str| v1::CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: source.to_owned(),
        ..Default::default()
    };
    let other = send!(recorder, create_volume, volume_request("other")).volume.unwrap_or_default().volume_id;
    let mut times = Vec::new();
    let mut ids = Vec::new();
    for (name, source) in [("s1", id), ("s1", id), ("s2", id), ("s3", &other), ("s1", &other)] {
        let snapshot = send!(recorder, create_snapshot, request(name, source)).snapshot.unwrap_or_default();
        let get = v1::GetSnapshotRequest { snapshot_id: snapshot.snapshot_id.clone(), ..Default::default() };
        send!(recorder, get_snapshot, get);
        ids.push(snapshot.snapshot_id);
        times.push(snapshot.creation_time);
    }
    recorder.seen.push(format!("the time of a snapshot stays: {}", times[0] == times[1]));
    ids.remove(1);
    let long = [100, 101].map(|bytes| "n".repeat(bytes));
    for (name, source) in
        [("", id), ("t", ""), ("t", "vol-0"), (&long[0], id), (&long[1], id), ("ünïcode", id)]
    {
        send!(recorder, create_snapshot, request(name, source));
    }
    let odd = v1::CreateSnapshotRequest { parameters: map(&[("colour", "red")]), ..request("odd", id) };
    send!(recorder, create_snapshot, odd);
    for snapshot_id in [ids[0].as_str(), "", "snap-0"] {
        let snapshot_id = snapshot_id.to_owned();
        send!(recorder, get_snapshot, v1::GetSnapshotRequest { snapshot_id, ..Default::default() });
    }
    list_snapshots(recorder, &ids[0], &ids[2], id).await;
    metadata(recorder, &ids).await;
    copies(recorder, &ids, id).await;
    ids
}

async fn list_snapshots(recorder: &mut Recorder, one: &str, alien: &str, source: &str) {
    let all = v1::ListSnapshotsRequest::default();
    let by = |snapshot_id: &str, source_volume_id: &str| v1::ListSnapshotsRequest {
        snapshot_id: snapshot_id.to_owned(),
        source_volume_id: source_volume_id.to_owned(),
        ..Default::default()
    };
    let first = send!(recorder, list_snapshots, v1::ListSnapshotsRequest { max_entries: 1, ..all.clone() });
    let second = v1::ListSnapshotsRequest { max_entries: 1, starting_token: first.next_token, ..all.clone() };
    let cases = [
        all.clone(),
        second,
        by(one, ""),
        by("", source),
        by(alien, source),
        by("snap-0", ""),
        v1::ListSnapshotsRequest { max_entries: -1, ..all.clone() },
        v1::ListSnapshotsRequest { starting_token: "invalid".to_owned(), ..all },
    ];
    for request in cases {
        send!(recorder, list_snapshots, request);
    }
}

async fn metadata(recorder: &mut Recorder, ids: &[String]) {
    for (id, starting_offset, max_results) in
        [(ids[0].as_str(), 0, 0), (&ids[0], 100_000, 5), (&ids[0], -1, 0), ("", 0, 0), ("snap-0", 0, 0)]
    {
        let snapshot_id = id.to_owned();
        let request = v1::GetMetadataAllocatedRequest {
            snapshot_id,
            starting_offset,
            max_results,
            ..Default::default()
        };
        read!(recorder, get_metadata_allocated, request);
    }
    for (base, target) in [
        (ids[0].as_str(), ids[1].as_str()),
        (&ids[0], &ids[2]),
        ("", &ids[1]),
        (&ids[0], ""),
        (&ids[0], "snap-0"),
    ] {
        let request = v1::GetMetadataDeltaRequest {
            base_snapshot_id: base.to_owned(),
            target_snapshot_id: target.to_owned(),
            ..Default::default()
        };
        read!(recorder, get_metadata_delta, request);
    }
}

async fn copies(recorder: &mut Recorder, ids: &[String], id: &str) {
    for (name, source, size) in [
        ("restore", from_snapshot(&ids[0]), range(2 * GIB, 0)),
        ("restore", from_snapshot(&ids[0]), range(2 * GIB, 0)),
        ("shrunk", from_snapshot(&ids[0]), range(1, GIB - 1)),
        ("clone", from_volume(id), None),
    ] {
        let request = v1::CreateVolumeRequest {
            volume_content_source: source,
            capacity_range: size,
            ..volume_request(name)
        };
        let copy = send!(recorder, create_volume, request).volume.unwrap_or_default().volume_id;
        let name = format!("of-{name}");
        let request = v1::CreateSnapshotRequest { name, source_volume_id: copy, ..Default::default() };
        let snapshot = send!(recorder, create_snapshot, request).snapshot.unwrap_or_default();
        let request =
            v1::GetMetadataAllocatedRequest { snapshot_id: snapshot.snapshot_id, ..Default::default() };
        read!(recorder, get_metadata_allocated, request);
    }
    list_volumes(recorder).await;
}

async fn groups(recorder: &mut Recorder, id: &str) {
    let other = send!(recorder, create_volume, volume_request("second")).volume.unwrap_or_default().volume_id;
    let request = |name: &str, sources: &[&str]| v1::CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: sources.iter().map(|source| (*source).to_owned()).collect(),
        ..Default::default()
    };
    let pair = [id, other.as_str()];
    let group =
        send!(recorder, create_volume_group_snapshot, request("g", &pair)).group_snapshot.unwrap_or_default();
    let coloured =
        v1::CreateVolumeGroupSnapshotRequest { parameters: map(&[("colour", "red")]), ..request("g", &pair) };
    let fresh = v1::CreateVolumeGroupSnapshotRequest { name: "h".to_owned(), ..coloured.clone() };
    for request in [
        request("g", &pair),
        request("g", &[id]),
        coloured,
        fresh,
        request("", &pair),
        request("empty", &[]),
        request("missing", &[id, "vol-0"]),
        request("ünïcode", &pair),
    ] {
        send!(recorder, create_volume_group_snapshot, request);
    }
    send!(recorder, list_snapshots, v1::ListSnapshotsRequest::default());
    let members: Vec<String> = group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect();
    let get = |group_snapshot_id: &str, snapshot_ids: &[String]| v1::GetVolumeGroupSnapshotRequest {
        group_snapshot_id: group_snapshot_id.to_owned(),
        snapshot_ids: snapshot_ids.to_vec(),
        ..Default::default()
    };
    let group_id = group.group_snapshot_id.as_str();
    for request in [
        get(group_id, &members),
        get(group_id, &[]),
        get(group_id, &["snap-0".to_owned()]),
        get("", &members),
        get("group-0", &members),
    ] {
        send!(recorder, get_volume_group_snapshot, request);
    }
    let snapshot_id = members.first().cloned().unwrap_or_default();
    send!(recorder, delete_snapshot, v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() });
    for group_snapshot_id in ["", "group-0", group_id] {
        let request = v1::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: group_snapshot_id.to_owned(),
            snapshot_ids: members.clone(),
            ..Default::default()
        };
        send!(recorder, delete_volume_group_snapshot, request);
    }
    send!(recorder, get_volume_group_snapshot, get(group_id, &members));
    send!(recorder, list_snapshots, v1::ListSnapshotsRequest::default());
}

async fn modification(recorder: &mut Recorder, id: &str) {
    let modify = |volume_id: &str, pairs: &[(&str, &str)]| v1::ControllerModifyVolumeRequest {
        volume_id: volume_id.to_owned(),
        mutable_parameters: map(pairs),
        ..Default::default()
    };
    for request in [
        modify(id, &[("colour", "red"), ("tier", "lead")]),
        modify(id, &[("tier", "tin")]),
        modify(id, &[("tier", "tin")]),
        modify(id, &[("tier", "iron")]),
        modify(id, &[]),
        modify("", &[("tier", "tin")]),
        modify("vol-0", &[("tier", "tin")]),
    ] {
        send!(recorder, controller_modify_volume, request);
    }
    for tier in ["lead", "iron"] {
        let again = v1::CreateVolumeRequest {
            parameters: map(&[("tier", "silver")]),
            mutable_parameters: map(&[("tier", tier)]),
            capacity_range: None,
            ..volume_request("main")
        };
        send!(recorder, create_volume, again);
    }
    get_volume(recorder, id).await;
}

async fn expansion(recorder: &mut Recorder, id: &str) {
    let expand = |volume_id: &str, capacity_range| v1::ControllerExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        capacity_range,
        volume_capability: Some(writer()),
        ..Default::default()
    };
    let alien = Some(block(Mode::SingleNodeWriter));
    for request in [
        expand(id, range(2 * GIB, 2 * GIB)),
        expand(id, range(2 * GIB, 0)),
        expand(id, range(GIB, 0)),
        expand(id, range(i64::MAX, 0)),
        expand(id, range(-1, 0)),
        expand(id, range(0, 0)),
        expand(id, None),
        expand("", range(2 * GIB, 0)),
        expand("vol-0", range(2 * GIB, 0)),
        v1::ControllerExpandVolumeRequest { volume_capability: None, ..expand(id, range(3 * GIB, 0)) },
        v1::ControllerExpandVolumeRequest { volume_capability: alien, ..expand(id, range(3 * GIB, 0)) },
    ] {
        send!(recorder, controller_expand_volume, request);
    }
    get_volume(recorder, id).await;
    let device = v1::CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::SingleNodeWriter)],
        ..volume_request("device")
    };
    let device = send!(recorder, create_volume, device).volume.unwrap_or_default().volume_id;
    let device =
        v1::ControllerExpandVolumeRequest { volume_capability: None, ..expand(&device, range(2 * GIB, 0)) };
    send!(recorder, controller_expand_volume, device);
}

async fn staging(recorder: &mut Recorder, id: &str) {
    let stage = |volume_id: &str, path: &str| v1::NodeStageVolumeRequest {
        volume_id: volume_id.to_owned(),
        staging_target_path: path.to_owned(),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    let path = recorder.path("staging");
    let long = recorder.path(&"p".repeat(130));
    let unusual = v1::NodeStageVolumeRequest {
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..stage(id, &recorder.path("elsewhere"))
    };
    for request in [
        stage(id, &path),
        stage(id, &path),
        v1::NodeStageVolumeRequest {
            volume_capability: Some(mount(Mode::SingleNodeReaderOnly)),
            ..stage(id, &path)
        },
        v1::NodeStageVolumeRequest { volume_capability: None, ..stage(id, &path) },
        unusual,
        stage("", &path),
        stage(id, ""),
        stage("vol-0", &path),
        stage(id, &long),
    ] {
        send!(recorder, node_stage_volume, request);
    }
}

async fn publishing(recorder: &mut Recorder, id: &str, capability: v1::VolumeCapability) {
    let staging = recorder.path("staging");
    let publish = |target_path: String| v1::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: staging.clone(),
        target_path,
        volume_capability: Some(capability.clone()),
        ..Default::default()
    };
    let target = || recorder.path("target");
    let long = recorder.path(&"q".repeat(130));
    std::fs::create_dir_all(recorder.path("there")).unwrap();
    let other = match capability.access_type {
        Some(AccessType::Block(_)) => writer(),
        _ => block(Mode::SingleNodeWriter),
    };
    let nowhere = v1::NodePublishVolumeRequest {
        staging_target_path: "/nowhere".to_owned(),
        ..publish(recorder.path("u"))
    };
    let unnamed =
        v1::NodePublishVolumeRequest { staging_target_path: String::new(), ..publish(recorder.path("u")) };
    let unusual = v1::NodePublishVolumeRequest {
        volume_capability: Some(other.clone()),
        ..publish(recorder.path("w"))
    };
    let before = [
        nowhere,
        unnamed,
        unusual,
        publish(target()),
        publish(target()),
        v1::NodePublishVolumeRequest { readonly: true, ..publish(target()) },
        v1::NodePublishVolumeRequest { volume_capability: Some(other), ..publish(target()) },
        v1::NodePublishVolumeRequest { volume_capability: None, ..publish(target()) },
        v1::NodePublishVolumeRequest { volume_id: String::new(), ..publish(target()) },
        v1::NodePublishVolumeRequest { volume_id: "vol-0".to_owned(), ..publish(target()) },
        publish(String::new()),
        publish(recorder.path("second")),
    ];
    let alone = [publish(long), publish(recorder.path("there")), publish(recorder.path("no/parent"))];
    for request in before {
        send!(recorder, node_publish_volume, request);
    }
    recorder.look();
    on_the_node(recorder, id).await;
    for _ in 0..2 {
        unpublish(recorder, id, "target").await;
    }
    for request in alone {
        let name = request.target_path.rsplit('/').next().unwrap().to_owned();
        send!(recorder, node_publish_volume, request);
        recorder.look();
        unpublish(recorder, id, &name).await;
    }
    for (id, target_path) in
        [("", recorder.path("target")), ("vol-0", recorder.path("target")), (id, String::new())]
    {
        let request = v1::NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path };
        send!(recorder, node_unpublish_volume, request);
    }
    // A defect may have left files, which would disturb the next step.
    for name in ["target", "second", "u", "w"] {
        let path = recorder.path(name);
        if Path::new(&path).is_dir() {
            drop(std::fs::remove_dir(path))
        } else {
            drop(std::fs::remove_file(path))
        }
    }
}

async fn unpublish(recorder: &mut Recorder, id: &str, name: &str) {
    let request =
        v1::NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path: recorder.path(name) };
    send!(recorder, node_unpublish_volume, request);
    recorder.look();
    stats(recorder, id, recorder.path(name)).await;
}

async fn stats(recorder: &mut Recorder, id: &str, volume_path: String) {
    let request =
        v1::NodeGetVolumeStatsRequest { volume_id: id.to_owned(), volume_path, ..Default::default() };
    send!(recorder, node_get_volume_stats, request);
}

async fn on_the_node(recorder: &mut Recorder, id: &str) {
    let (staging, target) = (recorder.path("staging"), recorder.path("target"));
    for (id, path) in
        [(id, target.as_str()), (id, &staging), (id, "/nowhere"), (id, ""), ("", &target), ("vol-0", &target)]
    {
        stats(recorder, id, path.to_owned()).await;
    }
    let expand = |volume_id: &str, path: &str, bytes| v1::NodeExpandVolumeRequest {
        volume_id: volume_id.to_owned(),
        volume_path: path.to_owned(),
        capacity_range: range(bytes, 0),
        ..Default::default()
    };
    let alien = v1::NodeExpandVolumeRequest {
        volume_capability: Some(capability("fat12")),
        ..expand(id, &target, GIB)
    };
    for request in [
        expand(id, &target, GIB),
        expand(id, &staging, GIB),
        expand(id, "/nowhere", GIB),
        expand(id, &target, i64::MAX),
        expand("", &target, GIB),
        expand("vol-0", &target, GIB),
        expand(id, "", GIB),
        alien,
    ] {
        send!(recorder, node_expand_volume, request);
    }
    let published = v1::NodeUnstageVolumeRequest { volume_id: id.to_owned(), staging_target_path: staging };
    send!(recorder, node_unstage_volume, published);
    stats(recorder, id, recorder.path("staging")).await;
    send!(
        recorder,
        delete_volume,
        v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }
    );
    if Path::new(&target).is_dir() {
        std::fs::remove_dir(&target).unwrap();
        stats(recorder, id, target).await;
    }
}

async fn unstaging(recorder: &mut Recorder, id: &str) {
    let staging = recorder.path("staging");
    for (id, path) in [(id, staging.as_str()), (id, &staging), ("", &staging), ("vol-0", &staging), (id, "")]
    {
        let request =
            v1::NodeUnstageVolumeRequest { volume_id: id.to_owned(), staging_target_path: path.to_owned() };
        send!(recorder, node_unstage_volume, request);
        stats(recorder, id, staging.clone()).await;
    }
    let long = v1::NodeUnstageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: recorder.path(&"p".repeat(130)),
    };
    send!(recorder, node_unstage_volume, long);
}

async fn deletion(recorder: &mut Recorder, id: &str, snapshots: &[String]) {
    for volume_id in [id, id, "", "vol-0", "../etc"] {
        send!(
            recorder,
            delete_volume,
            v1::DeleteVolumeRequest { volume_id: volume_id.to_owned(), ..Default::default() }
        );
    }
    send!(
        recorder,
        create_volume,
        v1::CreateVolumeRequest { capacity_range: range(GIB, 0), ..volume_request("main") }
    );
    for snapshot_id in [snapshots[0].as_str(), snapshots[2].as_str(), &snapshots[0], "", "snap-0"] {
        let snapshot_id = snapshot_id.to_owned();
        send!(recorder, delete_snapshot, v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() });
    }
    send!(recorder, list_snapshots, v1::ListSnapshotsRequest::default());
    list_volumes(recorder).await;
}

/// Records the health of volumes that no node has, with and without problems.
async fn health(recorder: &mut Recorder, id: &str) {
    let other =
        send!(recorder, create_volume, volume_request("degraded")).volume.unwrap_or_default().volume_id;
    controller_health(recorder, id).await;
    node_health(recorder, id).await;
    for name in [id, &other] {
        recorder.report_problem(name, "DEGRADED");
    }
    recorder.report_problem("storage", "STORAGE_UNREACHABLE");
    controller_health(recorder, id).await;
    node_health(recorder, id).await;
    for name in [id, &other, "storage"] {
        recorder.well(name);
    }
    controller_health(recorder, id).await;
    send!(recorder, delete_volume, v1::DeleteVolumeRequest { volume_id: other, ..Default::default() });
    controller_health(recorder, id).await;
}

async fn controller_health(recorder: &mut Recorder, id: &str) {
    for volume_id in [id, id, "", "vol-0"] {
        let volume_id = volume_id.to_owned();
        let request = v1::ControllerGetVolumeHealthRequest { volume_id, ..Default::default() };
        send!(recorder, controller_get_volume_health, request);
    }
    let page = |max_entries, starting_token: &str| v1::ControllerListVolumeHealthRequest {
        max_entries,
        starting_token: starting_token.to_owned(),
        ..Default::default()
    };
    let first = send!(recorder, controller_list_volume_health, page(1, ""));
    for (max_entries, token) in [(1, first.next_token.as_str()), (0, ""), (0, "odd"), (-1, "")] {
        send!(recorder, controller_list_volume_health, page(max_entries, token));
    }
}

async fn node_health(recorder: &mut Recorder, id: &str) {
    let request = |volume_id: &str, path: String, staging: String| v1::NodeGetVolumeHealthRequest {
        volume_id: volume_id.to_owned(),
        volume_publish_path: path,
        staging_target_path: staging,
    };
    for volume_id in [id, "", "vol-0"] {
        send!(recorder, node_get_volume_health, request(volume_id, String::new(), String::new()));
    }
    let path = recorder.path("nothing");
    let directory = recorder.path("");
    let long = [128, 200].map(|bytes| format!("{directory}{}", "p".repeat(bytes - directory.len())));
    let [of_128_bytes, longer] = long;
    for (path, staging) in [(path.clone(), String::new()), (of_128_bytes, longer), (path.clone(), path)] {
        send!(recorder, node_get_volume_health, request(id, path, staging));
    }
    recorder.look();
    send!(recorder, node_get_storage_health, v1::NodeGetStorageHealthRequest::default());
}

/// Records the health of a volume that a node has, and then of one that it lost.
async fn lost(recorder: &mut Recorder, id: &str) {
    let target_path = recorder.path("lost");
    let publish = v1::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: target_path.clone(),
        staging_target_path: recorder.path("staging"),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    send!(recorder, node_publish_volume, publish);
    controller_health(recorder, id).await;
    node_health(recorder, id).await;
    // The directory may be missing because of a defect.
    let _ = std::fs::remove_dir(&target_path);
    node_health(recorder, id).await;
    let request = v1::NodeGetVolumeHealthRequest {
        volume_id: id.to_owned(),
        volume_publish_path: target_path,
        ..Default::default()
    };
    send!(recorder, node_get_volume_health, request);
    unpublish(recorder, id, "lost").await;
}

/// Makes snapshots that must be usable in this topology, in another one, or in an impossible one.
async fn places_of_snapshots(recorder: &mut Recorder, id: &str) {
    let place = |zone: &str| v1::Topology { segments: map(&[("mock.csi-sanity.example/zone", zone)]) };
    for (name, requisite) in [
        ("placed", vec![place("zone-a")]),
        ("placed", vec![place("zone-b")]),
        ("elsewhere", vec![place("zone-b")]),
        ("nowhere", vec![place("zone-z")]),
        ("anywhere", Vec::new()),
    ] {
        let request = v1::CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: id.to_owned(),
            accessibility_requirements: Some(v1::TopologyRequirement { requisite, preferred: Vec::new() }),
            ..Default::default()
        };
        let snapshot_id = send!(recorder, create_snapshot, request).snapshot.unwrap_or_default().snapshot_id;
        send!(recorder, delete_snapshot, v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() });
    }
}

async fn transcript(config: Config) -> String {
    let health_dir = tempfile::tempdir().unwrap();
    let config = Config { health_dir: Some(health_dir.path().to_owned()), ..config };
    let mut playing = Recorder {
        driver: with(config),
        directory: tempfile::tempdir().unwrap(),
        health: health_dir,
        seen: Vec::new(),
    };
    let recorder = &mut playing;
    identity(recorder).await;
    capacity(recorder).await;
    let id = repeated_volumes(recorder).await.volume_id;
    capacity(recorder).await;
    health(recorder, &id).await;
    places_of_snapshots(recorder, &id).await;
    attachments(recorder, &id).await;
    shared_attachments(recorder).await;
    validation(recorder, &id).await;
    let snapshots = snapshots(recorder, &id).await;
    groups(recorder, &id).await;
    modification(recorder, &id).await;
    staging(recorder, &id).await;
    lost(recorder, &id).await;
    publishing(recorder, &id, writer()).await;
    expansion(recorder, &id).await;
    unstaging(recorder, &id).await;
    let device = v1::CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::SingleNodeWriter)],
        ..volume_request("block")
    };
    let device = send!(recorder, create_volume, device).volume.unwrap_or_default().volume_id;
    let stage = v1::NodeStageVolumeRequest {
        volume_id: device.clone(),
        staging_target_path: recorder.path("staging"),
        volume_capability: Some(block(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    send!(recorder, node_stage_volume, stage);
    publishing(recorder, &device, block(Mode::SingleNodeWriter)).await;
    malformed_volumes(recorder).await;
    deletion(recorder, &id, &snapshots).await;
    playing.transcript()
}

/// Returns the configurations of the scenario, since some defects need a particular one.
fn stages() -> Vec<Config> {
    // The delay lets calls overlap and costs no time, because the clock is paused.
    let delay = ("CreateVolume".parse().unwrap(), Delay(Duration::from_millis(1)));
    let base = || Config {
        seed: Some(7),
        capacity_bytes: 2000 * GIB,
        attach_limit: Some(2),
        delay: [delay].into(),
        csi_version: CsiVersion::V1_14Preview,
        ..Config::default()
    };
    let without = |name: &str| Config { without: vec![name.parse().unwrap()], ..base() };
    let quirk = |quirk| Config { quirks: vec![quirk], ..base() };
    vec![
        base(),
        without("ONLINE"),
        without("VOLUME_ACCESSIBILITY_CONSTRAINTS"),
        without("Node.EXPAND_VOLUME"),
        quirk(Quirk::SnapshotsReadyAfterPolls),
    ]
}

/// No step of the scenario shows these defects. The refutation tests of the suites find them.
const NOT_IN_THE_SCENARIO: &[&str] = &[
    "status-code-not-canonical",
    // These need two concurrent calls, or a call that continues after its answer.
    "list-volumes-crashes-on-overlap",
    "node-unstage-goes-on",
    "create-volume-checks-first-capability-only",
    // These need unusual names.
    "create-volume-fails-after-quotes",
    "create-volume-drops-unsupported-sources",
    "create-volume-ignores-several-requisites",
    "create-volume-ignores-topology-of-copies",
    "create-volume-keeps-first-capability",
    "create-volume-refuses-group-members",
    "create-volume-refuses-limit-repeats",
    "create-volume-refuses-large-secrets",
    "create-volume-refuses-surplus-secrets",
    "create-volume-repeat-ignores-limit",
    "delete-volume-keeps-storage",
    "delete-volume-refuses-odd-names",
    "controller-unpublish-own-node-only",
    "validate-verdict-changes",
    // This one needs a list without volumes.
    "list-volumes-fails-while-empty",
    // The transcript leaves times out.
    "create-snapshot-time-is-now",
    "snapshot-from-1970",
    // This one needs unusual names, too.
    "list-snapshots-fails-after-path-names",
    // This one needs a list without snapshots.
    "list-snapshots-fails-while-empty",
    // This one needs the id of a volume as snapshot_id.
    "list-snapshots-finds-volumes",
    // These need snapshots in the list.
    "list-snapshots-pages-overlap",
    "list-snapshots-panics-on-numeric-token",
    "controller-expand-accepts-crossed-range",
    "controller-modify-forgets-other-keys",
    "create-group-snapshot-order-matters",
    "create-group-snapshot-time-is-now",
    "group-snapshot-from-1970",
    "group-snapshot-members-claim-ready",
    "delete-group-snapshot-in-use-as-internal",
    "get-metadata-allocated-misses-writes",
    "get-metadata-stuck-after-cut",
    "node-stage-accepts-incomplete-capability",
    "node-stage-fails-on-small-volumes",
    "node-publish-accepts-incomplete-capability",
    "node-get-volume-stats-panics-on-inline-ids",
    "node-expand-refuses-long-paths",
    "node-expand-refuses-paths-of-128-bytes",
];

#[tokio::test(start_paused = true)]
async fn each_defect_shows_and_nothing_else_differs() {
    let mut healthy = Vec::new();
    for config in stages() {
        let first = transcript(config.clone()).await;
        assert_eq!(first, transcript(config.clone()).await, "the healthy driver repeats itself");
        healthy.push(first);
    }
    let mut hidden = Vec::new();
    let others = [Defect::IN_HISTORIES, Defect::OVER_TIME, Defect::UNDER_ATTACK, Defect::UNDER_LOAD].concat();
    for defect in Defect::ALL.iter().filter(|defect| !others.contains(defect)) {
        let mut shows = false;
        for (config, expected) in stages().into_iter().zip(&healthy) {
            let config = Config { defects: vec![*defect], ..config };
            shows = transcript(config).await != *expected;
            if shows {
                break;
            }
        }
        if !shows {
            hidden.push(defect.id());
        }
    }
    assert_eq!(hidden, NOT_IN_THE_SCENARIO, "a defect shows in no answer, or one of the list does by now");
}
