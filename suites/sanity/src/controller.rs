//! Checks of the Controller service.

pub(crate) mod create_volume;
pub(crate) mod delete_volume;
pub(crate) mod interplay;
pub(crate) mod list_volumes;
