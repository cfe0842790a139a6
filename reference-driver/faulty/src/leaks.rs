//! Defects that leave a resource of the machine with each call. What they leave lies in the directory of the driver, where tests remove it.

use std::fs;
use std::process::Command;

use rustix::mount::mount_bind;

use crate::{Defect, Faults};

/// Mounts and loop devices that one call leaves.
const MOUNTS: usize = 3;
const LOOP_DEVICES: usize = 2;
/// The most mounts and loop devices that stay, so that tests of this driver do not exhaust the machine.
const MOUNTS_MAX: usize = 5_000;
const LOOP_DEVICES_MAX: usize = 1_500;
const LOOP_DEVICE_BYTES: u64 = 1 << 20;

/// The numbers of resources that were left.
#[derive(Debug, Default)]
pub(crate) struct Leaks {
    mounts: usize,
    loop_devices: usize,
}

impl Faults {
    /// Leaves mounts, one over the other, as a driver does that mounts something to look at it.
    pub(crate) fn leave_mounts(&self, leaks: &mut Leaks) {
        if !self.has(Defect::LeavesMounts) {
            return;
        }
        let point = self.driver.state_dir().join("left-mounts");
        fs::create_dir_all(&point).unwrap();
        for _ in 0..MOUNTS.min(MOUNTS_MAX - leaks.mounts) {
            mount_bind(&point, &point).unwrap();
            leaks.mounts += 1;
        }
    }

    /// Leaves loop devices, all of one file.
    pub(crate) fn leave_loop_devices(&self, leaks: &mut Leaks) {
        if !self.has(Defect::LeavesLoopDevices) {
            return;
        }
        let file = self.driver.state_dir().join("left-loop-devices");
        if !file.exists() {
            fs::File::create(&file).unwrap().set_len(LOOP_DEVICE_BYTES).unwrap();
        }
        for _ in 0..LOOP_DEVICES.min(LOOP_DEVICES_MAX - leaks.loop_devices) {
            // A machine without a free device is no reason to fail.
            let attached = Command::new("losetup").arg("--find").arg(&file).status();
            leaks.loop_devices += usize::from(attached.is_ok_and(|status| status.success()));
        }
    }
}
