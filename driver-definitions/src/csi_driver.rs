//! The CSIDriver object: what a driver's manifests tell Kubernetes of it.

use serde::{Deserialize, Deserializer};

/// A shorter period the API server does not take.
const PERIOD_SECONDS_MIN: u32 = 10;

/// `spec` of a CSIDriver, as far as it shows in calls. What is left out has the value that the API server gives it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriver {
    /// Whether volumes are attached before they are staged.
    pub attach_required: bool,
    /// Whether NodePublishVolume is told about the pod.
    pub pod_info_on_mount: bool,
    /// When kubelet hands volumes over to a pod's group.
    pub fs_group_policy: FsGroupPolicy,
    /// Which volumes pods can have of it.
    pub volume_lifecycle_modes: Vec<VolumeLifecycleMode>,
    /// Whether NodePublishVolume is made again and again while a pod runs.
    pub requires_republish: bool,
    /// The tokens of the pod's service account that NodePublishVolume is given.
    pub token_requests: Vec<TokenRequest>,
    /// Whether these are among the secrets, instead of in volume_context.
    pub service_account_token_in_secrets: bool,
    /// How often kubelet reads again how many volumes a node takes, in seconds; never, if it is not said.
    #[serde(deserialize_with = "period")]
    pub node_allocatable_update_period_seconds: Option<u32>,
}

impl Default for CsiDriver {
    fn default() -> CsiDriver {
        CsiDriver {
            attach_required: true,
            pod_info_on_mount: false,
            fs_group_policy: FsGroupPolicy::default(),
            volume_lifecycle_modes: vec![VolumeLifecycleMode::Persistent],
            requires_republish: false,
            token_requests: Vec::new(),
            service_account_token_in_secrets: false,
            node_allocatable_update_period_seconds: None,
        }
    }
}

fn period<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let seconds = Option::<u32>::deserialize(from)?;
    match seconds {
        Some(seconds) if seconds < PERIOD_SECONDS_MIN => Err(serde::de::Error::custom(format!(
            "nodeAllocatableUpdatePeriodSeconds is {seconds}, and has to be {PERIOD_SECONDS_MIN} or more"
        ))),
        seconds => Ok(seconds),
    }
}

/// `fsGroupPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FsGroupPolicy {
    /// If the volume has a file system type and one node or pod writes.
    #[default]
    #[serde(rename = "ReadWriteOnceWithFSType")]
    ReadWriteOnceWithFsType,
    /// Always.
    File,
    /// Never.
    None,
}

/// How long a volume lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum VolumeLifecycleMode {
    /// Until its claim is deleted.
    Persistent,
    /// As long as the pod that it is written in.
    Ephemeral,
}

/// A token of the pod's service account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenRequest {
    /// For whom; empty: for the API server.
    pub audience: String,
    /// How long it is valid, in seconds.
    pub expiration_seconds: u32,
}

impl Default for TokenRequest {
    fn default() -> TokenRequest {
        TokenRequest { audience: String::new(), expiration_seconds: 3600 }
    }
}
