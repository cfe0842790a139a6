//! A state file whose operations fail on demand, for tests.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::backends::FileBackend;
use redb::{Database, StorageBackend};

use super::{Store, StoreError};

/// The operation on the file that fails, not counting reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailedOperation {
    /// The operation after this many others.
    After(u64),
    /// The next flush.
    Flush,
}

/// The requested faults, shared with the open file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    next: Option<FailedOperation>,
    /// True if all later operations fail too.
    lasting: bool,
}

impl Faults {
    /// Lets one operation fail, or none.
    pub(crate) fn set(&self, next: impl Into<Option<FailedOperation>>) {
        *self.plan() = Plan { next: next.into(), lasting: false };
    }

    /// Lets one operation fail, and all later ones.
    pub(crate) fn set_lasting(&self, next: FailedOperation) {
        *self.plan() = Plan { next: Some(next), lasting: true };
    }

    /// Returns whether the requested fault has not occurred yet.
    pub(crate) fn is_set(&self) -> bool {
        self.plan().next.is_some()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap()
    }

    /// Like [`Store::open`], with these faults.
    pub(crate) fn open_store(&self, path: &Path, data: &[&Path]) -> Result<Store, StoreError> {
        let faults = self.clone();
        let open = move |path: &Path| {
            let file = FileBackend::new(OpenOptions::new().read(true).write(true).open(path)?)?;
            Database::builder().create_with_backend(Faulty { file, faults: faults.clone() })
        };
        Store::open_by(path, data, Box::new(open))
    }

    fn fail_if_due(&self, is_flush: bool) -> io::Result<()> {
        let mut plan = self.plan();
        match plan.next {
            None => return Ok(()),
            Some(FailedOperation::After(others)) if others > 0 => {
                plan.next = Some(FailedOperation::After(others - 1));
                return Ok(());
            }
            Some(FailedOperation::Flush) if !is_flush => return Ok(()),
            Some(_) => plan.next = plan.lasting.then_some(FailedOperation::After(0)),
        }
        Err(io::Error::other("failed on demand"))
    }
}

#[derive(Debug)]
struct Faulty {
    file: FileBackend,
    faults: Faults,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.fail_if_due(false)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.fail_if_due(true)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.fail_if_due(false)?;
        self.file.write(offset, data)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use redb::{ReadableDatabase, TableDefinition};
    use tempfile::TempDir;

    use super::*;
    use crate::ids::{ObjectId, ObjectKind};
    use crate::store::{Change, Group, may_be_committed};

    fn group(name: &str) -> Group {
        Group {
            key: ObjectId::generate(ObjectKind::Group).unwrap(),
            name: name.to_owned(),
            snapshots: Default::default(),
            source_volume_ids: Default::default(),
            parameters: Default::default(),
            created_ns: 0,
        }
    }

    fn state() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.redb");
        (directory, path)
    }

    fn holds(store: &Store, name: &str) -> bool {
        store.view().unwrap().group_by_name(name).unwrap().is_some()
    }

    /// Shows the behaviour of redb for which the store settles failed commits.
    #[test]
    fn redb_reports_errors_for_commits_that_happened() {
        const TABLE: TableDefinition<'_, &str, u64> = TableDefinition::new("table");
        let (_directory, path) = state();
        let faults = Faults::default();
        let open = || {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let file = FileBackend::new(file.unwrap()).unwrap();
            Database::builder().create_with_backend(Faulty { file, faults: faults.clone() }).unwrap()
        };
        let put = |db: &Database, key| {
            let transaction = db.begin_write().unwrap();
            transaction.open_table(TABLE).unwrap().insert(key, 1).unwrap();
            transaction.commit()
        };
        put(&open(), "before").unwrap();
        for (fault, there) in [(FailedOperation::After(0), false), (FailedOperation::Flush, true)] {
            let db = open();
            faults.set(fault);
            put(&db, "after").unwrap_err();
            drop(db);
            let db = open();
            let table = db.begin_read().unwrap().open_table(TABLE).unwrap();
            let found = table.get("after").unwrap().is_some();
            assert_eq!(found, there, "{fault:?}");
        }
    }

    #[test]
    fn a_commit_that_returns_an_error_has_not_happened() {
        let mut outcomes = [0, 0];
        for others in 0.. {
            let (_directory, path) = state();
            let faults = Faults::default();
            let store = faults.open_store(&path, &[]).unwrap();
            store.commit(vec![Change::PutGroup(group("before"))]).unwrap();
            let view = store.view().unwrap();
            faults.set(FailedOperation::After(others));
            let committed = store.commit(vec![Change::PutGroup(group("after"))]);
            let met = !faults.is_set();
            faults.set(None);
            drop(view);
            assert_eq!(holds(&store, "after"), committed.is_ok(), "{others}: {committed:?}");
            drop(store);
            let store = Store::open(&path, &[]).unwrap();
            assert_eq!(holds(&store, "after"), committed.is_ok(), "{others}: {committed:?}");
            assert!(holds(&store, "before"));
            if !met {
                break;
            }
            outcomes[usize::from(committed.is_ok())] += 1;
        }
        assert!(outcomes.iter().all(|count| *count > 0), "there or not, both have to be met: {outcomes:?}");
    }

    #[test]
    fn an_unsettled_commit_is_settled_by_the_next_call() {
        let (_directory, path) = state();
        let faults = Faults::default();
        let store = faults.open_store(&path, &[]).unwrap();
        faults.set_lasting(FailedOperation::After(0));
        let committed = store.commit(vec![Change::PutGroup(group("after"))]);
        assert!(
            matches!(committed, Err(StoreError::Unsettled(_))) && may_be_committed(&committed),
            "{committed:?}"
        );
        assert!(store.view().is_err());
        let refused = store.commit(vec![Change::PutGroup(group("later"))]);
        assert!(!may_be_committed(&refused), "it never came to a commit: {refused:?}");
        faults.set(None);
        let found = holds(&store, "after");
        store.commit(vec![Change::PutGroup(group("later"))]).unwrap();
        drop(store);
        let store = Store::open(&path, &[]).unwrap();
        assert_eq!((holds(&store, "after"), holds(&store, "later")), (found, true));
    }
}
