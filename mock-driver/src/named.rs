//! Closed lists of things with a stable id. One table defines the enum, its ids and its descriptions.

use std::fmt;

/// An id that is in no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UnknownId {
    /// The kind of the id, such as `defect`.
    pub kind: &'static str,
    /// The given text.
    pub given: String,
    /// The most similar id, if one is similar enough.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`", self.kind, self.given)?;
        match self.nearest {
            Some(nearest) => write!(f, ", did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Returns the candidate that needs the fewest edits to become `given`, ignoring case, if they are few.
pub(crate) fn nearest(given: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    // The distance takes quadratic time, and no mistyped id is as long as this.
    if given.len() > 256 {
        return None;
    }
    let given = given.to_ascii_lowercase();
    let distance = |id: &str| strsim::levenshtein(&given, &id.to_ascii_lowercase());
    let (distance, best) = candidates.map(|id| (distance(id), id)).min()?;
    (distance <= given.len().max(best.len()) / 3).then_some(best)
}

/// Declares an enum from a table of `Variant, "id", "description";` lines, with all conversions between variants and
/// ids.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $kind:literal; $($variant:ident, $id:literal, $description:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum $name {
            $(#[doc = $description] $variant,)*
        }

        impl $name {
            /// All variants, in the order of the table.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The stable id, in kebab case.
            pub fn id(self) -> &'static str {
                match self { $($name::$variant => $id,)* }
            }

            /// The description, in one line.
            pub fn description(self) -> &'static str {
                match self { $($name::$variant => $description,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.id())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::named::UnknownId;

            fn from_str(given: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|known| known.id() == given).ok_or_else(|| {
                    let ids = Self::ALL.iter().map(|known| known.id());
                    let nearest = $crate::named::nearest(given, ids);
                    $crate::named::UnknownId { kind: $kind, given: given.to_owned(), nearest }
                })
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::named::UnknownId;

            fn try_from(given: String) -> Result<Self, Self::Error> {
                given.parse()
            }
        }

        impl From<$name> for &'static str {
            fn from(known: $name) -> Self {
                known.id()
            }
        }
    };
}
pub(crate) use named;
