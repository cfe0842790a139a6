/// Whose status tells of health.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthOf {
    /// A volume of a pod, by both names, as its node sees it: `status.volumeHealth` of the pod.
    PodVolume(String, String),
    /// The volume of a claim, as the controller of the driver sees it: `status.healthStatus`.
    Claim(String),
    /// The back end of the driver, as a node sees it: `status.storageHealth` of its CSINode.
    Node(String),
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCondition {
    /// A word such as `Degraded` or `StorageUnreachable`.
    pub status: &'static str,
    /// Why, for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}
