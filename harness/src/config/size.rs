//! Sizes as users write them: a number of bytes, or a Kubernetes quantity such as 1Gi.

use std::fmt;

use csi_driver_definitions::Quantity;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as 1Gi, 500M or 1073741824")
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<i64, E> {
        Ok(bytes)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<i64, E> {
        i64::try_from(bytes).map_err(|_| E::custom(format!("a size of at most {} bytes is needed", i64::MAX)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i64, E> {
        let quantity = text.parse::<Quantity>().map_err(E::custom)?;
        self.visit_u64(quantity.bytes())
    }
}

/// Reads one that has to be there.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    deserializer.deserialize_any(Bytes)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Size(#[serde(deserialize_with = "bytes")] i64);

/// Reads one that can be left out.
pub(super) fn optional_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<Size>::deserialize(deserializer)?.map(|Size(bytes)| bytes))
}

/// The schema of a size.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["integer", "string"], "minimum": 1})
}

/// The schema of a size that can be left out.
pub(super) fn optional_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["integer", "string", "null"], "minimum": 1})
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn sizes_are_numbers_or_quantities() {
        let size = |text: &str| {
            serde_saphyr::from_str::<Config>(&format!("volume-size-bytes: {text}\n"))
                .map(|c| c.volume_size_bytes)
        };
        assert_eq!(size("1Gi").unwrap(), Some(1 << 30));
        assert_eq!(size("\"500M\"").unwrap(), Some(500_000_000));
        assert_eq!(size("1073741824").unwrap(), Some(1 << 30));
        assert_eq!(size("null").unwrap(), None);
        for wrong in ["1GB", "16Ei", "-1Gi", "[]"] {
            let error = size(wrong).unwrap_err().to_string();
            assert!(
                error.contains("1Gi")
                    || error.contains("large")
                    || error.contains("negative")
                    || error.contains("at most"),
                "{error}"
            );
        }
    }
}
