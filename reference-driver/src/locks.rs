//! Which objects are busy. A call that needs a busy object gets ABORTED and is repeated by its caller.
//!
//! The rule: an operation that changes an object holds it alone; operations that only copy from a snapshot share it;
//! calls that only look hold nothing. Copies of one volume that are asked for at the same time take turns, as far as each
//! has patience: callers double their pauses, so that ten snapshots at once would take them minutes. Nothing else waits,
//! and no wait is without end, so nothing can deadlock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use csi_proto::lock::{Condvar, Mutex};

use crate::error::{DriverError, Result};
use crate::ids::{ObjectId, Shown};

/// What can be busy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The name of a volume that is being made.
    VolumeName(String),
    /// The identifier of an inline volume that is being made or removed.
    InlineVolume(String),
    /// The name of a snapshot that is being made.
    SnapshotName(String),
    /// The name of a group snapshot that is being made.
    GroupName(String),
    /// A volume, a snapshot or a group snapshot.
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

/// How many share the object; `0` means that one holds it alone.
type Holders = HashMap<Key, usize>;

/// How long a call waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// The table of busy objects.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<Holders>,
    freed: Condvar,
}

/// Keeps an object busy until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Guard {
    locks: Locks,
    key: Key,
}

impl Locks {
    /// Holds the object alone.
    pub fn exclusive(&self, key: Key) -> Result<Guard> {
        self.take(self.table(), key)
    }

    /// Holds the object alone, once those are done who hold it now. Blocks for 5 s at the most.
    pub fn in_turn(&self, key: Key) -> Result<Guard> {
        let freed = &self.shared.freed;
        let table = freed.wait_timeout_while(self.table(), PATIENCE, |held| held.contains_key(&key));
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

    /// Holds the object together with others that share it.
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
    fn a_busy_object_is_refused_and_free_again_afterwards() {
        let locks = Locks::default();
        let first = locks.exclusive(key("a")).unwrap();
        assert!(matches!(locks.exclusive(key("a")), Err(DriverError::Busy { .. })));
        assert!(locks.shared(key("a")).is_err());
        let _other = locks.exclusive(key("b")).unwrap();
        drop(first);
        let _again = locks.exclusive(key("a")).unwrap();
    }

    #[test]
    fn those_who_take_turns_all_get_theirs() {
        let locks = Locks::default();
        let first = locks.exclusive(key("a")).unwrap();
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let locks = locks.clone();
                std::thread::spawn(move || drop(locks.in_turn(key("a")).unwrap()))
            })
            .collect();
        drop(first);
        for thread in waiting {
            thread.join().unwrap();
        }
        let _free = locks.exclusive(key("a")).unwrap();
    }

    #[test]
    fn sharing_keeps_out_only_those_who_want_it_alone() {
        let locks = Locks::default();
        let one = locks.shared(key("a")).unwrap();
        let two = locks.shared(key("a")).unwrap();
        drop(one);
        assert!(locks.exclusive(key("a")).is_err());
        drop(two);
        let _alone = locks.exclusive(key("a")).unwrap();
    }

    #[test]
    fn a_panicking_holder_lets_go() {
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
