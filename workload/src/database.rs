//! A database on a volume that is killed again and again: SQLite, with a log of what it has acknowledged that is kept outside the volume.

mod process;

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::BufReader;

use crate::{KILL_LIMIT, StartError, can_become_one, next, spawn};
use process::{Event, Failure, Kind, Order};

pub(crate) use process::run;

/// The argument with which this program becomes a database.
pub(crate) const ARGUMENT: &str = "csi-sanity-database";
/// Steps after which a database is killed, at least and at most. A transaction has three: it is begun, written, and committed.
const STEPS: std::ops::Range<u32> = 10..110;
/// Transactions of one life. A killed database does fewer, unless its end comes late.
const TRANSACTIONS_MAX: u32 = 60;
/// Limits the wait for the next step, and is longer than a database waits for a lock.
const STEP_LIMIT: Duration = Duration::from_secs(90);

/// A database on a volume, over all of its lives.
#[derive(Debug)]
pub struct Database {
    seed: u64,
    rng: fastrand::Rng,
    /// True until it was opened for the first time.
    is_new: bool,
    /// The last transaction that was committed.
    acknowledged: u32,
    /// The last transaction that was begun, which may be there as well.
    begun: u32,
}

/// The reason why a database does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// The database lacks what it has acknowledged, or is damaged.
    #[error("{0}")]
    Lost(String),
    /// The volume returns an error to the database.
    #[error("{0}")]
    Failed(String),
    /// A new database cannot be made, because the file system lacks what SQLite needs.
    #[error("the file system cannot hold a database: {0}")]
    Unsupported(String),
    /// Nothing is known of the volume: it is full, or another process has a lock.
    #[error("{0}")]
    Unjudged(String),
}

impl Database {
    /// Describes a database that does not exist yet. The seed determines what it writes, and when it is killed.
    pub fn new(seed: u64) -> Database {
        let rng = fastrand::Rng::with_seed(seed);
        Database { seed, rng, is_new: true, acknowledged: 0, begun: 0 }
    }

    /// The last transaction that was committed.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// Opens the database on the volume that is published at a path, judges it, writes to it, and kills it.
    ///
    /// # Errors
    /// The database is not as it was left, or cannot go on.
    pub async fn live(&mut self, target: &Path) -> Result<(), DatabaseError> {
        let steps = self.rng.u32(STEPS);
        self.play(target, Some(steps)).await
    }

    /// Opens the database on the volume that is published at a path, judges it, and closes it.
    ///
    /// # Errors
    /// The database is not as it was left.
    pub async fn check(&mut self, target: &Path) -> Result<(), DatabaseError> {
        self.play(target, None).await
    }

    async fn play(&mut self, target: &Path, kill_after: Option<u32>) -> Result<(), DatabaseError> {
        if !can_become_one() {
            return Err(DatabaseError::Unjudged(StartError::NotPrepared.to_string()));
        }
        let cannot_start = |error| DatabaseError::Unjudged(StartError::Spawn(error).to_string());
        let root = TempDir::with_prefix("csi-sanity-database-").map_err(cannot_start)?;
        let order = Order {
            target: target.to_owned(),
            root: root.path().to_owned(),
            seed: self.seed,
            is_new: self.is_new,
            acknowledged: self.acknowledged,
            begun: self.begun,
            transactions: kill_after.map_or(0, |_| TRANSACTIONS_MAX),
        };
        // The process ends when its input is closed, which is kept open until the end of this function.
        let (mut child, _input, output) = spawn(ARGUMENT, &order).map_err(cannot_start)?;
        let mut events = BufReader::new(output);
        let mut result = Ok(());
        let (mut steps, mut is_open, mut has_ended) = (0, false, false);
        // Everything that it has acknowledged before it was killed is in its output.
        loop {
            let event = match tokio::time::timeout(STEP_LIMIT, next(&mut events)).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => {
                    let limit_s = STEP_LIMIT.as_secs();
                    let text = format!("the database makes no progress for {limit_s} s");
                    result = Err(DatabaseError::Unjudged(text));
                    break;
                }
            };
            match event {
                Event::Opened { last } => {
                    (is_open, self.is_new) = (true, false);
                    self.begun = self.begun.max(last);
                }
                Event::Begun { number } => self.begun = self.begun.max(number),
                Event::Acknowledged { number } => self.acknowledged = number,
                Event::Written | Event::Checkpoint => {}
                Event::Failed(failure) => result = Err(self.judged(failure)),
                Event::Ended => has_ended = true,
            }
            steps += u32::from(is_open);
            if Some(steps) == kill_after {
                // A failure means that it has ended.
                let _ = child.start_kill();
            }
        }
        let was_killed = kill_after.is_some_and(|kill_after| steps >= kill_after);
        if result.is_ok() && !has_ended && !was_killed {
            result = Err(DatabaseError::Unjudged("the database has died".to_owned()));
        }
        // A failure means that it has ended.
        let _ = child.start_kill();
        match tokio::time::timeout(KILL_LIMIT, child.wait()).await {
            Ok(_) => result,
            Err(_) => result.and(Err(DatabaseError::Unjudged(
                "the database waits in the kernel, and cannot be killed".to_owned(),
            ))),
        }
    }

    fn judged(&self, Failure { kind, text }: Failure) -> DatabaseError {
        match kind {
            Kind::Damaged => DatabaseError::Lost(text),
            // No other process can have locked a new database.
            Kind::Locked | Kind::ReadOnly | Kind::Rejected if self.is_new => DatabaseError::Unsupported(text),
            Kind::Full | Kind::Locked | Kind::Unable => DatabaseError::Unjudged(text),
            Kind::ReadOnly => {
                DatabaseError::Failed(format!("the volume was writable, and no longer is: {text}"))
            }
            Kind::Rejected => DatabaseError::Failed(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_blamed_only_once_a_database_worked() {
        let mut database = Database::new(1);
        let text = "failed to open the database";
        let judged = |database: &Database, kind| database.judged(Failure { kind, text: text.to_owned() });
        for kind in [Kind::Locked, Kind::ReadOnly, Kind::Rejected] {
            assert_eq!(judged(&database, kind), DatabaseError::Unsupported(text.to_owned()));
        }
        database.is_new = false;
        assert_eq!(judged(&database, Kind::Rejected), DatabaseError::Failed(text.to_owned()));
        assert!(matches!(judged(&database, Kind::ReadOnly), DatabaseError::Failed(_)));
        for kind in [Kind::Locked, Kind::Full, Kind::Unable] {
            assert_eq!(judged(&database, kind), DatabaseError::Unjudged(text.to_owned()));
        }
        assert_eq!(judged(&database, Kind::Damaged), DatabaseError::Lost(text.to_owned()));
    }
}
