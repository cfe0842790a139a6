//! The reference driver with one defect. Tests of suites that inspect mounts run on it.
#![expect(clippy::unwrap_used, reason = "a driver of tests; a panic is a failure of the test")]

mod contents;
mod controller;
mod data;
mod defect;
mod in_use;
mod kept;
mod new_part;
mod node;
mod nodes;
pub mod plain;
mod target;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ffi::OsString;
use std::ops::Deref;
use std::sync::Arc;

use csi_hostpath_driver::HostpathDriver;
use csi_hostpath_driver::args::Args;
use csi_proto::v1::controller_server::{Controller, ControllerServer};
use csi_proto::v1::group_controller_server::{GroupController, GroupControllerServer};
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::{Node, NodeServer};
use csi_proto::v1::snapshot_metadata_server::{SnapshotMetadata, SnapshotMetadataServer};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::*;
use csi_proto::{Endpoint, Listener};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

pub use defect::Defect;

use data::Data;
use in_use::Calls;
use kept::Kept;
use upgrade::{Version, Versioned};

/// The argument that makes this program the next version of a driver.
pub const NEXT_VERSION: &str = "--next-version";
/// The argument that makes this program the next version of a driver, except for the plugin of the first node.
pub const MIXED_VERSIONS: &str = "--mixed-versions";

pub(crate) type Reply<T> = Result<Response<T>, Status>;

/// Answers each call with the method of `Faults` that is named like its RPC, or with that of the driver if there is none.
#[derive(Clone, Debug)]
struct Faulty(Faults);

/// The implementation of the calls that a defect can affect.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) driver: HostpathDriver,
    pub(crate) defect: Defect,
    /// Locked during a call, so that defects do not depend on which of two concurrent calls is faster.
    pub(crate) seen: Arc<Mutex<Seen>>,
    /// The calls in progress.
    pub(crate) calls: Arc<Calls>,
    /// The work that the last process has not finished: names of snapshots, calls that move volumes, and paths at which volumes were staged.
    pub(crate) left_at_start: Arc<BTreeSet<String>>,
    pub(crate) kept: Kept,
}

impl Deref for Faults {
    type Target = HostpathDriver;

    fn deref(&self) -> &HostpathDriver {
        &self.driver
    }
}

/// The history of calls.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Volumes that were ever staged.
    pub(crate) staged: BTreeSet<String>,
    /// Volumes that were staged again and not published since.
    pub(crate) restaged: BTreeSet<String>,
    pub(crate) staging_paths: BTreeSet<String>,
    /// By volume id: the file system with which the volume was staged last.
    pub(crate) fs_types: BTreeMap<String, String>,
    /// Volumes that were formatted since they were published.
    pub(crate) formatted: BTreeSet<String>,
    /// Volumes with a content source.
    pub(crate) copies: BTreeSet<String>,
    /// Copies that were not published yet.
    pub(crate) new_copies: BTreeSet<String>,
    /// Paths where a second mount covers the driver's own, once for each such mount.
    pub(crate) stacked: Vec<String>,
    /// Targets with their volumes, in the order of publication.
    pub(crate) published: Vec<(String, String)>,
    /// Targets where another mount covers the driver's own.
    pub(crate) covered: BTreeSet<String>,
    /// Targets that are plain directories of the node, without a volume.
    pub(crate) bare: BTreeSet<String>,
    /// Volumes that were ever published read-only.
    pub(crate) was_readonly: BTreeSet<String>,
    /// Names by volume id.
    pub(crate) names: BTreeMap<String, String>,
    /// Names of deleted volumes.
    pub(crate) deleted_names: BTreeSet<String>,
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    /// The second member of each group snapshot, with its volume.
    pub(crate) late_members: BTreeMap<String, String>,
    pub(crate) attached: BTreeSet<String>,
    /// By volume id: the nodes that had the volume attached before, and the one that got it last.
    pub(crate) holders: BTreeMap<String, (BTreeSet<String>, String)>,
    /// Volumes that were published when their detach failed.
    pub(crate) failed_detaches: BTreeSet<String>,
    /// Volumes and the nodes whose attachment was rejected.
    pub(crate) waiting: BTreeSet<(String, String)>,
    /// The node that alone may write to a volume, by volume id.
    pub(crate) single_writers: BTreeMap<String, String>,
    /// The inline volume that was published last.
    pub(crate) last_inline: Option<String>,
    /// The first reply of NodeGetVolumeStats, by volume id.
    pub(crate) first_stats: BTreeMap<String, NodeGetVolumeStatsResponse>,
    /// The number of calls of NodeGetVolumeStats, by volume id.
    pub(crate) stats_asked: BTreeMap<String, u32>,
    /// The mount option with the SELinux context of the first volume.
    pub(crate) context: Option<String>,
    /// True if a metadata stream was opened.
    pub(crate) streamed: bool,
    pub(crate) data: Data,
    /// Mounts or loop devices that were left in the directory of the driver.
    pub(crate) left: usize,
}

/// The services of a driver with a defect.
pub fn routes(driver: &HostpathDriver, defect: Option<Defect>) -> Routes {
    let (first, _) = routes_of_nodes(driver, defect, &[]);
    first
}

/// The services of the first node of a driver with a defect, and the Node services of other nodes. They know of each other's calls.
pub fn routes_of_nodes(
    driver: &HostpathDriver,
    defect: Option<Defect>,
    others: &[&str],
) -> (Routes, Vec<Routes>) {
    let version = Arc::new(Version::new(defect, false, driver.state_dir()));
    versioned_routes_of_nodes(driver, version.clone(), version, others)
}

/// The services of a driver whose controller and whose first node have these versions.
fn versioned_routes_of_nodes(
    driver: &HostpathDriver,
    version: Arc<Version>,
    version_of_node: Arc<Version>,
    others: &[&str],
) -> (Routes, Vec<Routes>) {
    let Some(defect) = version.defect() else {
        // With a defect, calls wait for each other, which those of the driver itself do not.
        return (driver.routes(), others.iter().map(|node| driver.at_node(node).node_routes()).collect());
    };
    let (seen, calls, left_at_start) = Default::default();
    let kept = Kept::new(driver.state_dir());
    let mut faults = Faults { driver: driver.clone(), defect, seen, calls, left_at_start, kept };
    faults.start();
    let others = others.iter().map(|node| {
        let driver = driver.at_node(node);
        let node = NodeServer::new(Faulty(Faults { driver: driver.clone(), ..faults.clone() }));
        Routes::new(IdentityServer::new(driver)).add_service(node)
    });
    let others = others.collect();
    let faulty = Faulty(faults);
    let controller = Versioned::new(faulty.clone(), version);
    let node = Versioned::new(faulty.clone(), version_of_node);
    let first = Routes::new(IdentityServer::new(driver.clone()))
        .add_service(ControllerServer::new(controller))
        .add_service(GroupControllerServer::new(faulty.clone()))
        .add_service(SnapshotMetadataServer::new(faulty))
        .add_service(NodeServer::new(node));
    (first, others)
}

/// Serves all nodes of the driver that the arguments describe, with the first one the name of the program: those of csi-hostpath-driver, and
/// before them `--defect=ID` for a driver with a defect, and then `--next-version` for its next version, or `--mixed-versions` for node plugins of
/// both, if the defect is about that. It serves until its process ends.
///
/// # Errors
/// The arguments are wrong, or the driver cannot be started.
pub async fn serve(mut arguments: Vec<OsString>) -> Result<(), Box<dyn Error>> {
    let defect = match arguments.get(1).and_then(|first| first.to_str()?.strip_prefix("--defect=")) {
        Some(id) => {
            let found = Defect::ALL.iter().find(|defect| defect.id() == id).copied();
            Some(found.ok_or_else(|| format!("{id:?} is no defect of this driver"))?)
        }
        None => None,
    };
    if defect.is_some() {
        arguments.remove(1);
    }
    let is_mixed = arguments.get(1).is_some_and(|first| first == MIXED_VERSIONS);
    let is_next = is_mixed || arguments.get(1).is_some_and(|first| first == NEXT_VERSION);
    if is_next {
        arguments.remove(1);
    }
    let args = Args::read(arguments)?;
    let endpoints = [args.endpoint.clone()]
        .into_iter()
        .chain(args.node_endpoint.iter().map(|other| other.endpoint.clone()));
    let endpoints: Vec<Endpoint> = endpoints.collect();
    let config = args.into_config()?;
    let others: Vec<&str> = config.other_nodes.iter().map(String::as_str).collect();
    let version = Version::new(defect, is_next, &config.state_dir);
    version.prepare()?;
    let driver = HostpathDriver::new(config.clone()).inspect_err(|_| version.meets_other())?;
    version.start(&driver).await;
    let version = Arc::new(version);
    let of_node = if is_mixed { Arc::new(version.of_version_before()) } else { version.clone() };
    let (first, others) = versioned_routes_of_nodes(&driver, version, of_node, &others);
    let mut nodes = JoinSet::new();
    for (endpoint, routes) in endpoints.iter().zip([first].into_iter().chain(others)) {
        let listener = Listener::bind(endpoint).await?;
        nodes.spawn(listener.serve(routes, std::future::pending()));
    }
    match nodes.join_next().await {
        Some(ended) => Ok(ended??),
        None => Ok(()),
    }
}

impl Faults {
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    /// Changes the requested capability as the defect does.
    pub(crate) fn alter_capability(&self, capability: &mut VolumeCapability) {
        let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type else { return };
        match self.defect {
            Defect::IgnoresGroup => mount.volume_mount_group.clear(),
            Defect::IgnoresFsType => "ext4".clone_into(&mut mount.fs_type),
            Defect::IgnoresMountFlags => mount.mount_flags.clear(),
            Defect::TakesFirstFlagOnly => mount.mount_flags.truncate(1),
            Defect::DropsContext => mount.mount_flags.retain(|flag| !is_context(flag)),
            Defect::SplitsContext => {
                for flag in mount.mount_flags.iter_mut().filter(|flag| is_context(flag)) {
                    flag.truncate(flag.find(',').unwrap_or(flag.len()));
                }
            }
            Defect::QuotesContext => {
                for flag in mount.mount_flags.iter_mut().filter(|flag| is_context(flag)) {
                    *flag = format!("{CONTEXT}\"{}\"", &flag[CONTEXT.len()..]);
                }
            }
            Defect::ForbidsExecution => mount.mount_flags.push("noexec".to_owned()),
            _ => {}
        }
    }
}

/// The beginning of the mount option with an SELinux context.
const CONTEXT: &str = "context=";

fn is_context(flag: &str) -> bool {
    flag.starts_with(CONTEXT)
}

impl Faults {
    /// Treats the SELinux context in the requested capability as a defect does that depends on earlier calls, or rejects it.
    pub(crate) fn alter_context(
        &self,
        seen: &mut Seen,
        capability: Option<&mut VolumeCapability>,
    ) -> Result<(), Status> {
        let Some(capability) = capability else { return Ok(()) };
        let is_for_one_pod =
            capability.access_mode.is_some_and(|access| access.mode() == Mode::SingleNodeSingleWriter);
        let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type else {
            return Ok(());
        };
        let Some(flag) = mount.mount_flags.iter_mut().find(|flag| is_context(flag)) else { return Ok(()) };
        match self.defect {
            Defect::RejectsContext => Err(Status::invalid_argument(format!("unknown mount flag {flag}"))),
            Defect::RejectsContextOfShared if !is_for_one_pod => {
                Err(Status::invalid_argument(format!("mount flag {flag} is only supported for one pod")))
            }
            Defect::SharesContext => {
                flag.clone_from(seen.context.get_or_insert_with(|| flag.clone()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Faults {
    /// Fails if the defect allows no further stream.
    async fn check_stream_limit(&self) -> Result<(), Status> {
        let others = std::mem::replace(&mut self.seen.lock().await.streamed, true);
        match others && self.has(Defect::KeepsStreams) {
            true => Err(Status::resource_exhausted("too many streams")),
            false => Ok(()),
        }
    }
}

#[tonic::async_trait]
impl SnapshotMetadata for Faulty {
    type GetMetadataAllocatedStream = <HostpathDriver as SnapshotMetadata>::GetMetadataAllocatedStream;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Reply<Self::GetMetadataAllocatedStream> {
        self.0.check_stream_limit().await?;
        self.0.driver.get_metadata_allocated(request).await
    }

    type GetMetadataDeltaStream = <HostpathDriver as SnapshotMetadata>::GetMetadataDeltaStream;

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Reply<Self::GetMetadataDeltaStream> {
        self.0.check_stream_limit().await?;
        self.0.driver.get_metadata_delta(request).await
    }
}

macro_rules! serve {
    ($service:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl $service for Faulty {
            $(async fn $rpc(&self, request: Request<$request>) -> Reply<$response> {
                self.0.$rpc(request).await
            })*
        }
    };
}

csi_proto::rpcs!(Controller serve);
csi_proto::rpcs!(GroupController serve);
csi_proto::rpcs!(Node serve);
