//! What defects do to requests and answers, an RPC to a file. Each function stands between the service and the handler
//! of its RPC, which knows nothing of it; the few defects that change what happens to the state stand in the handlers.

mod controller_publish_volume;
mod create_volume;
mod delete_volume;
mod list_volumes;
mod overlap;

use std::collections::BTreeMap;

use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::{self};
use tonic::{Code, Status};

use crate::state::Map;
use crate::validate;

pub(crate) use self::controller_publish_volume::controller_publish_volume;
pub(crate) use self::create_volume::create_volume;
pub(crate) use self::delete_volume::delete_volume;
pub(crate) use self::list_volumes::list_volumes;
pub(crate) use self::overlap::Glance;

const GIB: i64 = 1 << 30;

/// The answer with another code, if it has this one.
fn recode<T>(answer: &mut Result<T, Status>, from: Code, to: Code) {
    if let Err(status) = answer
        && status.code() == from
    {
        *status = Status::new(to, status.message());
    }
}

/// A capability that every volume has, in place of one that is missing or incomplete.
fn plain_capability() -> v1::VolumeCapability {
    v1::VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter as i32 }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// Leaves out what the driver does not understand.
fn drop_unknown(parameters: &mut Map, known: &[String]) {
    let understood = |key: &String, value: &mut String| {
        let one = BTreeMap::from([(key.clone(), value.clone())]);
        validate::known_parameters("parameters", &one, known).is_ok()
    };
    parameters.retain(understood);
}

/// Whether a careless driver can print the name.
pub(crate) fn is_plain(name: Option<&str>) -> bool {
    name.is_none_or(|name| name.chars().all(|c| c.is_ascii_graphic()))
}
