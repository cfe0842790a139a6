//! Which backend a volume gets.

use crate::capability::Capability;
use crate::driver::Driver;
use crate::fs::FsType;
use crate::store::Backend;

/// The backend for a volume without a source: that of the access type, the one asked for, an image where a capability
/// names a file system that directories on this host do not have, and otherwise the default.
pub(crate) fn choose(driver: &Driver, asked: Option<Backend>, capabilities: &[Capability]) -> Backend {
    let foreign = |capability: &Capability| {
        let fs_type = capability.fs_type();
        !fs_type.is_empty() && fs_type != driver.host_fs_type && FsType::parse(fs_type).is_some()
    };
    if capabilities.iter().any(Capability::is_block) {
        return Backend::Block;
    }
    asked.unwrap_or_else(|| {
        if driver.privileged && capabilities.iter().any(foreign) {
            Backend::Image
        } else {
            driver.config.backend
        }
    })
}

/// Why no volume can be used in all of these ways, if none can.
pub(crate) fn unfit(driver: &Driver, backend: Backend, capabilities: &[Capability]) -> Option<String> {
    capabilities.iter().find_map(|capability| capability.unfit_for_backend(backend, &driver.host_fs_type))
}
