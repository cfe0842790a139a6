//! Checks calls that overlap or are abandoned: a correct driver handles them at every point where a call can be held,
//! and each defect of this kind shows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use csi_mock_driver::{Config, Defect, Delay, MockDriver, Quirk};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{
    GIB, code, defective, empty, ok, publish_request, quirky, volume, volume_request, with, writer,
};

/// Returns a driver that holds CreateVolume at a step, so that other calls can overtake it.
fn held(step: &str) -> Arc<MockDriver> {
    let point = format!("CreateVolume{step}").parse().unwrap();
    with(Config { delay: [(point, Delay(Duration::from_millis(20)))].into(), ..Config::default() })
}

const STEPS: [&str; 3] = ["", ":before-commit", ":before-answer"];

async fn listed(driver: &MockDriver) -> Vec<String> {
    let entries = ok(driver.list_volumes(empty()).await).entries;
    entries.into_iter().map(|entry| entry.volume.expect("an entry has a volume").volume_id).collect()
}

async fn free(driver: &MockDriver) -> i64 {
    ok(driver.get_capacity(empty()).await).available_capacity
}

async fn delete(driver: &MockDriver, volume_id: &str) {
    let request = v1::DeleteVolumeRequest { volume_id: volume_id.to_owned(), ..Default::default() };
    ok(driver.delete_volume(Request::new(request)).await);
}

/// Abandons a call while it is held.
async fn abandon(driver: &MockDriver, name: &str) {
    let call = driver.create_volume(Request::new(volume_request(name)));
    assert!(tokio::time::timeout(Duration::from_millis(5), call).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn overlapping_calls_of_a_right_driver_lose_nothing() {
    for step in STEPS {
        let driver = held(step);
        let before = free(&driver).await;
        let made: [String; 2] = tokio::join!(volume(&driver, "v"), volume(&driver, "w")).into();
        assert_eq!(BTreeSet::from_iter(listed(&driver).await), BTreeSet::from(made), "{step}");
        assert_eq!(before - free(&driver).await, 2 * GIB, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_call_can_be_repeated() {
    for step in STEPS {
        let driver = held(step);
        abandon(&driver, "v").await;
        let done = listed(&driver).await;
        assert_eq!(done.len(), usize::from(step == ":before-answer"), "{step}");
        let id = volume(&driver, "v").await;
        assert_eq!(listed(&driver).await, [id], "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_can_be_lost() {
    let driver = defective(Defect::CreateVolumeLosesUpdates);
    tokio::join!(volume(&driver, "v"), volume(&driver, "w"));
    assert_eq!(listed(&driver).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn abandoned_call_can_leave_a_volume_or_storage() {
    let driver = defective(Defect::CreateVolumeDoublesAfterTimeout);
    abandon(&driver, "v").await;
    volume(&driver, "v").await;
    assert_eq!(listed(&driver).await.len(), 2);

    let driver = defective(Defect::CreateVolumeLeaksAfterTimeout);
    let before = free(&driver).await;
    abandon(&driver, "v").await;
    assert_eq!(before - free(&driver).await, GIB);
    assert!(listed(&driver).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_can_keep_its_lock() {
    let point = "CreateVolume".parse().unwrap();
    let driver = with(Config {
        defects: vec![Defect::LockKeptAfterCancel],
        delay: [(point, Delay(Duration::from_millis(20)))].into(),
        ..Config::default()
    });
    abandon(&driver, "v").await;
    assert_eq!(code(driver.create_volume(Request::new(volume_request("v"))).await), Code::Aborted);
    volume(&driver, "w").await;
    volume(&driver, "w").await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_volume_can_come_back() {
    let driver = defective(Defect::CreateVolumeRevivesDeleted);
    let id = volume(&driver, "v").await;
    let (again, ()) = tokio::join!(volume(&driver, "v"), delete(&driver, &id));
    delete(&driver, &again).await;
    delete(&driver, &id).await;
    assert_eq!(listed(&driver).await, [id]);
}

#[tokio::test(start_paused = true)]
async fn storage_can_count_twice() {
    let driver = defective(Defect::CreateVolumeCountsOverlapsTwice);
    let before = free(&driver).await;
    volume(&driver, "u").await;
    assert_eq!(before - free(&driver).await, GIB);
    tokio::join!(volume(&driver, "v"), volume(&driver, "w"));
    assert_eq!(before - free(&driver).await, 4 * GIB);
}

#[tokio::test]
async fn a_page_can_be_torn_as_the_text_allows() {
    for (driver, expected) in [(with(Config::default()), "w"), (quirky(Quirk::CountingTokens), "x")] {
        let mut ids = std::collections::BTreeMap::new();
        for name in ["u", "v", "w", "x"] {
            ids.insert(volume(&driver, name).await, name);
        }
        let first = v1::ListVolumesRequest { max_entries: 2, ..Default::default() };
        let starting_token = ok(driver.list_volumes(Request::new(first)).await).next_token;
        delete(&driver, ids.keys().next().expect("a volume")).await;
        let second = v1::ListVolumesRequest { starting_token, ..Default::default() };
        let entries = ok(driver.list_volumes(Request::new(second)).await).entries;
        let volume = entries[0].volume.as_ref().expect("an entry has a volume");
        assert_eq!(ids[&volume.volume_id], expected);
    }
}

#[tokio::test]
async fn a_repeat_can_forget_that_an_attachment_is_readonly() {
    let driver = defective(Defect::ControllerPublishForgetsReadonly);
    let id = volume(&driver, "v").await;
    let readonly = v1::ControllerPublishVolumeRequest { readonly: true, ..publish_request(&id, "node-1") };
    for expected in [Code::Ok, Code::Ok, Code::AlreadyExists] {
        let answer = driver.controller_publish_volume(Request::new(readonly.clone())).await;
        assert_eq!(code(answer), expected);
    }
}

#[tokio::test]
async fn a_repeat_can_forget_that_a_publication_is_readonly() {
    let driver = defective(Defect::NodePublishForgetsReadonly);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let id = volume(&driver, "v").await;
    let stage = v1::NodeStageVolumeRequest {
        volume_id: id.clone(),
        staging_target_path: path("staging"),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    ok(driver.node_stage_volume(Request::new(stage)).await);
    let readonly = v1::NodePublishVolumeRequest {
        volume_id: id,
        staging_target_path: path("staging"),
        target_path: path("target"),
        volume_capability: Some(writer()),
        readonly: true,
        ..Default::default()
    };
    for expected in [Code::Ok, Code::Ok, Code::AlreadyExists] {
        assert_eq!(code(driver.node_publish_volume(Request::new(readonly.clone())).await), expected);
    }
}

/// Makes two volumes, ends the driver during the next call, and counts the volumes that the next driver lists.
async fn count_listed_after_restart(config: Config) -> usize {
    let driver = with(config);
    for name in ["v", "w"] {
        volume(&driver, name).await;
    }
    abandon(&driver, "x").await;
    listed(&driver.restarted().expect("the driver starts again")).await.len()
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_for_survives_and_can_be_lost() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["1", "2", "3", "4"].map(|name| directory.path().join(name));
    let hold = ("CreateVolume:before-answer".parse().unwrap(), Delay(Duration::from_millis(20)));
    let base = |state| Config { state, delay: [hold].into(), ..Config::default() };
    let defects = [
        (None, 3),
        (Some(Defect::RestartForgetsLastWrite), 2),
        (Some(Defect::SavesAfterAnswer), 0),
        (Some(Defect::RestartTakesTruncatedForEmpty), 0),
    ];
    for ((defect, expected), file) in defects.into_iter().zip(files) {
        for state in [None, Some(file)] {
            let config = Config { defects: defect.into_iter().collect(), ..base(state) };
            assert_eq!(count_listed_after_restart(config).await, expected, "{defect:?}");
        }
    }
}
