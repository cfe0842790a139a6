//! The driver under test: its endpoints, and what it says of itself.

mod interview;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use csi_proto::lock::{Mutex, RwLock};
use csi_proto::{Breaker, Call as _, DialError, Endpoint, Rpc, Service, Transport, v1};
use futures_util::future::BoxFuture;
use tonic::service::Routes;

use crate::client::answer::{Answer, NoAnswer};
use crate::client::call::{self, Exchange};
use crate::client::learnt::ProbeCache;
use crate::client::patience::Patience;
use crate::client::response_rules::{ResponseBreach, ResponseRules};
use crate::client::stages::Stages;
use crate::client::tally::Tally;
use crate::config::{AccessType, Config, Elsewhere, NodeConfig};
use crate::driver::{Away, Driver, DriverError, Proxy, START_FACTOR};
use crate::protocol::capability::{Capabilities, Capability};
use crate::protocol::rpc::Facts;
use crate::protocol::version::Judged;
use crate::resources::logbook::{Logbook, RunOf};
use crate::resources::mounts;
use crate::resources::names::Names;
use crate::resources::paths::Paths;
use crate::resources::read_back::{Mismatch, ReadBack};
use crate::resources::state_dir::{CorruptState, Disposition};
use crate::resources::volumes::{AttachSlots, Pool};
use crate::spec::faults::Faults;
use crate::spec::requirements::Requirement;
use interview::Interview;

/// Pauses between two questions whether the driver is still alive: the first one, and the longest.
const ALIVE_PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(200)];
/// Longest time that a driver gets to start because its starts take long.
const RESTART_MAX: Duration = Duration::from_secs(300);
/// Ids and paths of which it is kept which check made them. A run under load makes more.
const MADE_MAX: usize = 100_000;
/// Time to be back for a driver that the run cannot start.
const UNATTENDED: Duration = Duration::from_secs(10);
/// The time in which a driver that did not answer since its last start has to answer a last call.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The driver under test.
#[derive(Debug)]
pub struct Target {
    config: Config,
    driver: Option<Driver>,
    nodes: Vec<Node>,
    controller: Option<Peer>,
    info: v1::GetPluginInfoResponse,
    capabilities: Capabilities,
    /// Capabilities that the driver advertises although the versions that it is judged by do not have them.
    hidden: BTreeSet<Capability>,
    services: BTreeSet<Service>,
    /// Services that did not report their capabilities, and the reasons.
    unreported: BTreeMap<Service, String>,
    remarks: Vec<String>,
    pub(crate) names: Names,
    /// The sizes that the driver demands if it rejects the first size that volumes are made with.
    grown_bytes: [OnceLock<i64>; 2],
    /// Ids and paths, and the checks that made them.
    made: Mutex<BTreeMap<String, String>>,
    /// RPCs whose plain call the driver does not survive, and the checks that say so.
    deadly: RwLock<BTreeMap<&'static str, String>>,
    pub(crate) volumes: Pool,
    pub(crate) attach_slots: AttachSlots,
    pub(crate) response_rules: ResponseRules,
    pub(crate) patience: Patience,
    pub(crate) learnt: ProbeCache,
    pub(crate) tally: Tally,
    pub(crate) stages: Stages,
    faults: Faults,
    proxies: Vec<Proxy>,
    pub(crate) read_back: ReadBack,
    /// The number of times that the breaking of connections from here has begun or ended: odd while they break.
    breaks: AtomicU64,
    logbook: Option<Arc<Logbook>>,
    /// Decided once, when a run begins.
    ownership: OnceLock<Ownership>,
    /// The free loop devices that were read-only when the run began; not set for a driver that uses no devices of this machine.
    pub(crate) read_only_loops: OnceLock<BTreeSet<String>>,
    /// The directory in which the driver was seen to keep its files.
    directory: OnceLock<PathBuf>,
    /// The states with which it did not start any more.
    ruined: Arc<Mutex<CorruptState>>,
}

/// Decides which volumes and snapshots of the driver belong to this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// Objects with a name or an id of the run: others may use the back end at the same time.
    #[default]
    WhatIsNamed,
    /// Objects that were not there when the run began: with `--exclusive`, nothing else makes any.
    WhatIsNew,
    /// All objects: nothing else calls the driver, and its lists were empty when the run began.
    Everything,
}

/// A node of the driver: where its Node service is, and where its paths are made.
#[derive(Debug)]
pub struct Node {
    peer: Peer,
    id: Option<String>,
    paths: Paths,
    /// True if it is known that the tests see the driver's files.
    sees_files: AtomicBool,
}

impl Node {
    /// The endpoint of its Node service.
    pub fn endpoint(&self) -> &Endpoint {
        &self.peer.endpoint
    }

    /// The node id of NodeGetInfo, which is called only if there are several nodes.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns true if the tests are known to see what the driver does to files on this node: they have its mount
    /// namespace and its root directory, or a command of the user looks where the driver is.
    pub async fn shares_files(&self) -> bool {
        match self.paths.commands() {
            Some(commands) => commands.check_path_command.is_some(),
            None => mounts::are_shared_with(self.endpoint()).await,
        }
    }

    /// Returns true if the tests themselves see the driver's files. The answer is found out once.
    pub(crate) async fn sees_files(&self) -> bool {
        let sees = self.sees_files.load(Ordering::Relaxed)
            || (self.paths.commands().is_none() && self.shares_files().await);
        self.sees_files.store(sees, Ordering::Relaxed);
        sees
    }

    /// Returns true if mounts of the driver, which is another process, appear in the mount table of the tests.
    pub(crate) async fn shares_mounts(&self) -> bool {
        let listener = mounts::listener(self.endpoint()).await;
        let is_here = |pid| u32::try_from(pid) == Ok(std::process::id());
        !listener.is_none_or(is_here) && mounts::are_shared_with(self.endpoint()).await
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }
}

/// An endpoint that has been reached.
#[derive(Clone, Debug)]
struct Peer {
    endpoint: Arc<Endpoint>,
    transport: Transport,
    breaker: Breaker,
}

impl Peer {
    async fn dial(endpoint: &str, limit: Duration) -> Result<Peer, TargetError> {
        let endpoint: Endpoint = endpoint.parse()?;
        let (channel, breaker) = csi_proto::dial_breakable(&endpoint, limit).await?;
        Ok(Peer { endpoint: Arc::new(endpoint), transport: Transport::Connection(channel), breaker })
    }

    fn in_process(endpoint: Endpoint, routes: Routes) -> Peer {
        let breaker = Breaker::default();
        let endpoint = Arc::new(endpoint);
        Peer { endpoint, transport: Transport::InProcess(routes, breaker.clone()), breaker }
    }
}

/// The time in which connections break; ends when dropped, also if the check is over before.
struct Breaking<'a>(&'a AtomicU64);

impl<'a> Breaking<'a> {
    fn begin(breaks: &'a AtomicU64) -> Breaking<'a> {
        breaks.fetch_add(1, Ordering::SeqCst);
        Breaking(breaks)
    }
}

impl Drop for Breaking<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The reasons why there is no driver to test.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No endpoint was given.
    #[error("no endpoint is given; use --endpoint unix:///path/to/csi.sock")]
    NoEndpoint,
    /// An endpoint is not an address.
    #[error("failed to read the endpoint")]
    Endpoint(#[from] csi_proto::ParseEndpointError),
    /// The endpoint cannot be reached.
    #[error("failed to reach the driver")]
    Dial(#[from] DialError),
    /// The driver cannot be started.
    #[error(transparent)]
    Start(#[from] DriverError),
    /// A proxy to the back end cannot be started.
    #[error("failed to listen at {listen} for --backend-proxy")]
    Proxy {
        /// The address where the proxy was to listen.
        listen: String,
        /// The error of listening there.
        source: std::io::Error,
    },
    /// The driver's process ended at once.
    #[error("the driver ended before it answered ({status}){}", printed_last(.printed))]
    Ended {
        /// The exit status of its process.
        status: ExitStatus,
        /// The last lines that it printed, if they are known.
        printed: Vec<String>,
    },
    /// No directory for target and staging paths can be made.
    #[error(
        "failed to create a directory for target and staging paths; choose one with --mount-dir and --staging-dir"
    )]
    Workdir(#[source] std::io::Error),
    /// Something answers, but not as a CSI driver does.
    #[error("{endpoint} accepts connections but does not answer as a CSI driver: {rpc}: {problem}")]
    NotADriver {
        /// The endpoint that was dialled.
        endpoint: Endpoint,
        /// The call that failed.
        rpc: Rpc,
        /// The reason why it failed.
        problem: String,
    },
}

/// They have to be there before the driver is, which may reach its back end at once.
async fn start_proxies(config: &Config) -> Result<Vec<Proxy>, TargetError> {
    let mut proxies = Vec::new();
    for proxy in &config.backend_proxies {
        let started = Proxy::start(proxy).await;
        proxies.push(started.map_err(|source| TargetError::Proxy { listen: proxy.listen.clone(), source })?);
    }
    Ok(proxies)
}

fn printed_last(printed: &[String]) -> String {
    let lines: String = printed.iter().map(|line| format!("\n  {line}")).collect();
    if lines.is_empty() { lines } else { format!("; it printed last:{lines}") }
}

impl Target {
    /// Dials the endpoints and asks the driver who it is and what it can do.
    ///
    /// # Errors
    /// The endpoint cannot be reached, or what is there does not answer Identity calls with gRPC.
    pub async fn connect(config: Config) -> Result<Arc<Target>, TargetError> {
        let proxies = start_proxies(&config).await?;
        Target::reach(config, None, proxies).await
    }

    /// Connects to a driver in this process, whose services are called without a socket, for users who make millions of
    /// calls. Each node has an endpoint only as its name. The first one has the Controller services, too.
    ///
    /// # Errors
    /// Fails as [`Target::connect`] does.
    pub async fn of_services(
        nodes: Vec<(Endpoint, Routes)>,
        mut config: Config,
    ) -> Result<Arc<Target>, TargetError> {
        config.hide_secrets();
        let mut endpoints = nodes.iter().map(|(endpoint, _)| endpoint.to_string());
        config.endpoint = Some(endpoints.next().ok_or(TargetError::NoEndpoint)?);
        config.nodes = endpoints.map(|endpoint| NodeConfig { endpoint, ..Default::default() }).collect();
        let nodes = nodes.into_iter().map(|(endpoint, routes)| Peer::in_process(endpoint, routes)).collect();
        Target::ask(config, None, Vec::new(), nodes, None).await
    }

    /// Connects to a driver that the run may end and start. It is started if it is not running.
    ///
    /// # Errors
    /// The driver cannot be started or ends at once; and those of [`Target::connect`].
    pub async fn connect_to(driver: Driver, config: Config) -> Result<Arc<Target>, TargetError> {
        let proxies = start_proxies(&config).await?;
        driver.start().await?;
        tokio::select! {
            biased;
            target = Target::reach(config, Some(driver.clone()), proxies) => {
                driver.has_answered();
                target
            }
            status = driver.gone() => Err(TargetError::Ended { status, printed: driver.last_lines() }),
        }
    }

    fn reach(
        config: Config,
        driver: Option<Driver>,
        proxies: Vec<Proxy>,
    ) -> BoxFuture<'static, Result<Arc<Target>, TargetError>> {
        Box::pin(async move {
            if let Some(elsewhere) = config.elsewhere.clone() {
                return Ok(Target::elsewhere(config, elsewhere));
            }
            let limit = Duration::from_millis(config.time_limits.dial_ms);
            config.hide_secrets();
            let endpoint = config.endpoint.as_deref().ok_or(TargetError::NoEndpoint)?;
            let mut nodes = vec![Peer::dial(endpoint, limit).await?];
            for node in &config.nodes {
                nodes.push(Peer::dial(&node.endpoint, limit).await?);
            }
            let controller = match &config.controller_endpoint {
                Some(endpoint) => Some(Peer::dial(endpoint, limit).await?),
                None => None,
            };
            Target::ask(config, driver, proxies, nodes, controller).await
        })
    }

    /// Asks the driver, which has at least one node, who it is and what it can do.
    fn ask(
        config: Config,
        driver: Option<Driver>,
        proxies: Vec<Proxy>,
        nodes: Vec<Peer>,
        controller: Option<Peer>,
    ) -> BoxFuture<'static, Result<Arc<Target>, TargetError>> {
        Box::pin(async move {
            let mut found = Interview::new(&config, &nodes, controller.as_ref());
            let info = found.identity().await?;
            found.services().await?;
            let ids = found.nodes(&info).await?;
            let Interview {
                capabilities,
                hidden,
                services,
                unreported,
                mut remarks,
                response_rules,
                patience,
                ..
            } = found;
            let logbook = match config.logbook.then(|| {
                Logbook::begin(RunOf::new(
                    &config,
                    driver.as_ref().is_some_and(Driver::ends_with_this_process),
                ))
            }) {
                Some(Ok(logbook)) => Some(Arc::new(logbook)),
                Some(Err(error)) => {
                    remarks.push(format!(
                        "if this run is killed, --cleanup will not know what it created: {error}"
                    ));
                    None
                }
                None => None,
            };
            if let (Some(driver), Some(logbook)) = (&driver, &logbook) {
                driver.note_in(logbook.clone());
            }
            let paths =
                Paths::of_nodes(&config, &info.name, logbook.as_ref()).map_err(TargetError::Workdir)?;
            let node = |((peer, id), paths)| Node { peer, id, paths, sees_files: AtomicBool::new(false) };
            let nodes = nodes.into_iter().zip(ids).zip(paths).map(node).collect();
            Ok(Arc::new(Target {
                driver,
                nodes,
                controller,
                capabilities,
                hidden,
                services,
                unreported,
                remarks,
                response_rules,
                patience,
                learnt: ProbeCache::default(),
                logbook,
                proxies,
                ..Target::unasked(config, info)
            }))
        })
    }

    /// A driver that is not called from here: it has no endpoint and no node, and only its name is known.
    fn elsewhere(config: Config, elsewhere: Elsewhere) -> Arc<Target> {
        let info = v1::GetPluginInfoResponse { name: elsewhere.driver, ..Default::default() };
        Arc::new(Target::unasked(config, info))
    }

    /// A target of which only the identity is known.
    fn unasked(config: Config, info: v1::GetPluginInfoResponse) -> Target {
        Target {
            driver: None,
            nodes: Vec::new(),
            controller: None,
            info,
            capabilities: Capabilities::default(),
            hidden: BTreeSet::new(),
            services: BTreeSet::new(),
            unreported: BTreeMap::new(),
            remarks: Vec::new(),
            names: Names::new(&config.name_prefix, config.name_length_max),
            grown_bytes: Default::default(),
            made: Mutex::default(),
            deadly: RwLock::default(),
            volumes: Pool::new(&config),
            attach_slots: AttachSlots::default(),
            response_rules: ResponseRules::default(),
            patience: Patience::default(),
            learnt: ProbeCache::default(),
            tally: Tally::default(),
            stages: Stages::default(),
            faults: Faults::default(),
            proxies: Vec::new(),
            read_back: ReadBack::default(),
            breaks: AtomicU64::new(0),
            logbook: None,
            ownership: OnceLock::new(),
            read_only_loops: OnceLock::new(),
            directory: OnceLock::new(),
            ruined: Arc::default(),
            config,
        }
    }

    /// The proxies between the driver and its back end.
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// The user's settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The place of the driver, for people: its first endpoint, or the place where others call it.
    pub fn place(&self) -> String {
        match &self.config.elsewhere {
            Some(elsewhere) => elsewhere.place.clone(),
            None => self.config.place_of(self.endpoint()),
        }
    }

    /// Size of the volumes made for such access, in bytes: the one configured, or a small one that the driver takes.
    pub fn volume_size_bytes(&self, access: AccessType) -> i64 {
        let grown = self.grown_bytes[access as usize].get().copied();
        let found = || grown.unwrap_or_else(|| self.config.first_volume_bytes(access));
        self.config.volume_size_bytes.unwrap_or_else(found)
    }

    /// Size that volumes are expanded to, in bytes: the one configured, or twice that of the volumes made.
    pub fn expand_size_bytes(&self, access: AccessType) -> i64 {
        let made = self.volume_size_bytes(access);
        self.config.expand_size_bytes.map_or(made.saturating_mul(2), |expanded| expanded.max(made))
    }

    /// Makes later volumes for this access type larger.
    pub(crate) fn grow_to(&self, access: AccessType, bytes: i64) {
        // The first size that works is kept.
        let _ = self.grown_bytes[access as usize].set(bytes);
    }

    /// The process of the driver, if the run may end and start it.
    pub fn driver(&self) -> Option<&Driver> {
        self.driver.as_ref()
    }

    /// Returns true if nothing else calls the driver: the run has started it, or the user says so.
    pub fn is_owned(&self) -> bool {
        self.config.exclusive || self.driver().is_some_and(Driver::is_started_here)
    }

    /// The last lines that the driver has printed, if the run gets its output.
    pub fn last_lines(&self) -> Vec<String> {
        self.driver.as_ref().map(Driver::last_lines).unwrap_or_default()
    }

    /// The processes of the driver, by the numbers that they have here: the one that the user names, and those that listen at its
    /// endpoints. A process is missing where it cannot be known, as over TCP, and this process is never among them.
    pub async fn processes(&self) -> BTreeSet<u32> {
        let mut processes = BTreeSet::from_iter(self.config.driver_pid);
        for endpoint in self.nodes.iter().map(Node::endpoint).chain(self.controller_endpoint()) {
            processes
                .extend(mounts::listener(endpoint).await.and_then(|process| u32::try_from(process).ok()));
        }
        processes.remove(&std::process::id());
        processes
    }

    /// The endpoint of the first node, and of the other services unless they have their own.
    ///
    /// # Panics
    /// The driver is not dialled; see [`Target::place`].
    pub fn endpoint(&self) -> &Endpoint {
        self.node(0).endpoint()
    }

    /// The endpoint of the Controller services, where it differs.
    pub fn controller_endpoint(&self) -> Option<&Endpoint> {
        self.controller.as_ref().map(|peer| &*peer.endpoint)
    }

    /// All nodes: at least one, unless the driver is not dialled.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its number, the first of which is 0.
    ///
    /// # Panics
    /// There is no such node, which a check that needs [`TWO_NODES`](crate::spec::need::TWO_NODES) does not ask for.
    pub fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// The answer of GetPluginInfo. Empty if it was refused, which a check of the suite reports.
    pub fn info(&self) -> &v1::GetPluginInfoResponse {
        &self.info
    }

    /// The capabilities that the driver advertises.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns true if the driver advertises the capability, and is judged by a version that does not have it.
    pub(crate) fn hides(&self, capability: Capability) -> bool {
        self.hidden.contains(&capability)
    }

    /// The capabilities that exist in a version by which the driver is judged.
    pub(crate) fn known_of(&self, some: &[Capability]) -> impl Iterator<Item = Capability> {
        let judged = self.judged();
        some.iter().copied().filter(move |one| judged.has_any_of(one.versions()))
    }

    /// The versions of the protocol by which the driver is judged, as far as they are known by now.
    pub fn judged(&self) -> Judged {
        let advertised = self
            .capabilities
            .iter()
            .filter_map(|one| Some((one.versions().sign()?, format!("it advertises {one}"))));
        let signs: Vec<_> = advertised.chain(self.response_rules.signs()).collect();
        Judged::by(self.config.csi_version, &signs)
    }

    /// The reason why it is unknown which capabilities a service has, if it did not report them.
    pub fn unreported(&self, service: Service) -> Option<&str> {
        self.unreported.get(&service).map(String::as_str)
    }

    /// Returns true if an endpoint serves the service.
    pub fn serves(&self, service: Service) -> bool {
        self.services.contains(&service)
    }

    /// Returns true if the driver has an RPC: it serves the service, and advertises a capability that promises the RPC, if any has to.
    pub fn offers(&self, rpc: Rpc) -> bool {
        let has = |capability| self.capabilities.has(capability);
        self.serves(rpc.service) && Facts::of(rpc).is_none_or(|facts| facts.is_offered_with(has))
    }

    /// The file that lists what is not yet undone.
    pub(crate) fn logbook(&self) -> Option<&Arc<Logbook>> {
        self.logbook.as_ref()
    }

    /// News about the driver that are no fault, such as a capability that this version does not know.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns true if the configuration has a secret that is looked for in all replies.
    pub fn looks_for_secrets(&self) -> bool {
        self.response_rules.knows_secrets()
    }

    /// Returns true if the driver has done such a call in this run.
    pub fn has_done(&self, rpc: Rpc) -> bool {
        self.tally.calls_of(rpc).is_some_and(|calls| calls.done > 0)
    }

    /// Returns true if the driver has refused such a call in this run.
    pub fn has_refused(&self, rpc: Rpc) -> bool {
        self.tally.calls_of(rpc).is_some_and(|calls| calls.refused > 0)
    }

    /// The replies of this run that broke a rule for all replies.
    pub fn breaches(&self, requirement: &Requirement) -> Vec<ResponseBreach> {
        self.response_rules.breaches(requirement)
    }

    /// The volumes that were published otherwise than they were asked for in this run.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        self.read_back.mismatches()
    }

    /// Faults that the checks of this run have reported.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The text that every name of this run begins with.
    pub fn run_prefix(&self) -> &str {
        self.names.prefix()
    }

    /// The way to a service: to that of the node with this number, where each node has its own.
    pub(crate) fn transport(&self, node: usize, service: Service) -> Transport {
        self.peer(node, service).transport.clone()
    }

    /// The endpoint of a service where other programs of this machine can call the driver, too: not one that is served in this process,
    /// nor one that is forwarded from elsewhere for this run.
    pub(crate) fn address(&self, node: usize, service: Service) -> Option<Arc<Endpoint>> {
        let Peer { endpoint, transport, .. } = self.peer(node, service);
        let is_served_here = matches!(transport, Transport::InProcess(..))
            || self.driver().is_some_and(Driver::ends_with_this_process);
        let places = &self.config.places;
        let is_forwarded = !places.is_empty() && places.contains_key(&endpoint.to_string());
        (!is_served_here && !is_forwarded).then(|| endpoint.clone())
    }

    fn peer(&self, node: usize, service: Service) -> &Peer {
        match service {
            Service::Identity | Service::Node => &self.node(node).peer,
            Service::Controller | Service::GroupController | Service::SnapshotMetadata => {
                self.controller.as_ref().unwrap_or(&self.node(0).peer)
            }
        }
    }

    /// Breaks all connections and waits until others stand: once the break is on its way, no answer comes over the old ones.
    /// Returns whether the driver answers over those within the limit.
    pub(crate) async fn break_connections(&self, limit: Duration) -> bool {
        let _breaking = Breaking::begin(&self.breaks);
        let peers = self.nodes.iter().map(|node| &node.peer).chain(&self.controller);
        peers.for_each(|peer| peer.breaker.break_connection());
        let alive = Duration::from_millis(self.config.time_limits.alive_ms);
        self.wait_until_alive(limit.min(alive)).await.is_some()
    }

    /// The number of times that the breaking of connections from here has begun or ended.
    pub(crate) fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::SeqCst)
    }

    /// Returns true if connections were broken from here since `breaks` was asked for, or were being broken then.
    pub(crate) fn reconnected_since(&self, breaks: u64) -> bool {
        breaks % 2 == 1 || self.breaks() != breaks
    }

    /// Returns true if the driver still answers within `time-limits: alive-ms`: any gRPC status counts. Probe is not
    /// called, since it may hang with the storage behind a driver that is well.
    pub fn is_alive(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let answers = |transport: Transport| async {
                let ask = Exchange {
                    transport,
                    rpc: v1::GetPluginInfoRequest::RPC,
                    request: Vec::new(),
                    limit: Duration::from_millis(self.config.time_limits.alive_ms),
                    patience: &self.patience,
                    response_rules: &self.response_rules,
                    caller: None,
                };
                let answer = ask.unary(call::form::<v1::GetPluginInfoResponse>).await.answer;
                !matches!(answer, Answer::Unknown(NoAnswer::Timeout(_) | NoAnswer::Broken(_)))
            };
            for peer in self.nodes.iter().map(|node| &node.peer).chain(&self.controller) {
                if !answers(peer.transport.clone()).await {
                    return false;
                }
            }
            true
        })
    }

    /// Waits until the driver answers: how long that took, or `None` if it does not. A process that has ended is not waited
    /// for.
    pub async fn wait_until_alive(&self, limit: Duration) -> Option<Duration> {
        let started = Instant::now();
        let [mut pause, longest] = ALIVE_PAUSES;
        let alive = async {
            while !self.is_alive().await {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        };
        let gone = async {
            match &self.driver {
                Some(driver) => driver.gone().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = alive => Some(started.elapsed()),
            _ = gone => None,
            () = tokio::time::sleep(limit) => None,
        }
    }

    /// The time in which the driver has to be back: `time-limits: restart-ms`, or else a time that follows from the
    /// starts that were seen.
    pub fn restart_limit(&self) -> Duration {
        let limits = &self.config.time_limits;
        let from_starts = || match &self.driver {
            Some(driver) => {
                let longest = driver.longest_start().unwrap_or_default();
                longest
                    .saturating_mul(START_FACTOR)
                    .min(RESTART_MAX)
                    .max(Duration::from_millis(limits.dial_ms))
            }
            None => UNATTENDED,
        };
        limits.restart_ms.map_or_else(from_starts, Duration::from_millis)
    }

    /// Starts the driver if it was ended, and waits until it answers: how long both took.
    ///
    /// # Errors
    /// It stays away for [`Target::restart_limit`], counted from its start.
    pub fn bring_back(&self) -> BoxFuture<'_, Result<Duration, Away>> {
        Box::pin(async move {
            let begun = Instant::now();
            if let Some(driver) = &self.driver {
                driver.start().await.map_err(Away::Unstarted)?;
            }
            let starting_for = || self.driver.as_ref().and_then(Driver::starting_for);
            let waited = starting_for().unwrap_or_default();
            if self
                .wait_until_alive(self.restart_limit().saturating_sub(waited).max(LAST_LOOK))
                .await
                .is_some()
            {
                self.driver.as_ref().inspect(|driver| driver.has_answered());
                return Ok(begun.elapsed());
            }
            Err(match self.driver.as_ref().and_then(Driver::end_of_process) {
                Some(status) => Away::Ended(status),
                None => Away::Silent {
                    waited: starting_for().unwrap_or_else(|| begun.elapsed()),
                    longest_start: self.driver.as_ref().and_then(Driver::longest_start),
                },
            })
        })
    }

    /// Decides which of the driver's objects belong to this run. This depends on what existed when the run began, so
    /// that what one check leaves behind does not change the decision for the next one.
    pub fn ownership(&self) -> Ownership {
        self.ownership.get().copied().unwrap_or_default()
    }

    /// Decides it. Of several runs on one target the first one saw what was there before all of them.
    pub(crate) fn owns(&self, ownership: Ownership) {
        let _ = self.ownership.set(ownership);
    }

    /// The directory in which the driver keeps its files, by its true name: the one that `--state-dir` names, or one in which checks
    /// have seen the driver put them. It is good for looking, and not for taking anything away.
    pub fn driver_directory(&self) -> Option<PathBuf> {
        let named = self.config.state_dir.as_ref().and_then(|named| named.canonicalize().ok());
        named.or_else(|| self.directory.get().cloned())
    }

    /// Notes where the driver was seen to keep its files. The first finding stays.
    pub fn keeps_files_in(&self, directory: &Path) {
        if self.directory.set(directory.to_owned()).is_ok()
            && let Some(logbook) = &self.logbook
        {
            logbook.driver_directory(directory);
        }
    }

    /// Starts a driver that does not start any more with an empty state. The state that the check has left is kept
    /// elsewhere. Returns its new place.
    ///
    /// # Errors
    /// Says why the driver is not started: the run has not started it, it had something before the run, no `state-dir`
    /// is set, or it does not start with an empty state either.
    pub async fn start_afresh(&self, check: &str) -> Result<Disposition, String> {
        let driver = self.driver().filter(|driver| driver.is_started_here());
        let driver = driver.ok_or("the run did not start the driver")?;
        let dir = self
            .config
            .state_dir
            .as_ref()
            .ok_or("--state-dir does not name its directory, so it cannot be given an empty one")?;
        if self.ownership() != Ownership::Everything {
            return Err("the driver may have had volumes before this run".to_owned());
        }
        // It may be dead already.
        let _ = driver.kill().await;
        let put = tokio::task::spawn_blocking({
            let (dir, ruined) = (dir.clone(), self.ruined.clone());
            let check = check.to_owned();
            move || ruined.lock().quarantine(&dir, &check)
        });
        let put = put.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
        let aside = put.map_err(|error| format!("failed to put {} aside: {error}", dir.display()))?;
        self.response_rules.forget_objects();
        match self.bring_back().await {
            Ok(_) => Ok(aside),
            Err(away) => Err(format!("it does not start with an empty state either: {away}")),
        }
    }

    /// Returns true if a file is part of a state of the driver that this run has moved away.
    pub(crate) fn has_quarantined(&self, file: &Path) -> bool {
        self.ruined.lock().has(file)
    }

    /// The check that reports that the driver does not survive the plain call of an RPC. That call is then not made
    /// again.
    pub(crate) fn deadly(&self, rpc: Rpc) -> Option<String> {
        self.deadly.read().get(rpc.method).cloned()
    }

    /// Notes what a check has found: the driver does not survive a plain call.
    pub(crate) fn is_killed_by(&self, rpc: Rpc, check: &str) {
        self.deadly.write().insert(rpc.method, check.to_owned());
    }

    /// The check that has made something with this id or path.
    pub(crate) fn maker_of(&self, id: &str) -> Option<String> {
        self.made.lock().get(id).cloned()
    }

    /// Notes that a check has made something.
    pub(crate) fn made(&self, id: &str, check: &str) {
        let mut made = self.made.lock();
        if made.len() < MADE_MAX {
            made.entry(id.to_owned()).or_insert_with(|| check.to_owned());
        }
    }
}
