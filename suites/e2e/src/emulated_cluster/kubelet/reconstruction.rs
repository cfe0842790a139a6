//! Restores the state of a started kubelet from its directories: the volumes of pods, each with the `vol_data.json`
//! that kubelet wrote before the volume was published.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use csi_harness::prelude::Violation;

use super::Kubelet;
use super::volumes::{DATA_FILE, PodMount, data_file};
use crate::cluster::{Pairs, PersistentVolume, Pod, PodPhase, PodSpec, VolumeMode};

/// Larger files are not from kubelet.
const DATA_BYTES_MAX: u64 = 1 << 16;
/// The directory of volumes with a file system, below the pod's directory.
const OF_POD: &str = "volumes/kubernetes.io~csi";
/// The directory of block volumes.
const DEVICES: &str = "plugins/kubernetes.io/csi/volumeDevices";

/// A volume of a pod, as found in kubelet's directories.
#[derive(Debug)]
pub(super) struct Found {
    pod_uid: String,
    /// The name of the PersistentVolume, or of the volume in the pod if it is inline.
    pub(super) name: String,
    mode: VolumeMode,
    pub(super) target: String,
    /// The contents of the file, or the reason why it cannot be used.
    pub(super) data: Result<Data, String>,
}

/// The used contents of `vol_data.json`.
#[derive(Debug)]
pub(super) struct Data {
    handle: String,
    inline: bool,
}

impl Kubelet {
    /// Restores what it can from kubelet's directories, and returns the volumes of deleted pods.
    pub(super) async fn reconstruct(&self) -> Vec<Found> {
        let mut orphans = Vec::new();
        let mut names = Vec::new();
        for pod_uid in self.shared.pods_ever_on(self.node) {
            let lives =
                self.shared.store.look(|objects| objects.pods.values().any(|pod| pod.pod.uid == pod_uid));
            for found in self.found_for(&pod_uid) {
                if let Ok(data) = &found.data
                    && !data.inline
                {
                    self.take_up(&found, data).await;
                    names.push(found.name.clone());
                }
                if !lives {
                    orphans.push(found);
                }
            }
        }
        // Kubelet does not report volumes that it does not find as used.
        let kept = |name: &String, node: usize| node != self.node || names.contains(name);
        self.shared.store.change(|objects| objects.in_use.retain(|(name, node)| kept(name, *node)));
        orphans
    }

    /// Records that a volume may be staged, if a file says so.
    async fn take_up(&self, found: &Found, data: &Data) {
        let mount = self.mount_of(found, data);
        let device = self.device(&mount.device_key());
        let mut device = device.lock().await;
        let Ok(path) = device.scope.kubelet_staging_path(&data.handle, &found.name, mount.access()).await
        else {
            return;
        };
        // Block volumes have one file for staging and publishing.
        let is_staged = found.mode == VolumeMode::Block || self.read(&data_file(&path)).is_ok();
        device.is_found(path, is_staged, found.pod_uid.clone());
    }

    /// Returns the volumes of a pod in kubelet's directories.
    pub(super) fn found_for(&self, pod_uid: &str) -> Vec<Found> {
        let root = self.cx.kubelet_dir();
        let of_pod = root.join("pods").join(pod_uid).join(OF_POD);
        let file_systems = names_in(&of_pod).into_iter().map(|name| {
            let target = of_pod.join(&name).join("mount");
            (of_pod.join(&name).join(DATA_FILE), VolumeMode::Filesystem, target, name)
        });
        let devices = root.join(DEVICES);
        let published = devices.join("publish");
        let blocks = names_in(&published).into_iter().map(|name| {
            let target = published.join(&name).join(pod_uid);
            (devices.join(&name).join("data").join(DATA_FILE), VolumeMode::Block, target, name)
        });
        let blocks = blocks.filter(|(_, _, target, _)| fs::symlink_metadata(target).is_ok());
        let found = |(file, mode, target, name): (PathBuf, VolumeMode, PathBuf, String)| Found {
            pod_uid: pod_uid.to_owned(),
            data: self.read(&file).and_then(|data| data_of(&data, &name)),
            name,
            mode,
            target: target.to_string_lossy().into_owned(),
        };
        file_systems.chain(blocks).map(found).collect()
    }

    /// Reads kubelet's file about a volume of the driver.
    fn read(&self, file: &Path) -> Result<Pairs, String> {
        let read = || -> io::Result<Pairs> {
            let mut text = String::new();
            File::open(file)?.take(DATA_BYTES_MAX).read_to_string(&mut text)?;
            Ok(serde_json::from_str(&text)?)
        };
        let data = read().map_err(|error| format!("{}: {error}", file.display()))?;
        match data.get("driverName").map(String::as_str) {
            Some(driver) if driver == self.shared.driver() => Ok(data),
            other => Err(format!("{}: driverName is {}", file.display(), other.unwrap_or("missing"))),
        }
    }

    fn mount_of(&self, found: &Found, data: &Data) -> PodMount {
        let volume = PersistentVolume {
            name: found.name.clone(),
            handle: data.handle.clone(),
            mode: found.mode,
            ..PersistentVolume::default()
        };
        let scope = self.shared.scope(self.node, format!("pod {} {}", found.pod_uid, found.name));
        let mut mount = PodMount::new(found.name.clone(), volume, false, data.inline, scope);
        mount.is_found(found.target.clone());
        mount
    }

    /// Removes a volume of a pod that was deleted while kubelet was stopped. Without its file, no call can be made.
    pub(super) async fn cleanup_orphan(&self, found: Found) {
        self.shared.kill(&found.pod_uid).await;
        match &found.data {
            Ok(data) => {
                let mut mount = self.mount_of(&found, data);
                self.unmount(&orphan(&found.pod_uid), &mut mount).await;
            }
            Err(why) => {
                let violation = Violation::new(
                    "kubelet cannot read what it wrote beside a volume, and unmounts it without a call",
                )
                .expected("a driver changes nothing but its target path")
                .actual(why);
                self.cx.warn(violation);
                self.remove(&found);
            }
        }
    }

    /// Unmounts and removes the path. If something is left, the volume's deletion shows it.
    fn remove(&self, found: &Found) {
        let target = Path::new(&found.target);
        let _ = self.cx.unmount_below([found.target.as_str()]);
        let _ = if target.is_dir() { fs::remove_dir(target) } else { fs::remove_file(target) };
        if found.mode == VolumeMode::Filesystem {
            let _ = fs::remove_file(data_file(&found.target));
        }
    }
}

fn data_of(data: &Pairs, name: &str) -> Result<Data, String> {
    let of = |key: &str| data.get(key).map(String::as_str).unwrap_or_default();
    match (of("specVolID"), of("volumeHandle")) {
        (spec, handle) if spec == name && !handle.is_empty() => {
            Ok(Data { handle: handle.to_owned(), inline: of("volumeLifecycleMode") == "Ephemeral" })
        }
        (spec, handle) => {
            Err(format!("{DATA_FILE} of {name} has specVolID {spec:?} and volumeHandle {handle:?}"))
        }
    }
}

/// Makes a pod of which only the UID is known.
fn orphan(uid: &str) -> Pod {
    Pod {
        spec: PodSpec { name: uid.to_owned(), ..PodSpec::default() },
        uid: uid.to_owned(),
        phase: PodPhase::Running,
        ..Pod::default()
    }
}

/// Returns the names in a directory, or none if it does not exist.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
