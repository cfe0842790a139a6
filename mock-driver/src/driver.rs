//! The driver: what it is, offers and can do, and its state.

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
use crate::config::{Config, ConfigError, CrashMode, Failure, NodeConfig};
use crate::defect::Defect;
use crate::defects::{Kept, SAVING, forget_at_restart};
use crate::inspect::Files;
use crate::quirk::Quirk;
use crate::state::{Access, Content, Map, State, StateFile, Store, Usage, Volume};
use crate::validate::{self, invalid};

/// An in-memory CSI driver, as one of its nodes serves it. All nodes share everything but that.
#[derive(Debug)]
pub struct MockDriver {
    shared: Arc<Shared>,
    /// Index of the node.
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
    /// The distinct topologies of the nodes; a single empty one without topology.
    pub(crate) zones: Vec<Map>,
    defects: BTreeSet<Defect>,
    quirks: BTreeSet<Quirk>,
    /// Shared with drivers started later in this process, as if they had one back end.
    state: Arc<Mutex<State>>,
    pub(crate) store: Store,
    pub(crate) call_log: Option<CallLog>,
    /// Injected failures that are still to come, by RPC.
    pub(crate) failures: Mutex<BTreeMap<&'static str, Failure>>,
    /// Counts up, for defects that answer differently each time.
    answers: AtomicU32,
    /// Counts the calls, for quirks that do not treat all of them alike.
    pub(crate) calls: AtomicU32,
    /// Calls that were put off, by RPC and request.
    pub(crate) put_off: Mutex<BTreeSet<(&'static str, Vec<u8>)>>,
    /// Objects with an operation pending, each with the connection for which it is free all the same, as a defect has it.
    pub(crate) busy: Mutex<BTreeMap<String, Option<ConnectionNumber>>>,
    /// Ids of volumes whose health goes on being told of although that is over; for defects.
    pub(crate) haunted: Mutex<BTreeMap<String, VolumeHealth>>,
    /// Staging paths at which an unstaging goes on that was given up; for a defect.
    pub(crate) going_on: Mutex<BTreeSet<String>>,
    /// What was last written of volumes and snapshots.
    pub(crate) inspected: Mutex<Files>,
    /// Snapshots that a stream was cut off of; for a defect.
    pub(crate) cut_off: Mutex<BTreeSet<String>>,
    /// Whether a name has spoilt what every request reads; for a defect.
    pub(crate) is_spoilt: AtomicBool,
    /// How many there were before it; for defects. Whoever serves it starts it once to begin with.
    pub(crate) starts: AtomicU32,
    /// When it was started.
    pub(crate) started: Instant,
    /// The first connection to each node; for a defect.
    pub(crate) first_connections: Mutex<BTreeMap<String, ConnectionNumber>>,
    /// The connections that were seen, and what is never given back; for defects.
    pub(crate) connections: Mutex<BTreeSet<ConnectionNumber>>,
    pub(crate) kept: Mutex<Vec<Kept>>,
    /// Paths at which volumes were staged or published before this driver started; for defects.
    pub(crate) inherited: Mutex<BTreeSet<String>>,
}

impl MockDriver {
    /// Makes a driver, with the state of its state file if there is one.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        Self::begin(config.settle()?, None)
    }

    /// The same driver after a restart. It knows what is in its state file; if it has none, what this one knows, also if
    /// that is still served.
    pub fn restarted(&self) -> Result<Arc<Self>, ConfigError> {
        if self.has(Defect::SecondStartDeletesVolumes) && self.is_served() {
            self.state().remove_all_volumes();
        }
        let memory = self.store.remembered(&self.state).filter(|_| !self.has(Defect::KeepsNothing));
        let next = Self::begin(self.config.clone(), memory)?;
        if self.has(Defect::RestartForgetsNames) {
            next.state().forget_volume_names();
        }
        forget_at_restart(&next);
        next.starts.store(self.starts.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(next)
    }

    /// Whether this driver, or one from before, goes on.
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
            // Topology has to be advertised where it is reported.
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
            None if SAVING.iter().any(|defect| defects.contains(defect)) => {
                (Store::Saved(Mutex::default()), memory)
            }
            None => (Store::Memory, memory),
        };
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
            haunted: Mutex::default(),
            going_on: Mutex::default(),
            inspected: Mutex::default(),
            cut_off: Mutex::default(),
            is_spoilt: AtomicBool::new(false),
            busy: Mutex::default(),
            starts: AtomicU32::new(0),
            started: Instant::now(),
            first_connections: Mutex::default(),
            connections: Mutex::default(),
            kept: Mutex::default(),
            inherited: Mutex::new(inherited),
            config,
        };
        Ok(Arc::new(Self { shared: Arc::new(shared), node: 0 }))
    }

    /// The driver as another of its nodes serves it: the one with this index in the configuration, if there is one.
    pub fn at_node(&self, node: usize) -> Option<Arc<Self>> {
        let shared = self.shared.clone();
        (node < self.config.nodes.len()).then(|| Arc::new(Self { shared, node }))
    }

    /// The services that this driver offers, ready to be served.
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

    /// What all nodes share, for work that outlives a call.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

impl Shared {
    /// The state, also after a handler panicked: a defect that panics does so before it changes anything.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether a volume was staged or published at the path before this driver started, and not again since.
    pub(crate) fn has_inherited(&self, path: &str) -> bool {
        self.inherited.lock().contains(path)
    }

    /// Notes that a volume is in use at the path by what this driver did.
    pub(crate) fn takes_over(&self, path: &str) {
        self.inherited.lock().remove(path);
    }

    /// Makes the state survive a restart.
    pub(crate) fn save(&self, state: &State) -> Result<(), Status> {
        self.store.save(state).map_err(|error| Status::internal(error.to_string()))
    }
}

impl MockDriver {
    /// Whether a defect is asked for.
    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }

    /// Whether a quirk is asked for.
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

    /// Whether snapshots can be used from where their volumes lie only.
    pub(crate) fn has_snapshot_topology(&self) -> bool {
        self.advertises(Capability::Service(ServiceType::SnapshotAccessibilityConstraints))
    }

    /// A number that no call before got; for defects.
    pub(crate) fn another_number(&self) -> u32 {
        self.answers.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends the driver, as far as that may go.
    pub(crate) fn crash(&self, method: &str) -> ! {
        match self.config.crash {
            CrashMode::Abort => {
                // The last words of a process that dies; nobody may be there to read them.
                _ = writeln!(std::io::stderr(), "{method} crashes, as the defect asks");
                std::process::abort()
            }
            CrashMode::DropConnection => panic!("{method} crashes, as the defect asks"),
        }
    }

    /// Whether the driver can provide a volume for this usage at all.
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

    /// Whether lists show what was made at this time; only by quirk they do not at once.
    pub(crate) fn shows(&self, made_ms: u64) -> bool {
        let lag_ms = u64::try_from(self.config.list_lag.0.as_millis()).unwrap_or(u64::MAX);
        !self.is(Quirk::ListsLag) || made_ms.saturating_add(lag_ms) <= now_ms()
    }

    /// The longest name that a volume, snapshot or group snapshot can have.
    pub(crate) fn name_bytes_max(&self) -> usize {
        let bytes_max = self.config.name_bytes_max;
        match (self.is(Quirk::EchoesRequests), self.is(Quirk::LongNamesAccepted)) {
            (true, _) => bytes_max.max(1 << 20),
            (false, true) => bytes_max.max(4096),
            (false, false) => bytes_max,
        }
    }

    /// The node that this driver serves.
    pub(crate) fn this_node(&self) -> &NodeConfig {
        &self.config.nodes[self.node]
    }

    pub(crate) fn node(&self, id: &str) -> Option<&NodeConfig> {
        self.config.nodes.iter().find(|node| node.id == id)
    }

    /// The storage of one zone.
    pub(crate) fn zone_capacity_bytes(&self) -> i64 {
        self.config.capacity_bytes / i64::try_from(self.zones.len().max(1)).unwrap_or(i64::MAX)
    }

    /// Refuses ids that this driver cannot have made.
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

/// Whether the name of the file system is longer than any text may be.
pub(crate) fn is_long_fs_type(usage: &Usage) -> bool {
    matches!(&usage.access, Access::Mount { fs_type, .. } if fs_type.len() > TEXT_BYTES_MAX)
}

/// An error with a code that tonic itself cannot send.
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
