//! Attaching, as bookkeeping.

use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::*;
use tonic::{Code, Request};

use crate::support::*;

#[tokio::test]
async fn attachments_are_counted_compared_and_survive_a_restart() {
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
async fn what_is_not_attached_is_not_staged_and_a_readonly_attachment_is_kept() {
    needs_root!();
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
async fn attachments_do_not_outlive_attaching() {
    let rig = Rig::new(&["--enable-attach"]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    rig.try_attach(&volume, "node1", false).await.unwrap();
    // Without attaching nobody can detach it any more.
    let rig = rig.restart(&[]).await;
    rig.delete(&volume).await;
}
