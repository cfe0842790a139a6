//! Splits lists into pages. Their tokens are opaque, and stay valid as long as the driver lives, whatever is created or
//! deleted in between.

use tonic::Status;

use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{Row, Table, hash};

/// The largest number of entries on a page, which keeps replies below the size that clients accept.
const PAGE_ENTRIES_MAX: usize = 5_000;
/// The number of entries on a page with the quirk `small-pages`.
const SMALL_PAGE_ENTRIES: usize = 2;

/// The rows of a page, and the token of the next one.
pub(super) struct Page<'a, T> {
    pub(super) rows: Vec<&'a T>,
    pub(super) next_token: String,
}

/// Returns the page that starts at a token.
pub(super) fn page<'a, T: Row + Clone>(
    driver: &MockDriver,
    list: List,
    table: &'a Table<T>,
    starting_token: &str,
    max_entries: usize,
    matches: impl Fn(&T) -> bool,
) -> Result<Page<'a, T>, Status> {
    let most = if driver.is(Quirk::SmallPages) { SMALL_PAGE_ENTRIES } else { PAGE_ENTRIES_MAX };
    let length = if max_entries == 0 { most } else { max_entries.min(most) };
    if driver.is(Quirk::StartAfterTokens) {
        let mut rows: Vec<&T> =
            table.after_id(starting_token).filter(|row| matches(row)).take(length + 1).collect();
        let more = rows.len() > length;
        rows.truncate(length);
        let last = rows.last().map(|row| row.id().to_owned());
        return Ok(Page { rows, next_token: last.filter(|_| more).unwrap_or_default() });
    }
    let after = match starting_token {
        "" => 0,
        given => sequence(list, given).ok_or_else(|| Status::aborted("starting_token is not valid"))?,
    };
    if driver.is(Quirk::CountingTokens) {
        let mut rows: Vec<&T> = table.values().filter(|row| matches(row)).collect();
        let first = usize::try_from(after).unwrap_or(usize::MAX).min(rows.len());
        rows.drain(..first);
        let more = rows.len() > length;
        rows.truncate(length);
        let next_token = if more { token(list, after.saturating_add(length as u64)) } else { String::new() };
        return Ok(Page { rows, next_token });
    }
    let mut rows: Vec<(u64, &T)> =
        table.after(after).filter(|(_, row)| matches(row)).take(length + 1).collect();
    let more = rows.len() > length;
    rows.truncate(length);
    let last = rows.last().filter(|_| more).map(|(sequence, _)| token(list, *sequence));
    Ok(Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next_token: last.unwrap_or_default() })
}

/// The list that a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Volumes = 1,
    Snapshots = 2,
    Health = 3,
}

/// Creates the token of the page after the object with this sequence number.
pub(crate) fn token(list: List, sequence: u64) -> String {
    format!("{:016x}{:016x}", sequence, seal(list, sequence))
}

/// Returns the sequence number in a token, if [`token`] has created it for this list.
pub(crate) fn sequence(list: List, token: &str) -> Option<u64> {
    let (number, check) = token.split_at_checked(16)?;
    let number = u64::from_str_radix(number, 16).ok()?;
    let check = u64::from_str_radix(check, 16).ok()?;
    (check == seal(list, number) && token == self::token(list, number)).then_some(number)
}

fn seal(list: List, sequence: u64) -> u64 {
    hash(&[0x70_61_67_65, list as u64, sequence])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_list_only() {
        let token = token(List::Volumes, 42);
        assert_eq!(sequence(List::Volumes, &token), Some(42));
        assert_eq!(sequence(List::Snapshots, &token), None);
        for wrong in
            ["", "0", "-1", "invalid-token", &token[1..], &token.to_uppercase(), &format!("+{}", &token[1..])]
        {
            assert_eq!(sequence(List::Volumes, wrong), None, "{wrong}");
        }
    }
}
