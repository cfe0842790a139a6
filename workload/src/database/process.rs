//! The process of a database. It sees its volume and nothing else, checks everything that was committed, and commits one transaction after
//! another. It reports each step as a line of JSON.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ffi::{self, ErrorCode};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OpenFlags, TransactionBehavior};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::process::{enter, report, seen_from_inside};

/// The file of the database.
const FILE: &str = "csi-sanity.sqlite";
/// The time that another process has to give back its lock. A server keeps the lock of a client for a while that is gone.
const LOCK_LIMIT: Duration = Duration::from_secs(60);
/// Transactions that stay in the database. Each one deletes the one that is older by so many.
const KEPT: u32 = 100;
/// Transactions between two checkpoints.
const CHECKPOINT_AFTER: u32 = 8;
/// Transactions of which one has a large entry.
const LARGE_AFTER: u32 = 5;
/// The bytes of a large entry, which are more than fit into the cache of [`SETTINGS`] together with others.
const LARGE_BYTES: usize = 200 << 10;
/// Damages that the check of SQLite reports at most.
const DAMAGES_MAX: u32 = 4;
/// The bytes of a file by which the error of the file system is found out.
const TRIAL_BYTES: usize = 64 << 10;

/// A process that locks the database for itself alone needs no shared memory, which network file systems do not offer. In a small cache,
/// transactions are written to the log before they are committed. The checkpoints are made at times of our own.
const SETTINGS: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; \
                        PRAGMA cache_size = 50;";
/// The names of entries are random, so that each transaction changes pages all over their index.
const TABLES: &str = "CREATE TABLE head (last INTEGER NOT NULL);
    CREATE TABLE entries (number INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL);
    CREATE UNIQUE INDEX entries_by_number ON entries (number, position);
    CREATE INDEX entries_by_name ON entries (name);
    INSERT INTO head (last) VALUES (0);";

/// The database and the number of transactions to commit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The path at which the volume is published.
    pub(super) target: PathBuf,
    /// An empty directory, which becomes the root of the process.
    pub(super) root: PathBuf,
    /// The seed of everything that is written.
    pub(super) seed: u64,
    /// The database does not exist yet.
    pub(super) is_new: bool,
    /// The last transaction that has to be there.
    pub(super) acknowledged: u32,
    /// The last transaction that may be there.
    pub(super) begun: u32,
    /// The number of transactions to commit; with 0 the database is only checked.
    pub(super) transactions: u32,
}

/// A step of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Event {
    /// The database is as it has to be, and ends with this transaction.
    Opened { last: u32 },
    /// A transaction is about to be written.
    Begun { number: u32 },
    /// The transaction is about to be committed.
    Written,
    /// The transaction is committed.
    Acknowledged { number: u32 },
    /// The log is about to be copied into the database.
    Checkpoint,
    /// The process does not go on.
    Failed(Failure),
    /// The database is closed.
    Ended,
}

/// The reason why the process does not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// The database is not as it was committed.
    Damaged,
    /// The volume has no space left.
    Full,
    /// Another process has a lock, or locks do not work.
    Locked,
    /// The volume cannot be written to.
    ReadOnly,
    /// The volume returns another error.
    Rejected,
    /// The process cannot do its work, whatever the volume does.
    Unable,
}

/// The end of the process before it is done.
enum Stopped {
    Failed(Failure),
    /// The reader of the report is gone.
    Unread(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Unread(error)
    }
}

/// Runs a database until it has done its transactions and its standard input ends, or the volume fails.
///
/// # Errors
/// The report cannot be written, since its reader is gone.
pub(crate) fn run(order: &str) -> io::Result<()> {
    let order: Order = serde_json::from_str(order)?;
    let played = match enter(&order.target, &order.root) {
        Ok(()) => play(&order, &seen_from_inside(&order.target)),
        Err(error) => {
            let text = format!("failed to make a root directory with the volume: {error}");
            Err(Stopped::Failed(Failure { kind: Kind::Unable, text }))
        }
    };
    match played {
        Ok(()) => report(&Event::Ended),
        Err(Stopped::Failed(failure)) => report(&Event::Failed(failure)),
        Err(Stopped::Unread(error)) => Err(error),
    }
}

fn play(order: &Order, directory: &Path) -> Result<(), Stopped> {
    let failed =
        |operation: &'static str| move |error: Error| Stopped::Failed(failure(operation, &error, directory));
    let mut connection = open(order, directory)?;
    let last = judge(order, &connection).map_err(|failed| match failed {
        Judged::Damaged(text) => Stopped::Failed(Failure { kind: Kind::Damaged, text }),
        Judged::Failed(error) => Stopped::Failed(failure("read", &error, directory)),
    })?;
    report(&Event::Opened { last })?;
    for number in (last + 1..=u32::MAX).take(order.transactions as usize) {
        report(&Event::Begun { number })?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(failed("begin a transaction"))?;
        write(&transaction, order.seed, number).map_err(failed("write"))?;
        report(&Event::Written)?;
        transaction.commit().map_err(failed("commit"))?;
        report(&Event::Acknowledged { number })?;
        if number.is_multiple_of(CHECKPOINT_AFTER) {
            report(&Event::Checkpoint)?;
            checkpoint(&connection, order.seed, number).map_err(failed("make a checkpoint"))?;
        }
    }
    if order.transactions > 0 {
        // It is killed while it waits here, or is not needed any more.
        let _ = io::stdin().read_line(&mut String::new());
    }
    connection.close().map_err(|(_, error)| failed("close the database")(error))
}

/// Opens the database, or makes it if it is new. A new one writes its log and a checkpoint, so that whatever SQLite needs of a file system is
/// tried.
fn open(order: &Order, directory: &Path) -> Result<Connection, Stopped> {
    let file = directory.join(FILE);
    let is_gone =
        matches!(fs::symlink_metadata(&file), Err(error) if error.kind() == io::ErrorKind::NotFound);
    if is_gone && !order.is_new {
        let text = format!("the file {FILE} is gone");
        return Err(Stopped::Failed(Failure { kind: Kind::Damaged, text }));
    }
    let opened = || {
        let create = if order.is_new { OpenFlags::SQLITE_OPEN_CREATE } else { OpenFlags::empty() };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let connection = Connection::open_with_flags(&file, flags)?;
        connection.busy_timeout(LOCK_LIMIT)?;
        connection.execute_batch(SETTINGS)?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if order.is_new && is_gone {
            connection.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;"))?;
            checkpoint(&connection, 0, 0)?;
        }
        Ok((connection, mode))
    };
    match opened() {
        Ok((connection, mode)) if mode == "wal" => Ok(connection),
        Ok((_, mode)) => {
            let text = format!("SQLite has the journal mode {mode} here in place of wal");
            Err(Stopped::Failed(Failure { kind: Kind::Rejected, text }))
        }
        Err(error) => Err(Stopped::Failed(failure("open the database", &error, directory))),
    }
}

/// Copies the log into the database. Half of the checkpoints cut the log as well, and after the others it is overwritten.
fn checkpoint(connection: &Connection, seed: u64, number: u32) -> rusqlite::Result<()> {
    let cuts = (u64::from(number / CHECKPOINT_AFTER) ^ seed).is_multiple_of(2);
    let mode = if cuts { "TRUNCATE" } else { "PASSIVE" };
    connection.execute_batch(&format!("PRAGMA wal_checkpoint({mode});"))
}

/// An entry of a transaction.
struct Entry {
    name: String,
    content: Vec<u8>,
}

/// Returns the entries of a transaction. They depend on the seed and the number, so that nothing has to be remembered to check them.
fn entries(seed: u64, number: u32) -> impl Iterator<Item = Entry> {
    let mut rng = fastrand::Rng::with_seed(seed.rotate_left(32) ^ u64::from(number));
    let count = rng.u32(3..9);
    (0..count).map(move |position| {
        let bytes = match position == 0 && number.is_multiple_of(LARGE_AFTER) {
            true => LARGE_BYTES,
            false => rng.usize(20..1_500),
        };
        let name = format!("{:016x}", rng.u64(..));
        let mut content = vec![0; bytes];
        rng.fill(&mut content);
        Entry { name, content }
    })
}

fn write(connection: &Connection, seed: u64, number: u32) -> rusqlite::Result<()> {
    let mut insert = connection
        .prepare("INSERT INTO entries (number, position, name, content) VALUES (?1, ?2, ?3, ?4)")?;
    for (position, entry) in (0u32..).zip(entries(seed, number)) {
        insert.execute((number, position, entry.name, entry.content))?;
    }
    connection.execute("DELETE FROM entries WHERE number = ?1", [i64::from(number) - i64::from(KEPT)])?;
    connection.execute("UPDATE head SET last = ?1", [number])?;
    Ok(())
}

/// The result of a check that finds something wrong.
enum Judged {
    Damaged(String),
    Failed(Error),
}

impl From<Error> for Judged {
    fn from(error: Error) -> Judged {
        match &error {
            // The process itself asks for nothing wrong, so that something is missing, or of another type.
            Error::SqliteFailure(ffi::Error { code: ErrorCode::Unknown, .. }, _)
            | Error::QueryReturnedNoRows
            | Error::InvalidColumnType(..)
            | Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..) => Judged::Damaged(error.to_string()),
            _ => Judged::Failed(error),
        }
    }
}

/// Checks that the database holds all transactions up to one that may be the last, and returns the number of that.
fn judge(order: &Order, connection: &Connection) -> Result<u32, Judged> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({DAMAGES_MAX})"))?;
    let found = check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    if found != ["ok"] {
        let found = found.join("; ").replace('\n', "; ");
        return Err(Judged::Damaged(format!("PRAGMA integrity_check: {found}")));
    }
    let last: u32 = connection.query_row("SELECT last FROM head", [], |row| row.get(0))?;
    let Order { acknowledged, begun, .. } = *order;
    if last < acknowledged {
        let text = format!("transaction {acknowledged} was acknowledged, and the last one here is {last}");
        return Err(Judged::Damaged(text));
    }
    if last > begun {
        let text = format!("transaction {last} is here, and the last one that was begun is {begun}");
        return Err(Judged::Damaged(text));
    }
    let mut select = connection
        .prepare("SELECT number, position, name, content FROM entries ORDER BY number, position")?;
    let mut rows = select.query([])?;
    for number in last.saturating_sub(KEPT - 1).max(1)..=last {
        for (position, entry) in (0u32..).zip(entries(order.seed, number)) {
            let Some(row) = rows.next()? else {
                return Err(Judged::Damaged(format!("entry {position} of transaction {number} is missing")));
            };
            let (name, content) = (ValueRef::Text(entry.name.as_bytes()), ValueRef::Blob(&entry.content));
            let found = (row.get_ref(0)?, row.get_ref(1)?);
            let expected = (ValueRef::Integer(number.into()), ValueRef::Integer(position.into()));
            if found != expected {
                let text =
                    format!("entry {position} of transaction {number} is missing, or another one is left");
                return Err(Judged::Damaged(text));
            }
            if row.get_ref(2)? != name || row.get_ref(3)? != content {
                let text =
                    format!("entry {position} of transaction {number} has other bytes than were committed");
                return Err(Judged::Damaged(text));
            }
        }
    }
    match rows.next()? {
        None => Ok(last),
        Some(_) => Err(Judged::Damaged(format!("entries behind those of transaction {last} are here"))),
    }
}

/// Finds out what an error of SQLite means for the volume.
fn failure(operation: &str, error: &Error, directory: &Path) -> Failure {
    let text = format!("failed to {operation}: {error}");
    let Error::SqliteFailure(ffi::Error { code, extended_code }, _) = error else {
        return Failure { kind: Kind::Unable, text };
    };
    let kind = match code {
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Kind::Damaged,
        ErrorCode::DiskFull => Kind::Full,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            Kind::Locked
        }
        ErrorCode::ReadOnly => Kind::ReadOnly,
        ErrorCode::SystemIoFailure => match *extended_code {
            ffi::SQLITE_IOERR_LOCK
            | ffi::SQLITE_IOERR_RDLOCK
            | ffi::SQLITE_IOERR_UNLOCK
            | ffi::SQLITE_IOERR_CHECKRESERVEDLOCK
            | ffi::SQLITE_IOERR_BLOCKED => Kind::Locked,
            ffi::SQLITE_IOERR_NOMEM => Kind::Unable,
            _ => of_file_system(directory),
        },
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => of_file_system(directory),
        _ => Kind::Unable,
    };
    Failure { kind, text }
}

/// Writes a file of its own, since SQLite does not say with which error the file system has rejected something.
fn of_file_system(directory: &Path) -> Kind {
    let trial = directory.join("csi-sanity-trial");
    let tried = || -> io::Result<()> {
        let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(&trial)?;
        file.write_all(&[0x5a; TRIAL_BYTES])?;
        file.sync_all()
    };
    let kind = match tried() {
        Ok(()) => Kind::Rejected,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Kind::Full,
            Some(Errno::ROFS) => Kind::ReadOnly,
            _ => Kind::Rejected,
        },
    };
    // The volume is given back with its files.
    let _ = fs::remove_file(&trial);
    kind
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi::{
        SQLITE_BUSY, SQLITE_BUSY_RECOVERY, SQLITE_CANTOPEN, SQLITE_CORRUPT, SQLITE_CORRUPT_INDEX,
        SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_LOCK, SQLITE_IOERR_NOMEM, SQLITE_IOERR_WRITE,
        SQLITE_NOMEM, SQLITE_NOTADB, SQLITE_PROTOCOL, SQLITE_READONLY,
    };

    use super::*;

    const SEED: u64 = 7;

    fn order(is_new: bool, acknowledged: u32, begun: u32) -> Order {
        let (target, root) = Default::default();
        Order { target, root, seed: SEED, is_new, acknowledged, begun, transactions: 0 }
    }

    /// A directory as a killed database leaves it: its transactions are partly in the log.
    fn killed_after(transactions: u32) -> tempfile::TempDir {
        let (alive, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut connection = open(&order(true, 0, 0), alive.path()).ok().unwrap();
        for number in 1..=transactions {
            let transaction = connection.transaction().unwrap();
            write(&transaction, SEED, number).unwrap();
            transaction.commit().unwrap();
            if number == transactions / 2 {
                checkpoint(&connection, SEED, number).unwrap();
            }
        }
        for entry in fs::read_dir(alive.path()).unwrap() {
            let file = entry.unwrap();
            fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
        }
        killed
    }

    /// Opens a database again, and returns its last transaction, or what is wrong.
    fn opened(order: &Order, directory: &Path) -> Result<u32, Failure> {
        let connection = open(order, directory).map_err(|stopped| match stopped {
            Stopped::Failed(failure) => failure,
            Stopped::Unread(error) => panic!("{error}"),
        })?;
        judge(order, &connection).map_err(|judged| match judged {
            Judged::Damaged(text) => Failure { kind: Kind::Damaged, text },
            Judged::Failed(error) => failure("read", &error, directory),
        })
    }

    fn is_damaged(order: &Order, directory: &Path, text: &str) {
        let found = opened(order, directory);
        assert!(
            matches!(&found, Err(Failure { kind: Kind::Damaged, text: found }) if found.contains(text)),
            "{text:?}: {found:?}"
        );
    }

    #[test]
    fn a_killed_database_has_what_it_acknowledged() {
        let killed = killed_after(KEPT + 20);
        let last = KEPT + 20;
        assert_eq!(opened(&order(false, last, last), killed.path()), Ok(last));
        assert_eq!(opened(&order(false, last - 3, last + 1), killed.path()), Ok(last), "it may have more");
        is_damaged(&order(false, last + 1, last + 1), killed.path(), "and the last one here is 120");
        is_damaged(&order(false, last - 2, last - 1), killed.path(), "the last one that was begun is 119");
    }

    #[test]
    fn every_loss_is_found() {
        let again = order(false, 20, 20);
        let is_found = |text: &str, change: fn(&Path)| {
            let killed = killed_after(20);
            change(killed.path());
            is_damaged(&again, killed.path(), text);
        };
        is_found("transaction 20 was acknowledged", |path| {
            fs::remove_file(path.join("csi-sanity.sqlite-wal")).unwrap();
        });
        is_found("transaction 20 was acknowledged", |path| {
            let log = OpenOptions::new().write(true).open(path.join("csi-sanity.sqlite-wal")).unwrap();
            log.set_len(log.metadata().unwrap().len() - 1).unwrap();
        });
        is_found("the file csi-sanity.sqlite is gone", |path| fs::remove_file(path.join(FILE)).unwrap());
        is_found("", |path| {
            let bytes = fs::metadata(path.join(FILE)).unwrap().len();
            let file = OpenOptions::new().write(true).open(path.join(FILE)).unwrap();
            file.set_len(bytes / 2).unwrap();
        });
        is_found("file is not a database", |path| {
            fs::remove_file(path.join("csi-sanity.sqlite-wal")).unwrap();
            let file = OpenOptions::new().write(true).open(path.join(FILE)).unwrap();
            (&file).write_all(&[0x5a; 4096]).unwrap();
        });
        is_found("no such table", |path| {
            fs::remove_file(path.join("csi-sanity.sqlite-wal")).unwrap();
            File::create(path.join(FILE)).unwrap();
        });
    }

    #[test]
    fn half_a_transaction_is_found() {
        let changed = |sql: &str, text: &str| {
            let killed = killed_after(20);
            let again = order(false, 20, 20);
            let connection = open(&again, killed.path()).ok().unwrap();
            connection.execute_batch(sql).unwrap();
            drop(connection);
            is_damaged(&again, killed.path(), text);
        };
        changed(
            "DELETE FROM entries WHERE number = 20 AND position = 2",
            "entry 2 of transaction 20 is missing",
        );
        changed(
            "DELETE FROM entries WHERE number = 7 AND position = 0",
            "entry 0 of transaction 7 is missing",
        );
        changed("UPDATE entries SET content = 'x' WHERE number = 7 AND position = 1", "has other bytes");
        changed("INSERT INTO entries VALUES (21, 0, 'x', 'x')", "behind those of transaction 20");
        changed("UPDATE head SET last = 'x'", "Invalid column type");
        changed("DELETE FROM head", "no rows");
        changed("DROP TABLE entries", "no such table");
    }

    #[test]
    fn errors_of_sqlite_are_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        let kind = |code| {
            let error = Error::SqliteFailure(ffi::Error::new(code), None);
            failure("commit", &error, directory.path()).kind
        };
        for (code, expected) in [
            (SQLITE_CORRUPT, Kind::Damaged),
            (SQLITE_CORRUPT_INDEX, Kind::Damaged),
            (SQLITE_NOTADB, Kind::Damaged),
            (SQLITE_FULL, Kind::Full),
            (SQLITE_BUSY, Kind::Locked),
            (SQLITE_BUSY_RECOVERY, Kind::Locked),
            (SQLITE_PROTOCOL, Kind::Locked),
            (SQLITE_IOERR_LOCK, Kind::Locked),
            (SQLITE_READONLY, Kind::ReadOnly),
            (SQLITE_IOERR_FSYNC, Kind::Rejected),
            (SQLITE_IOERR_WRITE, Kind::Rejected),
            (SQLITE_CANTOPEN, Kind::Rejected),
            (SQLITE_IOERR_NOMEM, Kind::Unable),
            (SQLITE_NOMEM, Kind::Unable),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
        // SQLite reports a used-up quota as an I/O error.
        std::os::unix::fs::symlink("/dev/full", directory.path().join("csi-sanity-trial")).unwrap();
        assert_eq!(kind(SQLITE_IOERR_WRITE), Kind::Full);
    }
}
