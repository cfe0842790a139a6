//! Checks that a state file of the mock driver is either rejected with a message and left unchanged, or makes a
//! driver that answers and has the same state after a restart.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use csi_mock_driver::{Config, MockDriver};
use csi_proto::v1;
use csi_proto::v1::controller_server::Controller as _;
use tokio::runtime::{Builder, Runtime};
use tonic::Request;

use crate::{CANARY, Target, file};

/// The bytes are the file.
pub const TARGET: Target = Target {
    name: "mock_state",
    run,
    seeds,
    tokens: &[
        "\"version\":2",
        "\"state\":",
        "\"rows\":",
        "\"next\":",
        "\"volumes\":",
        "\"snapshots\":",
        "\"zone\":1",
        "\"capacity_bytes\":",
        "\"made_ms\":",
        "9223372036854775807",
        "18446744073709551615",
        "-1",
        "4294967295",
        "{}",
        "[]",
        "null",
        "\"\"",
        "\\u0000",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
    ],
};

const NAME: &str = "mock-state.json";

type Known = (Vec<v1::list_volumes_response::Entry>, Vec<v1::list_snapshots_response::Entry>);

fn run(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    let path = file::with(NAME, bytes);
    match start(&path) {
        Ok(driver) => RUNTIME.with(|runtime| runtime.block_on(use_it(&path, driver))),
        Err(error) => {
            assert!(error.contains(NAME), "{error}");
            assert!(
                fs::read(&path).is_ok_and(|found| found == bytes),
                "a file was changed that was rejected: {error}"
            );
        }
    }
}

fn start(path: &Path) -> Result<Arc<MockDriver>, String> {
    let config = Config { state: Some(path.to_owned()), seed: Some(1), ..Config::default() };
    MockDriver::new(config).map_err(|error| csi_harness::text::message::error_chain(&error))
}

async fn use_it(path: &Path, driver: Arc<MockDriver>) {
    let known = known(&driver).await;
    for entry in &known.0 {
        let mut nodes = entry.status.iter().flat_map(|status| &status.published_node_ids);
        // The canary assumes that every node in a state is one of the configuration.
        assert!(!CANARY || nodes.all(|node| node.starts_with("node-")), "{entry:?}");
        let volume_id = entry.volume.clone().unwrap_or_default().volume_id;
        let request = v1::ControllerGetVolumeRequest { volume_id };
        let _ = driver.controller_get_volume(Request::new(request)).await;
    }
    let _ = driver.get_capacity(Request::new(v1::GetCapacityRequest::default())).await;
    drop(driver);
    let driver = start(path).expect("a state that was read before");
    assert_eq!(self::known(&driver).await, known);
    for entry in known.0 {
        let volume_id = entry.volume.unwrap_or_default().volume_id;
        let request = v1::DeleteVolumeRequest { volume_id, ..Default::default() };
        let _ = driver.delete_volume(Request::new(request)).await;
    }
}

async fn known(driver: &MockDriver) -> Known {
    let volumes = driver.list_volumes(Request::new(v1::ListVolumesRequest::default())).await;
    let snapshots = driver.list_snapshots(Request::new(v1::ListSnapshotsRequest::default())).await;
    let volumes = volumes.map(|page| page.into_inner().entries).unwrap_or_default();
    (volumes, snapshots.map(|page| page.into_inner().entries).unwrap_or_default())
}

fn seeds() -> Vec<Vec<u8>> {
    let empty = r#"{"version":2,"state":{"nonce":1,"ids":0,"volumes":{"rows":{},"next":0},"snapshots":{"rows":{},"next":0},"groups":{"rows":{},"next":0},"leaving":[]}}"#;
    let content = r#"{"span_bytes":1048576,"layers":[{"seed":5,"writes":1}]}"#;
    let usage = r#"{"access":{"Mount":{"fs_type":"","mount_flags":[],"volume_mount_group":""}},"mode":1}"#;
    let volume = format!(
        r#"{{"id":"vol-1","name":"v","made_ms":7,"capacity_bytes":1048576,"usages":[{usage}],"parameters":{{}},"first_mutable_parameters":{{}},"mutable_parameters":{{}},"modifications":0,"context":{{"a":"b"}},"source":null,"zone":0,"content":{content},"attachments":{{"node-1":{{"usage":{usage},"readonly":false}}}},"on_nodes":{{}}}}"#
    );
    let snapshot = format!(
        r#"{{"id":"snap-1","name":"s","source_volume_id":"vol-1","size_bytes":1048576,"created_ms":7,"group":null,"content":{content},"polls_left":0,"ready_ms":0}}"#
    );
    let full = empty
        .replacen(r#""rows":{},"next":0"#, &format!(r#""rows":{{"1":{volume}}},"next":1"#), 1)
        .replacen(r#""rows":{},"next":0"#, &format!(r#""rows":{{"1":{snapshot}}},"next":1"#), 1);
    vec![empty.into(), full.into_bytes()]
}
