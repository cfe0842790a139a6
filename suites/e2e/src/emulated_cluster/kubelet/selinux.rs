//! Gives volumes the SELinux context of their pod, as kubelet does for drivers whose CSIDriver has `seLinuxMount`.

use csi_harness::prelude::AccessType;

use super::Kubelet;
use super::volumes::PodMount;
use crate::cluster::{AccessMode, Pod, SeLinuxChangePolicy};

/// Kubelet takes what a pod leaves open from the policy of its node. These are the values of most distributions.
const USER_ROLE_TYPE: &str = "system_u:object_r:container_file_t";

impl Kubelet {
    /// Returns the context with which the driver has to mount a volume for a pod. Without one, the volume is relabelled file by file
    /// when containers start, which no driver sees.
    pub(super) fn selinux_context(&self, pod: &Pod, mount: &PodMount) -> Option<String> {
        let is_relabelled = pod.spec.selinux_policy == Some(SeLinuxChangePolicy::Recursive);
        let has_option = mount.access() == AccessType::Mount && !mount.is_inline();
        let has_mode = self.shared.settings.version.labels_every_access_mode()
            || mount.access_modes() == [AccessMode::ReadWriteOncePod];
        let is_wanted = self.shared.csi_driver.se_linux_mount && self.shared.labels_volumes() && has_mode;
        let level = pod.spec.selinux_level.as_ref()?;
        (is_wanted && has_option && !is_relabelled).then(|| format!("{USER_ROLE_TYPE}:{level}"))
    }
}
