//! Splits lists into pages.

use tonic::Status;

use crate::driver::MockDriver;
use crate::quirk::Quirk;
use crate::state::{List, Row, Table, sequence, token};

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
