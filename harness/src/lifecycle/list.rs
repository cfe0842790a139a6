use std::collections::BTreeSet;

use csi_proto::v1;
use futures_util::future::BoxFuture;
use tonic::Code;

use crate::client::session::Session;
use crate::spec::verdict::Stop;

/// Largest number of pages that are read of one list.
const PAGES_MAX: usize = 10_000;

impl Session {
    /// All entries of ListVolumes, read in the pages that the driver makes. A list whose tokens lead back to an earlier page, or nowhere, ends
    /// there, and has each volume once; `controller/list-volumes/pages` reports it.
    ///
    /// # Errors
    /// Broken if the driver refuses or never ends.
    pub fn list_volumes(&self) -> BoxFuture<'_, Result<Vec<v1::list_volumes_response::Entry>, Stop>> {
        Box::pin(async move {
            let mut entries = Vec::new();
            let mut request = v1::ListVolumesRequest::default();
            let mut tokens = Tokens::default();
            loop {
                let reply = self.call(request.clone()).await;
                if is_beyond_the_end(&request.starting_token, reply.code()?) {
                    return Ok(entries);
                }
                let page = reply.setup("a list")?;
                entries.extend(page.entries);
                match tokens.next("ListVolumes", page.next_token)? {
                    Next::Page(token) => request.starting_token = token,
                    Next::End => return Ok(entries),
                    Next::Circle => {
                        let mut seen = BTreeSet::new();
                        let id = |entry: &v1::list_volumes_response::Entry| {
                            Some(entry.volume.as_ref()?.volume_id.clone())
                        };
                        entries.retain(|entry| seen.insert(id(entry)));
                        return Ok(entries);
                    }
                }
            }
        })
    }

    /// All entries of ListSnapshots that the request selects, read in the pages that the driver makes. A list whose tokens lead back to an
    /// earlier page, or nowhere, ends there, and has each snapshot once; `controller/list-snapshots/pages` reports it.
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
                let reply = self.call(request.clone()).await;
                if is_beyond_the_end(&request.starting_token, reply.code()?) {
                    return Ok(snapshots);
                }
                let page = reply.setup("a list")?;
                snapshots.extend(page.entries.into_iter().filter_map(|entry| entry.snapshot));
                match tokens.next("ListSnapshots", page.next_token)? {
                    Next::Page(token) => request.starting_token = token,
                    Next::End => return Ok(snapshots),
                    Next::Circle => {
                        let mut seen = BTreeSet::new();
                        snapshots.retain(|snapshot| seen.insert(snapshot.snapshot_id.clone()));
                        return Ok(snapshots);
                    }
                }
            }
        })
    }
}

/// Returns true if the driver says that a token is not valid (ABORTED) that it has given itself. Some give one with the last page as well.
fn is_beyond_the_end(starting_token: &str, code: Code) -> bool {
    !starting_token.is_empty() && code == Code::Aborted
}

/// The continuation of a list after one of its pages.
enum Next {
    /// The page with this token.
    Page(String),
    /// Nothing: it was the last page.
    End,
    /// A page that was there before.
    Circle,
}

/// The tokens of one list so far.
#[derive(Default)]
struct Tokens(BTreeSet<String>);

impl Tokens {
    fn next(&mut self, rpc: &str, token: String) -> Result<Next, Stop> {
        if token.is_empty() {
            return Ok(Next::End);
        }
        if !self.0.insert(token.clone()) {
            return Ok(Next::Circle);
        }
        if self.0.len() == PAGES_MAX {
            return Err(Stop::broken(format!("{rpc} has not ended after {PAGES_MAX} pages")));
        }
        Ok(Next::Page(token))
    }
}
