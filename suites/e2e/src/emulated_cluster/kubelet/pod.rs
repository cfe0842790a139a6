//! Manages a pod on its node.

use csi_harness::prelude::AccessType;
use futures_util::future::join_all;

use super::Kubelet;
use super::reconstruction::Found;
use super::volumes::PodMount;
use crate::cluster::{AccessMode, PersistentVolume, Pod, PodVolume, VolumeSource};
use crate::emulated_cluster::failure::Caller;
use crate::emulated_cluster::queue::KUBELET;
use crate::emulated_cluster::shared::hex_sha256;
use crate::emulated_cluster::store::{Objects, PodObject};

impl Kubelet {
    /// Manages a pod from its first mount to its last unmount.
    pub(super) async fn sync_pod(&self, pod: Pod) {
        let mut mounts = self.mounts_of(&pod);
        let mounted = join_all(mounts.iter_mut().map(|mount| self.mount(&pod, mount))).await;
        if mounted.into_iter().all(|mounted| mounted) {
            self.change_pod(&pod, |object| object.pod.mounted = true);
            let run = async {
                tokio::select! {
                    biased;
                    () = self.deleted(&pod.uid) => {}
                    () = self.run_containers(&pod, &mounts) => {}
                    () = self.keep_expanded(&pod, &mounts) => {}
                }
            };
            tokio::join!(run, self.keep_republished(&pod, &mounts));
        }
        let ended = self.pod(&pod, |object| object.pod.phase != crate::cluster::PodPhase::Pending);
        if ended.is_none_or(|ended| !ended) {
            self.deleted(&pod.uid).await;
        }
        self.shared.kill(&pod.uid).await;
        let unmounted = join_all(mounts.iter_mut().map(|mount| self.unmount(&pod, mount))).await;
        self.deleted(&pod.uid).await;
        if unmounted.into_iter().all(|unmounted| unmounted) {
            self.shared.store.change(|objects| {
                let name = &pod.spec.name;
                if objects.pods.get(name).is_some_and(|object| object.pod.uid == pod.uid) {
                    objects.pods.remove(name);
                }
            });
        }
    }

    /// Waits until the pod is deleted.
    pub(super) async fn deleted(&self, uid: &str) {
        let gone = |objects: &Objects| {
            let lives = objects.pods.values().any(|pod| pod.pod.uid == *uid && !pod.deleting);
            (!lives).then_some(())
        };
        self.shared.store.until(gone).await;
    }

    /// Reads the pod's object, if it still exists.
    pub(super) fn pod<T>(&self, pod: &Pod, look: impl FnOnce(&PodObject) -> T) -> Option<T> {
        self.shared.store.look(|objects| {
            objects.pods.get(&pod.spec.name).filter(|object| object.pod.uid == pod.uid).map(look)
        })
    }

    /// Changes the pod's object, if it still exists.
    pub(super) fn change_pod(&self, pod: &Pod, change: impl FnOnce(&mut PodObject)) {
        self.shared.store.change(|objects| {
            if let Some(object) =
                objects.pods.get_mut(&pod.spec.name).filter(|object| object.pod.uid == pod.uid)
            {
                change(object);
            }
        });
    }

    /// Returns the volumes of a pod that the driver has to mount: those that a container uses.
    fn mounts_of(&self, pod: &Pod) -> Vec<PodMount> {
        let mut mounts = Vec::new();
        for volume in pod.spec.volumes.iter().filter(|volume| pod.spec.uses(&volume.name)) {
            let (source, read_only, inline) = match &volume.source {
                VolumeSource::EmptyDir => continue,
                VolumeSource::Inline { attributes, fs_type, read_only, .. } => {
                    let source = PersistentVolume {
                        name: volume.name.clone(),
                        handle: format!("csi-{}", hex_sha256(&format!("{}{}", pod.uid, volume.name))),
                        access_modes: vec![AccessMode::ReadWriteOnce],
                        fs_type: fs_type.clone(),
                        attributes: attributes.clone(),
                        ..PersistentVolume::default()
                    };
                    (source, *read_only, true)
                }
                VolumeSource::Claim { read_only, .. } => match self.bound(pod, volume) {
                    Some(source) => (source, *read_only, false),
                    None => continue,
                },
                VolumeSource::Ephemeral(_) => match self.bound(pod, volume) {
                    Some(source) => (source, false, false),
                    None => continue,
                },
            };
            let scope = self.shared.scope(self.node, format!("pod {} {}", pod.uid, source.name));
            let mut mount = PodMount::new(volume.name.clone(), source, read_only, inline, scope);
            let is_it = |found: &&Found| found.data.is_ok() && found.name == mount.volume_name();
            if let Some(found) = self.found_for(&pod.uid).iter().find(is_it) {
                mount.is_found(found.target.clone());
            }
            mounts.push(mount);
        }
        mounts
    }

    fn bound(&self, pod: &Pod, volume: &PodVolume) -> Option<PersistentVolume> {
        let claim = volume.claim_in(&pod.spec.name)?;
        self.shared.store.look(|objects| objects.volume_of_claim(&claim).cloned())
    }

    /// Tries to mount a volume until it is mounted or the pod is deleted.
    async fn mount(&self, pod: &Pod, mount: &mut PodMount) -> bool {
        for tries in 1.. {
            if self.pod(pod, |object| object.deleting).is_none_or(|deleting| deleting) {
                return false;
            }
            // If the CSIDriver does not list the mode, no call is made.
            let (text, why) = match self.lacks_mode(mount) {
                Some(why) => (format!("volume {:?}: {why}", mount.name), Some(why)),
                None => {
                    let tried = self.set_up(pod, mount).await;
                    self.watch(pod, mount).await;
                    let Err(failure) = tried else {
                        self.change_pod(pod, |object| object.pod.waiting = None);
                        return true;
                    };
                    if failure.is_full_node() {
                        self.reject(pod, &failure).await;
                        return false;
                    }
                    let why = self.shared.gives_up(&failure, Caller::Kubelet);
                    (format!("volume {:?}: {failure}", mount.name), why)
                }
            };
            let reason = match mount.access() {
                AccessType::Mount => "FailedMount",
                AccessType::Block => "FailedMapVolume",
            };
            self.shared.store.event(&pod.spec.name, reason, text.clone());
            let over = why.is_some();
            self.change_pod(pod, |object| {
                object.pod.waiting = Some(text);
                object.pod.given_up = why;
            });
            if over {
                return false;
            }
            self.rest(pod, tries).await;
        }
        false
    }

    /// Waits after a number of failures, unless the pod is deleted.
    async fn rest(&self, pod: &Pod, tries: u32) {
        tokio::select! {
            () = tokio::time::sleep(KUBELET.pause(tries)) => {}
            () = self.deleted(&pod.uid) => {}
        }
    }

    /// Tries to unmount a volume until it is gone, or the failure is considered permanent.
    pub(super) async fn unmount(&self, pod: &Pod, mount: &mut PodMount) -> bool {
        self.shared.unwatch(self.node, &pod.spec.name, &mount.name);
        for tries in 1.. {
            let Err(failure) = self.tear_down(pod, mount).await else { return true };
            let text = format!("volume {:?}: {failure}", mount.name);
            self.shared.store.event(&pod.spec.name, "FailedUnmount", text);
            if let Some(why) = self.shared.gives_up(&failure, Caller::Kubelet) {
                self.change_pod(pod, |object| {
                    object.pod.given_up = Some(why);
                    object.stuck = true;
                });
                return false;
            }
            tokio::time::sleep(KUBELET.pause(tries)).await;
        }
        false
    }
}
