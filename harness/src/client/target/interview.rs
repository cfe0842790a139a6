//! The questions asked before the first check.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::{Call, Rpc, Service, UnaryCall, code_name, v1};
use tonic::Code;

use super::{Peer, TargetError};
use crate::client::answer::{Answer, Refused};
use crate::client::call::{self, Exchange};
use crate::client::patience::Patience;
use crate::client::patience::Pauses;
use crate::client::response_rules::ResponseRules;
use crate::config::Config;
use crate::protocol::capability::{Capabilities, Capability, sets};
use crate::protocol::effect;
use crate::protocol::version::Version;

/// Times that a question is asked again while the driver says "not now".
const TRIES_MAX: u32 = 5;
/// Times that a service is asked again for its capabilities after any other failure.
const FAILED_TRIES_MAX: u32 = 2;

/// The first calls to a driver, and their answers.
pub(super) struct Interview<'a> {
    config: &'a Config,
    nodes: &'a [Peer],
    controller: Option<&'a Peer>,
    pub(super) capabilities: Capabilities,
    pub(super) hidden: BTreeSet<Capability>,
    pub(super) services: BTreeSet<Service>,
    /// True if GetPluginInfo is not implemented, as where the whole service is not.
    lacks_identity: bool,
    /// Services that did not report their capabilities, and the reasons.
    pub(super) unreported: BTreeMap<Service, String>,
    pub(super) remarks: Vec<String>,
    pub(super) response_rules: ResponseRules,
    pub(super) patience: Patience,
}

impl<'a> Interview<'a> {
    /// An interview without any answers yet. There is at least one node.
    pub(super) fn new(config: &'a Config, nodes: &'a [Peer], controller: Option<&'a Peer>) -> Interview<'a> {
        Interview {
            config,
            nodes,
            controller,
            capabilities: Capabilities::default(),
            hidden: BTreeSet::new(),
            services: BTreeSet::from([Service::Identity]),
            lacks_identity: false,
            unreported: BTreeMap::new(),
            remarks: Vec::new(),
            response_rules: ResponseRules::new(config),
            patience: Patience::default(),
        }
    }

    /// Calls GetPluginInfo of the first node, and GetPluginCapabilities of it and of Controller services elsewhere.
    pub(super) async fn identity(&mut self) -> Result<v1::GetPluginInfoResponse, TargetError> {
        let info = self.ask(&self.nodes[0], v1::GetPluginInfoRequest {}).await?.unwrap_or_else(|refused| {
            self.lacks_identity = refused.code == Code::Unimplemented;
            self.remarks.push(format!("GetPluginInfo failed, so the driver has no name here: {refused}"));
            v1::GetPluginInfoResponse::default()
        });
        for peer in self.nodes.iter().take(1).chain(self.controller) {
            self.plugin_capabilities(peer).await?;
        }
        Ok(info)
    }

    async fn plugin_capabilities(&mut self, peer: &Peer) -> Result<(), TargetError> {
        use v1::plugin_capability::Type;
        let Some(answer) = self.report(peer, v1::GetPluginCapabilitiesRequest {}).await? else {
            return Ok(());
        };
        for capability in answer.capabilities {
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

    /// Finds out which services exist, and their capabilities. The answer to the capability call of a service counts,
    /// because GetPluginCapabilities of a split deployment may describe the other half.
    pub(super) async fn services(&mut self) -> Result<(), TargetError> {
        use v1::{controller_service_capability as c, group_controller_service_capability as g};

        let node = &self.nodes[0];
        let controller = self.controller.unwrap_or(node);
        if let Some(answer) = self.report(controller, v1::ControllerGetCapabilitiesRequest {}).await? {
            self.services.insert(Service::Controller);
            for capability in answer.capabilities {
                let Some(c::Type::Rpc(rpc)) = capability.r#type else { continue };
                self.capabilities.add("controller", rpc.r#type, sets::Controller(rpc.r#type));
            }
        }
        if let Some(answer) = self.report(controller, v1::GroupControllerGetCapabilitiesRequest {}).await? {
            self.services.insert(Service::GroupController);
            for capability in answer.capabilities {
                let Some(g::Type::Rpc(rpc)) = capability.r#type else { continue };
                self.capabilities.add("group controller", rpc.r#type, sets::Group(rpc.r#type));
            }
        }
        if let Some(answer) = self.report(node, v1::NodeGetCapabilitiesRequest {}).await? {
            self.services.insert(Service::Node);
            add_node_capabilities(&mut self.capabilities, answer);
        }
        self.advertised_services();
        if self.lacks_identity && self.services.len() == 1 {
            let problem = "UNIMPLEMENTED, and so are the other services of csi.v1; this may be the socket of something else, or of a driver for \
                           CSI 0.x, which has other names";
            return Err(not_a_driver(controller, v1::GetPluginInfoRequest::RPC, problem.to_owned()));
        }
        self.versions();
        Ok(())
    }

    /// The ids of the nodes, where there are several. The first one has been asked all that matters; what another one
    /// says otherwise is news.
    pub(super) async fn nodes(
        &mut self,
        info: &v1::GetPluginInfoResponse,
    ) -> Result<Vec<Option<String>>, TargetError> {
        let [first, others @ ..] = self.nodes else { return Ok(Vec::new()) };
        if others.is_empty() {
            return Ok(vec![None]);
        }
        let known = self.node_capabilities(first).await?;
        let mut ids = vec![self.node_id(first).await?];
        for peer in others {
            let other = self.ask(peer, v1::GetPluginInfoRequest {}).await?.unwrap_or_default();
            let node = format!("the node at {}", peer.endpoint);
            if other.name != info.name {
                let (name, first) = (other.name, &info.name);
                self.remarks
                    .push(format!("{node} belongs to the driver {name:?}, and the first one to {first:?}"));
            }
            if self.node_capabilities(peer).await? != known {
                let how = "all are tested by those of the first one";
                self.remarks.push(format!("{node} has other capabilities than the first one; {how}"));
            }
            let id = self.node_id(peer).await?;
            if id.is_some() && ids.contains(&id) {
                self.remarks.push(format!("{node} has the node_id of another node"));
            }
            ids.push(id);
        }
        Ok(ids)
    }

    async fn node_capabilities(&self, peer: &Peer) -> Result<Option<Capabilities>, TargetError> {
        let answer = self.ask(peer, v1::NodeGetCapabilitiesRequest {}).await?;
        Ok(answer.ok().map(|answer| {
            let mut capabilities = Capabilities::default();
            add_node_capabilities(&mut capabilities, answer);
            capabilities
        }))
    }

    async fn node_id(&self, peer: &Peer) -> Result<Option<String>, TargetError> {
        let answer = self.ask(peer, v1::NodeGetInfoRequest::default()).await?;
        Ok(answer.ok().map(|info| info.node_id).filter(|id| !id.is_empty()))
    }

    /// A service that GetPluginCapabilities promises is there to be tested even if its capability call fails.
    fn advertised_services(&mut self) {
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
            self.remarks.push(format!("{unknown} is not known to CSI v1.13 and is not tested"));
        }
    }

    /// Removes capabilities that do not exist in the version that the user wants the driver to be judged by.
    fn versions(&mut self) {
        let newest = self.config.csi_version.newest();
        self.hidden = self.capabilities.keep(newest);
        for later in &self.hidden {
            let preview = match later.versions().first() > Version::RELEASED {
                true => "; --csi-version 1.14-preview tests it",
                false => "",
            };
            self.remarks.push(format!("{later} came after CSI v{newest} and is not tested{preview}"));
        }
        let Some(version) = self.config.csi_version.named() else { return };
        for earlier in self.capabilities.iter().filter(|one| !one.versions().has(version)) {
            self.remarks.push(format!(
                "{earlier} has a number that CSI v{version} reserves; it is judged by its former rules"
            ));
        }
    }

    /// The answer of a service that reports its capabilities. A failure that does not come again is news. If the service fails each time, its
    /// capabilities are unknown. A service that does not exist answers UNIMPLEMENTED, and one that GetPluginCapabilities does not promise may
    /// not exist, whatever the answer is.
    async fn report<Q: UnaryCall>(
        &mut self,
        peer: &Peer,
        request: Q,
    ) -> Result<Option<Q::Response>, TargetError> {
        let rpc = <Q as Call>::RPC;
        let mut answer = self.ask(peer, request.clone()).await?;
        let mut pauses = Pauses::default();
        while let Err(refused) = &answer
            && refused.code != Code::Unimplemented
            && pauses.taken < FAILED_TRIES_MAX
        {
            let refused = refused.clone();
            pauses.pause().await;
            answer = self.ask(peer, request.clone()).await?;
            if answer.is_ok() {
                let once = format!("{rpc} was rejected at first, but not when it was repeated: {refused}");
                self.remarks.push(once);
            }
        }
        if let Err(refused) = &answer
            && (effect::says_nothing(refused.code) || effect::is_not_now(rpc.method, refused.code))
            && self.may_exist(rpc.service)
        {
            self.unreported.insert(rpc.service, format!("{rpc} was rejected: {refused}"));
        }
        Ok(answer.ok())
    }

    /// Returns true if the plugin's capabilities do not exclude a service.
    fn may_exist(&self, service: Service) -> bool {
        let promise = match service {
            Service::Controller => Capability::ControllerService,
            Service::GroupController => Capability::GroupControllerService,
            Service::SnapshotMetadata => Capability::SnapshotMetadataService,
            Service::Identity | Service::Node => return true,
        };
        self.capabilities.has(promise) || self.unreported.contains_key(&Service::Identity)
    }

    /// The answer, or the error with which the driver refused it.
    async fn ask<Q: UnaryCall>(
        &self,
        peer: &Peer,
        request: Q,
    ) -> Result<Result<Q::Response, Refused>, TargetError> {
        let rpc = <Q as Call>::RPC;
        let mut pauses = Pauses::default();
        let answer = loop {
            let ask = Exchange {
                transport: peer.transport.clone(),
                rpc,
                request: request.encode_to_vec(),
                limit: self.config.time_limits.call(rpc.method),
                patience: &self.patience,
                response_rules: &self.response_rules,
                caller: None,
            };
            match ask.unary(call::form::<Q::Response>).await.answer {
                Answer::Refused(refused)
                    if effect::is_not_now(rpc.method, refused.code) && pauses.taken < TRIES_MAX =>
                {
                    pauses.pause().await;
                }
                answer => break answer,
            }
        };
        let problem = match answer {
            Answer::Ok(received) => return Ok(Ok(call::message(&received))),
            // Internal and Unknown are what tonic makes of an answer that is not gRPC.
            Answer::Refused(refused) if refused.code == Code::Unknown && rpc.service == Service::Identity => {
                format!("{} {}", code_name(refused.code), refused.message)
            }
            Answer::Refused(refused) => return Ok(Err(refused)),
            Answer::Unknown(no_answer) => no_answer.to_string(),
        };
        Err(not_a_driver(peer, rpc, problem))
    }
}

fn not_a_driver(peer: &Peer, rpc: Rpc, problem: String) -> TargetError {
    TargetError::NotADriver { endpoint: (*peer.endpoint).clone(), rpc, problem }
}

fn add_node_capabilities(capabilities: &mut Capabilities, answer: v1::NodeGetCapabilitiesResponse) {
    use v1::node_service_capability::Type;
    for capability in answer.capabilities {
        let Some(Type::Rpc(rpc)) = capability.r#type else { continue };
        capabilities.add("node", rpc.r#type, sets::Node(rpc.r#type));
    }
}
