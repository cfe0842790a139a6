//! Checks that need a machine and a back end that may be lost: their ids may be those of other people's objects, or
//! name everything that a driver has.

use csi_harness::prelude::*;

use super::foreign::{Deletes, snapshot_outlives, volume_outlives};
use crate::rules::{HOSTILE_ID_003, HOSTILE_PATH_001};

check! {
    /// A driver that finds volumes by a prefix, or compares only part of an id, deletes another volume when an id is
    /// truncated on its way.
    NEAR_VOLUMES {
        id: "hostile/harm/near-volume-ids",
        title: "deleting an id that differs in one letter from the id of a volume leaves that volume in place",
        spec: [HOSTILE_ID_003],
        needs: [CREATE_DELETE_VOLUME, DESTRUCTIVE],
        refuted_by: ["delete-volume-completes-ids", "delete-volume-ignores-last-letters"],
        runs: CrashProne,
    }
    async |cx| { volume_outlives(cx, Deletes::Volume, near).await }
}

check! {
    /// A driver that finds snapshots by a prefix, or compares only part of an id, deletes another snapshot when an id is truncated on its
    /// way.
    NEAR_SNAPSHOTS {
        id: "hostile/harm/near-snapshot-ids",
        title: "deleting an id that differs in one letter from the id of a snapshot leaves that snapshot in place",
        spec: [HOSTILE_ID_003],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, DESTRUCTIVE],
        refuted_by: ["delete-snapshot-completes-ids"],
        runs: CrashProne,
    }
    async |cx| { snapshot_outlives(cx, Deletes::Snapshot, near).await }
}

check! {
    /// The directory of a volume is often the driver's own directory with the id appended. With a dot as the id, that
    /// is the directory of all volumes.
    VOLUMES_ROOT {
        id: "hostile/harm/root-as-volume-id",
        title: "a dot or a slash as a volume id deletes no other volume",
        spec: [HOSTILE_PATH_001],
        needs: [CREATE_DELETE_VOLUME, DESTRUCTIVE],
        refuted_by: ["delete-volume-takes-dots-for-all"],
        runs: CrashProne,
    }
    async |cx| { volume_outlives(cx, Deletes::Volume, |_| roots()).await }
}

check! {
    /// The directory of a snapshot is often the driver's own directory with the id appended. With a dot as the id, that is the directory of
    /// all snapshots.
    SNAPSHOTS_ROOT {
        id: "hostile/harm/root-as-snapshot-id",
        title: "a dot or a slash as a snapshot id deletes no other snapshot",
        spec: [HOSTILE_PATH_001],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, DESTRUCTIVE],
        refuted_by: ["delete-snapshot-takes-dots-for-all"],
        runs: CrashProne,
    }
    async |cx| { snapshot_outlives(cx, Deletes::Snapshot, |_| roots()).await }
}

/// Returns the id with one letter changed, and parts of it. Letters keep their case, which some back ends ignore.
fn near(id: &str) -> Vec<String> {
    let letters: Vec<char> = id.chars().collect();
    let (length, changed) = (letters.len(), |at: usize| {
        let mut letters = letters.clone();
        letters[at] = next(letters[at]);
        letters.iter().collect::<String>()
    });
    let part = |from: usize, to: usize| letters[from..to].iter().collect::<String>();
    let all = match length {
        0 => Vec::new(),
        _ => vec![
            changed(length - 1),
            changed(length / 2),
            changed(0),
            part(0, length - 1),
            part(0, length.div_ceil(2)),
            part(1, length),
        ],
    };
    // An empty id is the subject of other checks.
    all.into_iter().filter(|text| !text.is_empty() && text != id).collect()
}

/// Returns the next letter or digit of this kind.
fn next(letter: char) -> char {
    match letter {
        'z' => 'a',
        'Z' => 'A',
        '9' => '0',
        'a'..='y' | 'A'..='Y' | '0'..='8' => char::from_u32(letter as u32 + 1).unwrap_or('x'),
        _ => 'x',
    }
}

/// Returns ids that, joined to the driver's own directory, name it or its parent.
fn roots() -> Vec<String> {
    [".", "..", "/", "./", "//", "./.", "../"].map(str::to_owned).into()
}

pub(crate) static CHECKS: &[&Check] = &[&NEAR_VOLUMES, &NEAR_SNAPSHOTS, &VOLUMES_ROOT, &SNAPSHOTS_ROOT];

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn ids_near_an_id_are_other_ones() {
        assert_eq!(near("vol-19"), ["vol-10", "volx19", "wol-19", "vol-1", "vol", "ol-19"]);
        assert_eq!(near("é9"), ["é0", "é0", "x9", "é", "é", "9"]);
        assert_eq!(near("x"), ["y", "y", "y"]);
        assert_eq!(near(""), [""; 0]);
    }
}
