//! The drivers mount nothing, mount twice, leave mounts behind, or rely on mounts from before a reboot. The tests check that the suites
//! find these faults, which only a driver with real mounts can have.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{AccessType, Config};
use csi_harness::driver::Driver;
use csi_harness::results::outcome::{CheckReport, Finding, Outcome};
use csi_harness::run::runner::RunOptions;
use csi_hostpath_driver::HostpathDriver;
use csi_proto::Endpoint;
use csi_proto::v1::controller_server::ControllerServer;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::node_server::NodeServer;
use csi_proto::v1::*;
use csi_test_support::run::Run;
use rustix::mount::{UnmountFlags, mount_bind};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::support::*;

/// The driver has one of these faults, and answers OK in all cases.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    PublishesNothing,
    PublishesAgain,
    UnpublishesNothing,
    UnstagesNothing,
    StagesByRecord,
    UnpublishesOnlyMounts,
}

/// This driver has one fault, and remembers all paths at which it has ever staged a volume.
#[derive(Clone)]
struct Faulty(HostpathDriver, Fault, Arc<Mutex<BTreeSet<String>>>);

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
            Fault::PublishesNothing => unmount(&target),
            Fault::PublishesAgain if repeated => mount_bind(&target, &target).unwrap(),
            _ => {}
        }
        Ok(done)
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        let is_mounted = || {
            let above = Path::new(&request.get_ref().target_path).join("..");
            rustix::fs::stat(&request.get_ref().target_path).unwrap().st_dev
                != rustix::fs::stat(above).unwrap().st_dev
        };
        match self.1 {
            Fault::UnpublishesOnlyMounts if !is_mounted() => Err(Status::internal("umount: not mounted")),
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
        let path = request.get_ref().staging_target_path.clone();
        let is_new = self.2.lock().unwrap().insert(path);
        match self.1 {
            Fault::StagesByRecord if !is_new => Ok(Response::new(NodeStageVolumeResponse {})),
            _ => self.0.node_stage_volume(request).await,
        }
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

    async fn node_get_volume_health(
        &self,
        request: Request<NodeGetVolumeHealthRequest>,
    ) -> Reply<NodeGetVolumeHealthResponse> {
        self.0.node_get_volume_health(request).await
    }

    async fn node_get_storage_health(
        &self,
        request: Request<NodeGetStorageHealthRequest>,
    ) -> Reply<NodeGetStorageHealthResponse> {
        self.0.node_get_storage_health(request).await
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

/// Returns the failure that a check reports, and the rule that it names.
fn accusation(report: &CheckReport) -> (String, Option<&'static str>) {
    let rule = match &report.outcome {
        Outcome::Failed(Finding { violation, .. }) | Outcome::Warned(Finding { violation, .. }) => {
            Some(violation.requirement.unwrap_or(report.planned.check.requirements[0]).id)
        }
        Outcome::Passed => None,
        other => panic!("{}: {other:?}", report.label()),
    };
    (report.label(), rule)
}

fn suites() -> Registry {
    Registry::new([csi_suite_sanity::SUITE, csi_suite_stateful::restart::SUITE])
}

/// Runs one check on a driver with a fault.
async fn accuse(
    fault: Fault,
    access_types: &[AccessType],
    check: &str,
) -> Vec<(String, Option<&'static str>)> {
    let fixture = Fixture::new();
    let endpoint: Endpoint = format!("unix://{}/csi.sock", fixture.root.display()).parse().unwrap();
    let (served_at, root, staged) = (endpoint.clone(), fixture.root.clone(), Arc::default());
    let driver = Driver::in_process(move || {
        let driver = HostpathDriver::new(config(&root, &["--backend=image"]))?;
        let routes = Routes::new(IdentityServer::new(driver.clone()))
            .add_service(ControllerServer::new(driver.clone()))
            .add_service(NodeServer::new(Faulty(driver, fault, Arc::clone(&staged))));
        Ok(vec![(served_at.clone(), routes)])
    });
    let settings = Config {
        endpoint: Some(endpoint.to_string()),
        mount_dir: Some(fixture.root.join("mounts")),
        staging_dir: Some(fixture.root.join("staging")),
        access_types: access_types.to_vec(),
        volume_size_bytes: Some(64 << 20),
        ..Config::default()
    };
    let target = Target::connect_to(driver.clone(), settings).await.unwrap();
    let options =
        RunOptions { jobs: 1, seed: 1, leak_check: false, registry: suites(), ..RunOptions::default() };
    let mut filter = Filter::default();
    filter.add(check).unwrap();
    let plan = suites().select(&filter, &target.config().access_types);
    let run = Run::of(target, plan, options).await;
    driver.leave().await.unwrap();
    for left in fixture.mount_points().iter().rev() {
        rustix::mount::unmount(left, UnmountFlags::DETACH).unwrap();
    }
    run.reports.iter().map(accusation).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_without_the_volume_is_found() {
    needs_mounts!();
    let check = "node/node-publish-volume/makes-target";
    let both = [AccessType::Mount, AccessType::Block];
    let said = accuse(Fault::PublishesNothing, &both, check).await;
    let block = format!("{check}@block");
    assert_eq!(said, [(check.to_owned(), Some("NODE-PUBLISH-027")), (block, Some("NODE-PUBLISH-026"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_stays_at_the_target_is_found() {
    needs_mounts!();
    let check = "node/node-unpublish-volume/removes-target";
    let said = accuse(Fault::UnpublishesNothing, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-UNPUBLISH-002"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_stays_at_the_staging_path_is_found() {
    needs_mounts!();
    let check = "node/node-unstage-volume/undoes-staging";
    let said = accuse(Fault::UnstagesNothing, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-UNSTAGE-002"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_mount_over_the_first_is_found() {
    needs_mounts!();
    let check = "node/node-publish-volume/repeated";
    let said = accuse(Fault::PublishesAgain, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-PUBLISH-004"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_finds_a_staging_that_is_only_recorded() {
    needs_mounts!();
    let check = "restart/reboot";
    let said = accuse(Fault::StagesByRecord, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-PUBLISH-005"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_finds_an_unpublication_that_wants_a_mount() {
    needs_mounts!();
    let check = "restart/reboot";
    let said = accuse(Fault::UnpublishesOnlyMounts, &[AccessType::Mount], check).await;
    assert_eq!(said, [(check.to_owned(), Some("NODE-UNPUBLISH-006"))]);
}
