//! Group snapshots.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use csi_proto::v1::group_controller_server::GroupController;
use csi_proto::v1::*;
use tonic::{Code, Request, Status};

use crate::support::*;

async fn create(rig: &Rig, name: &str, volumes: &[&str]) -> Result<VolumeGroupSnapshot, Status> {
    let request = CreateVolumeGroupSnapshotRequest {
        name: name.to_owned(),
        source_volume_ids: volumes.iter().map(|id| (*id).to_owned()).collect(),
        ..CreateVolumeGroupSnapshotRequest::default()
    };
    Ok(rig
        .driver
        .create_volume_group_snapshot(Request::new(request))
        .await?
        .into_inner()
        .group_snapshot
        .unwrap())
}

async fn delete(rig: &Rig, id: &str, members: &[String]) -> Result<(), Status> {
    let request = DeleteVolumeGroupSnapshotRequest {
        group_snapshot_id: id.to_owned(),
        snapshot_ids: members.to_vec(),
        ..DeleteVolumeGroupSnapshotRequest::default()
    };
    rig.driver.delete_volume_group_snapshot(Request::new(request)).await.map(|_| ())
}

fn member_ids(group: &VolumeGroupSnapshot) -> Vec<String> {
    group.snapshots.iter().map(|snapshot| snapshot.snapshot_id.clone()).collect()
}

fn counter(directory: &Path) -> u64 {
    let text = fs::read_to_string(directory.join("counter")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Writes increasing numbers, each to the first volume before the second.
fn write_in_turn(targets: [PathBuf; 2], stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            for target in &targets {
                write_synced(&target.join("counter"), format!("{number:020}").as_bytes());
            }
        }
        number
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn members_show_one_moment_under_a_writer() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let first = rig.create("a", 16 * MIB, mount("")).await.volume_id;
    let second = rig.create("b", 16 * MIB, mount("")).await.volume_id;
    let targets = [rig.bring(&first, mount("")).await, rig.bring(&second, mount("")).await];
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_in_turn(targets.clone(), Arc::clone(&stop));
    while counter(&targets[1]) == 0 {
        tokio::task::yield_now().await;
    }
    let mut last = 0;
    for round in 0..3 {
        let group = create(&rig, &format!("g{round}"), &[&first, &second]).await.unwrap();
        assert!(group.ready_to_use && group.snapshots.len() == 2);
        let mut counters = BTreeMap::new();
        for snapshot in &group.snapshots {
            assert_eq!(snapshot.group_snapshot_id, group.group_snapshot_id);
            let source = Source::snapshot(&snapshot.snapshot_id);
            let copy = rig.copy(&snapshot.snapshot_id, 16 * MIB, mount(""), source).await.volume_id;
            let restored = rig.bring(&copy, mount("")).await;
            counters.insert(snapshot.source_volume_id.clone(), counter(&restored));
            rig.take(&copy).await;
            rig.delete(&copy).await;
        }
        let (one, two) = (counters[&first], counters[&second]);
        assert!(one == two || one == two + 1, "round {round}: {one} and {two} are of different moments");
        assert!(one >= last && one > 0, "round {round}: {one} after {last}");
        last = one;
        delete(&rig, &group.group_snapshot_id, &member_ids(&group)).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() >= last, "the writer was let go on");
    for id in [&first, &second] {
        rig.take(id).await;
        rig.delete(id).await;
    }
    assert_eq!(fs::read_dir(rig.fixture.root.join("state/snapshots")).unwrap().count(), 0);
}

#[tokio::test]
async fn failed_groups_leave_nothing_behind() {
    let rig = Rig::new(&[]).await;
    let a = rig.create("a", MIB, mount("")).await.volume_id;
    let b = rig.create("b", MIB, mount("")).await.volume_id;
    let group = create(&rig, "g", &[&a, &b]).await.unwrap();
    assert_eq!(create(&rig, "g", &[&b, &a]).await.unwrap(), group, "order means nothing");
    assert_eq!(create(&rig, "g", &[&a]).await.unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(create(&rig, "h", &[]).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(create(&rig, "h", &[&a, "unknown"]).await.unwrap_err().code(), Code::NotFound);
    fs::remove_dir(rig.fixture.root.join("state/volumes").join(&b)).unwrap();
    assert!(create(&rig, "h", &[&a, &b]).await.is_err(), "a member whose data are missing");
    assert_eq!(
        fs::read_dir(rig.fixture.root.join("state/snapshots")).unwrap().count(),
        2,
        "nothing is leaked"
    );
    let members = member_ids(&group);
    let alone = DeleteSnapshotRequest { snapshot_id: members[0].clone(), ..DeleteSnapshotRequest::default() };
    let refused = controller_server::Controller::delete_snapshot(&rig.driver, Request::new(alone)).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    let id = group.group_snapshot_id.as_str();
    assert_eq!(delete(&rig, id, &members[..1]).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(delete(&rig, id, &[]).await.unwrap_err().code(), Code::InvalidArgument);
    delete(&rig, id, &members).await.unwrap();
    delete(&rig, id, &members).await.unwrap();
    rig.delete(&a).await;
    rig.delete(&b).await;
}
