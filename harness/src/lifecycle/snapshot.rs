use csi_proto::v1;

use super::undo;
use crate::cx::Cx;
use crate::reply::{Answer, Reply};
use crate::verdict::Stop;

impl Cx {
    /// A CreateSnapshot request for a new snapshot of a volume, with everything that is configured.
    pub fn create_snapshot_request(&self, source_volume_id: &str) -> v1::CreateSnapshotRequest {
        v1::CreateSnapshotRequest {
            source_volume_id: source_volume_id.to_owned(),
            name: self.unique_name(),
            parameters: self.config().snapshot_parameters.clone(),
            ..Default::default()
        }
    }

    /// Sends CreateSnapshot. Whatever comes of it is deleted after the check, also if there was no answer.
    pub async fn create_snapshot(&self, request: v1::CreateSnapshotRequest) -> Reply<v1::Snapshot> {
        let pending = format!("snapshot named {:?}", request.name);
        if !request.name.is_empty() {
            self.ledger.write(&pending, undo::snapshot_by_name(request.clone()));
        }
        let reply = self.call(request).await;
        match reply.answer() {
            Answer::Ok(response) => {
                if let Some(snapshot) = &response.snapshot
                    && !snapshot.snapshot_id.is_empty()
                {
                    self.target().made(&snapshot.snapshot_id);
                    let undo = undo::snapshot(snapshot.snapshot_id.clone());
                    self.ledger.write(snapshot_key(&snapshot.snapshot_id), undo);
                }
                self.ledger.settle(&pending);
            }
            Answer::Refused(_) => self.ledger.settle(&pending),
            Answer::Unknown(_) => {}
        }
        reply
            .map(|response| response.snapshot.unwrap_or_default())
            .needs("snapshot_id", |snapshot| !snapshot.snapshot_id.is_empty())
    }

    /// A snapshot to build on, ready to use.
    ///
    /// # Errors
    /// Broken if the driver refuses, or the snapshot is not ready in time.
    pub async fn new_snapshot(&self, source_volume_id: &str) -> Result<v1::Snapshot, Stop> {
        let ready = self.ready_snapshot(&self.create_snapshot_request(source_volume_id)).await?;
        ready.ok_or_else(|| Stop::broken("needs a snapshot, but the new one does not become ready_to_use"))
    }

    /// A snapshot once it is ready to use; `None` if it is not in time.
    ///
    /// # Errors
    /// Broken if the driver refuses.
    pub async fn ready_snapshot(
        &self,
        request: &v1::CreateSnapshotRequest,
    ) -> Result<Option<v1::Snapshot>, Stop> {
        self.eventually(|| async {
            // The protocol's way to wait: the same request again.
            let snapshot = self.create_snapshot(request.clone()).await.setup("a snapshot")?;
            Ok(snapshot.ready_to_use.then_some(snapshot))
        })
        .await
    }

    /// Sends DeleteSnapshot.
    pub async fn delete_snapshot(&self, id: &str) -> Reply<v1::DeleteSnapshotResponse> {
        let reply =
            self.call(v1::DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() }).await;
        if matches!(reply.answer(), Answer::Ok(_)) {
            self.ledger.settle(&snapshot_key(id));
        }
        reply
    }

    /// The id of a snapshot that existed until just now: well-formed, and unknown to the driver.
    ///
    /// # Errors
    /// Broken if a snapshot cannot be made and deleted.
    pub async fn deleted_snapshot_id(&self) -> Result<String, Stop> {
        let volume = self.new_volume().await?;
        let snapshot = self.new_snapshot(&volume.volume_id).await?;
        self.delete_snapshot(&snapshot.snapshot_id).await.setup("a snapshot that is deleted")?;
        Ok(snapshot.snapshot_id)
    }
}

fn snapshot_key(id: &str) -> String {
    format!("snapshot {id}")
}
