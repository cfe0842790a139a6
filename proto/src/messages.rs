//! Ways to make messages of the protocol from others.

use crate::v1;
use crate::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};

impl v1::VolumeContentSource {
    /// A snapshot to make a volume from.
    pub fn snapshot(snapshot_id: impl Into<String>) -> Self {
        Self { r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: snapshot_id.into() })) }
    }

    /// A volume to make another one from.
    pub fn volume(volume_id: impl Into<String>) -> Self {
        Self { r#type: Some(Type::Volume(VolumeSource { volume_id: volume_id.into() })) }
    }
}

impl v1::CreateVolumeRequest {
    /// The request for a copy of a source, with room for so many bytes at least.
    #[must_use]
    pub fn copy_of(mut self, source: v1::VolumeContentSource, bytes: i64) -> Self {
        let range = self.capacity_range.get_or_insert_default();
        range.required_bytes = range.required_bytes.max(bytes);
        self.volume_content_source = Some(source);
        self
    }
}

// Both streams of the SnapshotMetadata service have messages of one form, so that one code can make and judge both.
impl From<v1::GetMetadataAllocatedResponse> for v1::GetMetadataDeltaResponse {
    fn from(message: v1::GetMetadataAllocatedResponse) -> Self {
        let v1::GetMetadataAllocatedResponse { block_metadata_type, volume_capacity_bytes, block_metadata } =
            message;
        Self { block_metadata_type, volume_capacity_bytes, block_metadata }
    }
}

impl From<v1::GetMetadataDeltaResponse> for v1::GetMetadataAllocatedResponse {
    fn from(message: v1::GetMetadataDeltaResponse) -> Self {
        let v1::GetMetadataDeltaResponse { block_metadata_type, volume_capacity_bytes, block_metadata } =
            message;
        Self { block_metadata_type, volume_capacity_bytes, block_metadata }
    }
}
