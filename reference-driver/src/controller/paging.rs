//! Listing in pages: a token names the last object of the page before, so that objects that come and go meanwhile
//! neither repeat nor hide others.

use crate::error::{DriverError, Result};
use crate::ids::{ObjectId, ObjectKind};

/// How many entries a page has at most, so that a reply stays far below the message limit of gRPC.
const ENTRIES_MAX: usize = 4000;

/// Which page is asked for.
#[derive(Debug)]
pub(super) struct Page<'a> {
    /// The identifier behind which the page begins; empty for the first.
    pub(super) after: &'a str,
    /// How many entries it has at most.
    pub(super) entries_max: usize,
}

impl<'a> Page<'a> {
    /// Reads which page is asked for (CTRL-LISTVOL-009, -022).
    pub(super) fn read(kind: ObjectKind, max_entries: i32, starting_token: &'a str) -> Result<Page<'a>> {
        let asked = usize::try_from(max_entries);
        let asked = asked.map_err(|_| DriverError::invalid("max_entries", "it is negative"))?;
        if !starting_token.is_empty() {
            ObjectId::parse(kind, starting_token).map_err(|_| DriverError::Token)?;
        }
        let entries_max = if asked == 0 { ENTRIES_MAX } else { asked.min(ENTRIES_MAX) };
        Ok(Page { after: starting_token, entries_max })
    }

    /// How many records to fetch: one more than fits, to know whether there is another page.
    pub(super) fn fetch_count(&self) -> usize {
        self.entries_max + 1
    }

    /// Cuts what was fetched to the page and names the token of the next.
    pub(super) fn cut<T>(&self, found: &mut Vec<T>, key: impl Fn(&T) -> &ObjectId) -> String {
        if found.len() <= self.entries_max {
            return String::new();
        }
        found.truncate(self.entries_max);
        found.last().map(|last| key(last).to_string()).unwrap_or_default()
    }
}
