//! Checks the Identity service, and the capabilities of all services.

use csi_mock_driver::{Config, CsiVersion};
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::identity_server::Identity as _;
use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::{self};
use tonic::{Code, Request};

use crate::support::{code, driver, empty, ok, volume_request, with};

#[tokio::test]
async fn the_plugin_reports_name_and_version() {
    let driver = driver();
    let info = ok(driver.get_plugin_info(Request::new(v1::GetPluginInfoRequest {})).await);
    assert_eq!(info.name, "mock.csi-sanity.example");
    assert!(!info.vendor_version.is_empty());
    let probe = ok(driver.probe(Request::new(v1::ProbeRequest {})).await);
    assert_eq!(probe.ready, Some(true));
    let capabilities =
        ok(driver.get_plugin_capabilities(Request::new(v1::GetPluginCapabilitiesRequest {})).await);
    assert_eq!(capabilities.capabilities.len(), 7);
}

#[tokio::test]
async fn missing_capability_is_not_advertised() {
    let driver = with(Config {
        without: vec!["CREATE_DELETE_VOLUME".parse().unwrap(), "Node.EXPAND_VOLUME".parse().unwrap()],
        ..Config::default()
    });
    assert_eq!(code(driver.create_volume(Request::new(volume_request("a"))).await), Code::Unimplemented);
    assert_eq!(code(driver.delete_volume(empty()).await), Code::Unimplemented);
    assert_eq!(code(driver.node_expand_volume(empty()).await), Code::Unimplemented);
    assert_eq!(code(driver.list_volumes(empty()).await), Code::Ok);
    let advertised = ok(driver.controller_get_capabilities(empty()).await).capabilities;
    assert_eq!(advertised.len(), 16);
}

#[tokio::test]
async fn a_version_leaves_out_what_only_the_other_one_has() {
    for (csi_version, health, condition, node_info) in [
        (CsiVersion::V1_12, Code::Unimplemented, true, Code::Unimplemented),
        (CsiVersion::V1_13, Code::Ok, false, Code::Unimplemented),
        (CsiVersion::Both, Code::Ok, true, Code::Unimplemented),
        (CsiVersion::V1_14Preview, Code::Ok, true, Code::Ok),
    ] {
        let driver = with(Config { csi_version, ..Config::default() });
        let of_node = v1::ControllerGetNodeInfoRequest { node_id: "node-1".to_owned() };
        let answer = driver.controller_get_node_info(Request::new(of_node)).await;
        assert_eq!(code(answer), node_info, "{csi_version:?}");
        assert_eq!(code(driver.controller_list_volume_health(empty()).await), health, "{csi_version:?}");
        assert_eq!(code(driver.node_get_storage_health(empty()).await), health, "{csi_version:?}");
        let advertised = ok(driver.controller_get_capabilities(empty()).await).capabilities;
        let numbers: Vec<i32> = advertised
            .into_iter()
            .map(|one| match one.r#type.unwrap() {
                v1::controller_service_capability::Type::Rpc(rpc) => rpc.r#type,
            })
            .collect();
        assert_eq!(numbers.contains(&11), condition, "{csi_version:?}");
        assert_eq!(numbers.contains(&16), health == Code::Ok, "{csi_version:?}");
    }
}

#[tokio::test]
async fn only_brings_what_it_needs() {
    let driver = with(Config { only: vec!["LIST_VOLUMES".parse().unwrap()], ..Config::default() });
    assert_eq!(ok(driver.controller_get_capabilities(empty()).await).capabilities.len(), 1);
    assert_eq!(ok(driver.get_plugin_capabilities(empty()).await).capabilities.len(), 1);
    assert!(ok(driver.node_get_capabilities(empty()).await).capabilities.is_empty());
    assert_eq!(code(driver.get_capacity(empty()).await), Code::Unimplemented);
}

#[tokio::test]
async fn the_node_reports_id_limit_and_topology() {
    let info = ok(driver().node_get_info(empty()).await);
    assert_eq!(info.node_id, "node-1");
    assert_eq!(info.max_volumes_per_node, 64);
    let segments = info.accessible_topology.unwrap().segments;
    assert_eq!(segments.get("mock.csi-sanity.example/zone").map(String::as_str), Some("zone-a"));
    let flat = with(Config {
        without: vec!["VOLUME_ACCESSIBILITY_CONSTRAINTS".parse().unwrap()],
        ..Config::default()
    });
    assert_eq!(ok(flat.node_get_info(empty()).await).accessible_topology, None);
}
