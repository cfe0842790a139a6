use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{code, create, driver, empty, from_snapshot, map, ok, volume, volume_request};

#[tokio::test]
async fn a_group_snapshot_lives_and_dies_as_one() {
    let driver = driver();
    let sources = vec![volume(&driver, "a").await, volume(&driver, "b").await];
    let request = v1::CreateVolumeGroupSnapshotRequest {
        name: "g".to_owned(),
        source_volume_ids: sources.clone(),
        ..Default::default()
    };
    let make = async |request: v1::CreateVolumeGroupSnapshotRequest| {
        driver.create_volume_group_snapshot(Request::new(request)).await
    };
    let group = ok(make(request.clone()).await).group_snapshot.unwrap();
    assert!(group.ready_to_use);
    assert!(group.snapshots.iter().all(|member| member.group_snapshot_id == group.group_snapshot_id));
    assert_eq!(
        group.snapshots.iter().map(|member| member.source_volume_id.clone()).collect::<Vec<_>>(),
        sources
    );
    assert_eq!(ok(make(request.clone()).await).group_snapshot.unwrap(), group);
    let fewer =
        v1::CreateVolumeGroupSnapshotRequest { source_volume_ids: sources[..1].to_vec(), ..request.clone() };
    assert_eq!(code(make(fewer).await), Code::AlreadyExists);
    let other = v1::CreateVolumeGroupSnapshotRequest { parameters: map(&[("tier", "x")]), ..request.clone() };
    assert_eq!(code(make(other).await), Code::AlreadyExists);

    let members: Vec<String> = group.snapshots.iter().map(|member| member.snapshot_id.clone()).collect();
    let restore = v1::CreateVolumeRequest {
        volume_content_source: from_snapshot(&members[0]),
        ..volume_request("restore")
    };
    create(&driver, restore).await;
    let alone = v1::DeleteSnapshotRequest { snapshot_id: members[0].clone(), ..Default::default() };
    assert_eq!(code(driver.delete_snapshot(Request::new(alone)).await), Code::InvalidArgument);

    let get = async |snapshot_ids: &[String]| {
        let request = v1::GetVolumeGroupSnapshotRequest {
            group_snapshot_id: group.group_snapshot_id.clone(),
            snapshot_ids: snapshot_ids.to_vec(),
            ..Default::default()
        };
        driver.get_volume_group_snapshot(Request::new(request)).await
    };
    assert_eq!(ok(get(&members).await).group_snapshot.unwrap(), group);
    assert_eq!(code(get(&members[..1]).await), Code::InvalidArgument);
    assert_eq!(code(get(&[]).await), Code::InvalidArgument);
    let delete = || {
        Request::new(v1::DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: group.group_snapshot_id.clone(),
            snapshot_ids: members.clone(),
            ..Default::default()
        })
    };
    ok(driver.delete_volume_group_snapshot(delete()).await);
    ok(driver.delete_volume_group_snapshot(delete()).await);
    assert_eq!(code(get(&members).await), Code::NotFound);
    assert!(ok(driver.list_snapshots(empty()).await).entries.is_empty());
}

#[tokio::test]
async fn a_group_with_a_missing_source_leaves_nothing() {
    let driver = driver();
    let there = volume(&driver, "there").await;
    for (sources, expected) in [
        (vec![there.clone(), "vol-0".to_owned()], Code::NotFound),
        (vec![there.clone(), there.clone()], Code::InvalidArgument),
        (vec![], Code::InvalidArgument),
    ] {
        let request = v1::CreateVolumeGroupSnapshotRequest {
            name: "g".to_owned(),
            source_volume_ids: sources,
            ..Default::default()
        };
        assert_eq!(code(driver.create_volume_group_snapshot(Request::new(request)).await), expected);
    }
    assert!(ok(driver.list_snapshots(empty()).await).entries.is_empty());
}
