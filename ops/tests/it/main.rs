//! The tests send the operations and the malformed requests to a correct driver.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use csi_harness::client::target::Target;
use csi_harness::config::{Config, Pairs};
use csi_harness::prelude::*;
use csi_mock_driver::MockDriver;
use csi_ops::malformed::malformed;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::{Endpoint, Listener};

const LIMIT: Duration = Duration::from_secs(60);

/// The volume that an operation is for, in the state in which a driver has to do it.
async fn ready(cx: &Cx, operation: Operation) -> TrackedVolume {
    let mut volume = TrackedVolume::new(cx, cx.node_volume().await.unwrap());
    volume.reach(cx, operation).await.unwrap();
    if operation == Operation::DeleteSnapshot {
        let create = volume.request(cx, Operation::CreateSnapshot).await.unwrap();
        volume.record(create.send(cx).setup("a snapshot").await.unwrap());
    }
    volume
}

#[tokio::test]
async fn a_correct_driver_rejects_only_malformed_requests() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::Unix(dir.path().join("csi.sock"));
    let driver = MockDriver::new(Default::default()).unwrap();
    let listener = Listener::bind(&endpoint).await.unwrap();
    let serving = tokio::spawn(listener.serve(driver.routes(), std::future::pending()));
    let mutable_parameters = Pairs::from([("tier".to_owned(), "fast".to_owned())]);
    let config = Config { endpoint: Some(endpoint.to_string()), mutable_parameters, ..Config::default() };
    let target = Target::connect(config).await.unwrap();
    let cx = Cx::of_no_check(&target, "ops", AccessType::Mount, 7, LIMIT);
    for operation in Operation::ALL.iter().copied() {
        assert!(operation.is_offered(&cx), "the mock driver has {operation:?}");
        let scope = cx.scope();
        let mut volume = ready(&scope, operation).await;
        let right = volume.request(&scope, operation).await.unwrap();
        let malformed = malformed(&scope, &volume, &right);
        assert!(!malformed.is_empty(), "{operation:?} has a malformed request");
        for wrong in malformed.iter().filter(|wrong| wrong.must_be_rejected) {
            let answer = wrong.request.send(&scope).await.any_answer().unwrap();
            assert!(answer.is_err(), "{operation:?} {} is rejected", wrong.what);
        }
        let answer = right.send(&scope).await.any_answer().unwrap();
        assert!(answer.is_ok(), "{operation:?} is done: {answer:?}");
        scope.undo().await.unwrap();
    }
    serving.abort();
}
