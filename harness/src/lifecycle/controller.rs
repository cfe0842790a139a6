use csi_proto::{Call as _, v1};

use crate::client::retry::PendingCall;
use crate::config::{AccessType, Pairs};
use crate::lifecycle::cx::Cx;
use crate::resources::resource::Resource;
use crate::spec::verdict::Stop;

/// Access modes of the protocol.
pub type Mode = v1::volume_capability::access_mode::Mode;

impl Cx {
    /// The capability that volumes are made and used with unless a check says otherwise: the access type of this
    /// run, one node, reading and writing.
    pub fn capability(&self) -> v1::VolumeCapability {
        self.capability_for(self.access(), Mode::SingleNodeWriter)
    }

    /// A capability with another mode.
    pub fn capability_with_mode(&self, mode: Mode) -> v1::VolumeCapability {
        self.capability_for(self.access(), mode)
    }

    /// A capability with any access type and mode.
    pub fn capability_for(&self, access: AccessType, mode: Mode) -> v1::VolumeCapability {
        use v1::volume_capability::{AccessMode, AccessType as Kind, BlockVolume, MountVolume};
        let kind = match access {
            AccessType::Block => Kind::Block(BlockVolume {}),
            AccessType::Mount => Kind::Mount(MountVolume {
                fs_type: self.config().fs_type.clone(),
                mount_flags: self.config().mount_flags.clone(),
                volume_mount_group: String::new(),
            }),
        };
        v1::VolumeCapability { access_type: Some(kind), access_mode: Some(AccessMode { mode: mode.into() }) }
    }

    /// A CreateVolume request for a new volume, with everything that is configured.
    pub fn create_volume_request(&self) -> v1::CreateVolumeRequest {
        let config = self.config();
        v1::CreateVolumeRequest {
            name: self.unique_name(),
            capacity_range: Some(v1::CapacityRange {
                required_bytes: self.volume_size_bytes(),
                limit_bytes: 0,
            }),
            volume_capabilities: vec![self.capability()],
            parameters: config.parameters.clone(),
            mutable_parameters: self.create_mutable_parameters(),
            accessibility_requirements: config.topology_requirement.as_ref().map(|wanted| wanted.message()),
            ..Default::default()
        }
    }

    /// A request for the capacity of the pool in which the run makes its volumes. A driver may have no default pool, and other pools do not
    /// show what becomes of these volumes.
    pub fn capacity_request(&self) -> v1::GetCapacityRequest {
        let topology = self.config().topology_requirement.as_ref();
        let first = topology.and_then(|wanted| wanted.requisite.first().or(wanted.preferred.first()));
        v1::GetCapacityRequest {
            volume_capabilities: Vec::new(),
            parameters: self.config().parameters.clone(),
            accessible_topology: first.map(|segments| v1::Topology { segments: segments.clone() }),
        }
    }

    /// mutable_parameters belong into CreateVolume only for drivers that can modify volumes.
    fn create_mutable_parameters(&self) -> Pairs {
        use crate::protocol::capability::Capability::ModifyVolume;
        if self.target().capabilities().has(ModifyVolume) {
            self.config().mutable_parameters.clone()
        } else {
            Default::default()
        }
    }

    /// Sends CreateVolume. The volume is deleted after the check, also if there was no answer.
    pub fn create_volume(&self, request: v1::CreateVolumeRequest) -> PendingCall<'_, v1::Volume> {
        PendingCall::new(self, v1::CreateVolumeRequest::RPC, move || {
            let call = self.call(request.clone()).once();
            let pending = Resource::VolumeNamed(Box::new(request.clone()));
            async move {
                let reply = self.learning(pending, call, |response| {
                    let id = &response.volume.as_ref()?.volume_id;
                    self.made(id).then(|| Resource::Volume(id.clone()))
                });
                reply
                    .await
                    .map(|response| response.volume.unwrap_or_default())
                    .needs("volume_id", |volume| !volume.volume_id.is_empty())
            }
        })
    }

    /// Enters a volume in the ledger that came to be by other means than [`Cx::create_volume`].
    pub fn owns_volume(&self, id: &str) {
        if self.made(id) {
            self.owns(Resource::Volume(id.to_owned()));
        }
    }

    /// Notes that this run has made something with this id, if it has one.
    pub(super) fn made(&self, id: &str) -> bool {
        if !id.is_empty() {
            self.target().made(id, self.label());
        }
        !id.is_empty()
    }

    /// A volume to build on, made with [`Cx::create_volume_request`].
    ///
    /// # Errors
    /// Broken if the driver refuses: a check of CreateVolume itself reports that.
    pub async fn new_volume(&self) -> Result<v1::Volume, Stop> {
        self.create_volume(self.create_volume_request()).setup("a volume").await
    }

    /// A ValidateVolumeCapabilities request that asks if a volume can be used as this run uses it.
    pub fn validate_request(&self, id: &str, context: &Pairs) -> v1::ValidateVolumeCapabilitiesRequest {
        v1::ValidateVolumeCapabilitiesRequest {
            volume_id: id.to_owned(),
            volume_context: context.clone(),
            volume_capabilities: vec![self.capability()],
            ..Default::default()
        }
    }

    /// Sends DeleteVolume.
    pub fn delete_volume(&self, id: &str) -> PendingCall<'_, v1::DeleteVolumeResponse> {
        let request = v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() };
        self.unmake(Resource::Volume(id.to_owned()), request)
    }

    /// The id of a volume that existed until just now: well-formed, and unknown to the driver.
    ///
    /// # Errors
    /// Broken if a volume cannot be made and deleted.
    pub async fn deleted_volume_id(&self) -> Result<String, Stop> {
        let volume = self.new_volume().await?;
        self.delete_volume(&volume.volume_id).setup("a volume that is deleted").await?;
        Ok(volume.volume_id)
    }
}
