//! Locks that stay usable after a holder panicked: a panic ends one call only, and the code under these locks never
//! leaves a value half changed.

use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// It works as the type of this name in the standard library, without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates a lock that guards the value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits for exclusive access.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It works as the type of this name in the standard library, without poisoning.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates a lock that guards the value.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Waits until no writer holds the lock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for exclusive access.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It works as the type of this name in the standard library, without poisoning.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Waits while the condition is true.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the condition is true, at most for the limit.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout_while(guard, limit, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes all waiting threads, which check their condition again.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_work_after_a_holder_panicked() {
        let (mutex, lock) = (Mutex::new(1), RwLock::new(2));
        std::thread::scope(|scope| {
            let dies = scope.spawn(|| {
                let _held = (mutex.lock(), lock.write());
                panic!("while both are held");
            });
            assert!(dies.join().is_err());
        });
        assert_eq!(*lock.write(), 2);
        assert_eq!(*lock.read(), 2);
        assert_eq!(*mutex.lock(), 1);
        assert_eq!(mutex.into_inner(), 1);
    }
}
