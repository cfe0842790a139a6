//! A driver, and what the model is told of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use csi_harness::config::AccessType;
use csi_harness::lifecycle::volume_capability::Mode;
use csi_harness::protocol::capability::Capability;
use csi_mock_driver::{Config, MockDriver, NodeConfig};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::group_controller_server::GroupController as _;
use csi_proto::v1::identity_server::Identity as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::{self, plugin_capability};
use csi_suite_stateful::model::call::Usage;
use csi_suite_stateful::model::call_context::DriverProfile;
use tonic::Request;

use crate::CANARY;

pub(super) const NODES: u8 = 2;
const MIB: i64 = 1 << 20;
/// What drivers are without, each bit of a byte one of these.
const WITHOUT: [&str; 8] = [
    "STAGE_UNSTAGE_VOLUME",
    "PUBLISH_UNPUBLISH_VOLUME",
    "CREATE_DELETE_SNAPSHOT",
    "CLONE_VOLUME",
    "LIST_VOLUMES",
    "PUBLISH_READONLY",
    "Controller.EXPAND_VOLUME",
    "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT",
];
/// What a driver with the canary does.
const DEFECT: &str = "controller-unpublish-detaches-all-nodes";

/// A driver without what the bits say.
pub(super) async fn ground(without: u8) -> (DriverProfile, Arc<MockDriver>) {
    let left_out = (0..).zip(WITHOUT).filter(|(bit, _)| without & (1 << bit) != 0);
    let defect = CANARY.then(|| DEFECT.parse().expect("the id of a defect"));
    let config = Config {
        without: left_out.map(|(_, name)| name.parse().expect("the name of a capability")).collect(),
        nodes: (0..NODES)
            .map(|number| NodeConfig { id: node_id(number), topology: Default::default() })
            .collect(),
        seed: Some(1),
        defects: defect.into_iter().collect(),
        ..Config::default()
    };
    let driver = MockDriver::new(config).expect("a driver in memory");
    let usage = |mode| Usage { access: AccessType::Mount, mode };
    let profile = DriverProfile {
        capabilities: advertised(&driver).await,
        settle: Duration::ZERO,
        lists_lag: false,
        usages: vec![usage(Mode::SingleNodeWriter), usage(Mode::MultiNodeMultiWriter)],
        size_bytes: MIB,
        larger_bytes: 2 * MIB,
        names: 4,
        nodes: NODES,
        targets: 2,
        parameters: 2,
        mutable_parameters: 1,
        known: Default::default(),
    };
    (profile, driver)
}

pub(super) fn node_id(number: u8) -> String {
    format!("node-{number}")
}

/// What the driver says that it can do, by the names of the protocol.
async fn advertised(driver: &MockDriver) -> BTreeSet<Capability> {
    let plugin = driver.get_plugin_capabilities(Request::new(v1::GetPluginCapabilitiesRequest {})).await;
    let plugin =
        plugin.expect("an answer").into_inner().capabilities.into_iter().filter_map(|one| one.r#type);
    let plugin = plugin.map(|one| match one {
        plugin_capability::Type::Service(service) => service.r#type().as_str_name().to_owned(),
        plugin_capability::Type::VolumeExpansion(expansion) => expansion.r#type().as_str_name().to_owned(),
    });
    let controller =
        driver.controller_get_capabilities(Request::new(v1::ControllerGetCapabilitiesRequest {})).await;
    let controller =
        controller.expect("an answer").into_inner().capabilities.into_iter().filter_map(|one| one.r#type);
    let controller = controller
        .map(|v1::controller_service_capability::Type::Rpc(rpc)| rpc.r#type().as_str_name().to_owned());
    let group = driver
        .group_controller_get_capabilities(Request::new(v1::GroupControllerGetCapabilitiesRequest {}))
        .await;
    let group = group
        .map(|reply| reply.into_inner().capabilities)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|one| one.r#type);
    let group = group
        .map(|v1::group_controller_service_capability::Type::Rpc(rpc)| rpc.r#type().as_str_name().to_owned());
    let node = driver.node_get_capabilities(Request::new(v1::NodeGetCapabilitiesRequest {})).await;
    let node = node.expect("an answer").into_inner().capabilities.into_iter().filter_map(|one| one.r#type);
    let node = node.map(|v1::node_service_capability::Type::Rpc(rpc)| {
        // The name that the controller has, too, is told from its by a prefix.
        let (plain, prefixed) = (rpc.r#type().as_str_name(), format!("Node.{}", rpc.r#type().as_str_name()));
        if Capability::ALL.iter().any(|known| known.name() == prefixed) { prefixed } else { plain.to_owned() }
    });
    let names: BTreeSet<String> = plugin.chain(controller).chain(group).chain(node).collect();
    Capability::ALL.iter().copied().filter(|known| names.contains(known.name())).collect()
}
