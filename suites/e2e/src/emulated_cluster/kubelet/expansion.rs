//! Does kubelet's part of an expansion.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use csi_harness::prelude::AccessType;
use csi_proto::v1;
use tonic::Code;

use super::volumes::PodMount;
use super::{Kubelet, NodeCapability};
use crate::cluster::{PersistentVolume, Pod, SecretUse};
use crate::emulated_cluster::failure::{Caller, Failure};
use crate::emulated_cluster::queue::KUBELET;
use crate::emulated_cluster::resizer::{NODE_PENDING, RESIZING};
use crate::emulated_cluster::store::Objects;

/// A claim whose volume is larger than its pods see: its name, the volume, and the requested bytes.
type Pending = (String, PersistentVolume, i64);

fn pending(objects: &Objects, mount: &PodMount) -> Option<Pending> {
    let volume = &objects.volumes.get(mount.volume_name())?.volume;
    let claim = volume.claim.clone()?;
    let object = objects.claims.get(&claim)?;
    let waits = object.claim.conditions.iter().any(|condition| condition == NODE_PENDING);
    (waits && !mount.read_only).then(|| (claim, volume.clone(), object.allocated_bytes))
}

impl Kubelet {
    /// Calls NodeExpandVolume for a newly published volume that has grown. A driver that cannot expand it now does
    /// not prevent the start of the pod.
    pub(super) async fn expand_published(
        &self,
        pod: &Pod,
        mount: &PodMount,
        staging: &str,
    ) -> Result<(), Failure> {
        let Some(pending) = self.shared.store.look(|objects| pending(objects, mount)) else { return Ok(()) };
        match self.expand(pod, mount, staging, pending).await {
            Err(failure) if failure.code == Code::FailedPrecondition => {
                self.shared.store.event(&pod.spec.name, "VolumeResizeFailed", failure.to_string());
                Ok(())
            }
            expanded => expanded,
        }
    }

    /// Expands the volumes of a running pod when they are larger than the pod sees, once for each volume, however
    /// many pods use it.
    pub(super) async fn keep_expanded(&self, pod: &Pod, mounts: &[PodMount]) {
        let mut refused = BTreeSet::new();
        for tries in 1.. {
            let mount = self.shared.store.until(|objects| {
                let open = mounts.iter().filter(|mount| !refused.contains(mount.volume_name()));
                open.into_iter().find(|mount| pending(objects, mount).is_some())
            });
            let mount = mount.await;
            let device = self.device(&mount.device_key());
            let device = device.lock().await;
            // The kubelet task of another pod may have expanded it.
            let Some(pending) = self.shared.store.look(|objects| pending(objects, mount)) else { continue };
            let claim = pending.0.clone();
            let Err(failure) = self.expand(pod, mount, &device.path, pending).await else { continue };
            drop(device);
            for object in [&pod.spec.name, &claim] {
                self.shared.store.event(object, "VolumeResizeFailed", failure.to_string());
            }
            let why = match failure.code {
                Code::FailedPrecondition => {
                    Some(format!("{failure}; kubelet calls again only for another pod"))
                }
                _ => self.shared.gives_up(&failure, Caller::KubeletExpanding),
            };
            if let Some(why) = why {
                refused.insert(mount.volume_name().to_owned());
                self.shared.store.change_claim(&claim, |object| object.claim.given_up = Some(why));
                continue;
            }
            tokio::time::sleep(KUBELET.pause(tries)).await;
        }
    }

    async fn expand(
        &self,
        pod: &Pod,
        mount: &PodMount,
        staging: &str,
        (claim, volume, required_bytes): Pending,
    ) -> Result<(), Failure> {
        if self.can(NodeCapability::ExpandVolume).await? {
            let volume_path = match mount.access() {
                AccessType::Mount => mount.target.clone(),
                AccessType::Block => device_behind(&mount.target),
            };
            let request = v1::NodeExpandVolumeRequest {
                volume_id: volume.handle.clone(),
                volume_path,
                capacity_range: Some(v1::CapacityRange { required_bytes, limit_bytes: 0 }),
                staging_target_path: staging.to_owned(),
                volume_capability: Some(self.capability(pod, mount).await?),
                ..Default::default()
            };
            let cx = self.shared.with_secret(&self.cx, volume.secrets.get(&SecretUse::NodeExpand))?;
            self.shared.heard(&cx.call(request).once().await)?;
        }
        self.shared.store.change_claim(&claim, |object| {
            object.claim.capacity_bytes = volume.capacity_bytes;
            object.claim.drop_condition(RESIZING);
            object.claim.drop_condition(NODE_PENDING);
            object.claim.given_up = None;
        });
        Ok(())
    }
}

/// Returns the name of the device that is published at a path, or the path itself if the kernel does not report it.
fn device_behind(path: &str) -> String {
    let name = || {
        let device = std::fs::metadata(path).ok()?.rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let uevent = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).ok()?;
        uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| format!("/dev/{name}"))
    };
    name().unwrap_or_else(|| path.to_owned())
}
