//! Grows volumes, and checks the objects and the view of pods.

use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_harness::text::size::sized;

use super::{RunningPod, Scene, Seen};
use crate::cluster::{Done, Pvc};

/// Limits the controller's expansion, and then the node's. As upstream, it is no timeout of the definition.
const RESIZE_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The growth of volumes if the definition does not set it.
const STEP_BYTES: u64 = 1 << 30;

/// The condition of a claim whose file system grows when a pod uses it.
const FS_RESIZE_PENDING: &str = "FileSystemResizePending";
/// The resizer's last event of a claim whose file system kubelet cannot expand.
const NODE_IS_NEXT: &str = "FileSystemResizeRequired";
/// Advice for that case: kubelet does not report an answer of NodeExpandVolume that means "not now".
const LEFT_TO_NODE: &str = " (what NodeExpandVolume answers is in the driver's log on the node)";
/// The conditions of a claim that still grows, or failed to.
const RESIZING: &[&str] = &["Resizing", "ControllerResizeError", "NodeResizeError"];

impl Scene {
    /// Requests one step more than a claim has, and returns the requested bytes.
    pub(crate) async fn grow(&self, claim: &str) -> Done<i64> {
        let step = self.driver().driver_info.supported_size_range.step;
        let step_bytes = step.map_or(STEP_BYTES, |step| step.bytes());
        let has_bytes = self.existing_claim(claim).await?.capacity_bytes;
        let wanted_bytes = i64::try_from(step_bytes).ok().and_then(|step| has_bytes.checked_add(step));
        let wanted_bytes = wanted_bytes.ok_or_else(|| {
            Stop::broken(format!("SupportedSizeRange.Step: {has_bytes} and {step_bytes} bytes are too many"))
        })?;
        self.cluster().resize_pvc(claim, wanted_bytes).await?;
        Ok(wanted_bytes)
    }

    /// Waits until the volume of a claim has the requested size, and at most its file system has yet to grow.
    pub(crate) async fn controller_has_grown(&self, claim: &str, wanted_bytes: i64) -> Done {
        self.until(&format!("the volume of claim {claim} grows"), RESIZE_LIMIT, || async {
            let claim = self.existing_claim(claim).await?;
            let has_bytes = self.volume_behind(&claim).await?.capacity_bytes;
            // The resizer leaves its own conditions beside the one for the node.
            let is_left_to_node = claim.conditions.iter().any(|condition| condition == FS_RESIZE_PENDING);
            let unfinished = if is_left_to_node { &[] } else { RESIZING };
            self.grows(&claim, has_bytes, wanted_bytes, unfinished).await
        })
        .await
    }

    /// Waits until pods can use the requested size of a claim, and nothing is left to do.
    pub(crate) async fn has_grown(&self, claim: &str, wanted_bytes: i64) -> Done {
        let unfinished = [RESIZING, &[FS_RESIZE_PENDING]].concat();
        self.until(&format!("claim {claim} grows"), RESIZE_LIMIT, || async {
            let claim = self.existing_claim(claim).await?;
            self.grows(&claim, claim.capacity_bytes, wanted_bytes, &unfinished).await
        })
        .await
    }

    async fn grows(
        &self,
        claim: &Pvc,
        has_bytes: i64,
        wanted_bytes: i64,
        unfinished: &[&str],
    ) -> Done<Seen<()>> {
        let left = claim.conditions.iter().find(|condition| unfinished.contains(&condition.as_str()));
        Ok(match (left, &claim.given_up) {
            (None, _) if has_bytes >= wanted_bytes => Seen::There(()),
            (_, Some(why)) => Seen::Never(why.clone()),
            (left, None) => {
                let state = left.map(|left| format!(", {left}")).unwrap_or_default();
                let event = self.explaining_event(&claim.spec.name).await?;
                let hint = if event.contains(NODE_IS_NEXT) { LEFT_TO_NODE } else { "" };
                let (has, wanted) = (sized(has_bytes).short(), sized(wanted_bytes));
                Seen::NotYet(format!("{has} of {wanted}{state}{event}{hint}"))
            }
        })
    }
}

/// The size of a volume as a pod sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Bytes of the file system, or of the device.
    bytes: u64,
    /// True if all of it belongs to the volume: a device, or a whole file system on a device. Directories and network
    /// shares may show the size of their parent.
    pub(crate) is_own: bool,
}

impl RunningPod<'_> {
    /// Returns the current size of a volume.
    pub(crate) async fn extent(&self, path: &str, block: bool) -> Done<Extent> {
        let bytes = self.size_bytes(path, block).await?;
        if block {
            return Ok(Extent { bytes, is_own: true });
        }
        let script =
            format!("awk -v at={path} '$5 == at {{ print $3, $4 }}' /proc/self/mountinfo | tail -n 1");
        let mounted = self.sh(&script).await?;
        // File systems without a single device have the major number 0.
        let is_own = mounted.split_once(' ').is_some_and(|(device, root)| {
            root == "/" && device.split_once(':').is_some_and(|(major, _)| major != "0")
        });
        Ok(Extent { bytes, is_own })
    }

    /// Checks that a pod sees a volume of `wanted_bytes` larger than before.
    pub(crate) async fn sees_growth(
        &self,
        path: &str,
        block: bool,
        before: Extent,
        wanted_bytes: i64,
    ) -> Done {
        let Extent { bytes, .. } = self.extent(path, block).await?;
        let needed_bytes = before.needed_bytes(block, wanted_bytes.unsigned_abs());
        csi_harness::ensure!(
            bytes >= needed_bytes,
            "a volume has grown, but its pod does not see it";
            expected: format!("{} or more", sized(needed_bytes)),
            actual: sized(bytes).to_string(),
        );
        Ok(())
    }
}

impl Extent {
    /// Returns the smallest size that a pod must see. A device has all requested bytes. A file system uses some of
    /// them itself, so it only has to be larger than before; one that is shared, or was large enough, need not
    /// change.
    fn needed_bytes(self, block: bool, wanted_bytes: u64) -> u64 {
        match block {
            true => wanted_bytes,
            false if self.is_own && self.bytes < wanted_bytes => self.bytes + 1,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_all_bytes_and_file_systems_more() {
        let needed = |bytes, is_own, block| Extent { bytes, is_own }.needed_bytes(block, 2000);
        assert_eq!(needed(1000, true, true), 2000);
        assert_eq!(needed(900, true, false), 901);
        assert_eq!(needed(900, false, false), 0, "a directory of a file system that others use");
        assert_eq!(needed(2000, true, false), 0, "it was as large before");
    }
}
