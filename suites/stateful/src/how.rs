//! How a call is made.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::disruption::{Disrupted, of_entries};

/// How a call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// And its answer waited for.
    #[default]
    Once,
    /// Until the driver says something other than "not now".
    Insisting,
    /// And disrupted.
    Disrupted(Disrupted),
}

const ONCE: &str = "once";
const INSISTING: &str = "insisting";

impl How {
    /// Whether there is nothing special about it.
    pub(crate) fn is_once(&self) -> bool {
        *self == How::Once
    }
}

impl From<Disrupted> for How {
    fn from(disrupted: Disrupted) -> How {
        How::Disrupted(disrupted)
    }
}

/// What is worth a word, behind the answer.
impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Once | How::Insisting => Ok(()),
            How::Disrupted(disrupted) => write!(f, ", {disrupted}"),
        }
    }
}

impl Serialize for How {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            How::Once => serializer.serialize_str(ONCE),
            How::Insisting => serializer.serialize_str(INSISTING),
            How::Disrupted(disrupted) => disrupted.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for How {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<How, D::Error> {
        deserializer.deserialize_any(WordOrDisruption)
    }
}

struct WordOrDisruption;

impl<'de> Visitor<'de> for WordOrDisruption {
    type Value = How;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ONCE}, {INSISTING} or a disruption, such as killed-after-us: 1500")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<How, E> {
        match word {
            ONCE => Ok(How::Once),
            INSISTING => Ok(How::Insisting),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<How, A::Error> {
        let entries = BTreeMap::deserialize(MapAccessDeserializer::new(map))?;
        of_entries(entries).map(How::Disrupted).map_err(A::Error::custom)
    }
}
