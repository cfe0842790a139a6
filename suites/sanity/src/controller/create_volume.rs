//! CreateVolume: a volume is made, once for each name, as it was asked for.

pub(crate) mod capacity;
pub(crate) mod conflicts;
pub(crate) mod malformed;
pub(crate) mod names;
pub(crate) mod parameters;
pub(crate) mod reply;
pub(crate) mod source;
pub(crate) mod topology;
pub(crate) mod topology_names;
