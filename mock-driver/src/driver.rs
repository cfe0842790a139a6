//! The driver: its configuration, capabilities and state.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use csi_proto::lock::Mutex;
use csi_proto::reflect::TEXT_BYTES_MAX;
use csi_proto::v1::VolumeHealth;
use csi_proto::v1::controller_server::ControllerServer;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::group_controller_server::GroupControllerServer;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::NodeServer;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;
use csi_proto::v1::plugin_capability::volume_expansion::Type as ExpansionType;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadataServer;
use csi_proto::{ConnectionNumber, Service};
use tonic::Status;
use tonic::codegen::http;
use tonic::service::Routes;
use tower::util::MapResponseLayer;

use crate::call_log::CallLog;
use crate::capability::{Capabilities, Capability};
use crate::config::{Config, ConfigError, CrashMode, NodeConfig};
use crate::defect::Defect;
use crate::option_value::Failure;
use crate::quirk::Quirk;
use crate::state::{Access, Content, Map, State, StateFile, Store, Usage, Volume};
use crate::validate::{self, invalid};

/// A resource that a defect never releases.
pub(crate) type Leak = Box<dyn std::fmt::Debug + Send>;

/// An in-memory CSI driver, as one of its nodes serves it. All nodes share everything but the node index.
#[derive(Debug)]
pub struct MockDriver {
    shared: Arc<Shared>,
    /// The index of the node in the configuration.
    node: usize,
}

impl Deref for MockDriver {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

#[derive(Debug)]
pub struct Shared {
    pub(crate) config: Config,
    pub(crate) capabilities: Capabilities,
    /// The distinct topologies of the nodes; a single empty one if topology is not advertised.
    pub(crate) zones: Vec<Map>,
    pub(crate) defects: BTreeSet<Defect>,
    quirks: BTreeSet<Quirk>,
    /// Shared with drivers that are started later in this process, as if they had a common back end.
    state: Arc<Mutex<State>>,
    pub(crate) store: Store,
    pub(crate) call_log: Option<CallLog>,
    /// The remaining injected failures, by RPC.
    pub(crate) failures: Mutex<BTreeMap<&'static str, Failure>>,
    /// A counter, for defects that answer differently each time.
    answers: AtomicU32,
    /// The number of calls, for quirks that do not treat all of them alike.
    pub(crate) calls: AtomicU32,
    /// Throttled calls, by RPC and request.
    pub(crate) put_off: Mutex<BTreeSet<(&'static str, Vec<u8>)>>,
    /// Locked objects. With a defect, the connection in the value may still use the object.
    pub(crate) busy: Mutex<BTreeMap<String, Option<ConnectionNumber>>>,
    /// Health that is still reported although it is outdated, by volume id; for defects.
    pub(crate) stale_health: Mutex<BTreeMap<String, VolumeHealth>>,
    /// Volumes with an abandoned attachment that is not finished, although a repeated call was answered; for a defect.
    pub(crate) orphaned_attachings: Mutex<BTreeSet<String>>,
    /// Staging paths with an abandoned unstaging that is not finished; for a defect.
    pub(crate) orphaned_unstagings: Mutex<BTreeSet<String>>,
    /// The files that were last written about volumes and snapshots, by name.
    pub(crate) inspected: Mutex<BTreeMap<String, String>>,
    /// Snapshots whose stream was cancelled; for a defect.
    pub(crate) cut_off: Mutex<BTreeSet<String>>,
    /// True if a name has damaged the list that every request reads; for a defect.
    pub(crate) is_damaged: AtomicBool,
    /// The number of starts before this one; for defects. A process that serves the driver counts its own first
    /// start.
    pub(crate) starts: AtomicU32,
    pub(crate) started: Instant,
    /// The first connection to each node; for a defect.
    pub(crate) first_connections: Mutex<BTreeMap<String, ConnectionNumber>>,
    /// The names under which CreateVolume was rejected, for a defect.
    pub(crate) rejected_names: Mutex<BTreeSet<String>>,
    /// The connections seen so far, for defects.
    pub(crate) connections: Mutex<BTreeSet<ConnectionNumber>>,
    pub(crate) leaks: Mutex<Vec<Leak>>,
    /// Memory that is not used any more and not given back yet; for a quirk.
    pub(crate) garbage: Mutex<Vec<u8>>,
    /// The lock of a driver that has one for all volumes.
    pub(crate) one_lock: tokio::sync::Mutex<()>,
    /// Paths at which volumes were staged or published before this driver started; for defects.
    pub(crate) inherited: Mutex<BTreeSet<String>>,
}

impl MockDriver {
    /// Creates a driver, with the state from its state file if it has one.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        Self::begin(config.settle()?, None)
    }

    /// Returns the driver after a restart. Its state comes from the state file or, without one, from this driver,
    /// even if that is still served.
    pub fn restarted(&self) -> Result<Arc<Self>, ConfigError> {
        if self.has(Defect::SecondStartDeletesVolumes) && self.is_served() {
            self.state().remove_all_volumes();
        }
        let memory = self.store.remembered(&self.state).filter(|_| !self.has(Defect::KeepsNothing));
        let next = Self::begin(self.config.clone(), memory)?;
        next.starts.store(self.starts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(next)
    }

    /// Applies the defects that lose parts of objects at a restart.
    fn lose_at_restart(&self) {
        const HOUR_MS: u64 = 3_600_000;
        let mut state = self.state();
        if self.has(Defect::RestartForgetsNames) {
            state.forget_volume_names();
        }
        for volume in state.volumes.values_mut() {
            if self.has(Defect::RestartForgetsSizes) {
                volume.capacity_bytes = 0;
            }
            if self.has(Defect::RestartForgetsSources) {
                volume.source = None;
            }
        }
        for snapshot in state.snapshots.values_mut() {
            if self.has(Defect::RestartForgetsSnapshotSizes) {
                snapshot.size_bytes = 0;
            }
            if self.has(Defect::RestartDatesSnapshotsAnew) {
                snapshot.created_ms = now_ms();
            }
            if self.has(Defect::RestartShiftsCreationTimes) {
                snapshot.created_ms += HOUR_MS;
            }
        }
    }

    /// Returns whether this driver, or one from before a restart, is still in use.
    fn is_served(&self) -> bool {
        Arc::strong_count(&self.shared) > 1 || Arc::strong_count(&self.state) > 1
    }

    fn begin(config: Config, memory: Option<Arc<Mutex<State>>>) -> Result<Arc<Self>, ConfigError> {
        let mut without = config.without.clone();
        without.extend(config.csi_version.lacks());
        let quirks: BTreeSet<Quirk> = config.quirks.iter().copied().collect();
        if quirks.contains(&Quirk::NoStaging) {
            without.push(Capability::Node(NodeType::StageUnstageVolume));
        }
        if quirks.contains(&Quirk::ExpandsOnlineOnly) {
            without.push(Capability::Expansion(ExpansionType::Offline));
        }
        if quirks.contains(&Quirk::NoPluginCapabilities) {
            // Reported topology has to be advertised, which this quirk cannot do.
            without.push(Capability::Service(ServiceType::VolumeAccessibilityConstraints));
            without.push(Capability::Service(ServiceType::SnapshotAccessibilityConstraints));
        }
        if quirks.contains(&Quirk::NodeOnly) {
            without.extend(
                [
                    ServiceType::ControllerService,
                    ServiceType::GroupControllerService,
                    ServiceType::SnapshotMetadataService,
                ]
                .map(Capability::Service),
            );
        }
        let capabilities = Capabilities::choose(&config.only, &without);
        let zones = zones(&config.nodes, &capabilities);
        let defects: BTreeSet<Defect> = config.defects.iter().copied().collect();
        let state_file = config.state.as_deref().filter(|_| !defects.contains(&Defect::KeepsNothing));
        let (store, found) = match state_file.map(StateFile::new) {
            Some(file) => {
                let stored = match file.load() {
                    Err(_) if defects.contains(&Defect::RestartTakesTruncatedForEmpty) => None,
                    loaded => loaded?,
                };
                (Store::File(file), stored.map(|stored| Arc::new(Mutex::new(stored))))
            }
            None if defects.iter().any(|defect| defect.changes_saving()) => {
                (Store::Saved(Mutex::default()), memory)
            }
            None => (Store::Memory, memory),
        };
        let is_restart = found.is_some();
        let state = found.unwrap_or_else(|| Arc::new(Mutex::new(State::new(config.seed))));
        let inherited = {
            let mut state = state.lock();
            state.recount(zones.len());
            let inherited = state.paths_in_use().cloned().collect();
            add_static_volumes(&mut state, &config);
            store.save(&state)?;
            inherited
        };
        let shared = Shared {
            capabilities,
            zones,
            defects,
            quirks,
            state,
            store,
            call_log: config.call_log.as_deref().map(CallLog::open).transpose()?,
            failures: Mutex::new(config.fail.iter().map(|(rpc, failure)| (rpc.as_str(), *failure)).collect()),
            answers: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            put_off: Mutex::default(),
            stale_health: Mutex::default(),
            orphaned_attachings: Mutex::default(),
            orphaned_unstagings: Mutex::default(),
            inspected: Mutex::default(),
            cut_off: Mutex::default(),
            is_damaged: AtomicBool::new(false),
            busy: Mutex::default(),
            starts: AtomicU32::new(0),
            started: Instant::now(),
            first_connections: Mutex::default(),
            rejected_names: Mutex::default(),
            connections: Mutex::default(),
            leaks: Mutex::default(),
            garbage: Mutex::default(),
            one_lock: tokio::sync::Mutex::default(),
            inherited: Mutex::new(inherited),
            config,
        };
        let driver = Self { shared: Arc::new(shared), node: 0 };
        if is_restart {
            driver.lose_at_restart();
        }
        Ok(Arc::new(driver))
    }

    /// The driver as another node serves it, by its index in the configuration; `None` if there is no such node.
    pub fn at_node(&self, node: usize) -> Option<Arc<Self>> {
        let shared = self.shared.clone();
        (node < self.config.nodes.len()).then(|| Arc::new(Self { shared, node }))
    }

    /// The routes of the services that this driver offers.
    pub fn routes(self: &Arc<Self>) -> Routes {
        let mut routes = Routes::new(IdentityServer::from_arc(self.clone()));
        if self.offers(Service::Controller) {
            routes = routes.add_service(ControllerServer::from_arc(self.clone()));
        }
        if self.offers(Service::GroupController) {
            routes = routes.add_service(GroupControllerServer::from_arc(self.clone()));
        }
        if self.offers(Service::SnapshotMetadata) {
            routes = routes.add_service(SnapshotMetadataServer::from_arc(self.clone()));
        }
        if self.offers(Service::Node) {
            routes = routes.add_service(NodeServer::from_arc(self.clone()));
        }
        if self.has(Defect::StatusCodeNotCanonical) {
            let odd = MapResponseLayer::new(with_odd_code);
            return routes.into_axum_router().layer(odd).into();
        }
        routes
    }

    pub(crate) fn offers(&self, service: Service) -> bool {
        let advertised = |service| self.advertises(Capability::Service(service));
        match service {
            Service::Identity => true,
            Service::Controller => advertised(ServiceType::ControllerService),
            Service::GroupController => advertised(ServiceType::GroupControllerService),
            Service::SnapshotMetadata => advertised(ServiceType::SnapshotMetadataService),
            Service::Node => !self.is(Quirk::ControllerOnly),
        }
    }

    /// The state that all nodes share, for work that outlives a call.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

impl Shared {
    /// The state, even after a handler panicked: a defect that panics does so before it changes anything.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns whether a volume was staged or published at the path before this driver started, and not since.
    pub(crate) fn has_inherited(&self, path: &str) -> bool {
        self.inherited.lock().contains(path)
    }

    /// Records that this driver itself has put a volume at the path.
    pub(crate) fn forget_inherited(&self, path: &str) {
        self.inherited.lock().remove(path);
    }

    /// Saves the state for a restart.
    pub(crate) fn save(&self, state: &State) -> Result<(), Status> {
        self.store.save(state).map_err(|error| Status::internal(error.to_string()))
    }
}

impl MockDriver {
    /// Returns whether a defect is switched on.
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }

    /// Returns whether a quirk is switched on.
    pub(crate) fn is(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    pub(crate) fn advertises(&self, capability: Capability) -> bool {
        self.capabilities.has(capability)
    }

    pub(crate) fn controller_can(&self, capability: ControllerType) -> bool {
        self.advertises(Capability::Controller(capability))
    }

    pub(crate) fn node_can(&self, capability: NodeType) -> bool {
        self.advertises(Capability::Node(capability))
    }

    pub(crate) fn has_topology(&self) -> bool {
        self.advertises(Capability::Service(ServiceType::VolumeAccessibilityConstraints))
    }

    /// Returns whether a snapshot can only be used in the zone of its volume.
    pub(crate) fn has_snapshot_topology(&self) -> bool {
        self.advertises(Capability::Service(ServiceType::SnapshotAccessibilityConstraints))
    }

    /// A number that no earlier call got; for defects.
    pub(crate) fn next_number(&self) -> u32 {
        self.answers.fetch_add(1, Ordering::Relaxed)
    }

    /// Crashes the driver, or the call if the driver shares its process.
    pub(crate) fn crash(&self, method: &str) -> ! {
        match self.config.crash {
            CrashMode::Abort => {
                // Standard error may be closed.
                _ = writeln!(std::io::stderr(), "{method} crashes, as the defect asks");
                std::process::abort()
            }
            CrashMode::DropConnection => panic!("{method} crashes, as the defect asks"),
        }
    }

    /// Fails if the driver cannot provide a volume for this usage.
    pub(crate) fn supports(&self, usage: &Usage) -> Result<(), String> {
        use csi_proto::v1::volume_capability::access_mode::Mode;
        if self.is(Quirk::BlockOnly) && !usage.is_block() {
            return Err("mount access is not supported".to_owned());
        }
        if self.is(Quirk::MountOnly) && usage.is_block() {
            return Err("block access is not supported".to_owned());
        }
        let echoes = self.is(Quirk::EchoesRequests) && is_long_fs_type(usage);
        if !(echoes || validate::knows_fs_type(usage)) {
            return Err("the fs_type is not supported".to_owned());
        }
        if self.has(Defect::SingleNodeWriterRefused) && usage.mode() == Mode::SingleNodeWriter {
            return Err("access mode SINGLE_NODE_WRITER is not supported".to_owned());
        }
        let new_mode = matches!(usage.mode(), Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter);
        let knows_new_modes = self.controller_can(ControllerType::SingleNodeMultiWriter)
            || self.node_can(NodeType::SingleNodeMultiWriter);
        let left_out = self.is(Quirk::OneNewWriterMode) && usage.mode() == Mode::SingleNodeMultiWriter;
        if new_mode && (!knows_new_modes || left_out || self.has(Defect::NewWriterModesUnbacked)) {
            return Err(format!("access mode {} is not supported", usage.mode().as_str_name()));
        }
        Ok(())
    }

    /// Returns whether lists contain an object that was created at this time. Only a quirk delays that.
    pub(crate) fn shows(&self, made_ms: u64) -> bool {
        let lag_ms = u64::try_from(self.config.list_lag.0.as_millis()).unwrap_or(u64::MAX);
        !self.is(Quirk::ListsLag) || made_ms.saturating_add(lag_ms) <= now_ms()
    }

    /// The longest accepted name of a volume, snapshot or group snapshot.
    pub(crate) fn name_bytes_max(&self) -> usize {
        let bytes_max = self.config.name_bytes_max;
        match (self.is(Quirk::EchoesRequests), self.is(Quirk::LongNamesAccepted)) {
            (true, _) => bytes_max.max(1 << 20),
            (false, true) => bytes_max.max(4096),
            (false, false) => bytes_max,
        }
    }

    /// The node that is served here.
    pub(crate) fn this_node(&self) -> &NodeConfig {
        &self.config.nodes[self.node]
    }

    pub(crate) fn node(&self, id: &str) -> Option<&NodeConfig> {
        self.config.nodes.iter().find(|node| node.id == id)
    }

    /// The storage in each zone.
    pub(crate) fn zone_capacity_bytes(&self) -> i64 {
        self.config.capacity_bytes / i64::try_from(self.zones.len().max(1)).unwrap_or(i64::MAX)
    }

    /// Rejects ids that this driver cannot have created.
    pub(crate) fn check_id_format(&self, field: &str, id: &str, prefix: &str) -> Result<(), Status> {
        validate::required(field, id)?;
        if !self.is(Quirk::ForeignIdsRefused) || self.config.volumes.iter().any(|volume| volume.id == id) {
            return Ok(());
        }
        let own = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        match own.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')) {
            true => Ok(()),
            false => Err(invalid(format!("{field} is not an id of this driver"))),
        }
    }
}

/// Returns whether the name of the file system is longer than any text of the protocol may be.
pub(crate) fn is_long_fs_type(usage: &Usage) -> bool {
    matches!(&usage.access, Access::Mount { fs_type, .. } if fs_type.len() > TEXT_BYTES_MAX)
}

/// Replaces the code of an error with one that tonic itself cannot send.
fn with_odd_code<B>(mut response: http::Response<B>) -> http::Response<B> {
    if let Some(code) = response.headers_mut().get_mut("grpc-status") {
        *code = http::HeaderValue::from_static("42");
    }
    response
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn zones(nodes: &[NodeConfig], capabilities: &Capabilities) -> Vec<Map> {
    if !capabilities.has(Capability::Service(ServiceType::VolumeAccessibilityConstraints)) {
        return vec![Map::new()];
    }
    let mut zones: Vec<Map> = Vec::new();
    for node in nodes {
        if !zones.contains(&node.topology) {
            zones.push(node.topology.clone());
        }
    }
    zones
}

fn add_static_volumes(state: &mut State, config: &Config) {
    for volume in &config.volumes {
        if state.volumes.get(&volume.id).is_none() {
            let content = Content::new(state.fresh_seed(), volume.capacity_bytes);
            state.add_volume(Volume::provisioned_elsewhere(volume, content));
        }
    }
}
