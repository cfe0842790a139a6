//! Faults that only a driver with real mounts can have, and the checks that find them: one that mounts nothing where it
//! should, one that mounts twice, and ones that leave mounts behind.

use std::sync::Arc;

use csi_harness::config::{AccessType, Config};
use csi_harness::events::{Event, Reporter};
use csi_harness::filter::Filter;
use csi_harness::known::KnownFailing;
use csi_harness::outcome::Outcome;
use csi_harness::registry::Registry;
use csi_harness::runner::{RunOptions, Runner};
use csi_harness::target::Target;
use csi_hostpath_driver::HostpathDriver;
use csi_proto::v1::controller_server::ControllerServer;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::node_server::NodeServer;
use csi_proto::v1::*;
use csi_proto::{Endpoint, Listener};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use tokio::sync::{oneshot, watch};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::support::*;

/// What the driver does wrong, with OK for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    PublishesNothing,
    PublishesAgain,
    UnpublishesNothing,
    UnstagesNothing,
}

/// The driver with one fault.
#[derive(Clone)]
struct Faulty(HostpathDriver, Fault);

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Node for Faulty {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Reply<NodePublishVolumeResponse> {
        let target = request.get_ref().target_path.clone();
        let repeated = std::path::Path::new(&target).exists();
        let done = self.0.node_publish_volume(request).await?;
        match self.1 {
            Fault::PublishesNothing => unmount(&target, UnmountFlags::empty()).unwrap(),
            Fault::PublishesAgain if repeated => mount_bind(&target, &target).unwrap(),
            _ => {}
        }
        Ok(done)
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        match self.1 {
            Fault::UnpublishesNothing => Ok(Response::new(NodeUnpublishVolumeResponse {})),
            _ => self.0.node_unpublish_volume(request).await,
        }
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Reply<NodeUnstageVolumeResponse> {
        match self.1 {
            Fault::UnstagesNothing => Ok(Response::new(NodeUnstageVolumeResponse {})),
            _ => self.0.node_unstage_volume(request).await,
        }
    }

    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Reply<NodeStageVolumeResponse> {
        self.0.node_stage_volume(request).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Reply<NodeGetVolumeStatsResponse> {
        self.0.node_get_volume_stats(request).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Reply<NodeExpandVolumeResponse> {
        self.0.node_expand_volume(request).await
    }

    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Reply<NodeGetCapabilitiesResponse> {
        self.0.node_get_capabilities(request).await
    }

    async fn node_get_info(&self, request: Request<NodeGetInfoRequest>) -> Reply<NodeGetInfoResponse> {
        self.0.node_get_info(request).await
    }
}

/// What was said against the driver: the check, and the rule that it broke.
#[derive(Debug, Default)]
struct Accusations(Vec<(String, Option<&'static str>)>);

impl Reporter for Accusations {
    fn event(&mut self, event: &Event<'_>) {
        let Event::CheckFinished(report) = event else { return };
        match &report.outcome {
            Outcome::Failed(violation) => {
                let first = report.planned.check.requirements[0];
                self.0.push((report.label(), Some(violation.requirement.unwrap_or(first).id)));
            }
            Outcome::Passed => self.0.push((report.label(), None)),
            other => panic!("{}: {other:?}", report.label()),
        }
    }
}

/// Runs one check on the driver with a fault.
async fn accuse(
    fault: Fault,
    access_types: &[AccessType],
    check: &str,
) -> Vec<(String, Option<&'static str>)> {
    let rig = Rig::new(&[]).await;
    let endpoint: Endpoint = format!("unix://{}/csi.sock", rig.ground.root.display()).parse().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let routes = Routes::new(IdentityServer::new(rig.driver.clone()))
        .add_service(ControllerServer::new(rig.driver.clone()))
        .add_service(NodeServer::new(Faulty(rig.driver.clone(), fault)));
    let listener = Listener::bind(&endpoint).await.unwrap();
    let serving = tokio::spawn(listener.serve(routes, async {
        let _ = stopped.await;
    }));
    let settings = Config {
        endpoint: Some(endpoint.to_string()),
        mount_dir: Some(rig.ground.root.join("mounts")),
        staging_dir: Some(rig.ground.root.join("staging")),
        access_types: access_types.to_vec(),
        volume_size_bytes: Some(64 << 20),
        ..Config::default()
    };
    let target = Target::connect(settings).await.unwrap();
    let options = RunOptions {
        jobs: 1,
        seed: 1,
        strict: false,
        fail_fast: false,
        leak_check: false,
        keep_calls: false,
        tell_each: false,
        registry: Registry::new([csi_suite_sanity::SUITE]),
        known: KnownFailing::default(),
        repeat: Arc::new(str::to_owned),
    };
    let mut filter = Filter::default();
    filter.add(check).unwrap();
    let plan = Registry::new([csi_suite_sanity::SUITE]).select(&filter, &target.config().access_types);
    let mut said = Accusations::default();
    let (_never, signal) = watch::channel(Default::default());
    let mut runner = Runner::new(target.clone(), options, signal);
    runner.report_to(&mut said);
    runner.run(plan).await;
    drop((target, stop));
    serving.await.unwrap().unwrap();
    for left in rig.ground.mount_points().iter().rev() {
        unmount(left, UnmountFlags::DETACH).unwrap();
    }
    said.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_without_the_volume_is_found() {
    needs_root!();
    let check = "node/node-publish-volume/makes-target";
    let both = [AccessType::Mount, AccessType::Block];
    let said = accuse(Fault::PublishesNothing, &both, check).await;
    let block = format!("{check}@block");
    assert_eq!(said, [(check.to_owned(), Some("NODE-PUBLISH-027")), (block, Some("NODE-PUBLISH-026"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_stays_at_the_target_is_found() {
    needs_root!();
    let check = "node/node-unpublish-volume/removes-target";
    let said = accuse(Fault::UnpublishesNothing, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-UNPUBLISH-002"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_stays_at_the_staging_path_is_found() {
    needs_root!();
    let check = "node/node-unstage-volume/undoes-staging";
    let said = accuse(Fault::UnstagesNothing, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-UNSTAGE-002"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_mount_over_the_first_is_found() {
    needs_root!();
    let check = "node/node-publish-volume/repeated";
    let said = accuse(Fault::PublishesAgain, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-PUBLISH-004"))]);
}
