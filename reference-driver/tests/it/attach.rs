//! The tests check attaching, which only keeps records.

use std::path::PathBuf;

use csi_hostpath_driver::HostpathDriver;
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::*;
use tonic::{Code, Request, Status};

use crate::support::*;

#[tokio::test]
async fn attachments_are_limited_and_survive_a_restart() {
    let flags = ["--enable-attach", "--attach-limit=2"];
    let rig = Rig::new(&flags).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(rig.create(name, MIB, mount("")).await.volume_id);
    }
    rig.try_attach(&ids[0], "node1", false).await.unwrap();
    rig.try_attach(&ids[0], "node1", false).await.unwrap();
    assert_eq!(rig.try_attach(&ids[0], "node1", true).await.unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(rig.try_attach(&ids[0], "node2", false).await.unwrap_err().code(), Code::NotFound);
    rig.try_attach(&ids[1], "node1", false).await.unwrap();
    let rig = rig.restart(&flags).await;
    assert_eq!(rig.try_attach(&ids[2], "node1", false).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(rig.try_delete(&ids[0]).await.unwrap_err().code(), Code::FailedPrecondition);
    rig.try_detach(&ids[0], "").await.unwrap();
    rig.try_detach(&ids[0], "node1").await.unwrap();
    rig.try_detach(&ids[0], "node2").await.unwrap();
    rig.try_detach("no such volume", "node1").await.unwrap();
    rig.try_attach(&ids[2], "node1", false).await.unwrap();
    let list =
        rig.driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap().into_inner();
    let published =
        list.entries.iter().filter(|e| e.status.as_ref().unwrap().published_node_ids == ["node1"]);
    assert_eq!(published.count(), 2);
    for id in &ids {
        rig.try_detach(id, "node1").await.unwrap();
        rig.delete(id).await;
    }
}

#[tokio::test]
async fn staging_needs_an_attachment_and_keeps_readonly() {
    needs_mounts!();
    let rig = Rig::new(&["--enable-attach"]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    let id = volume.volume_id.as_str();
    let path = rig.staging(id);
    assert_eq!(rig.try_stage(id, &path, mount("")).await.unwrap_err().code(), Code::FailedPrecondition);
    rig.try_attach(id, "node1", true).await.unwrap();
    let target = rig.bring(id, mount("")).await;
    assert!(std::fs::write(target.join("file"), b"x").is_err());
    rig.take(id).await;
    rig.try_detach(id, "node1").await.unwrap();
    rig.delete(id).await;
}

#[tokio::test]
async fn nodes_of_one_process_share_volumes() {
    needs_mounts!();
    let flags =
        ["--enable-attach", "--check-volume-lifecycle", "--attach-limit=1", "--enable-topology=false"];
    let rig = Rig::new(&[&flags[..], &["--node-endpoint=node2=unix:///nowhere.sock"]].concat()).await;
    let (here, there) = (&rig.driver, rig.driver.at_node("node2"));
    assert_eq!(node_id(here).await, "node1");
    assert_eq!(node_id(&there).await, "node2");

    let own = rig.create("own", MIB, mount("")).await.volume_id;
    rig.try_attach(&own, "node1", false).await.unwrap();
    assert_eq!(rig.try_attach(&own, "node2", false).await.unwrap_err().code(), Code::FailedPrecondition);
    rig.try_detach(&own, "node1").await.unwrap();
    rig.delete(&own).await;

    for backend in ["directory", "image"] {
        let mut request = create_request(backend, 32 * MIB, shared());
        request.parameters = map(&[("backend", backend)]);
        let volume = rig.try_create(request).await.unwrap().volume_id;
        rig.try_attach_as(&volume, "node1", shared()).await.unwrap();
        let unattached = bring_to(&rig, &there, &volume, "2", shared()).await.unwrap_err();
        assert_eq!(unattached.code(), Code::FailedPrecondition, "{backend}");
        rig.try_attach_as(&volume, "node2", shared()).await.unwrap();
        let first = bring_to(&rig, here, &volume, "1", shared()).await.unwrap();
        let second = bring_to(&rig, &there, &volume, "2", shared()).await.unwrap();
        std::fs::write(first.join("file"), backend).unwrap();
        assert_eq!(std::fs::read_to_string(second.join("file")).unwrap(), backend);

        take_from(&rig, here, &volume, "1").await;
        rig.try_detach(&volume, "node1").await.unwrap();
        assert_eq!(rig.try_detach(&volume, "node2").await.unwrap_err().code(), Code::FailedPrecondition);
        take_from(&rig, &there, &volume, "2").await;
        rig.try_detach(&volume, "node2").await.unwrap();
        rig.delete(&volume).await;
    }
}

#[tokio::test]
async fn a_volume_of_a_lost_node_is_used_on_another_one() {
    needs_mounts!();
    let flags = ["--enable-attach", "--enable-topology=false", "--node-endpoint=node2=unix:///nowhere.sock"];
    let rig = Rig::new(&flags).await;
    let (here, there) = (&rig.driver, rig.driver.at_node("node2"));
    for backend in ["directory", "image"] {
        let mut request = create_request(backend, 32 * MIB, mount(""));
        request.parameters = map(&[("backend", backend)]);
        let volume = rig.try_create(request).await.unwrap().volume_id;
        rig.try_attach(&volume, "node1", false).await.unwrap();
        let lost = bring_to(&rig, here, &volume, "1", mount("")).await.unwrap();
        std::fs::write(lost.join("file"), backend).unwrap();
        let second = bring_to(&rig, here, &volume, "3", mount("")).await.unwrap_err();
        assert_eq!(second.code(), Code::FailedPrecondition, "{backend}: the node has it");
        take_from(&rig, here, &volume, "3").await;

        rig.try_detach(&volume, "node1").await.unwrap();
        rig.try_attach(&volume, "node2", false).await.unwrap();
        let found = bring_to(&rig, &there, &volume, "2", mount("")).await.unwrap();
        assert_eq!(std::fs::read_to_string(found.join("file")).unwrap(), backend);
        take_from(&rig, here, &volume, "1").await;
        assert_eq!(std::fs::read_to_string(found.join("file")).unwrap(), backend, "the lost node is back");
        take_from(&rig, &there, &volume, "2").await;
        rig.try_detach(&volume, "node2").await.unwrap();
        rig.delete(&volume).await;
    }
}

/// Returns a capability for reading and writing on several nodes.
fn shared() -> VolumeCapability {
    mount_mode("", Mode::MultiNodeMultiWriter)
}

async fn node_id(driver: &HostpathDriver) -> String {
    let info = driver.node_get_info(Request::new(NodeGetInfoRequest::default())).await.unwrap().into_inner();
    info.node_id
}

async fn bring_to(
    rig: &Rig,
    node: &HostpathDriver,
    volume: &str,
    name: &str,
    capability: VolumeCapability,
) -> Result<PathBuf, Status> {
    let (staging, target) = (rig.staging(name), rig.target(name));
    let stage = NodeStageVolumeRequest {
        volume_id: volume.to_owned(),
        staging_target_path: staging.clone(),
        volume_capability: Some(capability.clone()),
        ..NodeStageVolumeRequest::default()
    };
    node.node_stage_volume(Request::new(stage)).await?;
    let publish = NodePublishVolumeRequest {
        volume_id: volume.to_owned(),
        staging_target_path: staging,
        target_path: target.clone(),
        volume_capability: Some(capability),
        ..NodePublishVolumeRequest::default()
    };
    node.node_publish_volume(Request::new(publish)).await?;
    Ok(target.into())
}

async fn take_from(rig: &Rig, node: &HostpathDriver, volume: &str, name: &str) {
    let volume_id = volume.to_owned();
    let request = NodeUnpublishVolumeRequest { volume_id, target_path: rig.target(name) };
    node.node_unpublish_volume(Request::new(request)).await.unwrap();
    let volume_id = volume.to_owned();
    let request = NodeUnstageVolumeRequest { volume_id, staging_target_path: rig.staging(name) };
    node.node_unstage_volume(Request::new(request)).await.unwrap();
}

#[tokio::test]
async fn attachments_do_not_outlive_attaching() {
    let rig = Rig::new(&["--enable-attach"]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    rig.try_attach(&volume, "node1", false).await.unwrap();
    // A driver without attaching cannot detach the volume any more, and deletes it all the same.
    let rig = rig.restart(&[]).await;
    rig.delete(&volume).await;
}
