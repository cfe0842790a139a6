//! The driver under test: its endpoints, and what it says of itself.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use csi_proto::{Call, DialError, Endpoint, Rpc, Service, UnaryCall, code_name, v1};
use tonic::Code;
use tonic::transport::Channel;

use crate::call::Exchange;
use crate::calling::Pauses;
use crate::capability::{Capabilities, sets};
use crate::config::Config;
use crate::driver::{Driver, DriverError};
use crate::effect;
use crate::names::Names;
use crate::paths::Paths;
use crate::patience::Patience;
use crate::replies::{Breach, Replies};
use crate::reply::{Answer, NoAnswer};
use crate::requirements::Requirement;

/// Times that a question about the driver is asked again while it says "not now".
const TRIES_MAX: u32 = 5;
/// Pauses between two questions whether the driver is still alive: the first one, and the longest.
const ALIVE_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];

/// The driver under test.
#[derive(Debug)]
pub struct Target {
    config: Config,
    driver: Option<Driver>,
    endpoint: Endpoint,
    controller_endpoint: Option<Endpoint>,
    node: Channel,
    controller: Channel,
    info: v1::GetPluginInfoResponse,
    capabilities: Capabilities,
    services: BTreeSet<Service>,
    remarks: Vec<String>,
    pub(crate) names: Names,
    made: Mutex<BTreeSet<String>>,
    pub(crate) volumes: crate::volumes::Pool,
    pub(crate) paths: Paths,
    pub(crate) replies: Replies,
    pub(crate) patience: Patience,
}

/// Why there is no driver to test.
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
    /// The driver's process ended at once.
    #[error("the driver ended before it answered ({status}){}", told(.printed))]
    Ended {
        /// How.
        status: ExitStatus,
        /// The last lines that it printed, if they are known.
        printed: Vec<String>,
    },
    /// There is no place for target and staging paths.
    #[error(
        "failed to make a directory for target and staging paths; choose one with --mount-dir and --staging-dir"
    )]
    Workdir(#[source] std::io::Error),
    /// Something answers, but not as a CSI driver does.
    #[error("{endpoint} accepts connections but does not answer as a CSI driver: {rpc}: {problem}")]
    NotADriver {
        /// Which endpoint.
        endpoint: Endpoint,
        /// Which call failed.
        rpc: Rpc,
        /// How.
        problem: String,
    },
}

fn told(printed: &[String]) -> String {
    let lines: String = printed.iter().map(|line| format!("\n  {line}")).collect();
    if lines.is_empty() { lines } else { format!("; it printed last:{lines}") }
}

impl Target {
    /// Dials the endpoints and asks the driver who it is and what it can do.
    ///
    /// # Errors
    /// The endpoint cannot be reached, or what is there does not answer Identity calls with gRPC.
    pub async fn connect(config: Config) -> Result<Arc<Target>, TargetError> {
        Target::reach(config, None).await
    }

    /// The same for a driver that the run may end and start. It is started if it is not running.
    ///
    /// # Errors
    /// The driver cannot be started or ends at once; and as for [`Target::connect`].
    pub async fn connect_to(driver: Driver, config: Config) -> Result<Arc<Target>, TargetError> {
        driver.start().await?;
        tokio::select! {
            biased;
            target = Target::reach(config, Some(driver.clone())) => target,
            status = driver.failed() => Err(TargetError::Ended { status, printed: driver.last_lines() }),
        }
    }

    async fn reach(config: Config, driver: Option<Driver>) -> Result<Arc<Target>, TargetError> {
        let endpoint: Endpoint = config.endpoint.as_deref().ok_or(TargetError::NoEndpoint)?.parse()?;
        let controller_endpoint: Option<Endpoint> =
            config.controller_endpoint.as_deref().map(str::parse).transpose()?;
        let limit = Duration::from_millis(config.time_limits.dial_ms);
        let node = csi_proto::dial(&endpoint, limit).await?;
        let controller = match &controller_endpoint {
            Some(endpoint) => csi_proto::dial(endpoint, limit).await?,
            None => node.clone(),
        };
        let mut found = Interview::new(&config, &endpoint, &node, &controller, controller_endpoint.as_ref());
        let info = found.identity().await?;
        found.services().await?;
        let Interview { capabilities, services, remarks, replies, patience, .. } = found;
        let volumes = crate::volumes::Pool::new(&config);
        let names = Names::new(&config.name_prefix, config.name_length_max);
        let paths = Paths::new(&config, &info.name).map_err(TargetError::Workdir)?;
        Ok(Arc::new(Target {
            config,
            driver,
            endpoint,
            controller_endpoint,
            node,
            controller,
            info,
            capabilities,
            services,
            remarks,
            names,
            made: Mutex::default(),
            volumes,
            paths,
            replies,
            patience,
        }))
    }

    /// What the user has set.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The process of the driver, if the run may end and start it.
    pub fn driver(&self) -> Option<&Driver> {
        self.driver.as_ref()
    }

    /// The endpoint of the Node service, and of the others unless they have their own.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint of the Controller services, where it differs.
    pub fn controller_endpoint(&self) -> Option<&Endpoint> {
        self.controller_endpoint.as_ref()
    }

    /// What GetPluginInfo answered; empty where it was refused, which a check of the suite reports.
    pub fn info(&self) -> &v1::GetPluginInfoResponse {
        &self.info
    }

    /// What the driver advertises.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whether an endpoint serves the service.
    pub fn serves(&self, service: Service) -> bool {
        self.services.contains(&service)
    }

    /// News about the driver that are no fault, such as a capability that this version does not know.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Where replies of this run, to whichever call, broke a rule that holds for all of them.
    pub fn breaches(&self, requirement: &Requirement) -> Vec<Breach> {
        self.replies.breaches(requirement)
    }

    /// The text that every name of this run begins with.
    pub fn run_prefix(&self) -> &str {
        self.names.prefix()
    }

    pub(crate) fn channel(&self, _node: usize, service: Service) -> Channel {
        match service {
            Service::Identity | Service::Node => self.node.clone(),
            Service::Controller | Service::GroupController | Service::SnapshotMetadata => {
                self.controller.clone()
            }
        }
    }

    /// Whether the driver still answers within `time-limits: alive-ms`: any gRPC status counts. It is not Probe that is
    /// asked, since that may hang with the storage behind a driver that is well.
    pub async fn is_alive(&self) -> bool {
        let answers = |channel: Channel| async {
            let ask = Exchange {
                channel,
                request: v1::GetPluginInfoRequest {},
                limit: Duration::from_millis(self.config.time_limits.alive_ms),
                patience: &self.patience,
                replies: &self.replies,
                check: None,
            };
            !matches!(ask.unary().await, Answer::Unknown(NoAnswer::Timeout(_) | NoAnswer::Broken(_)))
        };
        let alive = answers(self.node.clone()).await;
        alive && (self.controller_endpoint.is_none() || answers(self.controller.clone()).await)
    }

    /// Waits until the driver answers: how long that took, or `None` if it does not. A process that has failed is not
    /// waited for.
    pub async fn wait_until_alive(&self, limit: Duration) -> Option<Duration> {
        let started = Instant::now();
        let [mut pause, longest] = ALIVE_PAUSES;
        let alive = async {
            while !self.is_alive().await {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        };
        let failed = async {
            match &self.driver {
                Some(driver) => driver.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = alive => Some(started.elapsed()),
            _ = failed => None,
            () = tokio::time::sleep(limit) => None,
        }
    }

    /// Starts the driver if it was ended, and waits until it answers: how long both took, or `None` if it stays away
    /// for `time-limits: restart-ms`.
    pub async fn bring_back(&self) -> Option<Duration> {
        let started = Instant::now();
        if let Some(driver) = &self.driver {
            driver.start().await.ok()?;
        }
        let limit = Duration::from_millis(self.config.time_limits.restart_ms);
        self.wait_until_alive(limit).await.map(|_| started.elapsed())
    }

    pub(crate) fn has_made(&self, id: &str) -> bool {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    pub(crate) fn made(&self, id: &str) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }
}

/// The questions asked before the first check.
struct Interview<'a> {
    config: &'a Config,
    endpoint: &'a Endpoint,
    controller_endpoint: &'a Endpoint,
    node: &'a Channel,
    controller: &'a Channel,
    separate: bool,
    capabilities: Capabilities,
    services: BTreeSet<Service>,
    remarks: Vec<String>,
    replies: Replies,
    patience: Patience,
}

impl<'a> Interview<'a> {
    fn new(
        config: &'a Config,
        endpoint: &'a Endpoint,
        node: &'a Channel,
        controller: &'a Channel,
        controller_endpoint: Option<&'a Endpoint>,
    ) -> Interview<'a> {
        Interview {
            config,
            endpoint,
            controller_endpoint: controller_endpoint.unwrap_or(endpoint),
            node,
            controller,
            separate: controller_endpoint.is_some(),
            capabilities: Capabilities::default(),
            services: BTreeSet::from([Service::Identity]),
            remarks: Vec::new(),
            replies: Replies::default(),
            patience: Patience::default(),
        }
    }

    /// GetPluginInfo and GetPluginCapabilities, on each endpoint.
    async fn identity(&mut self) -> Result<v1::GetPluginInfoResponse, TargetError> {
        let info = self.ask(self.node, self.endpoint, v1::GetPluginInfoRequest {}).await?.unwrap_or_default();
        self.plugin_capabilities(self.node, self.endpoint).await?;
        if self.separate {
            self.plugin_capabilities(self.controller, self.controller_endpoint).await?;
        }
        Ok(info)
    }

    async fn plugin_capabilities(
        &mut self,
        channel: &Channel,
        endpoint: &Endpoint,
    ) -> Result<(), TargetError> {
        use v1::plugin_capability::Type;
        let answer = self.ask(channel, endpoint, v1::GetPluginCapabilitiesRequest {}).await?;
        for capability in answer.unwrap_or_default().capabilities {
            match capability.r#type {
                Some(Type::Service(service)) => {
                    self.capabilities.add("plugin service", service.r#type, sets::Plugin(service.r#type));
                }
                Some(Type::VolumeExpansion(expansion)) => self.capabilities.add(
                    "volume expansion",
                    expansion.r#type,
                    sets::Expansion(expansion.r#type),
                ),
                None => {}
            }
        }
        Ok(())
    }

    /// Which services there are, and their capabilities. An answer to the capability call is what counts;
    /// GetPluginCapabilities of a split deployment may speak of the other half.
    async fn services(&mut self) -> Result<(), TargetError> {
        use v1::node_service_capability as n;
        use v1::{controller_service_capability as c, group_controller_service_capability as g};

        let controller = self.controller_endpoint;
        if let Some(answer) =
            self.ask(self.controller, controller, v1::ControllerGetCapabilitiesRequest {}).await?
        {
            self.services.insert(Service::Controller);
            for capability in answer.capabilities {
                let Some(c::Type::Rpc(rpc)) = capability.r#type else { continue };
                self.capabilities.add("controller", rpc.r#type, sets::Controller(rpc.r#type));
            }
        }
        let request = v1::GroupControllerGetCapabilitiesRequest {};
        if let Some(answer) = self.ask(self.controller, controller, request).await? {
            self.services.insert(Service::GroupController);
            for capability in answer.capabilities {
                let Some(g::Type::Rpc(rpc)) = capability.r#type else { continue };
                self.capabilities.add("group controller", rpc.r#type, sets::Group(rpc.r#type));
            }
        }
        if let Some(answer) = self.ask(self.node, self.endpoint, v1::NodeGetCapabilitiesRequest {}).await? {
            self.services.insert(Service::Node);
            for capability in answer.capabilities {
                let Some(n::Type::Rpc(rpc)) = capability.r#type else { continue };
                self.capabilities.add("node", rpc.r#type, sets::Node(rpc.r#type));
            }
        }
        self.advertised_services();
        Ok(())
    }

    /// A service that GetPluginCapabilities promises is there to be tested even if its capability call fails.
    fn advertised_services(&mut self) {
        use crate::capability::Capability;
        for (capability, service) in [
            (Capability::ControllerService, Service::Controller),
            (Capability::GroupControllerService, Service::GroupController),
            (Capability::SnapshotMetadataService, Service::SnapshotMetadata),
        ] {
            if self.capabilities.has(capability) {
                self.services.insert(service);
            }
        }
        for unknown in self.capabilities.unknown() {
            self.remarks.push(format!("{unknown} is not known to CSI v1.12 and is not tested"));
        }
    }

    /// The answer, or `None` if the driver refused.
    async fn ask<Q>(
        &self,
        channel: &Channel,
        endpoint: &Endpoint,
        request: Q,
    ) -> Result<Option<Q::Response>, TargetError>
    where
        Q: UnaryCall + Send + Sync,
        Q::Response: Send + Sync,
    {
        let rpc = <Q as Call>::RPC;
        let mut pauses = Pauses::default();
        let answer = loop {
            let ask = Exchange {
                channel: channel.clone(),
                request: request.clone(),
                limit: self.config.time_limits.call(rpc.method),
                patience: &self.patience,
                replies: &self.replies,
                check: None,
            };
            match ask.unary().await {
                Answer::Refused(refused)
                    if effect::is_not_now(rpc, refused.code) && pauses.taken < TRIES_MAX =>
                {
                    pauses.pause().await;
                }
                answer => break answer,
            }
        };
        let problem = match answer {
            Answer::Ok(response) => return Ok(Some(response)),
            // Internal and Unknown are what tonic makes of an answer that is not gRPC.
            Answer::Refused(refused) if refused.code == Code::Unknown && rpc.service == Service::Identity => {
                format!("{} {}", code_name(refused.code), refused.message)
            }
            Answer::Refused(_) => return Ok(None),
            Answer::Unknown(no_answer) => no_answer.to_string(),
        };
        Err(TargetError::NotADriver { endpoint: endpoint.clone(), rpc, problem })
    }
}
