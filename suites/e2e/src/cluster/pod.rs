use super::{Pairs, PvcSpec};

/// A pod to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSpec {
    /// Its name.
    pub name: String,
    /// Containers that end one after another before the others begin.
    pub init_containers: Vec<Container>,
    /// Containers that run at the same time.
    pub containers: Vec<Container>,
    /// Its volumes.
    pub volumes: Vec<PodVolume>,
    /// The node that it has to run on.
    pub node: Option<String>,
    /// The node that it is on without a word of the scheduler: `nodeName`. Its claims have to be bound.
    pub bound_to: Option<String>,
    /// Nodes that it must not run on.
    pub not_on: Vec<String>,
    /// The group that owns its volumes.
    pub fs_group: Option<u32>,
    /// How far kubelet goes to hand volumes over to that group.
    pub fs_group_policy: FsGroupPolicy,
    /// The SELinux level, such as `s0:c0,c1`.
    pub selinux_level: Option<String>,
    /// How volumes get the SELinux context; `None` leaves the choice to kubelet.
    pub selinux_policy: Option<SeLinuxChangePolicy>,
    /// Whether containers that fail are started again.
    pub restarts: bool,
}

impl PodSpec {
    /// Whether a container uses the volume of this name.
    pub fn uses(&self, volume: &str) -> bool {
        self.all_containers().any(|container| {
            container.mounts.iter().any(|mount| mount.volume == volume)
                || container.devices.iter().any(|device| device.volume == volume)
        })
    }

    /// The containers in the order in which they are started.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// `fsGroupChangePolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsGroupPolicy {
    /// Everything in the volume is changed each time.
    #[default]
    Always,
    /// Nothing is changed if the directory of the volume is right.
    OnRootMismatch,
}

/// `seLinuxChangePolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeLinuxChangePolicy {
    /// The volume is mounted with it.
    MountOption,
    /// Each file of the volume is given it.
    Recursive,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The shell script that it runs; none: it waits for commands.
    pub script: Option<String>,
    /// Volumes with a file system.
    pub mounts: Vec<VolumeMount>,
    /// Block devices.
    pub devices: Vec<VolumeDevice>,
}

/// A volume with a file system in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMount {
    /// The volume of the pod.
    pub volume: String,
    /// Where the container sees it.
    pub path: String,
    /// Whether the container may only read it.
    pub read_only: bool,
    /// The file or directory of the volume that is mounted in its place.
    pub sub_path: Option<String>,
}

/// A block device in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeDevice {
    /// The volume of the pod.
    pub volume: String,
    /// Where the container sees it.
    pub path: String,
}

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: String,
    /// Where it comes from.
    pub source: VolumeSource,
}

/// Where a volume of a pod comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// A claim.
    Claim {
        /// Its name.
        name: String,
        /// Whether the pod may only read: `readonly` of NodePublishVolume.
        read_only: bool,
    },
    /// A volume that lives as long as the pod, made by NodePublishVolume.
    Inline {
        /// The driver.
        driver: String,
        /// volume_context.
        attributes: Pairs,
        /// The file system asked for; empty: the driver chooses.
        fs_type: String,
        /// Whether the pod may only read.
        read_only: bool,
    },
    /// A claim that lives as long as the pod; its name is `POD-VOLUME`.
    Ephemeral(Box<PvcSpec>),
    /// An empty directory that the containers of the pod share.
    EmptyDir,
}

/// A pod as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What was asked for.
    pub spec: PodSpec,
    /// Its UID.
    pub uid: String,
    /// The node that it runs on.
    pub node: Option<String>,
    /// Where in its life it is.
    pub phase: PodPhase,
    /// Whether kubelet has mounted its volumes since it was started last.
    pub mounted: bool,
    /// Containers that have ended, the latest end of each.
    pub ended: Vec<Ended>,
    /// How often containers were started again.
    pub restarts: u32,
    /// Why it does not go on, such as `CreateContainerConfigError: …` or the latest failure of a mount.
    pub waiting: Option<String>,
    /// Why nobody tries to go on with it; see [`Pvc::given_up`](super::Claim::given_up).
    pub given_up: Option<String>,
}

/// The life of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Its containers do not run yet.
    Pending,
    /// They run.
    Running,
    /// They have all ended well.
    Succeeded,
    /// One has failed.
    Failed,
}

/// A container that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The container.
    pub container: String,
    /// What it printed.
    pub output: Output,
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit code; 128 and the number of the signal if one ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}
