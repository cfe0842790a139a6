//! Rules of our own for a driver that is replaced by its next version: the specification describes calls to one version.

use csi_harness::spec::requirements::{Level, Reliance, Requirement};

/// The document that explains them.
const SECTION: &str = "csi-sanity's own rules, docs/upgrade.md";

const fn rule(id: &'static str, level: Level, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, level, when, expect)
}

/// The next version starts.
pub(crate) static UPGRADE_001: Requirement = rule(
    "UPGRADE-001",
    Level::Must,
    "the next version of the driver is started with the stored state of the version before",
    "the next version answers",
);

/// The mounts of volumes in use stay.
pub(crate) static UPGRADE_002: Requirement = rule(
    "UPGRADE-002",
    Level::Should,
    "the driver is replaced by its next version, or by the version before again, while a volume is in use",
    "each path of the volume on the node has as many mounts as before",
)
.relied_on_by(&[Reliance {
    component: "kubelet",
    breaks: "it unpublishes once what is mounted twice, and the volume stays on the node; a pod whose mount is gone loses its data directory",
    place: "the volume manager calls NodeUnpublishVolume once for each pod, and repeats NodePublishVolume only where the CSIDriver asks for it",
}]);

/// Objects are reported as before.
pub(crate) static UPGRADE_003: Requirement = rule(
    "UPGRADE-003",
    Level::Must,
    "the driver is replaced by its next version",
    "the next version reports the volumes, snapshots and group snapshots of the version before as that version did",
);

/// Objects can be used.
pub(crate) static UPGRADE_004: Requirement = rule(
    "UPGRADE-004",
    Level::Must,
    "the driver is replaced by its next version",
    "volumes and snapshots of the version before hold their data, and can be published, written, expanded, copied and restored like new ones",
);

/// Objects can be given back.
pub(crate) static UPGRADE_005: Requirement = rule(
    "UPGRADE-005",
    Level::Must,
    "the driver is replaced by its next version",
    "volumes that the version before has published, staged and attached can be unpublished, unstaged and detached, and its objects can be \
     deleted",
);

/// Calls are repeated.
pub(crate) static UPGRADE_006: Requirement = rule(
    "UPGRADE-006",
    Level::Must,
    "a call that the version before has answered with OK is repeated after the driver was replaced by its next version",
    "the answer names the same object, with the same contexts, and nothing is created or mounted a second time",
);

/// New objects are like old ones.
pub(crate) static UPGRADE_007: Requirement = rule(
    "UPGRADE-007",
    Level::Should,
    "the driver is replaced by its next version",
    "capabilities, nodes, and new volumes of an equal request are as before, or the change is announced to its users",
);

/// A first start that is interrupted.
pub(crate) static UPGRADE_008: Requirement = rule(
    "UPGRADE-008",
    Level::Must,
    "the next version of the driver is killed during its first start, and started again",
    "the next version answers, and has all objects of the version before",
);

/// A rolling update.
pub(crate) static UPGRADE_009: Requirement = rule(
    "UPGRADE-009",
    Level::Must,
    "the next version of the driver is started while the version before still answers",
    "nothing is lost that was answered with OK before",
);

/// The way back.
pub(crate) static UPGRADE_010: Requirement = rule(
    "UPGRADE-010",
    Level::Must,
    "a driver that supports a downgrade is replaced by its version before",
    "the version before has the objects of both versions with their data, and can use, release and delete them",
);

/// A rolling update of node plugins.
pub(crate) static UPGRADE_011: Requirement = rule(
    "UPGRADE-011",
    Level::Must,
    "the controller and some node plugins of the driver have the next version, and other node plugins the version before, which the driver \
     supports",
    "volumes of both versions can be used on nodes of both, and hold their data when they move",
);
