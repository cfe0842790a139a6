//! Checks delays, injected failures, pending operations and the call log.

use std::time::Duration;

use csi_mock_driver::{Config, Delay, Failure};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{code, create, empty, map, ok, publish_request, volume, volume_request, with};

#[tokio::test]
async fn failure_happens_as_often_as_configured() {
    let failure: Failure = "UNAVAILABLE:2".parse().unwrap();
    let driver =
        with(Config { fail: [("CreateVolume".parse().unwrap(), failure)].into(), ..Config::default() });
    for expected in [Code::Unavailable, Code::Unavailable, Code::Ok] {
        assert_eq!(code(driver.create_volume(Request::new(volume_request("v"))).await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_operation_turns_others_on_its_object_away() {
    let delay = Delay(Duration::from_millis(200));
    let driver =
        with(Config { delay: [("CreateVolume".parse().unwrap(), delay)].into(), ..Config::default() });
    let started = tokio::time::Instant::now();
    let (first, second, other) = tokio::join!(
        driver.create_volume(Request::new(volume_request("v"))),
        driver.create_volume(Request::new(volume_request("v"))),
        driver.create_volume(Request::new(volume_request("w"))),
    );
    assert_eq!((code(first), code(second), code(other)), (Code::Ok, Code::Aborted, Code::Ok));
    assert!(started.elapsed() >= delay.0);
    let call = driver.create_volume(Request::new(volume_request("x")));
    assert!(tokio::time::timeout(delay.0 / 2, call).await.is_err());
    volume(&driver, "x").await;
}

#[tokio::test]
async fn the_call_log_shows_everything_but_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.jsonl");
    let driver = with(Config { call_log: Some(path.clone()), ..Config::default() });
    let request = v1::CreateVolumeRequest { secrets: map(&[("password", "hunter2")]), ..volume_request("v") };
    let volume = create(&driver, request).await;
    assert_eq!(
        code(driver.controller_publish_volume(Request::new(publish_request("vol-0", "node-1"))).await),
        Code::NotFound
    );
    ok(driver.list_volumes(empty()).await);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> =
        lines.iter().map(|line| (line["rpc"].as_str().unwrap(), line["code"].as_str().unwrap())).collect();
    assert_eq!(
        seen,
        [("CreateVolume", "OK"), ("ControllerPublishVolume", "NOT_FOUND"), ("ListVolumes", "OK")]
    );
    assert_eq!(lines[0]["response"]["volume"]["volume_id"], volume.volume_id);
    assert_eq!(lines[1]["message"], "volume vol-0 does not exist");
}
