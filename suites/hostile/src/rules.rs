//! Rules of our own for hostile input, which the specification omits because they are obvious. They only apply if an
//! effect left its intended place.

use csi_harness::spec::requirements::{Level, Requirement};

const SECTION: &str = "csi-sanity's own rules, docs/hostile.md";

const fn rule(id: &'static str, level: Level, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own(SECTION, id, level, when, expect)
}

/// Files and mounts outside of the driver's paths.
pub static HOSTILE_PATH_001: Requirement = rule(
    "HOSTILE-PATH-001",
    Level::Must,
    "a text in a request looks like a path, or contains ..",
    "nothing is created, changed or removed outside the objects of the request",
);

/// Texts run as commands.
pub static HOSTILE_COMMAND_001: Requirement = rule(
    "HOSTILE-COMMAND-001",
    Level::Must,
    "a text in a request looks like a command",
    "the text is not executed, and does not become an option of a command",
);

/// Texts that become mount options.
pub static HOSTILE_MOUNT_001: Requirement = rule(
    "HOSTILE-MOUNT-001",
    Level::Must,
    "a text in a request that is not a mount flag looks like mount options",
    "the volume is not mounted with them",
);

/// Secrets in logs, in fields that are not marked as secret.
pub static HOSTILE_SECRET_001: Requirement = rule(
    "HOSTILE-SECRET-001",
    Level::Should,
    "volume_context carries tokens of a workload, under the keys that Kubernetes uses for them",
    "the tokens are kept out of logs, errors and responses",
);

/// Status codes that do not name the problem.
pub static HOSTILE_CODE_001: Requirement = rule(
    "HOSTILE-CODE-001",
    Level::Should,
    "a request is nonsense",
    "the request is rejected with a suitable code, and not with INTERNAL or UNKNOWN",
);

/// A rejected request has no effect.
pub static HOSTILE_EFFECT_001: Requirement = rule(
    "HOSTILE-EFFECT-001",
    Level::Must,
    "a request is rejected as invalid",
    "the request creates nothing, and objects that existed before still exist",
);

/// Growth of memory, files and threads.
pub static HOSTILE_GROWTH_001: Requirement = rule(
    "HOSTILE-GROWTH-001",
    Level::Should,
    "many requests were rejected, or connections broken",
    "memory, open files and threads are released",
);

/// Other calls get answers in time.
pub static HOSTILE_TIME_001: Requirement = rule(
    "HOSTILE-TIME-001",
    Level::Should,
    "one caller sends nonsense, or reads and writes slowly",
    "other callers are answered in time",
);

/// Foreign files at a target path.
pub static HOSTILE_PATH_002: Requirement = rule(
    "HOSTILE-PATH-002",
    Level::Should,
    "a path to unpublish or unstage is not a mount of the driver, and holds files or links to files",
    "the files stay, because the driver did not create them",
);

/// A link in place of a target.
pub static HOSTILE_PATH_003: Requirement = rule(
    "HOSTILE-PATH-003",
    Level::Should,
    "a symbolic link is in place of a target path",
    "the file or directory that it points to does not change",
);

/// A link above a target.
pub static HOSTILE_PATH_004: Requirement = rule(
    "HOSTILE-PATH-004",
    Level::Should,
    "a volume is published and unpublished at a path that leads through a symbolic link, for example because kubelet's directory is one",
    "nothing of the volume remains",
);

/// Data of the host in a copy.
pub static HOSTILE_COPY_001: Requirement = rule(
    "HOSTILE-COPY-001",
    Level::Must,
    "a volume that contains symbolic links is copied",
    "links stay links, and their targets are neither read nor changed",
);

/// Ids of other volumes.
pub static HOSTILE_ID_001: Requirement = rule(
    "HOSTILE-ID-001",
    Level::Must,
    "the name of a volume is the id of another object, or the name of a snapshot",
    "the volume is a separate object, and the other object does not change",
);

/// Ids inside longer texts.
pub static HOSTILE_ID_002: Requirement = rule(
    "HOSTILE-ID-002",
    Level::Should,
    "an id contains the id of an object, with something before or after it",
    "the id does not refer to that object, because the driver never returned such an id",
);

/// Ids that no object has.
pub static HOSTILE_ID_003: Requirement = rule(
    "HOSTILE-ID-003",
    Level::Should,
    "an id differs from the id of an object in one letter, or is a part of it",
    "the id does not refer to that object, because ids are compared as a whole",
);

/// Ids of objects of another kind.
pub static HOSTILE_ID_004: Requirement = rule(
    "HOSTILE-ID-004",
    Level::Should,
    "the id of a volume is given as snapshot_id, or the id of a snapshot as volume_id",
    "no such object exists, and the other one does not change",
);

/// Volumes that are used concurrently.
pub static HOSTILE_MIX_001: Requirement = rule(
    "HOSTILE-MIX-001",
    Level::Must,
    "several volumes are published at the same time",
    "each path shows its own volume",
);

pub static ALL: &[&Requirement] = &[
    &HOSTILE_PATH_001,
    &HOSTILE_COMMAND_001,
    &HOSTILE_MOUNT_001,
    &HOSTILE_SECRET_001,
    &HOSTILE_CODE_001,
    &HOSTILE_EFFECT_001,
    &HOSTILE_GROWTH_001,
    &HOSTILE_TIME_001,
    &HOSTILE_PATH_002,
    &HOSTILE_PATH_003,
    &HOSTILE_PATH_004,
    &HOSTILE_COPY_001,
    &HOSTILE_ID_001,
    &HOSTILE_ID_002,
    &HOSTILE_ID_003,
    &HOSTILE_ID_004,
    &HOSTILE_MIX_001,
];
