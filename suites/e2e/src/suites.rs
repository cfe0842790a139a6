//! The suites under upstream's names, one file each.

mod allocatable_count;
mod capacity;
mod claims_at_a_rate;
mod completed_pods;
mod disruptive;
mod driver_upgrade;
mod ephemeral;
mod fsgroupchangepolicy;
mod multi_volume;
mod non_graceful_node_shutdown;
mod pod_delete_after_umount;
mod provisioning;
mod pvc_deletion_performance;
mod read_write_once_pod;
mod selinux_mount;
mod service_account_token;
mod snapshot_topology;
mod snapshotmetadata;
mod snapshotmetadata_stress;
mod snapshottable;
mod snapshottable_stress;
mod sqlite;
mod sub_path;
mod topology;
mod volume_expand;
mod volume_health;
mod volume_io;
mod volume_lifecycle_performance;
mod volume_limits;
mod volume_mode;
mod volume_modify;
mod volume_modify_stress;
mod volume_stress;
mod volumegroupsnapshotclass;
mod volumegroupsnapshottable;
mod volumegroupsnapshottable_stress;
mod volumes;

use crate::test::Suite;

/// All suites, in upstream's order.
pub static ALL: &[&Suite] = &[
    &capacity::SUITE,
    &volumes::SUITE,
    &volume_io::SUITE,
    &volume_mode::SUITE,
    &sub_path::SUITE,
    &provisioning::SUITE,
    &multi_volume::SUITE,
    &volume_expand::SUITE,
    &disruptive::SUITE,
    &volume_limits::SUITE,
    &topology::SUITE,
    &volume_stress::SUITE,
    &fsgroupchangepolicy::SUITE,
    &volumegroupsnapshottable::SUITE,
    &volumegroupsnapshotclass::SUITE,
    &ephemeral::SUITE,
    &snapshottable::SUITE,
    &snapshotmetadata::SUITE,
    &snapshotmetadata_stress::SUITE,
    &snapshottable_stress::SUITE,
    &volume_lifecycle_performance::SUITE,
    &pvc_deletion_performance::SUITE,
    &read_write_once_pod::SUITE,
    &volume_modify::SUITE,
    &volume_modify_stress::SUITE,
    &selinux_mount::SUITE,
    &volumegroupsnapshottable_stress::SUITE,
    &volume_health::SUITE,
    &snapshot_topology::SUITE,
    &allocatable_count::SUITE,
    &service_account_token::SUITE,
    &selinux_mount::DIFFERENT,
    &sqlite::SUITE,
    &completed_pods::SUITE,
    &claims_at_a_rate::SUITE,
    &pod_delete_after_umount::SUITE,
    &non_graceful_node_shutdown::SUITE,
    &driver_upgrade::SUITE,
];

/// Suites that e2e.test does not have for a definition: upstream has their tests for its driver in memory, or not at all.
pub const NOT_UPSTREAMS: [&str; 11] = [
    "volume-health",
    "snapshot-topology",
    "MutableCSINodeAllocatableCount",
    "CSIServiceAccountToken",
    "seLinuxMountDifferent",
    "sqlite",
    "completed-pods",
    "claims-at-a-rate",
    "OpenShift CSI extended - Pod delete after umount",
    "non-graceful-node-shutdown",
    "driver-upgrade",
];
