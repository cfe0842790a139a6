use serde::{Deserialize, Serialize};

use super::{Pairs, PvcSpec};

/// The description of a new pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    pub name: String,
    /// Containers that run one after the other before the other containers start.
    pub init_containers: Vec<Container>,
    /// Containers that run concurrently.
    pub containers: Vec<Container>,
    pub volumes: Vec<PodVolume>,
    /// The node on which the pod must run.
    pub node: Option<String>,
    /// The node of the pod if it bypasses the scheduler: `nodeName`. Its claims have to be bound.
    pub bound_to: Option<String>,
    /// Nodes on which the pod must not run.
    pub not_on: Vec<String>,
    /// The group that owns its volumes.
    pub fs_group: Option<u32>,
    /// The extent to which kubelet gives volumes to that group.
    pub fs_group_policy: FsGroupPolicy,
    /// The SELinux level, such as `s0:c0,c1`.
    pub selinux_level: Option<String>,
    /// The way in which volumes get the SELinux context; `None` leaves the choice to kubelet.
    pub selinux_policy: Option<SeLinuxChangePolicy>,
    /// True if failed containers are restarted.
    pub restarts: bool,
}

impl PodSpec {
    /// Returns whether a container uses the volume of this name.
    pub fn uses(&self, volume: &str) -> bool {
        self.all_containers().any(|container| {
            container.mounts.iter().any(|mount| mount.volume == volume)
                || container.devices.iter().any(|device| device.volume == volume)
        })
    }

    /// Returns the containers in the order of their start.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsGroupPolicy {
    /// Everything in the volume is changed at every mount.
    #[default]
    Always,
    /// Nothing is changed if the volume's directory is correct.
    OnRootMismatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeLinuxChangePolicy {
    /// The volume is mounted with the context.
    MountOption,
    /// Each file of the volume is relabelled.
    Recursive,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    pub name: String,
    /// The shell script of the container; without one it waits for commands.
    pub script: Option<String>,
    pub mounts: Vec<VolumeMount>,
    pub devices: Vec<VolumeDevice>,
}

impl Container {
    /// Returns the name of the volume that is as a whole at a path.
    pub(crate) fn volume_at(&self, path: &str) -> Option<&str> {
        let mounts = self.mounts.iter().filter(|mount| mount.sub_path.is_none());
        let mounts = mounts.map(|mount| (&mount.path, &mount.volume));
        let devices = self.devices.iter().map(|device| (&device.path, &device.volume));
        mounts.chain(devices).find(|(at, _)| *at == path).map(|(_, volume)| volume.as_str())
    }
}

/// A volume with a file system in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    pub volume: String,
    /// The path in the container.
    pub path: String,
    /// True if the container may only read it.
    pub read_only: bool,
    /// The file or directory of the volume that is mounted instead of the volume.
    pub sub_path: Option<String>,
}

/// A block device in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeDevice {
    pub volume: String,
    /// The path in the container.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    pub name: String,
    pub source: VolumeSource,
}

/// The source of a pod's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    Claim {
        name: String,
        /// True if the pod may only read: `readonly` of NodePublishVolume.
        read_only: bool,
    },
    /// An inline volume, which NodePublishVolume makes and which lives as long as the pod.
    Inline {
        driver: String,
        attributes: Pairs,
        /// The requested file system; empty leaves the choice to the driver.
        fs_type: String,
        /// True if the pod may only read.
        read_only: bool,
    },
    /// A claim that lives as long as the pod; its name is `POD-VOLUME`.
    Ephemeral(Box<PvcSpec>),
    /// An empty directory that the containers of the pod share.
    EmptyDir,
}

/// The current state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub spec: PodSpec,
    pub uid: String,
    pub node: Option<String>,
    pub phase: PodPhase,
    /// True if kubelet has mounted its volumes since kubelet last started.
    pub mounted: bool,
    /// The containers that ended, with the last end of each.
    pub ended: Vec<Ended>,
    /// The number of container restarts.
    pub restarts: u32,
    /// The reason for the pod's waiting, such as `CreateContainerConfigError: …` or the last mount failure.
    pub waiting: Option<String>,
    /// The reason why the emulated cluster gave up; see [`Pvc::given_up`](super::Claim::given_up).
    pub given_up: Option<String>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// The containers do not run yet.
    #[default]
    Pending,
    /// The containers run.
    Running,
    /// All containers succeeded.
    Succeeded,
    /// A container failed.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub container: String,
    pub output: Output,
}

/// The output and exit code of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The exit code, or 128 plus the number of the signal that ended the command.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}
