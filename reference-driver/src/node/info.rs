//! NodeGetCapabilities and NodeGetInfo.

use csi_proto::v1::node_service_capability::rpc::Type as Rpc;
use csi_proto::v1::node_service_capability::{self, Type};
use csi_proto::v1::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeServiceCapability,
};

use crate::controller::node_topology;
use crate::driver::Driver;
use crate::error::Result;
use crate::ids::{ObjectId, ObjectKind};

/// The largest reported number if the attach limit is to vary.
const VARYING_LIMIT_MAX: usize = 10;

pub(crate) fn node_get_capabilities(
    driver: &Driver,
    _: &NodeGetCapabilitiesRequest,
) -> Result<NodeGetCapabilitiesResponse> {
    let offered = [
        (true, Rpc::StageUnstageVolume),
        (true, Rpc::GetVolumeStats),
        (true, Rpc::VolumeCondition),
        (true, Rpc::GetVolumeHealth),
        (true, Rpc::GetStorageHealth),
        (driver.config.node_expansion, Rpc::ExpandVolume),
        (true, Rpc::SingleNodeMultiWriter),
        (driver.privileged && driver.config.mount_group, Rpc::VolumeMountGroup),
    ];
    let capabilities = offered.into_iter().filter(|(offered, _)| *offered).map(|(_, rpc)| {
        let rpc = node_service_capability::Rpc { r#type: rpc.into() };
        NodeServiceCapability { r#type: Some(Type::Rpc(rpc)) }
    });
    Ok(NodeGetCapabilitiesResponse { capabilities: capabilities.collect() })
}

pub(crate) fn node_get_info(driver: &Driver, _: &NodeGetInfoRequest) -> Result<NodeGetInfoResponse> {
    let config = &driver.config;
    let max_volumes_per_node = match config.attach_limit {
        0 => config.max_volumes_per_node,
        -1 => varying_limit()?,
        limit => limit,
    };
    Ok(NodeGetInfoResponse {
        node_id: config.node_id.clone(),
        max_volumes_per_node,
        accessible_topology: node_topology(driver),
    })
}

/// Returns a limit that differs from call to call, to test COs that have to notice changes.
fn varying_limit() -> Result<i64> {
    let random = ObjectId::generate(ObjectKind::Volume)?;
    let sum: usize = random.as_str().bytes().map(usize::from).sum();
    Ok(1 + i64::try_from(sum % VARYING_LIMIT_MAX).unwrap_or(0))
}
