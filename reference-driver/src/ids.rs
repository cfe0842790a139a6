//! Identifiers. Those of the driver are safe as file names; those from a peer are never used as one.

use std::fmt;

use rustix::rand::GetRandomFlags;
use serde::{Deserialize, Serialize};

use crate::error::{DriverError, IoContext};

/// The longest string in a field that has no limit of its own, in bytes (GEN-SIZE-001).
pub const STRING_BYTES_MAX: usize = 128;

/// The kind of object that an [`ObjectId`] identifies, which decides its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Volume,
    Snapshot,
    Group,
}

impl ObjectKind {
    const fn prefix(self) -> &'static str {
        match self {
            ObjectKind::Volume => "vol-",
            ObjectKind::Snapshot => "snap-",
            ObjectKind::Group => "group-",
        }
    }
}

/// The identifier of an object of the driver: a prefix and 128 random bits in hexadecimal.
///
/// It consists of lower-case letters, digits and one dash, even if it was parsed from foreign text, so it is safe as
/// a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId(String);

#[derive(Debug, thiserror::Error)]
#[error("not an identifier of this driver")]
pub struct ForeignId;

impl ObjectId {
    /// Generates an identifier that nothing else has.
    pub fn generate(kind: ObjectKind) -> Result<ObjectId, DriverError> {
        let mut random = [0u8; 16];
        // The kernel returns so few bytes completely or not at all.
        rustix::rand::getrandom(&mut random, GetRandomFlags::empty())
            .on("make an identifier from", "random bits".as_ref())?;
        Ok(ObjectId(format!("{}{:032x}", kind.prefix(), u128::from_be_bytes(random))))
    }

    /// Parses an identifier of the given kind.
    pub fn parse(kind: ObjectKind, text: &str) -> Result<ObjectId, ForeignId> {
        let digits = text.strip_prefix(kind.prefix()).ok_or(ForeignId)?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if digits.len() == 32 && digits.bytes().all(hex) {
            Ok(ObjectId(text.to_owned()))
        } else {
            Err(ForeignId)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ObjectId {
    type Error = ForeignId;

    fn try_from(text: String) -> Result<ObjectId, ForeignId> {
        [ObjectKind::Volume, ObjectKind::Snapshot, ObjectKind::Group]
            .into_iter()
            .find_map(|kind| ObjectId::parse(kind, &text).ok())
            .ok_or(ForeignId)
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> String {
        id.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_parse_and_differ() {
        let a = ObjectId::generate(ObjectKind::Volume).unwrap();
        let b = ObjectId::generate(ObjectKind::Volume).unwrap();
        assert_ne!(a, b);
        assert_eq!(ObjectId::parse(ObjectKind::Volume, a.as_str()).unwrap(), a);
        assert!(ObjectId::parse(ObjectKind::Snapshot, a.as_str()).is_err());
    }

    #[test]
    fn path_parts_and_odd_text_are_foreign() {
        let long = format!("vol-{}", "a".repeat(33));
        for text in ["", "vol-", "../../etc", "vol-../../../../../../../../../../../etc", "vol-\0", &long] {
            assert!(ObjectId::parse(ObjectKind::Volume, text).is_err(), "{text:?}");
        }
        let upper = format!("vol-{}", "A".repeat(32));
        assert!(ObjectId::parse(ObjectKind::Volume, &upper).is_err());
    }
}
