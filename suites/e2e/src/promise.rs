//! The promises of a definition that a driver has to advertise, because otherwise no component ever uses them.

use csi_driver_definitions::{Capability as Can, DriverDefinition};
use csi_harness::prelude::Capability;
use serde::Serialize;

use crate::test::Need;

/// A capability of a driver that its definition does not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unused {
    /// The advertised capability.
    pub advertised: &'static str,
    /// The line to add to the definition, with the path of its key.
    pub add: &'static str,
}

/// Returns what a driver advertises and its definition leaves out, so that no test uses it. A definition that says `false` leaves it
/// out as well.
pub fn unused(definition: &DriverDefinition, advertises: impl Fn(Capability) -> bool) -> Vec<Unused> {
    let of_promises =
        PROMISES.iter().filter(|promise| !(promise.is_made)(definition)).filter_map(|promise| {
            let advertised = promise.any_of.iter().find(|one| advertises(**one))?;
            Some(Unused { advertised: advertised.name(), add: promise.line })
        });
    let has_no_class = |class: bool, capability: Capability, add| {
        (!class && advertises(capability)).then(|| Unused { advertised: capability.name(), add })
    };
    let more = [
        has_no_class(
            definition.snapshot_class.source().is_some(),
            Capability::CreateDeleteSnapshot,
            "SnapshotClass: {FromName: true}",
        ),
        has_no_class(
            definition.group_snapshot_class.source().is_some(),
            Capability::CreateDeleteGetVolumeGroupSnapshot,
            "GroupSnapshotClass: {FromName: true}",
        ),
        has_no_class(
            definition.can(Can::ReadWriteOncePod),
            Capability::NodeSingleNodeMultiWriter,
            "DriverInfo.Capabilities.readWriteOncePod: true",
        ),
    ];
    of_promises.chain(more.into_iter().flatten()).collect()
}

/// A promise of a definition.
#[derive(Debug)]
pub struct Promise {
    /// The text in the definition.
    pub text: &'static str,
    /// The line that makes the promise, with the path of its key.
    pub line: &'static str,
    is_made: fn(&DriverDefinition) -> bool,
    /// Returns whether a test with this need relies on the promise.
    is_needed: fn(&Need) -> bool,
    /// The capabilities, one of which has to be advertised.
    pub any_of: &'static [Capability],
}

/// A capability of definitions, with its name there, and the capabilities of drivers, one of which has to be advertised.
macro_rules! can {
    ($can:ident, $name:literal, [$($capability:ident),+]) => {
        Promise {
            text: concat!("`", $name, ": true`"),
            line: concat!("DriverInfo.Capabilities.", $name, ": true"),
            is_made: |definition| definition.can(Can::$can),
            is_needed: |need| matches!(need, Need::Can(Can::$can)),
            any_of: &[$(Capability::$capability),+],
        }
    };
}

pub static PROMISES: &[Promise] = &[
    Promise {
        text: "a StorageClass",
        line: "StorageClass: {FromName: true}",
        is_made: |definition| definition.storage_class.source().is_some(),
        is_needed: |_| false,
        any_of: &[Capability::CreateDeleteVolume],
    },
    can!(SnapshotDataSource, "snapshotDataSource", [CreateDeleteSnapshot]),
    can!(PvcDataSource, "pvcDataSource", [CloneVolume]),
    can!(ControllerExpansion, "controllerExpansion", [ExpandVolume, NodeExpandVolume]),
    Promise {
        text: "a VolumeAttributesClass",
        line: "VolumeAttributesClass: {FromFile: FILE}",
        is_made: |definition| definition.volume_attributes_class.source().is_some(),
        is_needed: |need| matches!(need, Need::AttributesClass),
        any_of: &[Capability::ModifyVolume],
    },
    can!(Capacity, "capacity", [GetCapacity]),
    Promise { is_needed: |_| false, ..can!(Topology, "topology", [VolumeAccessibilityConstraints]) },
    Promise { is_needed: |_| false, ..can!(VolumeMountGroup, "volumeMountGroup", [VolumeMountGroup]) },
    can!(GroupSnapshot, "groupSnapshot", [CreateDeleteGetVolumeGroupSnapshot]),
    can!(SnapshotMetadata, "snapshotMetadata", [SnapshotMetadataService]),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_definition_leaves_out_has_its_line() {
        let definition = DriverDefinition::default();
        let advertised = [Capability::GetCapacity, Capability::CreateDeleteSnapshot];
        let adds: Vec<&str> =
            unused(&definition, |one| advertised.contains(&one)).iter().map(|unused| unused.add).collect();
        let expected = [
            "DriverInfo.Capabilities.snapshotDataSource: true",
            "DriverInfo.Capabilities.capacity: true",
            "SnapshotClass: {FromName: true}",
        ];
        assert_eq!(adds, expected);
        assert_eq!(unused(&definition, |_| false), []);
    }
}
