//! Opening the state file without harming one that cannot be used.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableDatabase, StorageBackend};

use super::StoreError;
use super::tables::{META, View, create_tables};

/// The version of the tables and records that this driver writes.
const SCHEMA_VERSION: u64 = 1;
const SCHEMA_KEY: &str = "schema_version";
/// How much of the state is cached, in bytes.
pub(super) const CACHE_BYTES: usize = 16 * 1024 * 1024;
/// The largest state file that is read for checking, in bytes.
const CHECKED_BYTES_MAX: u64 = 1 << 30;

/// Opens or creates the database at the path.
pub(super) fn open(path: &Path, data: &[&Path]) -> Result<Database, StoreError> {
    match fs::metadata(path) {
        Ok(file) if file.len() <= CHECKED_BYTES_MAX => check(path)?,
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return create(path, data),
        Err(error) => return Err(StoreError::io(path, error)),
    }
    Database::builder().set_cache_size(CACHE_BYTES).open(path).map_err(|error| refuse(path, error))
}

/// Makes a new state file. It gets its name only once it is complete, so that a crash leaves none or a whole one.
fn create(path: &Path, data: &[&Path]) -> Result<Database, StoreError> {
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
    fs::rename(&new, path).map_err(|error| StoreError::io(path, error))?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let flushed = fs::File::open(directory).and_then(|directory| directory.sync_all());
    flushed.map_err(|error| StoreError::io(directory, error))?;
    Ok(db)
}

fn holds_entries(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
}

/// Reads all of a copy in memory; repairs after a crash happen there too, so the file is not touched.
fn check(path: &Path) -> Result<(), StoreError> {
    let bytes = fs::read(path).map_err(|error| StoreError::io(path, error))?;
    let corrupt = |reason: String| StoreError::Corrupt { path: path.to_owned(), reason };
    if bytes.is_empty() {
        return Err(corrupt("it is empty".to_owned()));
    }
    match catch_unwind(AssertUnwindSafe(|| check_copy(path, &bytes))) {
        Ok(Err(StoreError::Database(error))) => Err(corrupt(error.to_string())),
        Ok(Err(StoreError::Record { key, reason })) => Err(corrupt(format!("record {key}: {reason}"))),
        Ok(result) => result,
        Err(_) => Err(corrupt("it cannot be read as a database".to_owned())),
    }
}

fn check_copy(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let memory = InMemoryBackend::new();
    let fill = |error| StoreError::io(path, error);
    memory.set_len(bytes.len() as u64).map_err(fill)?;
    memory.write(0, bytes).map_err(fill)?;
    let mut db = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(memory)?;
    if !db.check_integrity()? {
        tracing::info!("the state was not closed and is repaired");
    }
    let transaction = db.begin_read()?;
    let version = transaction.open_table(META)?.get(SCHEMA_KEY)?.map(|version| version.value());
    match version {
        Some(SCHEMA_VERSION) => View::new(&transaction)?.verify(),
        Some(found) if found > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION })
        }
        _ => {
            Err(StoreError::Corrupt { path: path.to_owned(), reason: "it has no schema version".to_owned() })
        }
    }
}

fn refuse(path: &Path, error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse(path.to_owned()),
        error => StoreError::from(error),
    }
}
