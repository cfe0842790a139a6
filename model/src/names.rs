//! The names of objects in the model. They are numbers, since the ids that a driver gives differ from run to run, and
//! "the first volume" still means something after earlier calls were left out.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Kinds of things that have a name or an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// Made by CreateVolume.
    Volume,
    /// Made by CreateSnapshot.
    Snapshot,
    /// Made by CreateVolumeGroupSnapshot.
    Group,
    /// A snapshot that came to be as a part of a group; it counts under the name of its group.
    Member,
}

impl ObjectKind {
    const ALL: [ObjectKind; 4] =
        [ObjectKind::Volume, ObjectKind::Snapshot, ObjectKind::Group, ObjectKind::Member];

    fn letter(self) -> char {
        match self {
            ObjectKind::Volume => 'v',
            ObjectKind::Snapshot => 's',
            ObjectKind::Group => 'g',
            ObjectKind::Member => 'm',
        }
    }
}

/// The n-th name of a kind. Shown as `v1`: names count from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Name {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The number, from zero.
    pub number: u16,
}

/// The n-th id that the driver gave under a name, which can be used again after a deletion. Shown as `v1`, and later
/// ones as `v1#2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Id {
    /// The name that it has an id under.
    pub name: Name,
    /// The number among the objects of this name, from zero.
    pub nth: u16,
}

impl Name {
    /// The n-th name of volumes, from zero.
    pub const fn volume(number: u16) -> Name {
        Name { kind: ObjectKind::Volume, number }
    }

    /// The n-th name of snapshots, from zero.
    pub const fn snapshot(number: u16) -> Name {
        Name { kind: ObjectKind::Snapshot, number }
    }

    /// The n-th name of group snapshots, from zero.
    pub const fn group(number: u16) -> Name {
        Name { kind: ObjectKind::Group, number }
    }

    /// The n-th id under this name, from zero.
    pub const fn id(self, nth: u16) -> Id {
        Id { name: self, nth }
    }

    /// The name that members of the group are counted under.
    pub const fn members(self) -> Name {
        Name { kind: ObjectKind::Member, number: self.number }
    }

    /// The name of the group, for the name that members are counted under.
    pub const fn owner(self) -> Name {
        match self.kind {
            ObjectKind::Member => Name::group(self.number),
            ObjectKind::Volume | ObjectKind::Snapshot | ObjectKind::Group => self,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.kind.letter(), u32::from(self.number) + 1))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nth {
            0 => self.name.fmt(f),
            nth => f.pad(&format!("{}#{}", self.name, u32::from(nth) + 1)),
        }
    }
}

/// Explains ids that do not stand for the first object of their name, a line each.
pub fn legend(ids: impl Iterator<Item = Id>) -> Vec<String> {
    let later: BTreeSet<Id> = ids.filter(|id| id.nth > 0 && id.name.kind != ObjectKind::Member).collect();
    let line = |id: &Id| {
        let what = match id.name.kind {
            ObjectKind::Volume => "volume",
            ObjectKind::Snapshot | ObjectKind::Member => "snapshot",
            ObjectKind::Group => "group snapshot",
        };
        format!("  {id} is {what} number {} made under the name {}", u32::from(id.nth) + 1, id.name)
    };
    later.iter().map(line).collect()
}

/// A text that names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names nothing: v1 is the first volume, s1 a snapshot, g1 a group snapshot, m1 a member, v1#2 a second volume \
     of the first name"
)]
pub struct UnknownName(String);

impl FromStr for Name {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Name, UnknownName> {
        let parse = || {
            let kind = ObjectKind::ALL.into_iter().find(|kind| text.starts_with(kind.letter()))?;
            Some(Name { kind, number: text[1..].parse::<u16>().ok()?.checked_sub(1)? })
        };
        parse().ok_or_else(|| UnknownName(text.to_owned()))
    }
}

impl FromStr for Id {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Id, UnknownName> {
        let (name, nth) = text.split_once('#').unwrap_or((text, "1"));
        let nth = nth.parse::<u16>().ok().and_then(|nth| nth.checked_sub(1));
        Ok(name.parse::<Name>()?.id(nth.ok_or_else(|| UnknownName(text.to_owned()))?))
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.to_string()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for Name {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Name, UnknownName> {
        text.parse()
    }
}

impl TryFrom<String> for Id {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Id, UnknownName> {
        text.parse()
    }
}

/// The n-th node, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Node(pub u8);

/// The n-th place of a volume on a node at which it can be published, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Target(pub u8);

impl Target {
    /// From this target on, a directory exists at the path before a volume is published as a file system.
    pub const WITH_A_DIRECTORY: Target = Target(2);
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", u16::from(self.0) + 1)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "target {}", u16::from(self.0) + 1)
    }
}

/// A place in a volume that bytes are written to: a file, or a range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub u8);

/// Identifies a write among all writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_read_as_they_are_shown() {
        for id in [Name::volume(0).id(0), Name::snapshot(41).id(1), Name::group(7).members().id(9)] {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.name.to_string().parse(), Ok(id.name));
        }
        assert_eq!(Name::volume(0).id(0).to_string(), "v1");
        assert_eq!(Name::group(1).members().id(2).to_string(), "m2#3");
        for text in ["", "v", "v0", "x1", "v1#0", "v1#", "v70000", "é1", "v1#2#3"] {
            assert_eq!(text.parse::<Id>().map_err(|error| error.0), Err(text.to_owned()));
        }
    }
}
