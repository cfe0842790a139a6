//! Lists in pages.

use std::collections::BTreeSet;

use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::*;
use tonic::{Code, Request, Status};

use crate::support::*;

async fn page(rig: &Rig, max_entries: i32, starting_token: &str) -> Result<(Vec<String>, String), Status> {
    let request = ListVolumesRequest { max_entries, starting_token: starting_token.to_owned() };
    let list = rig.driver.list_volumes(Request::new(request)).await?.into_inner();
    let ids = list.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect();
    Ok((ids, list.next_token))
}

#[tokio::test]
async fn pages_are_stable_while_volumes_come_and_go() {
    let rig = Rig::new(&[]).await;
    let mut lasting = BTreeSet::new();
    for number in 0..20 {
        lasting.insert(rig.create(&format!("lasting{number}"), MIB, mount("")).await.volume_id);
    }
    let (mut seen, mut token, mut round) = (Vec::new(), String::new(), 0);
    loop {
        let doomed = rig.create(&format!("doomed{round}"), MIB, mount("")).await.volume_id;
        let (ids, next) = page(&rig, 3, &token).await.unwrap();
        assert!(ids.len() <= 3);
        rig.delete(&doomed).await;
        if let Some(last) = ids.last().filter(|last| !lasting.contains(*last)) {
            rig.delete(last).await; // The token names this object.
        }
        seen.extend(ids);
        token = next;
        round += 1;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "repeated entries");
    assert!(lasting.iter().all(|id| seen.contains(id)), "skipped entries");
    assert_eq!(page(&rig, 0, "").await.unwrap(), (lasting.iter().cloned().collect(), String::new()));
    for id in &lasting {
        rig.delete(id).await;
    }
}

#[tokio::test]
async fn bad_pages_are_refused() {
    let rig = Rig::new(&[]).await;
    assert_eq!(page(&rig, -1, "").await.unwrap_err().code(), Code::InvalidArgument);
    for token in ["0", "invalid-token", "zzzz", "snap-00000000000000000000000000000000"] {
        assert_eq!(page(&rig, 0, token).await.unwrap_err().code(), Code::Aborted, "{token}");
    }
}

#[tokio::test]
async fn snapshots_are_filtered() {
    let rig = Rig::new(&[]).await;
    let one = rig.create("one", MIB, mount("")).await.volume_id;
    let two = rig.create("two", MIB, mount("")).await.volume_id;
    let mut of_one = Vec::new();
    for number in 0..3 {
        of_one.push(rig.snapshot(&format!("s{number}"), &one).await.snapshot_id);
    }
    let other = rig.snapshot("other", &two).await.snapshot_id;
    let list = async |snapshot_id: &str, source_volume_id: &str, max_entries| {
        let request = ListSnapshotsRequest {
            snapshot_id: snapshot_id.to_owned(),
            source_volume_id: source_volume_id.to_owned(),
            max_entries,
            ..ListSnapshotsRequest::default()
        };
        let list = rig.driver.list_snapshots(Request::new(request)).await.unwrap().into_inner();
        (list.entries.len(), !list.next_token.is_empty())
    };
    assert_eq!(list("", "", 0).await, (4, false));
    assert_eq!(list("", &one, 0).await, (3, false));
    assert_eq!(list("", &one, 2).await, (2, true));
    assert_eq!(list(&other, "", 0).await, (1, false));
    assert_eq!(list(&other, &one, 0).await, (0, false));
    assert_eq!(list("unknown", "", 0).await, (0, false));
    assert_eq!(list("", "unknown", 0).await, (0, false));
    for id in of_one.iter().chain([&other]) {
        rig.delete_snapshot(id).await;
    }
    rig.delete(&one).await;
    rig.delete(&two).await;
}
