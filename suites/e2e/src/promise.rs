//! The promises of a definition that a driver has to advertise, because otherwise no component ever uses them.

use csi_driver_definitions::{Capability as Can, DriverDefinition};
use csi_harness::prelude::Capability;

use crate::test::Need;

/// A promise of a definition.
#[derive(Debug)]
pub struct Promise {
    /// The text in the definition.
    pub text: &'static str,
    is_made: fn(&DriverDefinition) -> bool,
    /// Returns whether a test with this need relies on the promise.
    is_needed: fn(&Need) -> bool,
    /// The capabilities, one of which has to be advertised.
    pub any_of: &'static [Capability],
}

pub static PROMISES: &[Promise] = &[
    Promise {
        text: "a StorageClass",
        is_made: |definition| definition.storage_class.source().is_some(),
        is_needed: |_| false,
        any_of: &[Capability::CreateDeleteVolume],
    },
    Promise {
        text: "`snapshotDataSource: true`",
        is_made: |definition| definition.can(Can::SnapshotDataSource),
        is_needed: |need| matches!(need, Need::Can(Can::SnapshotDataSource)),
        any_of: &[Capability::CreateDeleteSnapshot],
    },
    Promise {
        text: "`pvcDataSource: true`",
        is_made: |definition| definition.can(Can::PvcDataSource),
        is_needed: |need| matches!(need, Need::Can(Can::PvcDataSource)),
        any_of: &[Capability::CloneVolume],
    },
    Promise {
        text: "`controllerExpansion: true`",
        is_made: |definition| definition.can(Can::ControllerExpansion),
        is_needed: |need| matches!(need, Need::Can(Can::ControllerExpansion)),
        any_of: &[Capability::ExpandVolume, Capability::NodeExpandVolume],
    },
    Promise {
        text: "a VolumeAttributesClass",
        is_made: |definition| definition.volume_attributes_class.source().is_some(),
        is_needed: |need| matches!(need, Need::AttributesClass),
        any_of: &[Capability::ModifyVolume],
    },
    Promise {
        text: "`capacity: true`",
        is_made: |definition| definition.can(Can::Capacity),
        is_needed: |need| matches!(need, Need::Can(Can::Capacity)),
        any_of: &[Capability::GetCapacity],
    },
    Promise {
        text: "`topology: true`",
        is_made: |definition| definition.can(Can::Topology),
        is_needed: |_| false,
        any_of: &[Capability::VolumeAccessibilityConstraints],
    },
    Promise {
        text: "`volumeMountGroup: true`",
        is_made: |definition| definition.can(Can::VolumeMountGroup),
        is_needed: |_| false,
        any_of: &[Capability::VolumeMountGroup],
    },
    Promise {
        text: "`groupSnapshot: true`",
        is_made: |definition| definition.can(Can::GroupSnapshot),
        is_needed: |need| matches!(need, Need::Can(Can::GroupSnapshot)),
        any_of: &[Capability::CreateDeleteGetVolumeGroupSnapshot],
    },
    Promise {
        text: "`snapshotMetadata: true`",
        is_made: |definition| definition.can(Can::SnapshotMetadata),
        is_needed: |need| matches!(need, Need::Can(Can::SnapshotMetadata)),
        any_of: &[Capability::SnapshotMetadataService],
    },
];

impl Promise {
    /// Returns whether tests with these needs rely on the promise.
    pub(crate) fn is_needed_by<'a>(&self, mut needs: impl Iterator<Item = &'a Need>) -> bool {
        needs.any(self.is_needed)
    }

    /// Returns the capabilities that the driver lacks for the promise, if the definition makes it.
    pub fn lacked(
        &self,
        definition: &DriverDefinition,
        advertises: impl Fn(Capability) -> bool,
    ) -> Option<String> {
        let is_broken =
            (self.is_made)(definition) && !self.any_of.iter().any(|capability| advertises(*capability));
        let names: Vec<&str> = self.any_of.iter().map(|capability| capability.name()).collect();
        is_broken.then(|| names.join(" or "))
    }
}
