use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{
    GIB, code, create, driver, from_snapshot, ok, snapshot, snapshot_request, volume, volume_request,
};

#[tokio::test]
async fn a_repeated_request_returns_the_first_snapshot() {
    let driver = driver();
    let (one, two) = (volume(&driver, "one").await, volume(&driver, "two").await);
    let first = snapshot(&driver, "s", &one).await;
    assert!(first.ready_to_use && first.creation_time.is_some() && first.size_bytes == GIB);
    assert_eq!(snapshot(&driver, "s", &one).await, first);
    let create = async |name: &str, source: &str| {
        code(driver.create_snapshot(Request::new(snapshot_request(name, source))).await)
    };
    assert_eq!(create("s", &two).await, Code::AlreadyExists);
    assert_eq!(create("", &one).await, Code::InvalidArgument);
    assert_eq!(create("t", "").await, Code::InvalidArgument);
    assert_eq!(create("t", "vol-0").await, Code::NotFound);
    let got = v1::GetSnapshotRequest { snapshot_id: first.snapshot_id.clone(), ..Default::default() };
    assert_eq!(ok(driver.get_snapshot(Request::new(got)).await).snapshot, Some(first));
}

#[tokio::test]
async fn filters_and_pages_narrow_the_list() {
    let driver = driver();
    let (one, two) = (volume(&driver, "one").await, volume(&driver, "two").await);
    let mut of_one = Vec::new();
    for index in 0..3 {
        of_one.push(snapshot(&driver, &format!("one-{index}"), &one).await.snapshot_id);
    }
    let of_two = snapshot(&driver, "two", &two).await.snapshot_id;
    let list = async |request: v1::ListSnapshotsRequest| {
        let page = ok(driver.list_snapshots(Request::new(request)).await);
        let ids: Vec<_> = page.entries.into_iter().map(|entry| entry.snapshot.unwrap().snapshot_id).collect();
        (ids, page.next_token)
    };
    let by_source =
        v1::ListSnapshotsRequest { source_volume_id: one.clone(), max_entries: 2, ..Default::default() };
    let (page, starting_token) = list(by_source.clone()).await;
    assert_eq!(page, of_one[..2]);
    let (page, end) = list(v1::ListSnapshotsRequest { starting_token, ..by_source.clone() }).await;
    assert_eq!((page, end.as_str()), (of_one[2..].to_vec(), ""));
    let both = v1::ListSnapshotsRequest { snapshot_id: of_two.clone(), ..by_source };
    assert!(list(both).await.0.is_empty());
    let by_id = v1::ListSnapshotsRequest { snapshot_id: of_two.clone(), ..Default::default() };
    assert_eq!(list(by_id).await.0, [of_two]);
    let unknown = v1::ListSnapshotsRequest { source_volume_id: "vol-0".to_owned(), ..Default::default() };
    assert!(list(unknown).await.0.is_empty());
}

#[tokio::test]
async fn snapshots_outlive_their_volume() {
    let driver = driver();
    let volume_id = volume(&driver, "source").await;
    let snapshot = snapshot(&driver, "s", &volume_id).await;
    ok(driver.delete_volume(Request::new(v1::DeleteVolumeRequest { volume_id, ..Default::default() })).await);
    let source = from_snapshot(&snapshot.snapshot_id);
    let restore =
        || v1::CreateVolumeRequest { volume_content_source: source.clone(), ..volume_request("restore") };
    create(&driver, restore()).await;
    let delete = || {
        let snapshot_id = snapshot.snapshot_id.clone();
        Request::new(v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() })
    };
    ok(driver.delete_snapshot(delete()).await);
    ok(driver.delete_snapshot(delete()).await);
    let late = v1::CreateVolumeRequest { name: "late".to_owned(), ..restore() };
    assert_eq!(code(driver.create_volume(Request::new(late)).await), Code::NotFound);
}
