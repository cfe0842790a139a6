//! Plays sequences of calls about the content of volumes, each read judged by the model of the stateful suites. A
//! failing sequence is made as short as possible.

use csi_harness::prelude::*;
use csi_model::rules::{GIVEN_UP, RESTARTED};
use csi_suite_stateful::contents;

check! {
    /// Backups are taken of volumes in use, outlive them, and are restored during normal operation. The
    /// source is written, expanded, unpublished and deleted before, while and after a copy is made; copies
    /// are copied; the caller gives up a copy halfway and requests it again.
    COPIES {
        id: "data/sequences/copies",
        title: "copies hold the data of their sources, whatever calls for either come before and after",
        spec: GIVEN_UP,
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
            ROOT,
        ],
        refuted_by: [
            "hostpath/copies-write-through",
            "hostpath/copies-follow-source",
            "hostpath/restores-share",
            "hostpath/deletes-copies-with-source",
            "hostpath/deletes-source-with-copy",
            "hostpath/copies-lose-end",
            "hostpath/copies-shifted",
            "hostpath/copies-damaged",
            "hostpath/restores-at-grown-size",
            "hostpath/restores-demand-grown-size",
            "hostpath/restores-first-snapshot",
            "hostpath/restores-newest-snapshot",
            "hostpath/snapshots-source-of-copy",
            "hostpath/clones-source-of-copy",
            "hostpath/restores-nothing-of-deleted",
            "hostpath/snapshots-miss-use",
            "hostpath/members-hold-first",
            "hostpath/keeps-deleted-snapshots",
            "hostpath/hands-out-half-copies",
            "hostpath/rejected-copy-wipes-namesake",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        contents::copies(cx).await
    }
}

check! {
    /// A driver that confuses two devices or directories is detected only with two volumes: each is written,
    /// unpublished and used again while the other one is in use.
    TWO_VOLUMES {
        id: "data/sequences/two-volumes",
        title: "each of two volumes keeps its data, whatever is done with the other one",
        spec: GIVEN_UP,
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/mixes-up-restaged",
            "hostpath/delete-unmounts-others",
            "hostpath/hands-out-deleted-data",
            "hostpath/expansion-wipes",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        contents::two_volumes(cx).await
    }
}

check! {
    /// Pods come back, to new paths and to paths that already exist, and mounts disappear without a call to
    /// the driver.
    USED_AGAIN {
        id: "data/sequences/used-again",
        title: "a volume that is staged and published again holds the data that were written last",
        spec: GIVEN_UP,
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/reverts-at-restage",
            "hostpath/wipes-at-repeated-creation",
            "hostpath/wipes-at-repeated-staging",
            "hostpath/wipes-at-detach",
            "hostpath/takes-directory-for-published",
            "hostpath/remembers-published",
            "hostpath/refuses-unpublish-without-mount",
            "hostpath/refuses-unstage-without-mount",
            "hostpath/unpublishes-all-targets",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        contents::used_again(cx).await
    }
}

check! {
    /// Drivers round sizes, and not everywhere in the same way. Devices are measured, and their last block is
    /// written.
    SIZES {
        id: "data/sequences/sizes",
        title: "volumes of odd sizes are as large as CreateVolume has returned",
        spec: GIVEN_UP,
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: [
            "hostpath/rounds-down",
            "hostpath/exceeds-limit",
            "hostpath/loses-end",
        ],
        duplicate_of: "*",
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        contents::sizes(cx).await
    }
}

check! {
    /// Workloads continue while a driver is updated, so their volumes are examined before anything is staged
    /// again.
    DRIVER_KILLED {
        id: "data/sequences/driver-killed",
        title: "volumes hold their data when the driver is killed while they are in use or are copied",
        spec: RESTARTED,
        needs: [NODE, CREATE_DELETE_VOLUME, RESTARTS, ROOT],
        refuted_by: [
            "hostpath/unmounts-at-start",
            "hostpath/start-takes-half-a-copy-for-whole",
        ],
        duplicate_of: "*",
        runs: KillsUnderLoad,
        access: Each,
        varies: true,
    }
    async |cx| {
        contents::driver_killed(cx).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&COPIES, &TWO_VOLUMES, &USED_AGAIN, &SIZES, &DRIVER_KILLED];
