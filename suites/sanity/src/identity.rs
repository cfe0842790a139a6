//! Checks of the Identity service.

pub(crate) mod every_endpoint;
pub(crate) mod get_plugin_capabilities;
pub(crate) mod get_plugin_info;
pub(crate) mod probe;
