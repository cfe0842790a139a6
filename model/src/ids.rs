//! Ids as the driver gives them, and the numbers that the model knows them by.

use std::collections::BTreeMap;

use super::names::{Id, Name, ObjectKind};

/// The ids that were given under each name, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Ids(BTreeMap<Name, Vec<String>>);

impl Ids {
    /// The id that an answer gives under a name; `None` if it is empty. If it belongs to another name of the kind, it is
    /// that one.
    pub fn give(&mut self, name: Name, text: &str) -> Option<Id> {
        if text.is_empty() {
            return None;
        }
        if let Some(known) = self.find_under(name, text).or_else(|| self.find(&[name.kind], text)) {
            return Some(known);
        }
        let ids = self.0.entry(name).or_default();
        let nth = u16::try_from(ids.len()).ok()?;
        ids.push(text.to_owned());
        Some(name.id(nth))
    }

    fn find_under(&self, name: Name, text: &str) -> Option<Id> {
        let nth = self.0.get(&name)?.iter().position(|other| other == text)?;
        Some(name.id(u16::try_from(nth).ok()?))
    }

    /// The ids under a name, in the order in which they came.
    pub fn of(&self, name: Name) -> Vec<Id> {
        let count = self.0.get(&name).map_or(0, Vec::len);
        (0..u16::try_from(count).unwrap_or(u16::MAX)).map(|nth| name.id(nth)).collect()
    }

    /// Finds the object with an id, among these kinds.
    pub fn find(&self, kinds: &[ObjectKind], text: &str) -> Option<Id> {
        let names = self.0.keys().filter(|name| kinds.contains(&name.kind));
        names.into_iter().find_map(|name| self.find_under(*name, text))
    }

    /// The id as the driver gave it.
    pub fn text(&self, id: Id) -> Option<&str> {
        self.0.get(&id.name)?.get(usize::from(id.nth)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_by_name_and_number() {
        let mut ids = Ids::default();
        let (first, second) = (Name::volume(0), Name::volume(1));
        assert_eq!(ids.give(first, "a"), Some(first.id(0)));
        assert_eq!(ids.give(first, "b"), Some(first.id(1)));
        assert_eq!(ids.give(first, "a"), Some(first.id(0)));
        assert_eq!(ids.give(second, ""), None);
        // Objects of different kinds may share an id; within a kind, an id stands for one object.
        assert_eq!(ids.give(Name::snapshot(0), "a"), Some(Name::snapshot(0).id(0)));
        assert_eq!(ids.give(second, "a"), Some(first.id(0)));
        assert_eq!(ids.text(first.id(1)), Some("b"));
        assert_eq!(ids.text(second.id(0)), None);
        assert_eq!(ids.find(&[ObjectKind::Snapshot, ObjectKind::Member], "b"), None);
    }
}
