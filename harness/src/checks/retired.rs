//! Ids that checks once had. No other check ever gets one, so that the filters and lists of users stay valid.

use std::fmt;

/// An id that no check has any more.
#[derive(Clone, Copy, Debug)]
pub struct Retired {
    /// The id.
    pub id: &'static str,
    /// The first version without it.
    pub since: &'static str,
    /// The reason why it is retired.
    pub fate: Fate,
}

/// The reason why a check no longer exists under its id.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// The check has this id now.
    Renamed(&'static str),
    /// The check was removed, for this reason.
    Gone(&'static str),
}

impl fmt::Display for Retired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Retired { id, since, .. } = self;
        match self.fate {
            Fate::Renamed(successor) => write!(f, "{id} is called {successor} since {since}"),
            Fate::Gone(because) => write!(f, "{id} is gone since {since}: {because}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::checks::check::Check;
    use crate::checks::filter::Filter;
    use crate::checks::known::KnownFailing;
    use crate::checks::registry::{Checks, Registry, Suite};
    use crate::spec::requirements::req;

    check! {
        NEW {
            id: "a/b/new",
            title: "it works",
            spec: [req::ID_INFO_001],
            refuted_by: ["some-defect"],
        }
        async |_cx| { Ok(()) }
    }

    fn registry() -> Registry {
        const CHECKS: &[&Check] = &[&NEW];
        const RETIRED: &[Retired] = &[
            Retired { id: "a/b/old", since: "0.2.0", fate: Fate::Renamed("a/b/new") },
            Retired { id: "a/b/wrong", since: "0.3.0", fate: Fate::Gone("it was unjust") },
        ];
        Registry::new([Suite { name: "s", checks: Checks::Declared(&[CHECKS]), retired: RETIRED }])
    }

    fn filter(terms: &str) -> (Filter, Vec<String>) {
        let mut filter = Filter::default();
        filter.add(terms).unwrap();
        let notes = filter.follow(&registry());
        (filter, notes)
    }

    #[test]
    fn an_old_id_selects_its_successor() {
        let (renamed, notes) = filter("a/b/old");
        assert!(renamed.selects(&NEW, "a/b/new"));
        assert_eq!(notes, ["a/b/old is called a/b/new since 0.2.0"]);
        let (unwanted, _) = filter("!a/b/old");
        assert!(!unwanted.selects(&NEW, "a/b/new"));
        let (for_block, _) = filter("a/b/old@block");
        assert!(for_block.selects(&NEW, "a/b/new@block") && !for_block.selects(&NEW, "a/b/new"));
    }

    #[test]
    fn an_id_that_is_gone_selects_nothing_and_says_why() {
        let (gone, notes) = filter("a/b/wrong");
        assert_eq!(notes, ["a/b/wrong is gone since 0.3.0: it was unjust"]);
        assert!(gone.check_terms([&NEW].into_iter()).is_err());
    }

    #[test]
    fn other_patterns_stay_as_they_are() {
        let (filter, notes) = filter("a/b/* req:ID-INFO-001 a/b/new");
        assert!(notes.is_empty() && filter.selects(&NEW, "a/b/new"));
    }

    #[test]
    fn a_list_of_known_failures_goes_on_working() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "a/b/old  # our issue 3\na/b/wrong  # our issue 4\n").unwrap();
        let mut known = KnownFailing::load(file.path()).unwrap();
        assert_eq!(known.follow(&registry()).len(), 2);
        assert_eq!(known.entry("a/b/new").map(|entry| entry.reason.as_str()), Some("our issue 3"));
        assert_eq!(known.unmatched(["a/b/new"].into_iter()).len(), 1);
    }
}
