//! Concurrent calls.

use std::collections::BTreeSet;

use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::*;
use tonic::{Code, Request};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn one_name_makes_one_volume() {
    let rig = Rig::new(&[]).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let driver = rig.driver.clone();
        calls.spawn(
            async move { driver.create_volume(Request::new(create_request("v", MIB, mount("")))).await },
        );
    }
    let results = calls.join_all().await;
    let ids: BTreeSet<_> =
        results.iter().flatten().map(|reply| reply.get_ref().volume.clone().unwrap().volume_id).collect();
    assert_eq!(ids.len(), 1);
    assert!(codes(&results).iter().all(|code| matches!(code, Code::Ok | Code::Aborted)));
    assert_eq!(std::fs::read_dir(rig.fixture.root.join("state/volumes")).unwrap().count(), 1);
    rig.delete(ids.first().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn different_volumes_go_on_beside_each_other() {
    needs_mounts!();
    let rig = std::sync::Arc::new(Rig::new(&["--backend=image"]).await);
    let mut cycles = tokio::task::JoinSet::new();
    for number in 0..8 {
        let rig = std::sync::Arc::clone(&rig);
        cycles.spawn(async move {
            let volume = rig.create(&format!("v{number}"), 16 * MIB, mount("")).await.volume_id;
            for round in 0..3 {
                let target = rig.bring(&volume, mount("")).await;
                write_synced(&target.join(format!("{round}")), b"x");
                assert_eq!(std::fs::read_dir(&target).unwrap().count(), round + 2, "files and lost+found");
                rig.take(&volume).await;
            }
            rig.delete(&volume).await;
        });
    }
    cycles.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_given_up_run_to_their_end() {
    let rig = Rig::new(&[]).await;
    for number in 0..20 {
        let driver = rig.driver.clone();
        let request = create_request(&format!("v{number}"), MIB, mount(""));
        let call = tokio::spawn(async move { driver.create_volume(Request::new(request)).await });
        tokio::task::yield_now().await;
        call.abort();
        let _ = call.await;
        let again = loop {
            match rig.try_create(create_request(&format!("v{number}"), MIB, mount(""))).await {
                Ok(volume) => break volume,
                Err(status) => assert_eq!(status.code(), Code::Aborted),
            }
        };
        rig.delete(&again.volume_id).await;
    }
    let list =
        rig.driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap().into_inner();
    assert!(list.entries.is_empty());
    assert_eq!(std::fs::read_dir(rig.fixture.root.join("state/volumes")).unwrap().count(), 0);
}
