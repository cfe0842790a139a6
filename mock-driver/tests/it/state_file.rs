//! Checks the state after a restart.

use csi_mock_driver::{Config, ConfigError, Defect, MockDriver, StateFileError};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::{self};
use tonic::Request;

use crate::support::{create, empty, ok, publish_request, snapshot, volume_request, with};

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = || Config { state: Some(directory.path().join("state.json")), ..Config::default() };
    let before = with(config());
    let volume = create(&before, volume_request("v")).await;
    let cut = snapshot(&before, "s", &volume.volume_id).await;
    ok(before.controller_publish_volume(Request::new(publish_request(&volume.volume_id, "node-1"))).await);
    let free = ok(before.get_capacity(empty()).await);
    drop(before);
    let after = with(config());
    assert_eq!(create(&after, volume_request("v")).await, volume);
    assert_eq!(snapshot(&after, "s", &volume.volume_id).await, cut);
    assert_eq!(ok(after.get_capacity(empty()).await), free);
    let entries = ok(after.list_volumes(empty()).await).entries;
    assert_eq!(entries[0].status.as_ref().unwrap().published_node_ids, ["node-1"]);
    assert_ne!(create(&after, volume_request("w")).await.volume_id, volume.volume_id);
    let delete = v1::DeleteSnapshotRequest { snapshot_id: cut.snapshot_id, ..Default::default() };
    ok(after.delete_snapshot(Request::new(delete)).await);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn file_that_is_no_state_is_rejected_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    for (text, expected) in
        [("{\"version\": 2", "not a state"), ("{\"version\": 3}", "newer"), ("[]", "not a state")]
    {
        std::fs::write(&path, text).unwrap();
        let error = MockDriver::new(Config { state: Some(path.clone()), ..Config::default() }).unwrap_err();
        assert!(matches!(
            error,
            ConfigError::State(StateFileError::Corrupt { .. } | StateFileError::Newer { .. })
        ));
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn without_a_file_a_restart_keeps_the_memory() {
    let before = with(Config { seed: Some(7), ..Config::default() });
    let volume = create(&before, volume_request("v")).await;
    let after = before.restarted().unwrap();
    assert_eq!(create(&after, volume_request("v")).await, volume);
    // If both drivers serve, each sees the changes of the other, as with a shared file.
    let later = create(&before, volume_request("w")).await.volume_id;
    let request = v1::ControllerGetVolumeRequest { volume_id: later };
    assert!(after.controller_get_volume(Request::new(request)).await.is_ok());
}

#[tokio::test]
async fn a_new_process_with_the_file_is_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = || Config {
        state: Some(directory.path().join("state")),
        defects: vec![Defect::RestartForgetsNames],
        ..Config::default()
    };
    let volume = create(&with(config()), volume_request("v")).await;
    let again = create(&with(config()), volume_request("v")).await;
    assert_ne!(again.volume_id, volume.volume_id);
}
