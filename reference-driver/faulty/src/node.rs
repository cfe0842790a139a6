//! What goes wrong on the way to a pod.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::*;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use tonic::{Request, Response};

use crate::{Defect, Faults, Reply, Seen};

/// Bytes that are wiped of a device, at its beginning.
const WIPED_BYTES: usize = 1 << 16;

impl Faults {
    pub(crate) async fn node_stage_volume(
        &self,
        mut request: Request<NodeStageVolumeRequest>,
    ) -> Reply<NodeStageVolumeResponse> {
        request.get_mut().volume_capability.iter_mut().for_each(|capability| self.misread(capability));
        let id = request.get_ref().volume_id.clone();
        let mut seen = self.seen.lock().await;
        let done = self.driver.node_stage_volume(request).await?;
        if !seen.staged.insert(id.clone()) {
            seen.restaged.insert(id);
        }
        Ok(done)
    }

    pub(crate) async fn node_publish_volume(
        &self,
        mut request: Request<NodePublishVolumeRequest>,
    ) -> Reply<NodePublishVolumeResponse> {
        let message = request.get_mut();
        message.volume_capability.iter_mut().for_each(|capability| self.misread(capability));
        message.readonly &= !self.has(Defect::IgnoresReadonly);
        let (id, target) = (message.volume_id.clone(), message.target_path.clone());
        let for_group = message.volume_capability.as_ref().is_some_and(has_group);
        let mut seen = self.seen.lock().await;
        let done = self.driver.node_publish_volume(request).await?;
        if for_group && self.has(Defect::GroupOfDirectoryOnly) {
            fs::set_permissions(&target, Permissions::from_mode(0o770)).unwrap();
        }
        if seen.restaged.remove(&id) && self.has(Defect::WipesAtRestage) {
            wipe(Path::new(&target));
        }
        if self.cover(&seen, &id, &target) {
            seen.covered.insert(target.clone());
        }
        seen.published.push((target, id));
        Ok(done)
    }

    /// Shows something else at the target than the volume, if the driver does that.
    fn cover(&self, seen: &Seen, id: &str, target: &str) -> bool {
        let mut published = seen.published.iter();
        match self.defect {
            Some(Defect::MixesUp) => {
                let is_alike = |other: &str| Path::new(other).is_dir() == Path::new(target).is_dir();
                let other = published.find(|(other, volume)| volume != id && is_alike(other));
                other.inspect(|(other, _)| mount_bind(other, target).unwrap()).is_some()
            }
            Some(Defect::HidesFromSecondPod) if Path::new(target).is_dir() => {
                let other = published.find(|(other, volume)| volume == id && other != target);
                other
                    .inspect(|_| mount("none", target, "tmpfs", MountFlags::empty(), None).unwrap())
                    .is_some()
            }
            _ => false,
        }
    }

    pub(crate) async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        if self.has(Defect::StaysPublished) {
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        let target = request.get_ref().target_path.clone();
        let mut seen = self.seen.lock().await;
        if seen.covered.remove(&target) {
            unmount(&target, UnmountFlags::empty()).unwrap();
        }
        seen.published.retain(|(other, _)| *other != target);
        self.driver.node_unpublish_volume(request).await
    }

    pub(crate) async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Reply<NodeExpandVolumeResponse> {
        if !self.has(Defect::NodeExpandsNothing) {
            return self.driver.node_expand_volume(request).await;
        }
        let capacity_bytes = request.get_ref().capacity_range.map_or(0, |range| range.required_bytes);
        Ok(Response::new(NodeExpandVolumeResponse { capacity_bytes }))
    }
}

fn has_group(capability: &VolumeCapability) -> bool {
    use volume_capability::AccessType;
    matches!(&capability.access_type, Some(AccessType::Mount(mount)) if !mount.volume_mount_group.is_empty())
}

/// Removes the data of a volume: the files of a file system, or the beginning of a device.
fn wipe(target: &Path) {
    if !target.is_dir() {
        // It may be there for reading only.
        let Ok(mut device) = fs::OpenOptions::new().write(true).open(target) else { return };
        let _ = device.write_all(&[0; WIPED_BYTES]).and_then(|()| device.sync_all());
        return;
    }
    for entry in fs::read_dir(target).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            // It may be there for reading only.
            let _ = fs::remove_file(path);
        }
    }
}
