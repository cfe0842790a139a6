//! Checks legal but unusual drivers.

use std::time::Duration;

use csi_mock_driver::{Config, Delay, Quirk, StaticVolume};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::identity_server::Identity as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{
    GIB, block, code, create, driver, empty, from_snapshot, map, mount, ok, publish_request, quirky, range,
    snapshot, volume, volume_request, with, writer,
};

#[tokio::test]
async fn services_can_be_left_out() {
    let controller = quirky(Quirk::ControllerOnly);
    volume(&controller, "v").await;
    assert_eq!(code(controller.node_get_info(empty()).await), Code::Unimplemented);
    let node = with(Config {
        quirks: vec![Quirk::NodeOnly],
        volumes: vec![StaticVolume {
            id: "by-hand".to_owned(),
            capacity_bytes: GIB,
            volume_context: map(&[("share", "one")]),
            readonly: false,
        }],
        ..Config::default()
    });
    assert_eq!(code(node.create_volume(Request::new(volume_request("v"))).await), Code::Unimplemented);
    let stage = v1::NodeStageVolumeRequest {
        volume_id: "by-hand".to_owned(),
        staging_target_path: "/staging".to_owned(),
        volume_capability: Some(writer()),
        volume_context: map(&[("share", "one"), ("csi.storage.k8s.io/pod.name", "pod")]),
        ..Default::default()
    };
    ok(node.node_stage_volume(Request::new(stage.clone())).await);
    let wrong = v1::NodeStageVolumeRequest { volume_context: map(&[("share", "two")]), ..stage };
    assert_eq!(code(node.node_stage_volume(Request::new(wrong)).await), Code::InvalidArgument);
}

#[tokio::test]
async fn one_access_type_is_enough() {
    for (quirk, good, bad) in [
        (Quirk::BlockOnly, block(Mode::SingleNodeWriter), writer()),
        (Quirk::MountOnly, writer(), block(Mode::SingleNodeWriter)),
        (Quirk::OneNewWriterMode, mount(Mode::SingleNodeSingleWriter), mount(Mode::SingleNodeMultiWriter)),
    ] {
        let driver = quirky(quirk);
        let request = |capability| v1::CreateVolumeRequest {
            volume_capabilities: vec![capability],
            ..volume_request("v")
        };
        create(&driver, request(good)).await;
        let other = v1::CreateVolumeRequest { name: "w".to_owned(), ..request(bad) };
        assert_eq!(code(driver.create_volume(Request::new(other)).await), Code::InvalidArgument, "{quirk}");
    }
}

#[tokio::test]
async fn sizes_can_be_rounded_hidden_or_bounded() {
    let odd =
        |name: &str| v1::CreateVolumeRequest { capacity_range: range(GIB + 1, 0), ..volume_request(name) };
    for (quirk, expected) in [
        (Quirk::SizeGranule, 2 * GIB),
        (Quirk::CapacityUnknown, 0),
        (Quirk::ExactSizesRefused, GIB + (4 << 20)),
    ] {
        assert_eq!(create(&quirky(quirk), odd("v")).await.capacity_bytes, expected, "{quirk}");
    }
    let exact = v1::CreateVolumeRequest { capacity_range: range(GIB + 1, GIB + 1), ..volume_request("v") };
    for quirk in [Quirk::SizeGranule, Quirk::ExactSizesRefused] {
        assert_eq!(code(quirky(quirk).create_volume(Request::new(exact.clone())).await), Code::OutOfRange);
    }
    let small = v1::CreateVolumeRequest { capacity_range: range(1, GIB - 1), ..volume_request("v") };
    let minimum = quirky(Quirk::MinimumSize);
    assert_eq!(code(minimum.create_volume(Request::new(small)).await), Code::OutOfRange);
    let reply = ok(minimum.get_capacity(empty()).await);
    assert_eq!(reply.minimum_volume_size, Some(GIB));
    let limits = ok(quirky(Quirk::NoSizeLimits).get_capacity(empty()).await);
    assert_eq!((limits.minimum_volume_size, limits.maximum_volume_size), (None, None));
}

#[tokio::test]
async fn snapshots_can_take_their_time() {
    let driver = quirky(Quirk::SnapshotsReadyAfterPolls);
    let source = volume(&driver, "v").await;
    let mut states = Vec::new();
    for _ in 0..4 {
        states.push(snapshot(&driver, "s", &source).await.ready_to_use);
    }
    assert_eq!(states, [false, false, false, true]);
    let slow = quirky(Quirk::SnapshotsReadyAfterTime);
    let source = volume(&slow, "v").await;
    let unready = snapshot(&slow, "s", &source).await;
    assert!(!unready.ready_to_use);
    let early = v1::CreateVolumeRequest {
        volume_content_source: from_snapshot(&unready.snapshot_id),
        ..volume_request("early")
    };
    assert_eq!(code(slow.create_volume(Request::new(early)).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn deletion_can_go_on_in_the_background() {
    let driver = quirky(Quirk::BackgroundDeletion);
    let volume_id = volume(&driver, "v").await;
    let get = v1::ControllerGetVolumeRequest { volume_id: volume_id.clone() };
    ok(driver.delete_volume(Request::new(v1::DeleteVolumeRequest { volume_id, ..Default::default() })).await);
    assert_eq!(code(driver.controller_get_volume(Request::new(get)).await), Code::NotFound);
    let mut listed = Vec::new();
    for _ in 0..4 {
        listed.push(ok(driver.list_volumes(empty()).await).entries.len());
    }
    assert_eq!(listed, [1, 1, 1, 0]);
}

#[tokio::test]
async fn an_id_that_is_given_again_is_listed_once() {
    let quirks = vec![Quirk::BackgroundDeletion, Quirk::IdsFromNames];
    let driver = with(Config { quirks, ..Config::default() });
    let volume_id = volume(&driver, "v").await;
    ok(driver.delete_volume(Request::new(v1::DeleteVolumeRequest { volume_id, ..Default::default() })).await);
    volume(&driver, "v").await;
    assert_eq!(ok(driver.list_volumes(empty()).await).entries.len(), 1);
}

#[tokio::test]
async fn ids_can_come_from_names_or_have_a_format() {
    let driver = quirky(Quirk::IdsFromNames);
    let volume_id = volume(&driver, "v").await;
    let delete = v1::DeleteVolumeRequest { volume_id: volume_id.clone(), ..Default::default() };
    ok(driver.delete_volume(Request::new(delete)).await);
    assert_eq!(volume(&driver, "v").await, volume_id);
    let picky = quirky(Quirk::ForeignIdsRefused);
    let foreign = v1::DeleteVolumeRequest { volume_id: "somebody-elses".to_owned(), ..Default::default() };
    assert_eq!(code(picky.delete_volume(Request::new(foreign)).await), Code::InvalidArgument);
    let id = volume(&picky, "v").await;
    ok(picky.controller_publish_volume(Request::new(publish_request(&id, "node-1"))).await);
}

#[tokio::test]
async fn without_a_default_pool_capacity_needs_parameters() {
    let driver = quirky(Quirk::NoDefaultPool);
    let without = driver.get_capacity(Request::new(v1::GetCapacityRequest::default())).await;
    assert_eq!(code(without), Code::FailedPrecondition);
    let parameters = map(&[("pool", "mock")]);
    let given = v1::GetCapacityRequest { parameters, ..Default::default() };
    assert!(ok(driver.get_capacity(Request::new(given)).await).available_capacity > 0);
}

#[tokio::test]
async fn parameters_secrets_and_contexts_can_be_demanded() {
    let parameters = quirky(Quirk::ParametersDemanded);
    assert_eq!(
        code(parameters.create_volume(Request::new(volume_request("v"))).await),
        Code::InvalidArgument
    );
    let given = v1::CreateVolumeRequest { parameters: map(&[("pool", "mock")]), ..volume_request("v") };
    create(&parameters, given).await;

    let secrets = quirky(Quirk::SecretsDemanded);
    let login =
        |password| v1::CreateVolumeRequest { secrets: map(&[("password", password)]), ..volume_request("v") };
    assert_eq!(code(secrets.create_volume(Request::new(volume_request("v"))).await), Code::InvalidArgument);
    let wrong = secrets.create_volume(Request::new(login("hunter2"))).await.unwrap_err();
    assert_eq!(wrong.code(), Code::Unauthenticated);
    assert!(!wrong.message().contains("hunter2"));
    create(&secrets, login("mock")).await;

    let contexts = quirky(Quirk::VolumeContextDemanded);
    let volume = create(&contexts, volume_request("v")).await;
    let publish = publish_request(&volume.volume_id, "node-1");
    assert_eq!(
        code(contexts.controller_publish_volume(Request::new(publish.clone())).await),
        Code::InvalidArgument
    );
    let publish = v1::ControllerPublishVolumeRequest { volume_context: volume.volume_context, ..publish };
    ok(contexts.controller_publish_volume(Request::new(publish)).await);
}

#[tokio::test]
async fn tokens_and_pages_are_the_drivers_choice() {
    let driver = quirky(Quirk::StartAfterTokens);
    for index in 0..3 {
        volume(&driver, &format!("v{index}")).await;
    }
    let list = async |starting_token: &str| {
        let request = v1::ListVolumesRequest { starting_token: starting_token.to_owned(), max_entries: 2 };
        ok(driver.list_volumes(Request::new(request)).await)
    };
    let first = list("").await;
    assert_eq!((first.entries.len(), list(&first.next_token).await.entries.len()), (2, 1));
    assert_eq!((list("!").await.entries.len(), list("~").await.entries.len()), (2, 0));
    let small = quirky(Quirk::SmallPages);
    for index in 0..3 {
        volume(&small, &format!("v{index}")).await;
    }
    let page = ok(small.list_volumes(empty()).await);
    assert_eq!((page.entries.len(), page.next_token.is_empty()), (2, false));
}

#[tokio::test]
async fn lists_can_lag() {
    let lagging = |list_lag| {
        with(Config { quirks: vec![Quirk::ListsLag], list_lag: Delay(list_lag), ..Config::default() })
    };
    for (list_lag, expected) in [(Duration::from_secs(3600), 0), (Duration::ZERO, 1)] {
        let driver = lagging(list_lag);
        let id = volume(&driver, "v").await;
        snapshot(&driver, "s", &id).await;
        assert_eq!(ok(driver.list_volumes(empty()).await).entries.len(), expected);
        assert_eq!(ok(driver.list_snapshots(empty()).await).entries.len(), expected);
        assert_eq!(volume(&driver, "v").await, id);
    }
}

#[tokio::test]
async fn identity_can_be_terse_or_ahead_of_its_time() {
    let terse = quirky(Quirk::NoPluginCapabilities);
    assert!(ok(terse.get_plugin_capabilities(empty()).await).capabilities.is_empty());
    volume(&terse, "still works").await;
    assert_eq!(ok(quirky(Quirk::ProbeReadyUnset).probe(empty()).await).ready, None);
    let future = quirky(Quirk::FutureCapability);
    let node = ok(future.node_get_capabilities(empty()).await).capabilities;
    let known = ok(driver().node_get_capabilities(empty()).await).capabilities;
    assert_eq!(node.len(), known.len() + 1);
}

#[tokio::test]
async fn dependents_can_pin_what_they_came_from() {
    let pinned = quirky(Quirk::SnapshotsBlockDeletion);
    let volume_id = volume(&pinned, "v").await;
    snapshot(&pinned, "s", &volume_id).await;
    let delete = v1::DeleteVolumeRequest { volume_id, ..Default::default() };
    assert_eq!(code(pinned.delete_volume(Request::new(delete)).await), Code::FailedPrecondition);
    let copies = quirky(Quirk::CopiesPinSnapshots);
    let source = volume(&copies, "v").await;
    let snapshot_id = snapshot(&copies, "s", &source).await.snapshot_id;
    let copy =
        v1::CreateVolumeRequest { volume_content_source: from_snapshot(&snapshot_id), ..volume_request("c") };
    create(&copies, copy).await;
    let delete = v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() };
    assert_eq!(code(copies.delete_snapshot(Request::new(delete)).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn unknown_objects_can_be_reported_either_way() {
    let strict = quirky(Quirk::ControllerUnpublishUnknownNotFound);
    let unpublish = v1::ControllerUnpublishVolumeRequest {
        volume_id: "vol-0".to_owned(),
        node_id: "node-1".to_owned(),
        ..Default::default()
    };
    assert_eq!(code(strict.controller_unpublish_volume(Request::new(unpublish)).await), Code::NotFound);
    let path = "/nowhere".to_owned();
    let unstage =
        v1::NodeUnstageVolumeRequest { volume_id: "vol-0".to_owned(), staging_target_path: path.clone() };
    ok(quirky(Quirk::NodeUnstageUnknownOk).node_unstage_volume(Request::new(unstage)).await);
    let unpublish = v1::NodeUnpublishVolumeRequest { volume_id: "vol-0".to_owned(), target_path: path };
    ok(quirky(Quirk::NodeUnpublishUnknownOk).node_unpublish_volume(Request::new(unpublish)).await);
}

#[tokio::test]
async fn topology_can_mean_everywhere() {
    let driver = quirky(Quirk::TopologyEverywhere);
    let volume = create(&driver, volume_request("v")).await;
    assert!(volume.accessible_topology.is_empty());
    ok(driver.controller_publish_volume(Request::new(publish_request(&volume.volume_id, "node-3"))).await);
}
