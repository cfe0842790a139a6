//! Opens the state file without changing a file that cannot be used.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, DatabaseError, ReadableDatabase};

use super::handle::Open;
use super::handle::rewrite;
use super::overlay::Overlay;
use super::tables::{META, View, create_tables};
use super::{StoreError, quiet};

/// The version of the tables and records that this driver writes.
const SCHEMA_VERSION: u64 = 1;
const SCHEMA_KEY: &str = "schema_version";
/// The size of the database cache.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Opens a state file without fault injection.
pub(super) fn default_opener() -> Open {
    Box::new(|path| Database::builder().set_cache_size(CACHE_BYTES).open(path))
}

pub(super) fn open(path: &Path, data: &[&Path], open: &Open) -> Result<Database, StoreError> {
    match File::open(path) {
        Ok(file) => check(path, file)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(path, data)?,
        Err(error) => return Err(StoreError::io(path, error)),
    }
    let opened = quiet::catch(|| open(path));
    opened.map_err(|reason| corrupt(path, reason))?.map_err(|error| refuse(path, error))
}

/// Creates a new state file. It gets its name only when it is complete, so a crash leaves a complete file or none.
fn create(path: &Path, data: &[&Path]) -> Result<(), StoreError> {
    if let Some(data) = data.iter().find(|data| holds_entries(data)) {
        return Err(StoreError::Missing { path: path.to_owned(), data: (*data).to_owned() });
    }
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(StoreError::io(&new, error));
        }
        _ => {}
    }
    let db = Database::builder().set_cache_size(CACHE_BYTES).create(&new)?;
    let transaction = db.begin_write()?;
    transaction.open_table(META)?.insert(SCHEMA_KEY, SCHEMA_VERSION)?;
    create_tables(&transaction)?;
    transaction.commit()?;
    drop(db);
    fs::rename(&new, path).map_err(|error| StoreError::io(path, error))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let flushed = File::open(directory).and_then(|directory| directory.sync_all());
    flushed.map_err(|error| StoreError::io(directory, error))
}

fn holds_entries(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

/// Checks all used parts of the file without changing it: a repair after a crash is made in memory. Then writes the
/// file again if the previous process did not close it, because its pages may not have reached the disk.
fn check(path: &Path, file: File) -> Result<(), StoreError> {
    match quiet::catch(|| check_file(path, file)) {
        Ok(Ok(Closed::Cleanly)) => Ok(()),
        Ok(Ok(Closed::NotAtAll)) => rewrite(path).map_err(|error| StoreError::io(path, error)),
        Ok(Err(StoreError::Database(error))) => Err(corrupt(path, error.to_string())),
        Ok(Err(StoreError::Record { key, reason })) => Err(corrupt(path, format!("record {key}: {reason}"))),
        Ok(Err(error)) => Err(error),
        Err(reason) => Err(corrupt(path, reason)),
    }
}

/// The way in which the previous process left the file.
enum Closed {
    Cleanly,
    NotAtAll,
}

fn check_file(path: &Path, file: File) -> Result<Closed, StoreError> {
    let overlay = Overlay::new(file).map_err(|error| StoreError::io(path, error))?;
    if overlay.is_empty() {
        return Err(corrupt(path, "it is empty".to_owned()));
    }
    let repaired = Arc::new(AtomicBool::new(false));
    let notice = Arc::clone(&repaired);
    let mut db = Database::builder()
        .set_cache_size(CACHE_BYTES)
        .set_repair_callback(move |_| notice.store(true, Ordering::Relaxed))
        .create_with_backend(overlay)?;
    // Opening has repaired the effects of a crash. Any other damage has a different cause.
    if !db.check_integrity()? {
        return Err(corrupt(path, "its pages do not agree with each other".to_owned()));
    }
    let transaction = db.begin_read()?;
    let version = transaction.open_table(META)?.get(SCHEMA_KEY)?.map(|version| version.value());
    match version {
        Some(SCHEMA_VERSION) => View::new(transaction).verify()?,
        Some(found) if found > SCHEMA_VERSION => {
            return Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION });
        }
        _ => return Err(corrupt(path, "it has no schema version".to_owned())),
    }
    Ok(if repaired.load(Ordering::Relaxed) { Closed::NotAtAll } else { Closed::Cleanly })
}

fn corrupt(path: &Path, reason: String) -> StoreError {
    StoreError::Corrupt { path: path.to_owned(), reason }
}

fn refuse(path: &Path, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse(path.to_owned()),
        error => corrupt(path, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small state file as the driver leaves it, either closed or killed.
    fn state(directory: &Path, killed: bool) -> Vec<u8> {
        let path = directory.join("state.redb");
        create(&path, &[]).unwrap();
        let db = default_opener()(&path).unwrap();
        for number in 0..3 {
            let transaction = db.begin_write().unwrap();
            transaction.open_table(META).unwrap().insert(format!("key {number}").as_str(), number).unwrap();
            transaction.commit().unwrap();
        }
        let bytes = fs::read(&path).unwrap();
        drop(db);
        let closed = fs::read(&path).unwrap();
        assert_ne!(bytes, closed);
        if killed { bytes } else { closed }
    }

    /// Opens a state file with the given bytes, and returns whether it opened. A rejected file has to be unchanged.
    fn try_open(path: &Path, bytes: &[u8], what: &str) -> bool {
        fs::write(path, bytes).unwrap();
        match open(path, &[], &default_opener()) {
            Err(StoreError::Corrupt { .. } | StoreError::Newer { .. }) => {
                assert_eq!(fs::read(path).unwrap(), bytes, "{what}: the file was touched");
                false
            }
            Err(error) => panic!("{what}: {error}"),
            Ok(db) => {
                View::new(db.begin_read().unwrap()).verify().unwrap();
                true
            }
        }
    }

    #[test]
    fn a_killed_and_a_closed_state_open() {
        let directory = tempfile::tempdir().unwrap();
        for killed in [false, true] {
            let bytes = state(directory.path(), killed);
            assert!(try_open(&directory.path().join("state.redb"), &bytes, "a good file"));
            fs::remove_file(directory.path().join("state.redb")).unwrap();
        }
    }

    /// The header decides how everything else is read.
    #[test]
    fn each_bit_of_the_header_may_flip() {
        let directory = tempfile::tempdir().unwrap();
        let good = state(directory.path(), false);
        let path = directory.path().join("state.redb");
        let mut refused = 0;
        let bits = (0..320 * 8).step_by(11);
        for bit in bits.clone() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(!try_open(&path, &bad, &format!("bit {bit}")));
        }
        assert!(refused * 8 > bits.len(), "only {refused} are rejected");
    }

    /// The file and the flipped bits are the same in each run.
    #[test]
    fn bits_may_flip_anywhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.redb");
        for killed in [false, true] {
            let good = state(directory.path(), killed);
            fs::remove_file(&path).unwrap();
            for round in 0..150u64 {
                let mut bad = good.clone();
                let mut random = round + 1;
                for _ in 0..=round {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let bit = (random >> 16) as usize % (bad.len() * 8);
                    bad[bit / 8] ^= 1 << (bit % 8);
                }
                try_open(&path, &bad, &format!("killed {killed}, round {round}"));
            }
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_may_end_anywhere() {
        let directory = tempfile::tempdir().unwrap();
        let good = state(directory.path(), true);
        let path = directory.path().join("state.redb");
        for length in (0..good.len()).step_by(good.len() / 300) {
            assert!(!try_open(&path, &good[..length], &format!("{length} bytes")), "{length} bytes");
        }
    }
}
