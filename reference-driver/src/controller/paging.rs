//! Lists in pages. A token names the last object of the previous page, so that objects that are created or deleted
//! between calls neither repeat others nor hide them.

use crate::error::{DriverError, Result};
use crate::ids::{ObjectId, ObjectKind};

/// The largest number of entries in a page, which keeps replies far below the message limit of gRPC.
const ENTRIES_MAX: usize = 4000;

#[derive(Debug)]
pub(super) struct Page<'a> {
    /// The identifier after which the page starts; empty for the first page.
    pub(super) after: &'a str,
    pub(super) entries_max: usize,
}

impl<'a> Page<'a> {
    /// Checks the paging fields of a request (CTRL-LISTVOL-009, -022).
    pub(super) fn read(kind: ObjectKind, max_entries: i32, starting_token: &'a str) -> Result<Page<'a>> {
        let asked = usize::try_from(max_entries);
        let asked = asked.map_err(|_| DriverError::invalid("max_entries", "it is negative"))?;
        if !starting_token.is_empty() {
            ObjectId::parse(kind, starting_token).map_err(|_| DriverError::Token)?;
        }
        let entries_max = if asked == 0 { ENTRIES_MAX } else { asked.min(ENTRIES_MAX) };
        Ok(Page { after: starting_token, entries_max })
    }

    /// One record more than fits into the page, which shows whether there is another page.
    pub(super) fn fetch_count(&self) -> usize {
        self.entries_max + 1
    }

    /// Removes the surplus record, and returns the token of the next page.
    pub(super) fn truncate<T>(&self, found: &mut Vec<T>, key: impl Fn(&T) -> &ObjectId) -> String {
        if found.len() <= self.entries_max {
            return String::new();
        }
        found.truncate(self.entries_max);
        found.last().map(|last| key(last).to_string()).unwrap_or_default()
    }
}
