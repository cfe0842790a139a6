//! Chooses the changes that survive a loss of power, among those that are not durable.

/// Changes of which every choice is tried.
const CHOSEN_MAX: usize = 8;

/// The condition under which a change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name, or a length: it survives only with all those before it.
    Name,
    /// Contents, which survive only with this many of the names.
    Contents { names: usize },
}

/// One choice of changes that survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing survives.
    None,
    /// All names survive, and no contents, as if files were renamed before they were written.
    Names,
    /// Everything does, but for a half of the last write.
    Torn,
    /// The changes of these numbers, from 1.
    These(Vec<usize>),
}

impl Way {
    /// Its form in stored faults, such as `keeps-1.3`.
    pub(super) fn id(&self) -> String {
        match self {
            Way::None => "keeps-none".to_owned(),
            Way::Names => "keeps-names".to_owned(),
            Way::Torn => "torn".to_owned(),
            Way::These(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                format!("keeps-{}", numbers.join("."))
            }
        }
    }

    pub(super) fn parse(text: &str) -> Option<Way> {
        Some(match text {
            "keeps-none" => Way::None,
            "keeps-names" => Way::Names,
            "torn" => Way::Torn,
            _ => {
                let numbers = text.strip_prefix("keeps-")?.split('.').map(str::parse);
                Way::These(numbers.collect::<Result<_, _>>().ok()?)
            }
        })
    }

    /// Describes the choice in words that read after "the power is lost".
    pub(super) fn described(&self) -> String {
        match self {
            Way::None => "nothing is left of what was not made durable (fsync)".to_owned(),
            Way::Names => {
                "of what was not made durable (fsync), names and lengths are left, and no contents".to_owned()
            }
            Way::Torn => "the last write that was not made durable (fsync) is left by half".to_owned(),
            Way::These(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                format!(
                    "of the changes that were not made durable (fsync), only {} is left",
                    numbers.join(", ")
                )
            }
        }
    }

    /// Returns true if a change survives, by its number from 0.
    pub(super) fn keeps(&self, number: usize, kinds: &[Kind]) -> bool {
        match self {
            Way::None => false,
            Way::Names => kinds.get(number) == Some(&Kind::Name),
            Way::Torn => true,
            Way::These(numbers) => numbers.contains(&(number + 1)),
        }
    }

    /// All choices for changes of these kinds: for a few changes, every one that a file system can make; for many, the
    /// worst. If everything survives, that is a crash without a loss of power.
    pub(super) fn all(kinds: &[Kind]) -> Vec<Way> {
        if kinds.is_empty() {
            return Vec::new();
        }
        let has_contents = kinds.iter().any(|kind| *kind != Kind::Name);
        let mut ways = vec![Way::None];
        ways.extend([Way::Names, Way::Torn].into_iter().filter(|_| has_contents));
        if kinds.len() <= CHOSEN_MAX {
            let some = (1..(1_u32 << kinds.len()) - 1).filter(|mask| can_be(*mask, kinds));
            ways.extend(some.map(numbers).filter(|way| {
                // A choice that has a name of its own is not tried twice.
                (0..kinds.len()).any(|at| way.keeps(at, kinds) != Way::Names.keeps(at, kinds))
            }));
        }
        ways
    }
}

fn numbers(mask: u32) -> Way {
    Way::These((0..CHOSEN_MAX).filter(|at| mask & 1 << at != 0).map(|at| at + 1).collect())
}

/// Returns true if names survive in their order, and contents with their files.
fn can_be(mask: u32, kinds: &[Kind]) -> bool {
    let is_kept = |at: usize| mask & 1 << at != 0;
    let names = || (0..kinds.len()).filter(|at| kinds[*at] == Kind::Name);
    let kept = names().take_while(|at| is_kept(*at)).count();
    let in_order = names().skip(kept).all(|at| !is_kept(at));
    let with_files = (0..kinds.len()).all(|at| match kinds[at] {
        Kind::Contents { names } => !is_kept(at) || names <= kept,
        Kind::Name => true,
    });
    in_order && with_files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_has_so_many_ends() {
        let kinds = [Kind::Name, Kind::Contents { names: 1 }, Kind::Name];
        let ids: Vec<String> = Way::all(&kinds).iter().map(Way::id).collect();
        assert_eq!(ids, ["keeps-none", "keeps-names", "torn", "keeps-1", "keeps-1.2"]);
        for id in ids {
            assert_eq!(Way::parse(&id).map(|way| way.id()), Some(id));
        }
        assert_eq!(Way::all(&[]), []);
    }
}
