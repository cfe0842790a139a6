use csi_proto::v1;

use super::undo;
use crate::cx::Cx;
use crate::reply::{Answer, Reply};
use crate::verdict::Stop;

impl Cx {
    /// A CreateVolume request for a new volume, with everything that is configured.
    pub fn create_volume_request(&self) -> v1::CreateVolumeRequest {
        let config = self.config();
        v1::CreateVolumeRequest {
            name: self.unique_name(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: config.volume_size_bytes,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![self.capability()],
            parameters: config.parameters.clone(),
            mutable_parameters: self.create_mutable_parameters(),
            accessibility_requirements: config.topology_requirement.as_ref().map(|wanted| wanted.message()),
            ..Default::default()
        }
    }

    /// mutable_parameters belong into CreateVolume only for drivers that can modify volumes.
    fn create_mutable_parameters(&self) -> crate::config::Pairs {
        use crate::capability::Capability::ModifyVolume;
        if self.target().capabilities().has(ModifyVolume) {
            self.config().mutable_parameters.clone()
        } else {
            Default::default()
        }
    }

    /// Sends CreateVolume. Whatever comes of it is deleted after the check, also if there was no answer.
    pub async fn create_volume(&self, request: v1::CreateVolumeRequest) -> Reply<v1::Volume> {
        let pending = format!("volume named {:?}", request.name);
        if !request.name.is_empty() {
            self.ledger.write(&pending, undo::volume_by_name(request.clone()));
        }
        let reply = self.call(request).await;
        match reply.answer() {
            Answer::Ok(response) => {
                if let Some(volume) = &response.volume {
                    self.owns_volume(&volume.volume_id);
                }
                self.ledger.settle(&pending);
            }
            Answer::Refused(_) => self.ledger.settle(&pending),
            Answer::Unknown(_) => {}
        }
        reply
            .map(|response| response.volume.unwrap_or_default())
            .needs("volume_id", |volume| !volume.volume_id.is_empty())
    }

    /// Enters a volume in the ledger that came to be by other means than [`Cx::create_volume`].
    pub fn owns_volume(&self, id: &str) {
        if !id.is_empty() {
            self.target().made(id);
            self.ledger.write(volume_key(id), undo::volume(id.to_owned()));
        }
    }

    /// A volume to build on, made with [`Cx::create_volume_request`].
    ///
    /// # Errors
    /// Broken if the driver refuses: a check of CreateVolume itself reports that.
    pub async fn new_volume(&self) -> Result<v1::Volume, Stop> {
        self.create_volume(self.create_volume_request()).await.setup("a volume")
    }

    /// Sends DeleteVolume.
    pub async fn delete_volume(&self, id: &str) -> Reply<v1::DeleteVolumeResponse> {
        let reply =
            self.call(v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }).await;
        if matches!(reply.answer(), Answer::Ok(_)) {
            self.ledger.settle(&volume_key(id));
        }
        reply
    }

    /// The id of a volume that existed until just now: well-formed, and unknown to the driver.
    ///
    /// # Errors
    /// Broken if a volume cannot be made and deleted.
    pub async fn deleted_volume_id(&self) -> Result<String, Stop> {
        let volume = self.new_volume().await?;
        self.delete_volume(&volume.volume_id).await.setup("a volume that is deleted")?;
        Ok(volume.volume_id)
    }
}

fn volume_key(id: &str) -> String {
    format!("volume {id}")
}
