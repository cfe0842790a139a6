//! Requests for volumes that are copies of another volume, or of a snapshot.

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
