use std::collections::BTreeSet;

use csi_proto::v1;
use futures_util::future::BoxFuture;

use crate::client::session::Session;
use crate::spec::verdict::Stop;

/// Largest number of pages that are read of one list.
const PAGES_MAX: usize = 10_000;

impl Session {
    /// All entries of ListVolumes, read in the pages that the driver makes.
    ///
    /// # Errors
    /// Broken if the driver refuses or never ends.
    pub fn list_volumes(&self) -> BoxFuture<'_, Result<Vec<v1::list_volumes_response::Entry>, Stop>> {
        Box::pin(async move {
            let mut entries = Vec::new();
            let mut request = v1::ListVolumesRequest::default();
            let mut tokens = Tokens::default();
            loop {
                let page = self.call(request.clone()).setup("a list").await?;
                entries.extend(page.entries);
                match tokens.next("ListVolumes", page.next_token)? {
                    Some(token) => request.starting_token = token,
                    None => return Ok(entries),
                }
            }
        })
    }

    /// All entries of ListSnapshots that the request selects, read in the pages that the driver makes.
    ///
    /// # Errors
    /// Broken if the driver refuses or never ends.
    pub fn list_snapshots(
        &self,
        mut request: v1::ListSnapshotsRequest,
    ) -> BoxFuture<'_, Result<Vec<v1::Snapshot>, Stop>> {
        Box::pin(async move {
            let mut snapshots = Vec::new();
            let mut tokens = Tokens::default();
            loop {
                let page = self.call(request.clone()).setup("a list").await?;
                snapshots.extend(page.entries.into_iter().filter_map(|entry| entry.snapshot));
                match tokens.next("ListSnapshots", page.next_token)? {
                    Some(token) => request.starting_token = token,
                    None => return Ok(snapshots),
                }
            }
        })
    }
}

/// The tokens of one list so far: one that comes again leads round in a circle.
#[derive(Default)]
struct Tokens(BTreeSet<String>);

impl Tokens {
    /// The token of the next page, if there is one.
    fn next(&mut self, rpc: &str, token: String) -> Result<Option<String>, Stop> {
        if token.is_empty() {
            return Ok(None);
        }
        if !self.0.insert(token.clone()) {
            return Err(Stop::broken(format!("{rpc} never ends: next_token {token:?} comes again")));
        }
        if self.0.len() == PAGES_MAX {
            return Err(Stop::broken(format!("{rpc} has not ended after {PAGES_MAX} pages")));
        }
        Ok(Some(token))
    }
}
