//! Checks that a state file of the reference driver is either rejected with a reason and left unchanged, or opens
//! with all of its contents, and is never treated as empty.

use std::fs;
use std::sync::OnceLock;

use csi_hostpath_driver::store::{Change, Store, StoreError};

use crate::{CANARY, Target, file};

/// The first byte decides whether the others are the file, or changes to a good file of a driver that ended or was
/// killed.
pub const TARGET: Target = Target { name: "state_file", run, seeds, tokens: &[] };

const NAME: &str = "state.redb";
/// A change consists of a place, an operation and a value.
const CHANGE_BYTES: usize = 5;
/// Longer files find nothing new.
const FILE_BYTES_MAX: usize = 8 << 20;
/// The number of volumes in the good files.
const VOLUMES: u64 = 3;

/// Good files, which are made once.
struct Good {
    closed: Vec<u8>,
    killed: Vec<u8>,
}

fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let good = good();
    match kind % 3 {
        0 => open(bytes, false),
        1 => open(&changed(&good.closed, bytes), true),
        _ => open(&changed(&good.killed, bytes), true),
    }
}

/// Opens a file. A changed good file may hold the state of the previous commit, as after a crash, but must not be
/// empty.
fn open(bytes: &[u8], was_good: bool) {
    let path = file::with(NAME, bytes);
    if CANARY && was_good && bytes.len() < good().closed.len() {
        // The canary treats a truncated file as missing.
        let _ = fs::remove_file(&path);
    }
    match Store::open(&path, &[]) {
        Err(StoreError::Corrupt { reason, .. }) => {
            assert!(!reason.is_empty());
            assert!(
                fs::read(&path).is_ok_and(|found| found == bytes),
                "a file was changed that was rejected: {reason}"
            );
        }
        Err(StoreError::Newer { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(store) => {
            assert!(!bytes.is_empty(), "an empty file is no state");
            let view = store.view().expect("a view of what was opened");
            let count = view.volume_count().expect("a count of what was opened");
            let listed = view.volumes_after("", 1_000).expect("what was opened");
            assert_eq!(listed.len() as u64, count);
            assert!(!was_good || count + 1 >= VOLUMES, "of {VOLUMES} volumes {count} are there");
        }
    }
    let _ = fs::remove_file(path);
}

/// Returns a good file with some bytes changed, and possibly shorter or longer.
fn changed(good: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for change in changes.chunks_exact(CHANGE_BYTES) {
        let place = usize::from(change[0]) << 16 | usize::from(change[1]) << 8 | usize::from(change[2]);
        let at = place % bytes.len().max(1);
        match change[3] % 8 {
            0 => bytes.truncate(at),
            1 => bytes.resize((bytes.len() + place).min(FILE_BYTES_MAX), change[4]),
            // The header has the layout of the rest of the file.
            2..=4 => set(&mut bytes, place % 320, change[4]),
            5 => set(&mut bytes, at, change[4]),
            _ => {
                let old = bytes.get(at).copied().unwrap_or_default();
                set(&mut bytes, at, old ^ (1 << (change[4] % 8)));
            }
        }
    }
    bytes
}

fn set(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let directory = file::directory();
        let path = directory.path().join(NAME);
        let store = Store::open(&path, &[]).expect("a new state");
        for number in 0..VOLUMES {
            let record =
                format!("{{key: vol-{number:032x}, name: v{number}, backend: directory, capacity_bytes: 1}}");
            let volume = serde_saphyr::from_str(&record).expect("a record of a volume");
            store.commit(vec![Change::PutVolume(volume)]).expect("a commit in memory");
        }
        let killed = fs::read(&path).expect("a file of ours");
        drop(store);
        Good { closed: fs::read(&path).expect("a file of ours"), killed }
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let header = &good().closed[..320];
    [
        &[0][..],
        b"\0not a database",
        &[&[0], header].concat(),
        &[1],
        &[2],
        &[1, 0, 0, 9, 3, 1],
        &[2, 1, 0, 0, 7, 1],
    ]
    .map(Into::into)
    .into()
}
