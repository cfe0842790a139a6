//! What a check has made and not yet undone. An entry is written before the call that makes the thing is sent, so
//! that it is undone whatever happens: failure, timeout, panic, Ctrl-C.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use crate::cx::Session;

type Undoing<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Undoes one thing; the error says what stands in the way.
pub(crate) type Undo = Box<dyn for<'a> FnOnce(&'a Session) -> Undoing<'a> + Send>;

/// The entries of one check.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    key: String,
    undo: Undo,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

impl Ledger {
    /// Writes an entry. A thing that is in the ledger already keeps its first place, so that what was built on it
    /// is undone before it.
    pub(crate) fn write(&self, key: impl Into<String>, undo: Undo) {
        let key = key.into();
        let mut entries = self.lock();
        match entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.undo = undo,
            None => entries.push(Entry { key, undo }),
        }
    }

    /// Whether the thing is in the ledger.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lock().iter().any(|entry| entry.key == key)
    }

    /// Strikes an entry out: the thing is gone, or never came to be.
    pub(crate) fn settle(&self, key: &str) {
        self.lock().retain(|entry| entry.key != key);
    }

    /// Undoes everything, the youngest first, and says what could not be undone.
    pub(crate) async fn undo_all(&self, session: &Session) -> Vec<String> {
        let mut left = Vec::new();
        loop {
            let Some(entry) = self.lock().pop() else { return left };
            if let Err(why) = (entry.undo)(session).await {
                left.push(format!("{}: {why}", entry.key));
            }
        }
    }

    /// What is still in the ledger.
    pub(crate) fn open(&self) -> Vec<String> {
        self.lock().iter().map(|entry| entry.key.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
