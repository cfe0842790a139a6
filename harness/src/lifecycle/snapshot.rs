use csi_proto::{Call as _, v1};

use crate::client::patience::Settles;
use crate::client::retry::PendingCall;
use crate::lifecycle::cx::Cx;
use crate::resources::resource::Resource;
use crate::spec::verdict::Stop;

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

    /// Sends CreateSnapshot. The snapshot is deleted after the check, also if there was no answer.
    pub fn create_snapshot(&self, request: v1::CreateSnapshotRequest) -> PendingCall<'_, v1::Snapshot> {
        PendingCall::new(self, v1::CreateSnapshotRequest::RPC, move || {
            let call = self.call(request.clone()).once();
            let pending = Resource::SnapshotNamed(Box::new(request.clone()));
            async move {
                let reply = self.learning(pending, call, |response| {
                    let id = &response.snapshot.as_ref()?.snapshot_id;
                    self.made(id).then(|| Resource::Snapshot(id.clone()))
                });
                reply
                    .await
                    .map(|response| response.snapshot.unwrap_or_default())
                    .needs("snapshot_id", |snapshot| !snapshot.snapshot_id.is_empty())
            }
        })
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
        self.eventually(Settles::SnapshotReady, || async {
            // The protocol's way to wait is to send the request again.
            let snapshot = self.create_snapshot(request.clone()).setup("a snapshot").await?;
            Ok(snapshot.ready_to_use.then_some(snapshot))
        })
        .await
    }

    /// Sends DeleteSnapshot.
    pub fn delete_snapshot(&self, id: &str) -> PendingCall<'_, v1::DeleteSnapshotResponse> {
        let request = v1::DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
        self.unmake(Resource::Snapshot(id.to_owned()), request)
    }

    /// The id of a snapshot that existed until just now: well-formed, and unknown to the driver.
    ///
    /// # Errors
    /// Broken if a snapshot cannot be made and deleted.
    pub async fn deleted_snapshot_id(&self) -> Result<String, Stop> {
        let volume = self.new_volume().await?;
        let snapshot = self.new_snapshot(&volume.volume_id).await?;
        self.delete_snapshot(&snapshot.snapshot_id).setup("a snapshot that is deleted").await?;
        Ok(snapshot.snapshot_id)
    }
}
