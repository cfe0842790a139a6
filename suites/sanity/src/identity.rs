//! Checks of the Identity service.

pub(crate) mod every_endpoint;
pub(crate) mod get_plugin_capabilities;
pub(crate) mod get_plugin_info;
pub(crate) mod probe;

use csi_harness::checks::check::Check;

pub(crate) const CHECKS: &[&[&Check]] =
    &[get_plugin_info::CHECKS, get_plugin_capabilities::CHECKS, probe::CHECKS, every_endpoint::CHECKS];
