//! Rules of our own for volumes in use: the specification describes calls, and says nothing about the workload that has the volume.

use csi_harness::spec::requirements::{Level, Reliance, Requirement};

/// The document that explains them.
const SECTION: &str = "csi-sanity's own rules, docs/in-use.md";

const fn rule(id: &'static str, level: Level, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, level, when, expect)
}

/// The workload goes on.
pub static IN_USE_001: Requirement = rule(
    "IN-USE-001",
    Level::Must,
    "a call for a volume in use, or for its copies, is made",
    "the workload meets no error, its file system does not stay frozen, and the volume keeps everything that was durable",
);

/// The workload is not stopped for long.
pub static IN_USE_002: Requirement = rule(
    "IN-USE-002",
    Level::Should,
    "a call for a volume in use is made",
    "no write of the workload takes longer than time-limits: stall-ms",
)
.relied_on_by(&[Reliance {
    component: "pods",
    breaks: "a database whose log cannot be written is restarted by its liveness probe, or gives up its lead",
    place: "kubelet's probes, and the leases of the programs in pods",
}]);

/// A copy has everything that was durable.
pub static IN_USE_003: Requirement = rule(
    "IN-USE-003",
    Level::Must,
    "a snapshot or a clone of a volume in use is made",
    "the copy holds everything that was durable before the call was sent",
);

/// A copy has nothing else.
pub static IN_USE_004: Requirement = rule(
    "IN-USE-004",
    Level::Must,
    "a snapshot or a clone of a volume in use is made",
    "the copy holds nothing of another volume, and nothing that was written after the snapshot was ready or the clone was returned",
);

/// A copy is crash-consistent.
pub static IN_USE_005: Requirement = rule(
    "IN-USE-005",
    Level::Should,
    "a snapshot or a clone of a volume in use is made",
    "the copy holds the volume as it was at one moment, as after a power failure",
)
.relied_on_by(&[Reliance {
    component: "databases in pods",
    breaks: "a database that is restored finds pages that its log does not know, and does not start",
    place: "the recovery of databases, which expects writes in the order in which they were made durable",
}]);

/// Members of a group are of one moment.
pub static IN_USE_006: Requirement = rule(
    "IN-USE-006",
    Level::Should,
    "a group snapshot of volumes in use is made",
    "no member holds a record that was begun after another member's cut",
)
.relied_on_by(&[Reliance {
    component: "programs with several volumes",
    breaks: "the log of a database and its data are restored from different moments",
    place: "group snapshots, which exist for this",
}]);

/// Mounts outlive the driver.
pub static IN_USE_007: Requirement = rule(
    "IN-USE-007",
    Level::Should,
    "the driver ends and is started again while a volume is in use",
    "the files that the workload has open, and the path of the volume, still work",
)
.relied_on_by(&[Reliance {
    component: "kubelet",
    breaks: "each pod that uses a volume loses it when the driver crashes or is updated",
    place: "does not restart a container because its volume was mounted again",
}]);

/// Calls are done once the driver goes on.
pub static IN_USE_008: Requirement = rule(
    "IN-USE-008",
    Level::Should,
    "the driver's processes are stopped for a while during a call for a volume in use",
    "the call succeeds, or succeeds when it is repeated",
)
.relied_on_by(&[Reliance {
    component: "external-snapshotter and external-provisioner",
    breaks: "a snapshot or a clone is never ready, although the driver runs again",
    place: "make the same call again after an error or a deadline, and nothing else",
}]);

/// Data do not go through the driver's processes.
pub static IN_USE_009: Requirement = rule(
    "IN-USE-009",
    Level::Should,
    "the driver's processes are stopped during a call for a volume in use",
    "the workload does not wait for them",
);

/// Volumes move to other nodes.
pub static IN_USE_010: Requirement = rule(
    "IN-USE-010",
    Level::Should,
    "a volume is detached from a node that it has left, and attached to another node by an independent caller",
    "both calls succeed once they are repeated, also if the detach is repeated after the attach",
)
.relied_on_by(&[Reliance {
        component: "external-attacher",
        breaks: "the pod does not start on its new node, or its old node is never free of the volume",
        place: "makes both calls for different VolumeAttachments, and repeats each until the answer is OK",
    }]);

/// Health is reported as it is.
pub static IN_USE_011: Requirement = rule(
    "IN-USE-011",
    Level::Should,
    "a workload uses a volume, or its file system has become read-only",
    "the driver reports a problem of the volume only in the second case",
);
