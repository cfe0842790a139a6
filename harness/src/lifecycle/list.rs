use csi_proto::v1;

use crate::cx::Session;
use crate::verdict::Stop;

/// Pages read of one list at the most.
const PAGES_MAX: usize = 10_000;

impl Session {
    /// All entries of ListVolumes, read in the pages that the driver makes.
    ///
    /// # Errors
    /// Broken if the driver refuses or never ends.
    pub async fn list_volumes(&self) -> Result<Vec<v1::list_volumes_response::Entry>, Stop> {
        let mut entries = Vec::new();
        let mut starting_token = String::new();
        for _ in 0..PAGES_MAX {
            let page =
                self.call(v1::ListVolumesRequest { max_entries: 0, starting_token }).await.setup("a list")?;
            entries.extend(page.entries);
            if page.next_token.is_empty() {
                return Ok(entries);
            }
            starting_token = page.next_token;
        }
        Err(Stop::broken(format!("ListVolumes has not ended after {PAGES_MAX} pages")))
    }

    /// All entries of ListSnapshots that the request selects, read in the pages that the driver makes.
    ///
    /// # Errors
    /// Broken if the driver refuses or never ends.
    pub async fn list_snapshots(
        &self,
        mut request: v1::ListSnapshotsRequest,
    ) -> Result<Vec<v1::Snapshot>, Stop> {
        let mut snapshots = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.call(request.clone()).await.setup("a list")?;
            snapshots.extend(page.entries.into_iter().filter_map(|entry| entry.snapshot));
            if page.next_token.is_empty() {
                return Ok(snapshots);
            }
            request.starting_token = page.next_token;
        }
        Err(Stop::broken(format!("ListSnapshots has not ended after {PAGES_MAX} pages")))
    }
}
