//! The mode in which a call is made.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use csi_nemesis::disruption::{Disrupted, Hits, of_entries};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallMode {
    /// The call is made once, and its answer awaited.
    #[default]
    Once,
    /// The call is repeated until the driver says something other than "not now".
    Retried,
    /// The call is made and disrupted.
    Disrupted(Disrupted),
    /// The call is made, and the driver killed before its change of files or mounts with this number, from 1. If it
    /// makes fewer changes, it is killed right after its answer.
    KilledAtChange(NonZeroU32),
}

const ONCE: &str = "once";
const INSISTING: &str = "insisting";
/// The name in stored cases: `killed-at-change: 4`.
const KILLED_AT_CHANGE: &str = "killed-at-change";

impl CallMode {
    /// Returns true if the call is simply made once.
    pub(crate) fn is_once(&self) -> bool {
        *self == CallMode::Once
    }

    /// The time after which the caller gives the call up, if it does.
    pub(crate) fn given_up_after(&self) -> Option<Duration> {
        match self {
            CallMode::Disrupted(Disrupted { by, after }) if by.hits() == Hits::Call => Some(*after),
            _ => None,
        }
    }

    /// Describes the disruption of the driver or the connection during the call.
    pub(crate) fn disruption(&self) -> Option<String> {
        match self {
            CallMode::Once | CallMode::Retried => None,
            CallMode::Disrupted(disrupted) => Some(disrupted.to_string()),
            CallMode::KilledAtChange(nth) => Some(format!(
                "the driver killed before its change {nth} of files or mounts, or after its answer if there are fewer, and started"
            )),
        }
    }
}

impl From<Disrupted> for CallMode {
    fn from(disrupted: Disrupted) -> CallMode {
        CallMode::Disrupted(disrupted)
    }
}

/// Shown behind the answer, if it is not obvious.
impl fmt::Display for CallMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disruption().map_or(Ok(()), |disruption| write!(f, ", {disruption}"))
    }
}

impl Serialize for CallMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            CallMode::Once => serializer.serialize_str(ONCE),
            CallMode::Retried => serializer.serialize_str(INSISTING),
            CallMode::Disrupted(disrupted) => disrupted.serialize(serializer),
            CallMode::KilledAtChange(nth) => serializer.collect_map([(KILLED_AT_CHANGE, nth)]),
        }
    }
}

impl<'de> Deserialize<'de> for CallMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CallMode, D::Error> {
        deserializer.deserialize_any(WordOrDisruption)
    }
}

struct WordOrDisruption;

impl<'de> Visitor<'de> for WordOrDisruption {
    type Value = CallMode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ONCE}, {INSISTING} or a disruption, such as killed-after-us: 1500")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<CallMode, E> {
        match word {
            ONCE => Ok(CallMode::Once),
            INSISTING => Ok(CallMode::Retried),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CallMode, A::Error> {
        let entries = BTreeMap::<String, u64>::deserialize(MapAccessDeserializer::new(map))?;
        if let (1, Some(nth)) = (entries.len(), entries.get(KILLED_AT_CHANGE)) {
            let counted = u32::try_from(*nth).ok().and_then(NonZeroU32::new);
            return counted.map(CallMode::KilledAtChange).ok_or_else(|| {
                A::Error::custom(format!(
                    "{KILLED_AT_CHANGE} is the number of a change, from 1, and not {nth}"
                ))
            });
        }
        of_entries(entries).map(CallMode::Disrupted).map_err(A::Error::custom)
    }
}
