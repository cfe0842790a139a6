//! Accounts for storage that is promised to volumes: in pools to the byte, in the free space of the file system
//! rounded, and for slots on nodes by number.
//!
//! Everything is reserved before it is used, under one short lock, so that concurrent calls never get more than
//! exists. Dropping a reservation gives it back unless it is kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use csi_proto::lock::Mutex;

use crate::error::{DriverError, IoContext, Result, Shown};

#[derive(Debug, Default)]
struct Promised {
    pools: BTreeMap<String, u64>,
    volumes_bytes: u64,
    copies_bytes: u64,
    attachments: BTreeMap<String, u64>,
}

/// The limits, and what has been promised within them.
#[derive(Clone, Debug)]
pub struct Ledger {
    limits: Arc<Limits>,
    promised: Arc<Mutex<Promised>>,
}

#[derive(Debug)]
pub struct Limits {
    /// The size of each pool in bytes; an empty map means that there are no pools.
    pub pools: BTreeMap<String, u64>,
    /// True if all volumes together may be larger than the free space, if there are no pools.
    pub overcommit: bool,
    /// The number of volumes that may be attached to a node; zero means any number.
    pub attachments_max: u64,
    /// A directory on the file system that holds the data.
    pub data: PathBuf,
}

/// The promise that a reservation gives back when it is dropped.
#[derive(Debug)]
enum Claim {
    Volume { pool: Option<String>, bytes: u64 },
    Copy { bytes: u64 },
    Attachment { node: String },
}

/// A promise that is given back on drop, unless it is kept.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    ledger: Ledger,
    claim: Option<Claim>,
}

impl Reservation {
    /// Makes the promise last.
    pub fn keep(mut self) {
        self.claim = None;
    }

    /// The pool that holds the reserved storage.
    pub fn pool(&self) -> Option<String> {
        match &self.claim {
            Some(Claim::Volume { pool, .. }) => pool.clone(),
            _ => None,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.ledger.give_back(&claim);
        }
    }
}

impl Ledger {
    pub fn new(limits: Limits) -> Ledger {
        Ledger { limits: Arc::new(limits), promised: Arc::default() }
    }

    /// Counts a volume that already exists, even if the pools have become too small for it.
    pub fn count_volume(&self, pool: Option<&str>, bytes: u64) {
        self.promised().add(pool, bytes);
    }

    /// Counts an attachment that already exists.
    pub fn count_attachment(&self, node: &str) {
        *self.promised().attachments.entry(node.to_owned()).or_default() += 1;
    }

    /// Reserves storage for a volume, in the given pool or else in the first one with enough room.
    pub fn reserve_volume(&self, pool: Option<&str>, bytes: u64) -> Result<Reservation> {
        let free = self.free_bytes()?;
        let promised = self.promised();
        let pool = self.choose(&promised, pool, bytes)?;
        self.reserve_in(promised, pool, bytes, free)
    }

    /// Reserves more storage for a volume where it is: in its pool, or outside of all pools.
    pub fn reserve_growth(&self, pool: Option<&str>, bytes: u64) -> Result<Reservation> {
        let free = self.free_bytes()?;
        self.reserve_in(self.promised(), pool.map(str::to_owned), bytes, free)
    }

    /// Reserves storage for a copy that is about to be written.
    pub fn reserve_space(&self, bytes: u64) -> Result<Reservation> {
        let free = self.free_bytes()?;
        let mut promised = self.promised();
        let available = free.saturating_sub(promised.copies_bytes);
        if bytes > available {
            return Err(storage(bytes, available));
        }
        promised.copies_bytes += bytes;
        Ok(self.reserved(Claim::Copy { bytes }))
    }

    /// Reserves an attachment slot on a node (CTRL-PUBLISH-029).
    pub fn reserve_attachment(&self, node: &str) -> Result<Reservation> {
        let mut promised = self.promised();
        let limit = self.limits.attachments_max;
        let attached = promised.attachments.entry(node.to_owned()).or_default();
        if limit > 0 && *attached >= limit {
            let reason = format!("the limit of {limit} attached volumes has been reached");
            return Err(DriverError::Exhausted { resource: "volume slots on the node", reason });
        }
        *attached += 1;
        Ok(self.reserved(Claim::Attachment { node: node.to_owned() }))
    }

    /// Gives back the storage of a deleted volume.
    pub fn release_volume(&self, pool: Option<&str>, bytes: u64) {
        self.give_back(&Claim::Volume { pool: pool.map(str::to_owned), bytes });
    }

    /// Gives back an attachment slot.
    pub fn release_attachment(&self, node: &str) {
        self.give_back(&Claim::Attachment { node: node.to_owned() });
    }

    /// The size that a new volume could have at most.
    pub fn available_bytes(&self, pool: Option<&str>) -> Result<u64> {
        let free = self.free_bytes()?;
        let promised = self.promised();
        if self.limits.pools.is_empty() || pool.is_some() {
            return Ok(self.available(&promised, pool, free));
        }
        let rooms = self.limits.pools.keys().map(|pool| self.available(&promised, Some(pool), free));
        Ok(rooms.max().unwrap_or(0))
    }

    /// The sum of the sizes of all volumes.
    pub fn volumes_bytes(&self) -> u64 {
        self.promised().volumes_bytes
    }

    fn reserve_in(
        &self,
        mut promised: MutexGuard<'_, Promised>,
        pool: Option<String>,
        bytes: u64,
        free_bytes: u64,
    ) -> Result<Reservation> {
        let available = self.available(&promised, pool.as_deref(), free_bytes);
        if bytes > available {
            return Err(storage(bytes, available));
        }
        promised.add(pool.as_deref(), bytes);
        Ok(self.reserved(Claim::Volume { pool, bytes }))
    }

    fn choose(&self, promised: &Promised, pool: Option<&str>, bytes: u64) -> Result<Option<String>> {
        let pools = &self.limits.pools;
        match pool {
            Some(pool) if pools.contains_key(pool) => Ok(Some(pool.to_owned())),
            Some(pool) => {
                let reason = format!("there is no storage of kind {}", Shown(pool));
                Err(DriverError::invalid("parameters", reason))
            }
            None if pools.is_empty() => Ok(None),
            None => {
                let fits = |pool: &&String| bytes <= self.available(promised, Some(pool), u64::MAX);
                let largest =
                    || pools.keys().map(|pool| self.available(promised, Some(pool), u64::MAX)).max();
                let chosen = pools.keys().find(fits).cloned();
                chosen.map(Some).ok_or_else(|| storage(bytes, largest().unwrap_or(0)))
            }
        }
    }

    fn available(&self, promised: &Promised, pool: Option<&str>, free_bytes: u64) -> u64 {
        match pool {
            Some(pool) => {
                let total = self.limits.pools.get(pool).copied().unwrap_or(0);
                total.saturating_sub(promised.pools.get(pool).copied().unwrap_or(0))
            }
            None if self.limits.overcommit => round_down(free_bytes.saturating_sub(promised.copies_bytes)),
            None => {
                let free_bytes = free_bytes.saturating_sub(promised.copies_bytes);
                round_down(free_bytes.saturating_sub(promised.volumes_bytes))
            }
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        let data = &self.limits.data;
        let space = rustix::fs::statvfs(data).on("get the free space of", data)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn reserved(&self, claim: Claim) -> Reservation {
        Reservation { ledger: self.clone(), claim: Some(claim) }
    }

    fn give_back(&self, claim: &Claim) {
        let mut promised = self.promised();
        match claim {
            Claim::Volume { pool, bytes } => promised.subtract(pool.as_deref(), *bytes),
            Claim::Copy { bytes } => promised.copies_bytes = promised.copies_bytes.saturating_sub(*bytes),
            Claim::Attachment { node } => {
                if let Some(attached) = promised.attachments.get_mut(node) {
                    *attached = attached.saturating_sub(1);
                }
            }
        }
    }

    fn promised(&self) -> MutexGuard<'_, Promised> {
        self.promised.lock()
    }
}

impl Promised {
    fn add(&mut self, pool: Option<&str>, bytes: u64) {
        self.volumes_bytes = self.volumes_bytes.saturating_add(bytes);
        if let Some(pool) = pool {
            let used = self.pools.entry(pool.to_owned()).or_default();
            *used = used.saturating_add(bytes);
        }
    }

    fn subtract(&mut self, pool: Option<&str>, bytes: u64) {
        self.volumes_bytes = self.volumes_bytes.saturating_sub(bytes);
        if let Some(used) = pool.and_then(|pool| self.pools.get_mut(pool)) {
            *used = used.saturating_sub(bytes);
        }
    }
}

/// Rounds free space down to seven binary digits, which is by less than 1/64. Otherwise the reported capacity would
/// change with every file that anything on the host writes, and a CO that publishes it would update its objects all
/// the time.
fn round_down(bytes: u64) -> u64 {
    const DIGITS: u32 = 7;
    let dropped = (u64::BITS - bytes.leading_zeros()).saturating_sub(DIGITS);
    bytes >> dropped << dropped
}

fn storage(asked: u64, available: u64) -> DriverError {
    let reason = format!("{asked} bytes are asked for and {available} are available");
    DriverError::Exhausted { resource: "storage", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(pools: &[(&str, u64)]) -> Ledger {
        let pools = pools.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        Ledger::new(Limits { pools, overcommit: true, attachments_max: 2, data: PathBuf::from("/") })
    }

    #[test]
    fn a_pool_is_never_overdrawn_by_parallel_reservations() {
        let ledger = ledger(&[("fast", 100)]);
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let ledger = ledger.clone();
                std::thread::spawn(move || match ledger.reserve_volume(Some("fast"), 10) {
                    Ok(reservation) => {
                        reservation.keep();
                        1
                    }
                    Err(_) => 0,
                })
            })
            .collect();
        let kept: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(kept, 10);
        assert_eq!(ledger.available_bytes(Some("fast")).unwrap(), 0);
    }

    #[test]
    fn free_space_is_rounded_down_and_by_little() {
        let gib = 1 << 30;
        assert_eq!(round_down(67 * gib + 12_345), 67 * gib);
        assert_eq!(round_down(67 * gib - 1), 66 * gib);
        assert_eq!(round_down(500 << 20), 500 << 20);
        assert_eq!(round_down((500 << 20) + 4096), 500 << 20);
        let mut bytes = u64::MAX;
        while bytes > 0 {
            assert!(round_down(bytes) <= bytes && bytes - round_down(bytes) <= bytes / 64, "{bytes}");
            assert_eq!(round_down(round_down(bytes)), round_down(bytes), "{bytes}");
            bytes = bytes / 3 * 2;
        }
        assert_eq!((round_down(0), round_down(127)), (0, 127));
    }

    #[test]
    fn the_reported_capacity_can_be_reserved() {
        let ledger = ledger(&[]);
        let available = ledger.available_bytes(None).unwrap();
        assert_eq!(available, round_down(available));
        // Other programs may use or free some space at the same time.
        assert!(ledger.reserve_volume(None, available / 2).is_ok());
        assert!(ledger.reserve_volume(None, available.saturating_mul(2)).is_err());
    }

    #[test]
    fn a_reservation_that_is_not_kept_is_given_back() {
        let ledger = ledger(&[("fast", 100)]);
        drop(ledger.reserve_volume(Some("fast"), 100).unwrap());
        let kept = ledger.reserve_volume(None, 60).unwrap();
        assert_eq!(kept.pool().as_deref(), Some("fast"));
        kept.keep();
        assert!(matches!(ledger.reserve_volume(Some("fast"), 41), Err(DriverError::Exhausted { .. })));
        ledger.release_volume(Some("fast"), 60);
        assert_eq!(ledger.available_bytes(Some("fast")).unwrap(), 100);
    }

    #[test]
    fn unknown_pools_and_full_nodes_are_refused() {
        let ledger = ledger(&[("fast", 100)]);
        assert!(matches!(ledger.reserve_volume(Some("slow"), 1), Err(DriverError::Invalid { .. })));
        let _one = ledger.reserve_attachment("a").unwrap();
        let _two = ledger.reserve_attachment("a").unwrap();
        assert!(ledger.reserve_attachment("a").is_err());
        assert!(ledger.reserve_attachment("b").is_ok(), "each node has slots of its own");
    }
}
