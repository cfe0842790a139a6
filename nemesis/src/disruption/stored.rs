//! Disruptions in files: `killed-after-us: 1500`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ALL, Disrupted, Disruption};

/// It follows the name of a disruption in a key, such as `killed-after-us`.
const UNIT: &str = "-after-us";

impl Serialize for Disrupted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = u64::try_from(self.after.as_micros()).unwrap_or(u64::MAX);
        serializer.collect_map([(format!("{}{UNIT}", self.by.name), micros)])
    }
}

impl<'de> Deserialize<'de> for Disrupted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Disrupted, D::Error> {
        of_entries(BTreeMap::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The disruption that a map of one entry stands for.
pub fn of_entries(entries: BTreeMap<String, u64>) -> Result<Disrupted, String> {
    let mut entries = entries.into_iter();
    let (Some((key, micros)), None) = (entries.next(), entries.next()) else {
        return Err(format!("one disruption is expected, such as {}", names()));
    };
    let by = key.strip_suffix(UNIT).and_then(Disruption::named);
    let by = by.ok_or_else(|| format!("{key:?} is not a disruption; known are {}", names()))?;
    Ok(by.after(Duration::from_micros(micros)))
}

fn names() -> String {
    let names: Vec<String> = ALL.iter().map(|one| format!("{}{UNIT}", one.name)).collect();
    names.join(", ")
}
