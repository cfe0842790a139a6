//! Ephemeral inline volumes.

use std::fs;

use csi_proto::v1::node_server::Node;
use csi_proto::v1::*;
use tonic::{Code, Request, Status};

use crate::support::*;

async fn publish(rig: &Rig, id: &str, target: &str, attributes: &[(&str, &str)]) -> Result<(), Status> {
    let mut volume_context = map(attributes);
    volume_context.insert("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned());
    volume_context.insert("csi.storage.k8s.io/pod.name".to_owned(), "pod".to_owned());
    let request = NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: target.to_owned(),
        volume_capability: Some(mount("")),
        volume_context,
        ..NodePublishVolumeRequest::default()
    };
    rig.driver.node_publish_volume(Request::new(request)).await.map(|_| ())
}

fn volumes_on_disk(rig: &Rig) -> usize {
    fs::read_dir(rig.fixture.root.join("state/volumes")).unwrap().count()
}

#[tokio::test]
async fn inline_volumes_come_and_go_with_their_publication() {
    needs_mounts!();
    for (backend, size) in [("directory", "1Mi"), ("image", "16Mi")] {
        let rig = Rig::new(&[]).await;
        let target = rig.target("inline");
        for _ in 0..2 {
            publish(&rig, "csi-0123", &target, &[("size", size), ("backend", backend)]).await.unwrap();
        }
        assert_eq!(rig.fixture.mount_points().len(), 1, "{backend}");
        fs::write(format!("{target}/file"), b"x").unwrap();
        assert!(!rig.stats("csi-0123", &target).await.unwrap().usage.is_empty());
        let rig = rig.restart(&[]).await;
        assert_eq!(volumes_on_disk(&rig), 1);
        rig.try_unpublish("csi-0123", &target).await.unwrap();
        rig.try_unpublish("csi-0123", &target).await.unwrap();
        rig.removed().await;
        assert!(!fs::exists(&target).unwrap());
    }
}

#[tokio::test]
async fn a_failed_publication_leaves_nothing() {
    needs_mounts!();
    let rig = Rig::new(&["--capacity=fast=1Mi"]).await;
    let target = rig.target("inline");
    for (attributes, code) in [
        (&[("size", "lots")][..], Code::InvalidArgument),
        (&[("size", "2Mi"), ("kind", "fast")], Code::ResourceExhausted),
        (&[("size", "1Mi"), ("kind", "slow")], Code::InvalidArgument),
        (&[("backend", "tape")], Code::InvalidArgument),
    ] {
        assert_eq!(
            publish(&rig, "../../x", &target, attributes).await.unwrap_err().code(),
            code,
            "{attributes:?}"
        );
    }
    fs::write(&target, b"in the way").unwrap();
    let refused = publish(&rig, "csi-1", &target, &[("size", "1Mi")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    rig.removed().await;
    assert_eq!(volumes_on_disk(&rig), 0);
    assert_eq!(fs::read(&target).unwrap(), b"in the way");
    fs::remove_file(&target).unwrap();
    publish(&rig, "../../x", &target, &[("size", "1Mi")]).await.unwrap();
    rig.try_unpublish("../../x", &target).await.unwrap();
}

#[tokio::test]
async fn a_failed_repeated_call_leaves_nothing_behind() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let target = rig.target("inline");
    publish(&rig, "csi-2", &target, &[("size", "1Mi")]).await.unwrap();
    // The mount is lost, and another file blocks mounting again.
    unmount(&target);
    fs::remove_dir(&target).unwrap();
    fs::write(&target, b"in the way").unwrap();
    let refused = publish(&rig, "csi-2", &target, &[("size", "1Mi")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    rig.try_unpublish("csi-2", &target).await.unwrap();
    rig.removed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_publish_and_unpublish_leave_no_half() {
    needs_mounts!();
    let rig = std::sync::Arc::new(Rig::new(&[]).await);
    let target = rig.target("inline");
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..32 {
        let (rig, target) = (std::sync::Arc::clone(&rig), target.clone());
        callers.spawn(async move {
            let mut results = Vec::new();
            for _ in 0..1000 {
                results.push(match number % 2 {
                    0 => publish(&rig, "csi-3", &target, &[("size", "1Mi")]).await,
                    _ => rig.try_unpublish("csi-3", &target).await,
                });
            }
            results
        });
    }
    let results = callers.join_all().await.concat();
    let failed = results.into_iter().flat_map(Result::err).find(|status| status.code() != Code::Aborted);
    assert!(failed.is_none(), "{failed:?}");
    rig.try_unpublish("csi-3", &target).await.unwrap();
    publish(&rig, "csi-3", &target, &[("size", "1Mi")]).await.unwrap();
    fs::write(format!("{target}/file"), b"x").unwrap();
    rig.try_unpublish("csi-3", &target).await.unwrap();
    rig.removed().await;
}

#[tokio::test]
async fn an_inline_volume_is_no_larger_than_allowed() {
    needs_mounts!();
    let huge = u64::MAX.to_string();
    let flags = [format!("--max-volume-size={huge}"), format!("--default-volume-size={huge}")];
    let rig = Rig::new(&[&flags[0], &flags[1]]).await;
    let attributes = [("backend", "image")];
    let refused = publish(&rig, "csi-4", &rig.target("inline"), &attributes).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let rig = Rig::new(&["--max-volume-size=1000"]).await;
    let attributes = [("backend", "image"), ("size", "1000")];
    let refused = publish(&rig, "csi-4", &rig.target("inline"), &attributes).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
}

#[tokio::test]
async fn an_inline_volume_gives_its_slot_back() {
    needs_mounts!();
    let rig = Rig::new(&["--enable-attach", "--attach-limit=1"]).await;
    let target = rig.target("inline");
    for id in ["csi-5", "csi-6"] {
        publish(&rig, id, &target, &[("size", "1Mi")]).await.unwrap();
        rig.try_attach(id, "node1", false).await.unwrap();
        rig.try_unpublish(id, &target).await.unwrap();
    }
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    rig.try_attach(&volume, "node1", false).await.unwrap();
}
