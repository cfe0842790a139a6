//! A part of a run that is divided among several processes, each of which may be on another machine.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::checks::check::Planned;
use crate::checks::check::{Check, Runs, SAME_RULE};
use crate::checks::registry::Registry;
use crate::text::encoding::hex;

/// Parts that a run can have.
pub const SHARDS_MAX: u32 = 1_000;
/// Bytes of the digest of a choice of checks.
const DIGEST_BYTES: usize = 8;

/// One of the parts of a run: its place from 1, and the number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// The part at a place from 1 among this many; `None` if there is no such part.
    pub fn new(index: u32, of: u32) -> Option<Shard> {
        (1..=of).contains(&index).then_some(Shard { index, of }).filter(|shard| shard.of <= SHARDS_MAX)
    }

    /// Its place, from 1.
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of parts.
    pub fn of(self) -> u32 {
        self.of
    }

    /// The runs of checks that fall to this part.
    ///
    /// The hash of its id decides where a check goes, so a new check moves no other one. The variants of a check stay
    /// together, and a check that follows another one goes with it, so that the parts of a run report a fault as often
    /// as the whole run does. Checks that judge everything that was seen run in each part, which sees only its own.
    pub fn part(self, plan: Vec<Planned>, registry: &Registry) -> Vec<Planned> {
        let leaders: BTreeMap<&str, &str> = registry
            .checks()
            .filter_map(|(_, check)| {
                Some((&*check.id, check.duplicate_of.filter(|leader| *leader != SAME_RULE)?))
            })
            .collect();
        plan.into_iter()
            .filter(|planned| {
                planned.check.runs == Runs::Finally || self.has(first_leader(&planned.check, &leaders))
            })
            .collect()
    }

    /// Returns true if a check belongs to this part. This looks only at the id, and holds for checks that follow no
    /// other one.
    pub fn has(self, id: &str) -> bool {
        number(&[id]) % u64::from(self.of) == u64::from(self.index - 1)
    }

    /// Derives the seed of this part from the seed of the run: parts that try at random must not make equal tries.
    pub fn seed(self, seed: u64) -> u64 {
        // A seed of 32 bits is short enough for a user to type.
        number(&[&seed.to_string(), &self.to_string()]) >> 32
    }
}

/// Follows the leaders of a check to the one that follows no other.
fn first_leader<'a>(check: &'a Check, leaders: &BTreeMap<&'a str, &'a str>) -> &'a str {
    let mut id = &*check.id;
    // Checks that followed each other in a ring would never end.
    for _ in 0..leaders.len() {
        match leaders.get(id) {
            Some(leader) => id = leader,
            None => break,
        }
    }
    id
}

/// Hashes the labels of the chosen checks, as hexadecimal digits. Different choices give different hashes.
pub fn digest(labels: impl IntoIterator<Item = String>) -> String {
    let mut labels: Vec<String> = labels.into_iter().collect();
    labels.sort();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    hex(&hash(&labels)[..DIGEST_BYTES])
}

/// A hash that is stable across machines and versions.
fn number(texts: &[&str]) -> u64 {
    hash(texts)[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn hash(texts: &[&str]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update("\n");
    }
    hash.finalize().to_vec()
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed =
            text.split_once('/').and_then(|(index, of)| Shard::new(index.parse().ok()?, of.parse().ok()?));
        parsed.ok_or_else(|| {
            format!("write the part and the number of parts, such as 2/4; there can be {SHARDS_MAX} parts")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_that_there_is_has_a_name() {
        let shard: Shard = "2/4".parse().unwrap();
        assert_eq!((shard.index(), shard.of(), shard.to_string().as_str()), (2, 4, "2/4"));
        for wrong in ["", "2", "0/4", "5/4", "-1/4", "1/0", "1/1001", "a/4", "1/4/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_has_the_same_place_for_ever() {
        let place = |id: &str| (1..=4).find(|index| Shard::new(*index, 4).unwrap().has(id));
        assert_eq!(place("identity/probe/answers"), Some(1));
        assert_eq!(place("controller/create-volume/works"), Some(4));
    }

    #[test]
    fn every_part_has_its_own_seed_each_time_the_same() {
        let seeds: Vec<u64> = (1..=4).map(|index| Shard::new(index, 4).unwrap().seed(7)).collect();
        let distinct: std::collections::BTreeSet<&u64> = seeds.iter().collect();
        assert_eq!(distinct.len(), 4, "{seeds:?}");
        assert_eq!(seeds[0], Shard::new(1, 4).unwrap().seed(7));
        assert_ne!(seeds[0], Shard::new(1, 4).unwrap().seed(8));
        assert_ne!(seeds[0], Shard::new(1, 2).unwrap().seed(7));
    }
}
