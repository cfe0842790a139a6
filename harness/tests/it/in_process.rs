//! A kill and a stop of a driver in this process have different effects on the calls under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_harness::driver::{Driver, Left};
use csi_proto::v1::identity_client::IdentityClient;
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::{Endpoint, v1};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// Long enough for a busy machine; no test waits for it to pass.
const LONG: Duration = Duration::from_secs(60);

/// A service whose Probe says when it is at work, and works until the test lets it answer.
#[derive(Clone, Default)]
struct Waits {
    at_work: Arc<Notify>,
    answer: Arc<Notify>,
    gone: Arc<AtomicBool>,
}

/// Sets the flag when it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tonic::async_trait]
impl Identity for Waits {
    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Result<Response<v1::ProbeResponse>, Status> {
        let _gone = Gone(self.gone.clone());
        self.at_work.notify_one();
        self.answer.notified().await;
        Ok(Response::new(v1::ProbeResponse::default()))
    }

    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Result<Response<v1::GetPluginInfoResponse>, Status> {
        Err(Status::unimplemented("not asked"))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<v1::GetPluginCapabilitiesResponse>, Status> {
        Err(Status::unimplemented("not asked"))
    }
}

struct Bench {
    waits: Waits,
    driver: Driver,
    /// This call is under way.
    call: JoinHandle<Result<Response<v1::ProbeResponse>, Status>>,
    endpoint: Endpoint,
    _directory: TempDir,
}

impl Bench {
    async fn start() -> Bench {
        let directory = tempfile::tempdir().expect("a directory");
        let endpoint = Endpoint::Unix(directory.path().join("csi.sock"));
        let waits = Waits::default();
        let (service, socket) = (waits.clone(), endpoint.clone());
        let driver = Driver::in_process(move || {
            Ok(vec![(socket.clone(), Routes::new(IdentityServer::new(service.clone())))])
        });
        driver.start().await.expect("it starts");
        let channel = csi_proto::dial(&endpoint, LONG).await.expect("it answers");
        let call = tokio::spawn(async move { IdentityClient::new(channel).probe(v1::ProbeRequest {}).await });
        waits.at_work.notified().await;
        Bench { waits, driver, call, endpoint, _directory: directory }
    }
}

#[tokio::test]
async fn a_kill_leaves_nothing_at_work_and_says_no_goodbye() {
    let bench = Bench::start().await;
    let end = bench.driver.kill().await.expect("it can be killed");
    assert!(end.killed);
    assert!(bench.waits.gone.load(Ordering::SeqCst), "the call ends before the kill does");
    let status = bench.call.await.expect("no panic").expect_err("the driver is dead");
    assert!(std::error::Error::source(&status).is_some(), "the connection broke: {status:?}");
    csi_proto::dial(&bench.endpoint, Duration::ZERO).await.expect_err("nobody listens");

    bench.driver.start().await.expect("it starts again on the same socket");
    csi_proto::dial(&bench.endpoint, LONG).await.expect("it answers");
}

#[tokio::test]
async fn a_stop_lets_calls_end_within_the_grace() {
    let bench = Bench::start().await;
    let (end, ()) = tokio::join!(bench.driver.stop(LONG), async {
        // A stop removes the socket before it waits for calls.
        while csi_proto::dial(&bench.endpoint, Duration::ZERO).await.is_ok() {
            tokio::task::yield_now().await;
        }
        bench.waits.answer.notify_one();
    });
    assert!(!end.expect("it stops").killed);
    bench.call.await.expect("no panic").expect("the call is answered");
}

#[tokio::test]
async fn a_stop_does_not_wait_longer_than_the_grace() {
    let bench = Bench::start().await;
    let end = bench.driver.stop(Duration::from_millis(20)).await.expect("it stops");
    assert!(end.killed && bench.waits.gone.load(Ordering::SeqCst));
    bench.call.await.expect("no panic").expect_err("the call was cut off");
}

#[tokio::test]
async fn a_frozen_driver_answers_when_it_goes_on() {
    let bench = Bench::start().await;
    let frozen = bench.driver.freeze().await.expect("it runs").expect("it is a driver of this process");
    bench.waits.answer.notify_one();
    let mut call = bench.call;
    let early = tokio::time::timeout(Duration::from_millis(50), &mut call).await;
    assert!(early.is_err(), "a driver that stands still has answered");
    frozen.thaw().await.expect("it goes on");
    call.await.expect("no panic").expect("the call is answered");
    bench.driver.kill().await.expect("it can be killed");
    bench.driver.freeze().await.expect_err("nothing is left to stop");
}

#[tokio::test]
async fn a_second_driver_cannot_have_the_first_ones_socket() {
    let bench = Bench::start().await;
    let left = bench.driver.start_twice(Duration::ZERO, LONG).await.expect("it was tried");
    assert_eq!(left, Some(Left::First));
    bench.waits.answer.notify_one();
    bench.call.await.expect("no panic").expect("the first one goes on");
}

#[tokio::test]
async fn what_cannot_be_served_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let endpoint = Endpoint::Unix(directory.path().join("missing/csi.sock"));
    let service = Waits::default();
    let driver = Driver::in_process(move || {
        Ok(vec![(endpoint.clone(), Routes::new(IdentityServer::new(service.clone())))])
    });
    let error = driver.start().await.expect_err("there is no directory");
    assert!(csi_harness::text::message::error_chain(&error).contains("does not exist"), "{error}");
    let driver = Driver::in_process(|| Err("no state".into()));
    let error = driver.start().await.expect_err("it cannot be made");
    assert!(csi_harness::text::message::error_chain(&error).contains("no state"), "{error}");
}
