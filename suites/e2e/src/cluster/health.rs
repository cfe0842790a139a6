/// The object whose status reports health.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthOf {
    /// A volume of a pod, by the names of both, as its node sees it: `status.volumeHealth` of the pod.
    PodVolume(String, String),
    /// The volume of a claim, as the driver's controller sees it: `status.healthStatus`.
    Claim(String),
    /// The back end of the driver, as a node sees it: `status.storageHealth` of its CSINode.
    Node(String),
}

/// A health problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCondition {
    /// The status, such as `Degraded` or `StorageUnreachable`.
    pub status: &'static str,
    /// The reason for programs.
    pub reason: String,
    /// The reason for people.
    pub message: String,
}
