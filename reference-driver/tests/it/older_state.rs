//! The tests open state directories of each format, the present one included, which are archives under `tests/data`. Each contains the same
//! objects: a volume of every kind that was used and unstaged, with a snapshot of each and a group snapshot; a volume that was never used;
//! and one that was mounted when the machine went down.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use csi_hostpath_driver::HostpathDriver;
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::group_controller_server::GroupController;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::*;
use tonic::Request;

use crate::support::*;

/// There is an archive for each format. The records of publications name their node in the second format.
const ARCHIVES: [&str; 2] = ["state-before-quotas.tar.gz", "state-with-nodes.tar.gz"];
const FLAGS: [&str; 3] =
    ["--enable-attach", "--enable-controller-modify-volume", "--accepted-mutable-parameter-names=tier"];
const STAGED_AT: &str = "/tmp/csi-hostpath-of-yore/staging";
const PUBLISHED_AT: &str = "/tmp/csi-hostpath-of-yore/pods/mount";

#[tokio::test]
async fn state_of_each_format_opens_and_is_whole() {
    needs_mounts!();
    for archive in ARCHIVES {
        let fixture = Fixture::new();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(archive);
        let unpacked =
            Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&fixture.root).status().unwrap();
        assert!(unpacked.success(), "{archive}");
        let rig = Rig::on(fixture, &FLAGS).await;
        let volumes = volumes(&rig.driver).await;
        assert_eq!(volumes.len(), 5, "{archive}: {volumes:?}");
        end_of_the_mounted_one(&rig, &volumes["in-use"]).await;
        for name in ["directory", "image", "in-use"] {
            assert_eq!(file_in(&rig, &volumes[name]).await, b"kept", "{archive}: {name}");
        }
        let block = rig.fixture.root.join("state/volumes").join(&volumes["block"]);
        assert_eq!(&fs::read(block).unwrap()[4096..4100], b"kept", "{archive}");
        assert_eq!(file_in(&rig, &volumes["untouched"]).await, b"", "{archive}: nobody has written to it");
        restore_and_delete_snapshots(&rig).await;
        for id in volumes.values() {
            rig.delete(id).await;
        }
        rig.removed().await;
    }
}

/// Returns the ids of all volumes, by the purpose for which they were created.
async fn volumes(driver: &HostpathDriver) -> BTreeMap<String, String> {
    let listed = driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap().into_inner();
    let ids = listed.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id);
    let mut found = BTreeMap::new();
    for id in ids {
        found.insert(name_of(driver, &id).await, id);
    }
    found
}

/// Returns the name of a volume, which only a repeated CreateVolume reveals.
async fn name_of(driver: &HostpathDriver, id: &str) -> String {
    let image = |name: &str| {
        let parameters = map(&[("backend", "image"), ("team", "a")]);
        CreateVolumeRequest { parameters, ..create_request(name, 16 * MIB, mount("ext4")) }
    };
    let requests = [
        create_request("directory", 3 * MIB, mount("")),
        create_request("block", MIB, block()),
        create_request("untouched", MIB, mount("")),
        image("image"),
        image("in-use"),
    ];
    for mut request in requests {
        if request.name == "untouched" {
            request.mutable_parameters = map(&[("tier", "gold")]);
        }
        let name = request.name.clone();
        let repeated = driver.create_volume(Request::new(request)).await.unwrap().into_inner();
        if repeated.volume.unwrap().volume_id == id {
            return name;
        }
    }
    panic!("{id} is none of the volumes that were made")
}

/// Makes the calls of an orchestrator after a reboot, for a volume whose pod no longer exists.
async fn end_of_the_mounted_one(rig: &Rig, id: &str) {
    let unpublish =
        NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path: PUBLISHED_AT.to_owned() };
    rig.driver.node_unpublish_volume(Request::new(unpublish)).await.unwrap();
    let unstage =
        NodeUnstageVolumeRequest { volume_id: id.to_owned(), staging_target_path: STAGED_AT.to_owned() };
    rig.driver.node_unstage_volume(Request::new(unstage)).await.unwrap();
    rig.try_detach(id, "node1").await.unwrap();
}

/// Returns the content of the file in a volume, which is empty if there is no file.
async fn file_in(rig: &Rig, id: &str) -> Vec<u8> {
    rig.try_attach(id, "node1", false).await.unwrap();
    let content = fs::read(rig.bring(id, mount("")).await.join("file")).unwrap_or_default();
    rig.take(id).await;
    rig.try_detach(id, "node1").await.unwrap();
    content
}

async fn restore_and_delete_snapshots(rig: &Rig) {
    let request = Request::new(ListSnapshotsRequest::default());
    let listed = rig.driver.list_snapshots(request).await.unwrap().into_inner().entries;
    let snapshots: Vec<Snapshot> = listed.into_iter().map(|entry| entry.snapshot.unwrap()).collect();
    assert_eq!(snapshots.len(), 5);
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for snapshot in snapshots {
        let access = if snapshot.size_bytes == MIB { block() } else { mount("") };
        let source = Source::snapshot(&snapshot.snapshot_id);
        let restored = rig.copy(&snapshot.snapshot_id, snapshot.size_bytes, access, source).await.volume_id;
        if snapshot.size_bytes > MIB {
            assert_eq!(file_in(rig, &restored).await, b"kept", "{snapshot:?}");
        }
        rig.delete(&restored).await;
        if snapshot.group_snapshot_id.is_empty() {
            rig.delete_snapshot(&snapshot.snapshot_id).await;
        } else {
            groups.entry(snapshot.group_snapshot_id).or_default().push(snapshot.snapshot_id);
        }
    }
    assert_eq!(groups.values().map(Vec::len).collect::<Vec<_>>(), [2]);
    for (group_snapshot_id, snapshot_ids) in groups {
        let request =
            DeleteVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids, ..Default::default() };
        rig.driver.delete_volume_group_snapshot(Request::new(request)).await.unwrap();
    }
}
