//! Locks that stay usable when a holder has panicked: a panic ends one call, and what these locks guard is whole between any two steps.

use std::sync::{MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// As that of the standard library.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Guards a value.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits until nobody else has the value.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As that of the standard library.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Guards a value.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Waits until nobody changes the value.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else has the value.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As that of the standard library.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Waits as long as the condition holds.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as the condition holds, and no longer than that.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout_while(guard, limit, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Has all who wait look again.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_panicking_holder_guarded_can_be_had() {
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
