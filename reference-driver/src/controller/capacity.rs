//! GetCapacity.

use csi_proto::v1::{GetCapacityRequest, GetCapacityResponse};

use super::create_volume::Parameters;
use super::{signed, topology};
use crate::backend;
use crate::capability::Capability;
use crate::driver::Driver;
use crate::error::Result;

pub(crate) fn get_capacity(driver: &Driver, request: &GetCapacityRequest) -> Result<GetCapacityResponse> {
    let capabilities =
        request.volume_capabilities.iter().map(Capability::parse).collect::<Result<Vec<Capability>>>()?;
    // COs send the parameters of a storage class unfiltered, with keys that CreateVolume never gets, so only our own
    // keys are read.
    let parameters = Parameters::read(|key| request.parameters.get(key), &driver.config);
    let elsewhere = request.accessible_topology.as_ref().is_some_and(|at| !topology::covers(driver, at));
    let available = match parameters {
        Ok(parameters) if !elsewhere => {
            let chosen = backend::choose(driver, parameters.backend(), &capabilities);
            match backend::unfit(driver, chosen, &capabilities) {
                None => driver.ledger.available_bytes(parameters.pool())?,
                Some(_) => 0,
            }
        }
        Ok(_) => 0,
        Err(_) if request.parameters.contains_key("kind") => 0, // A pool that does not exist has no room.
        Err(error) => return Err(error),
    };
    Ok(GetCapacityResponse {
        available_capacity: signed(available),
        maximum_volume_size: Some(signed(available.min(driver.config.max_volume_bytes))),
        minimum_volume_size: Some(0),
    })
}
