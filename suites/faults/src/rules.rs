//! Rules of our own for drivers whose machine fails, which the specification does not treat. Rules about lost data, and
//! about work that is reported as done and is not, are binding; rules that kubelet and the sidecars rely on are binding
//! under their profile; all others only warn.

use csi_harness::spec::requirements::{Level, Reliance, Requirement, Testability};

/// The document in which these rules are written.
const SECTION: &str = "csi-sanity's own rules, docs/faults.md";

const fn rule(id: &'static str, level: Level, when: &'static str, expect: &'static str) -> Requirement {
    Requirement { test: Testability::Restart, ..Requirement::own(SECTION, id, level, when, expect) }
}

/// Data survive.
pub static FAULT_DATA_001: Requirement = rule(
    "FAULT-DATA-001",
    Level::Must,
    "a command, a device or the machine fails while a volume is staged, published, expanded or unpublished",
    "everything that a workload has made durable in it still exists: a volume that has data is never formatted or emptied",
);

/// OK means done.
pub static FAULT_DONE_001: Requirement = rule(
    "FAULT-DONE-001",
    Level::Must,
    "a call is answered with OK although something failed during the call",
    "the work of the call is done",
);

/// Calls succeed in the end.
pub static FAULT_HEAL_001: Requirement = rule(
    "FAULT-HEAL-001",
    Level::Should,
    "the failed part works again, and the call is repeated",
    "the call succeeds after a short time and without intervention",
)
.relied_on_by(&[Reliance {
    component: "kubelet",
    breaks: "one failure keeps a pod from ever starting or ending",
    place: "makes the same call again after an error, and nothing else",
}]);

/// The code fits the failure.
pub static FAULT_CODE_001: Requirement = rule(
    "FAULT-CODE-001",
    Level::Should,
    "a correct request fails because of another failure",
    "the code does not mean that the request is wrong or that the RPC is not implemented, and is not UNKNOWN",
);

/// Calls end in time.
pub static FAULT_TIME_001: Requirement = rule(
    "FAULT-TIME-001",
    Level::Should,
    "a command or a system call fails without hanging",
    "the call is answered in time",
);

/// Other objects are not affected.
pub static FAULT_OTHERS_001: Requirement = rule(
    "FAULT-OTHERS-001",
    Level::Should,
    "a command or a system call fails or hangs that a call for one volume needs",
    "calls for other volumes that do not need it are answered",
);

/// Mounts outlive the driver.
pub static FAULT_MOUNT_001: Requirement = rule(
    "FAULT-MOUNT-001",
    Level::Should,
    "the driver ends and is started again while a volume is in use",
    "the volume stays mounted where its workload uses it",
)
.relied_on_by(&[Reliance {
    component: "kubelet",
    breaks: "each pod that uses a volume loses it when the driver crashes or is updated",
    place: "does not publish a volume again for a container that is still running",
}]);

/// Nothing is left behind.
pub static FAULT_LEFT_001: Requirement = rule(
    "FAULT-LEFT-001",
    Level::Should,
    "a volume is deleted after a failure during its life",
    "no more of it remains than without the failure: no mount, loop device, file or volume",
);

pub static ALL: &[&Requirement] = &[
    &FAULT_DATA_001,
    &FAULT_DONE_001,
    &FAULT_HEAL_001,
    &FAULT_CODE_001,
    &FAULT_TIME_001,
    &FAULT_OTHERS_001,
    &FAULT_MOUNT_001,
    &FAULT_LEFT_001,
];
