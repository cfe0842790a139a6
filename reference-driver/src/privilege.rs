//! The capabilities of the process.

/// Needed to mount, attach loop devices and freeze file systems.
pub(crate) const CAP_SYS_ADMIN: u32 = 21;
/// Needed to grow a mounted ext4 file system.
pub(crate) const CAP_SYS_RESOURCE: u32 = 24;

pub(crate) fn has_capability(capability: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective(&status).is_some_and(|bits| bits & (1 << capability) != 0)
}

fn effective(status: &str) -> Option<u64> {
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read() {
        assert_eq!(effective("Name:\tx\nCapEff:\t00000000a0200000\n"), Some(0xa020_0000));
        assert_eq!(effective("CapEff:\tzz\n"), None);
        assert_eq!(effective(""), None);
    }
}
