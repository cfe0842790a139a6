//! The durable state: an ACID database in one file, written by one thread that commits in groups.
//!
//! A change is on disk when [`Store::commit`] returns. Calls that commit at the same time share one flush, so that
//! durability costs a flush per group and not per call.

mod copy;
mod handle;
mod open;
mod quiet;
mod records;
mod tables;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use handle::Handle;
pub use records::{Attachment, Backend, FsState, Group, Phase, Published, Snapshot, Source, Staged, Volume};
pub use tables::{Change, View};

/// How many commits wait for the writer before callers block.
const QUEUE_LENGTH_MAX: usize = 256;

/// The state could not be opened, read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process uses the state directory.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The file was written by a newer version.
    #[error("{} has schema version {found}, this driver knows versions up to {known}", path.display())]
    Newer {
        /// The state file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The newest version known.
        known: u64,
    },
    /// The file cannot be read as state.
    #[error("{} is corrupt: {reason}; nothing was changed, restore it or move the state directory away", path.display())]
    Corrupt {
        /// The state file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There are data but no state.
    #[error("{} is missing although {} holds data; nothing was changed", path.display(), data.display())]
    Missing {
        /// The state file.
        path: PathBuf,
        /// The directory that holds data.
        data: PathBuf,
    },
    /// A record does not read as what it should be.
    #[error("record {key} does not parse: {reason}")]
    Record {
        /// The key of the record.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The database failed.
    #[error("{0}")]
    Database(Arc<redb::Error>),
    /// A file could not be read or flushed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The writer has ended.
    #[error("the state is closed")]
    Closed,
}

impl StoreError {
    /// Whether storage has run out.
    pub fn is_full(&self) -> bool {
        match self {
            StoreError::Database(error) => {
                matches!(&**error, redb::Error::Io(io) if crate::error::is_full(io))
            }
            StoreError::Io { source, .. } => crate::error::is_full(source),
            _ => false,
        }
    }

    fn io(path: &Path, source: io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), source: Arc::new(source) }
    }
}

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> StoreError {
        StoreError::Database(Arc::new(error.into()))
    }
}

/// One group of changes that become durable together, or not at all.
struct Job {
    changes: Vec<Change>,
    flush: Option<Arc<File>>,
    done: SyncSender<Result<(), StoreError>>,
}

/// The open state.
#[derive(Debug)]
pub struct Store {
    db: Arc<Handle>,
    jobs: Mutex<Option<SyncSender<Job>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the state file, or makes one where there is neither a file nor data.
    ///
    /// # Errors
    /// Whatever is wrong with an existing file is found on a copy in memory, so the file itself stays as it was.
    pub fn open(path: &Path, data: &[&Path]) -> Result<Store, StoreError> {
        let db = Arc::new(Handle::new(path, open::open(path, data)?));
        let (jobs, queue) = sync_channel(QUEUE_LENGTH_MAX);
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn({
                let db = Arc::clone(&db);
                move || write_all(&db, &queue)
            })
            .map_err(|error| StoreError::io(path, error))?;
        Ok(Store { db, jobs: Mutex::new(Some(jobs)), writer: Mutex::new(Some(writer)) })
    }

    /// A consistent view of everything committed so far.
    pub fn view(&self) -> Result<View, StoreError> {
        View::new(&self.db.begin_read()?)
    }

    /// Makes the changes durable, all or none. Blocks until they are.
    pub fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, None)
    }

    /// As [`Store::commit`], but first flushes a directory in which entries have been made that the changes speak of.
    pub fn commit_after_flush(&self, directory: &Arc<File>, changes: Vec<Change>) -> Result<(), StoreError> {
        self.submit(changes, Some(Arc::clone(directory)))
    }

    fn submit(&self, changes: Vec<Change>, flush: Option<Arc<File>>) -> Result<(), StoreError> {
        let (done, result) = sync_channel(1);
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let jobs = jobs.ok_or(StoreError::Closed)?;
        jobs.send(Job { changes, flush, done }).map_err(|_| StoreError::Closed)?;
        result.recv().map_err(|_| StoreError::Closed)?
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.jobs.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = writer.join();
        }
    }
}

/// Commits whatever has gathered while the commit before was under way.
fn write_all(db: &Handle, queue: &Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        while group.len() < QUEUE_LENGTH_MAX {
            match queue.try_recv() {
                Ok(job) => group.push(job),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        let result = write_group(db, &group);
        if result.is_err()
            && let Err(error) = db.reopen()
        {
            tracing::error!(%error, "the state could not be opened again; the next commit tries anew");
        }
        for job in group {
            let _ = job.done.send(result.clone());
        }
    }
}

fn write_group(db: &Handle, group: &[Job]) -> Result<(), StoreError> {
    let mut flushed: Vec<&Arc<File>> = Vec::new();
    for directory in group.iter().filter_map(|job| job.flush.as_ref()) {
        if !flushed.iter().any(|done| Arc::ptr_eq(done, directory)) {
            directory.sync_all().map_err(|error| StoreError::io(Path::new("state directory"), error))?;
            flushed.push(directory);
        }
    }
    let transaction = db.begin_write()?;
    for change in group.iter().flat_map(|job| &job.changes) {
        change.apply(&transaction)?;
    }
    transaction.commit()?;
    Ok(())
}
