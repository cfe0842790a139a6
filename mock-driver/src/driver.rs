//! The driver: its state, and the way that every call takes through it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io::Write as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use csi_proto::v1::controller_server::ControllerServer;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::group_controller_server::GroupControllerServer;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::NodeServer;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;
use csi_proto::v1::plugin_capability::volume_expansion::Type as ExpansionType;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadataServer;
use csi_proto::{RPCS, Service, StreamingCall, UnaryCall};
use tonic::codegen::http;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::util::MapResponseLayer;

use crate::call::{Call, NODE_VOLUME};
use crate::call_log::CallLog;
use crate::capability::{Capabilities, Capability};
use crate::config::{Config, ConfigError, CrashMode, Failure, NodeConfig};
use crate::defect::Defect;
use crate::quirk::Quirk;
use crate::state::{Content, Map, State, StateFile, Usage, Volume};
use crate::validate::{self, Demand, invalid};

/// Different calls that are put off at the most.
const PUT_OFF_MAX: usize = 100_000;

/// The messages of a stream, all known when it begins; there are few, for data are made up in bounded numbers.
type Messages<T> = Result<Vec<T>, Status>;
/// The messages on their way to the client.
pub(crate) type Stream<T> = tokio_stream::Iter<std::vec::IntoIter<Result<T, Status>>>;

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
    state: Mutex<State>,
    state_file: Option<StateFile>,
    call_log: Option<CallLog>,
    /// Injected failures that are still to come, by RPC.
    failures: Mutex<BTreeMap<&'static str, Failure>>,
    /// Counts up, for defects that answer differently each time.
    answers: AtomicU32,
    /// Counts the calls, for quirks that do not treat all of them alike.
    calls: AtomicU32,
    /// Calls that were put off, by RPC and request.
    put_off: Mutex<BTreeSet<(&'static str, Vec<u8>)>>,
    /// Objects with an operation pending.
    busy: Mutex<BTreeSet<String>>,
}

impl MockDriver {
    /// Makes a driver, with the state of its state file if there is one.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        Self::begin(config.settle()?, None)
    }

    /// The same driver after a restart. It knows what is in its state file; if it has none, what this one knew when it
    /// ended.
    pub fn restarted(&self) -> Result<Arc<Self>, ConfigError> {
        Self::begin(self.config.clone(), Some(self.state().clone()))
    }

    fn begin(config: Config, memory: Option<State>) -> Result<Arc<Self>, ConfigError> {
        let mut without = config.without.clone();
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
        let state_file = config.state.as_deref().map(StateFile::new);
        let stored = match &state_file {
            Some(file) => file.load()?,
            None => memory,
        };
        let mut state = stored.unwrap_or_else(|| State::new(config.seed));
        state.recount(zones.len());
        add_static_volumes(&mut state, &config);
        if let Some(file) = &state_file {
            file.save(&state)?;
        }
        let shared = Shared {
            capabilities,
            zones,
            defects: config.defects.iter().copied().collect(),
            quirks,
            state: Mutex::new(state),
            state_file,
            call_log: config.call_log.as_deref().map(CallLog::open).transpose()?,
            failures: Mutex::new(config.fail.iter().map(|(rpc, failure)| (rpc.as_str(), *failure)).collect()),
            answers: AtomicU32::new(0),
            calls: AtomicU32::new(0),
            put_off: Mutex::default(),
            busy: Mutex::default(),
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

    fn offers(&self, service: Service) -> bool {
        let advertised = |service| self.advertises(Capability::Service(service));
        match service {
            Service::Identity => true,
            Service::Controller => advertised(ServiceType::ControllerService),
            Service::GroupController => advertised(ServiceType::GroupControllerService),
            Service::SnapshotMetadata => advertised(ServiceType::SnapshotMetadataService),
            Service::Node => !self.is(Quirk::ControllerOnly),
        }
    }

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

    /// A number that no call before got; for defects.
    pub(crate) fn another_number(&self) -> u32 {
        self.answers.fetch_add(1, Ordering::Relaxed)
    }

    /// The state, also after a handler panicked: a defect that panics does so before it changes anything.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Takes one call through everything that all calls have in common.
    pub(crate) async fn serve<R>(
        &self,
        request: R,
        handle: fn(&Self, &R) -> Result<R::Response, Status>,
    ) -> Result<R::Response, Status>
    where
        R: UnaryCall + Call,
    {
        let started = Instant::now();
        let answer = self.run(&request, handle).await;
        if let Some(log) = &self.call_log {
            let response = answer.as_ref().map(std::slice::from_ref);
            log.write(R::METHOD, &request, response, started.elapsed())?;
        }
        answer
    }

    /// As [`MockDriver::serve`], for an answer of many messages.
    pub(crate) async fn serve_stream<R>(
        &self,
        request: R,
        handle: fn(&Self, &R) -> Messages<R::Response>,
    ) -> Result<Stream<R::Response>, Status>
    where
        R: StreamingCall + Call,
    {
        let started = Instant::now();
        let answer = self.run(&request, handle).await;
        if let Some(log) = &self.call_log {
            log.write(R::METHOD, &request, answer.as_deref(), started.elapsed())?;
        }
        let messages: Vec<_> = answer?.into_iter().map(Ok).collect();
        Ok(tokio_stream::iter(messages))
    }

    async fn run<R: Call, T>(
        &self,
        request: &R,
        handle: fn(&Self, &R) -> Result<T, Status>,
    ) -> Result<T, Status> {
        self.check_offered::<R>()?;
        self.throttle(request)?;
        let pending = self.lock(request)?;
        self.take_time(R::METHOD).await;
        let answer = match self.injected_failure(R::METHOD) {
            Some(failure) => Err(failure),
            None => self.check_secrets(request).and_then(|()| handle(self, request)),
        };
        let answer = if request.mutates() { self.save().and(answer) } else { answer };
        if answer.is_err() && self.has(Defect::LockNeverReleasedAfterError) {
            std::mem::forget(pending);
        }
        answer.map_err(|status| self.spoil(status, request))
    }

    /// UNIMPLEMENTED for services and RPCs that are not offered.
    fn check_offered<R: Call>(&self) -> Result<(), Status> {
        let service = RPCS.iter().find(|rpc| rpc.method == R::METHOD).map(|rpc| rpc.service);
        let offered = service.is_some_and(|service| self.offers(service));
        let advertised = R::NEEDS.is_empty() || R::NEEDS.iter().any(|needed| self.advertises(*needed));
        let broken = Defect::unimplemented(R::METHOD).is_some_and(|defect| self.has(defect));
        if offered && advertised && !broken {
            return Ok(());
        }
        if self.has(Defect::UnsupportedAsInternal) {
            return Err(Status::internal("todo"));
        }
        Err(Status::unimplemented(format!("{} is not supported", R::METHOD)))
    }

    /// UNAVAILABLE now and then, where that is asked for; the same call made again is let through.
    fn throttle<R: Call>(&self, request: &R) -> Result<(), Status> {
        if !self.is(Quirk::ThrottlesEveryFifthCall) {
            return Ok(());
        }
        let call = (R::METHOD, request.encode_to_vec());
        let mut put_off = self.put_off.lock().unwrap_or_else(PoisonError::into_inner);
        let again = put_off.contains(&call) || put_off.len() == PUT_OFF_MAX;
        if again || self.calls.fetch_add(1, Ordering::Relaxed) % 5 != 4 {
            return Ok(());
        }
        put_off.insert(call);
        Err(Status::unavailable("too many calls, try again"))
    }

    /// Turns a second operation on one object away while the first is pending.
    fn lock<R: Call>(&self, request: &R) -> Result<Option<Pending<'_>>, Status> {
        let Some((kind, name)) = request.locks() else { return Ok(None) };
        if name.is_empty() {
            // The request is malformed, whatever else is pending.
            return Ok(None);
        }
        let mut object = format!("{kind} {name}");
        if kind == NODE_VOLUME {
            object = format!("{object} on {}", self.this_node().id);
        }
        if self.has(Defect::LockCoversAllObjects) {
            object = "everything".to_owned();
        }
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(object.clone()) {
            if R::METHOD != "CreateVolume" || !self.has(Defect::CreateVolumeRacesOnName) {
                return Err(Status::aborted(format!("an operation on {object} is pending")));
            }
            busy.insert(contended(&object));
        }
        Ok(Some(Pending { driver: self, object }))
    }

    async fn take_time(&self, method: &'static str) {
        if self.hangs(method) {
            pending::<()>().await;
        }
        let delay =
            self.config.delay.iter().find(|(rpc, _)| rpc.as_str() == method).map(|(_, delay)| delay.0);
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        if self.is(Quirk::SlowCalls) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if method == "CreateVolume" && self.has(Defect::CreateVolumeRacesOnName) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn hangs(&self, method: &str) -> bool {
        match method {
            "Probe" => self.has(Defect::ProbeHangs),
            "NodeGetVolumeStats" => self.has(Defect::NodeGetVolumeStatsHangs),
            _ => false,
        }
    }

    fn injected_failure(&self, method: &'static str) -> Option<Status> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = failures.get_mut(method).filter(|failure| failure.times > 0)?;
        failure.times -= 1;
        Some(Status::new(failure.code, format!("{method} fails, as it was told to")))
    }

    fn check_secrets<R: Call>(&self, request: &R) -> Result<(), Status> {
        let Some(secrets) = request.secrets() else { return Ok(()) };
        validate::map("secrets", secrets)?;
        match validate::demanded(secrets, &self.config.required_secrets.0) {
            Ok(()) => Ok(()),
            Err(Demand::Missing(key)) => Err(invalid(format!("secret `{key}` is missing"))),
            Err(Demand::Wrong(key)) => Err(Status::unauthenticated(format!("secret `{key}` is not valid"))),
        }
    }

    fn save(&self) -> Result<(), Status> {
        let Some(file) = &self.state_file else { return Ok(()) };
        file.save(&self.state()).map_err(|error| Status::internal(error.to_string()))
    }

    /// What defects do to every error.
    fn spoil<R: Call>(&self, status: Status, request: &R) -> Status {
        if self.has(Defect::StatusMessageEmpty) {
            return Status::new(status.code(), "");
        }
        if self.has(Defect::StatusDetailsSet) {
            // A google.rpc.Status with code 3 and one empty detail.
            return Status::with_details(status.code(), status.message(), vec![8, 3, 26, 0].into());
        }
        if self.has(Defect::SecretsInErrors)
            && let Some(secrets) = request.secrets()
        {
            return Status::new(status.code(), format!("{} (secrets {secrets:?})", status.message()));
        }
        if self.has(Defect::NotFoundAsInternal) && status.code() == Code::NotFound {
            return Status::internal(status.message());
        }
        if self.has(Defect::InvalidArgumentAsInternal) && status.code() == Code::InvalidArgument {
            return Status::internal(status.message());
        }
        if self.has(Defect::InvalidArgumentAsUnknown) && status.code() == Code::InvalidArgument {
            return Status::unknown(status.message());
        }
        status
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
        if !validate::knows_fs_type(usage) {
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

    /// Whether two calls to create this volume went on together; only a defect lets that happen.
    pub(crate) fn is_contended(&self, name: &str) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.remove(&contended(&format!("volume named {name}")))
    }
}

/// An error with a code that tonic itself cannot send.
fn with_odd_code<B>(mut response: http::Response<B>) -> http::Response<B> {
    if let Some(code) = response.headers_mut().get_mut("grpc-status") {
        *code = http::HeaderValue::from_static("42");
    }
    response
}

fn contended(object: &str) -> String {
    format!("contended {object}")
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An operation that is going on; ends when dropped, also if the caller gave up.
struct Pending<'a> {
    driver: &'a MockDriver,
    object: String,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.driver.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.object);
    }
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
