//! Locks on objects. A call that needs a locked object fails with ABORTED, and its caller repeats it.
//!
//! An operation that changes an object locks it exclusively. Operations that only copy from a snapshot share its
//! lock. Calls that only read take no lock. Copies of one volume wait for each other for some seconds, because
//! callers double their pauses between attempts, so that ten snapshots at once would take minutes. Nothing else waits
//! and every wait is bounded, so a deadlock is impossible.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use csi_proto::lock::{Condvar, Mutex};

use crate::error::{DriverError, Result, Shown};
use crate::ids::ObjectId;

/// Something that can be locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The name of a volume that is being created.
    VolumeName(String),
    /// The identifier of an inline volume that is being created or removed.
    InlineVolume(String),
    /// The name of a snapshot that is being created.
    SnapshotName(String),
    /// The name of a group snapshot that is being created.
    GroupName(String),
    Object(ObjectId),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::VolumeName(name) => write!(f, "the volume named {}", Shown(name)),
            Key::InlineVolume(id) => write!(f, "the inline volume {}", Shown(id)),
            Key::SnapshotName(name) => write!(f, "the snapshot named {}", Shown(name)),
            Key::GroupName(name) => write!(f, "the group snapshot named {}", Shown(name)),
            Key::Object(id) => write!(f, "{id}"),
        }
    }
}

/// The number of calls that share an object; zero means that one call holds it exclusively.
type Holders = HashMap<Key, usize>;

/// The longest wait for another call that copies the same volume.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The table of locks.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<Holders>,
    freed: Condvar,
}

/// A lock that is released on drop.
#[derive(Debug)]
#[must_use]
pub struct Guard {
    locks: Locks,
    key: Key,
}

impl Locks {
    pub fn exclusive(&self, key: Key) -> Result<Guard> {
        self.take(self.table(), key)
    }

    /// Locks the object exclusively, after waiting at most 5 s for its present holders.
    pub fn exclusive_waiting(&self, key: Key) -> Result<Guard> {
        let freed = &self.shared.freed;
        let table = freed.wait_timeout_while(self.table(), WAIT_MAX, |held| held.contains_key(&key));
        self.take(table, key)
    }

    fn take(&self, mut table: MutexGuard<'_, Holders>, key: Key) -> Result<Guard> {
        match table.entry(key.clone()) {
            Entry::Occupied(_) => Err(DriverError::Busy { what: key.to_string() }),
            Entry::Vacant(slot) => {
                slot.insert(0);
                Ok(Guard { locks: self.clone(), key })
            }
        }
    }

    /// Locks the object together with others that share it.
    pub fn shared(&self, key: Key) -> Result<Guard> {
        match self.table().entry(key.clone()) {
            Entry::Occupied(slot) if *slot.get() == 0 => Err(DriverError::Busy { what: key.to_string() }),
            entry => {
                *entry.or_insert(0) += 1;
                Ok(Guard { locks: self.clone(), key })
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Holders> {
        self.shared.held.lock()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut table = self.locks.table();
        match table.get_mut(&self.key) {
            Some(holders) if *holders > 1 => *holders -= 1,
            _ => {
                table.remove(&self.key);
                self.locks.shared.freed.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::VolumeName(name.to_owned())
    }

    #[test]
    fn a_lock_excludes_others_until_it_is_dropped() {
        let locks = Locks::default();
        let first = locks.exclusive(key("a")).unwrap();
        assert!(matches!(locks.exclusive(key("a")), Err(DriverError::Busy { .. })));
        assert!(locks.shared(key("a")).is_err());
        let _other = locks.exclusive(key("b")).unwrap();
        drop(first);
        let _again = locks.exclusive(key("a")).unwrap();
    }

    #[test]
    fn waiting_callers_all_get_the_lock() {
        let locks = Locks::default();
        let first = locks.exclusive(key("a")).unwrap();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let locks = locks.clone();
                std::thread::spawn(move || drop(locks.exclusive_waiting(key("a")).unwrap()))
            })
            .collect();
        drop(first);
        for thread in waiting {
            thread.join().unwrap();
        }
        let _free = locks.exclusive(key("a")).unwrap();
    }

    #[test]
    fn a_shared_lock_excludes_only_exclusive_ones() {
        let locks = Locks::default();
        let one = locks.shared(key("a")).unwrap();
        let two = locks.shared(key("a")).unwrap();
        drop(one);
        assert!(locks.exclusive(key("a")).is_err());
        drop(two);
        let _alone = locks.exclusive(key("a")).unwrap();
    }

    #[test]
    fn a_lock_is_released_by_a_panic() {
        let locks = Locks::default();
        let held = locks.clone();
        let result = std::thread::spawn(move || {
            let _guard = held.exclusive(key("a")).unwrap();
            panic!("on purpose");
        })
        .join();
        assert!(result.is_err());
        let _free = locks.exclusive(key("a")).unwrap();
    }
}
