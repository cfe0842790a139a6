//! The CSIDriver object, in which a driver's manifests describe it to Kubernetes.

use serde::{Deserialize, Deserializer};

/// The API server rejects a shorter period.
const PERIOD_SECONDS_MIN: u32 = 10;

/// The `spec` of a CSIDriver, as far as it affects tests. Missing fields have the defaults of the API server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriver {
    /// True if volumes are attached before they are staged.
    pub attach_required: bool,
    /// True if NodePublishVolume gets the name of the pod.
    pub pod_info_on_mount: bool,
    /// The condition on which kubelet gives volumes to a pod's group.
    pub fs_group_policy: FsGroupPolicy,
    /// The kinds of volumes that pods can have.
    pub volume_lifecycle_modes: Vec<VolumeLifecycleMode>,
    /// True if volumes are mounted with the SELinux context of a pod.
    pub se_linux_mount: bool,
    /// True if the scheduler looks at the published capacities.
    pub storage_capacity: bool,
    /// True if NodePublishVolume is repeated while a pod runs.
    pub requires_republish: bool,
    /// The tokens of the pod's service account that NodePublishVolume gets.
    pub token_requests: Vec<TokenRequest>,
    /// True if the tokens are in the secrets, and not in volume_context.
    pub service_account_token_in_secrets: bool,
    /// The period in seconds after which kubelet reads the node's volume limit again; without it, it never does.
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
            se_linux_mount: false,
            storage_capacity: false,
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
    /// The volume changes its group if it has a file system type and is written by one node or pod.
    #[default]
    #[serde(rename = "ReadWriteOnceWithFSType")]
    ReadWriteOnceWithFsType,
    /// The volume always changes its group.
    File,
    /// The volume never changes its group.
    None,
}

/// The lifetime of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum VolumeLifecycleMode {
    /// The volume lives until its claim is deleted.
    Persistent,
    /// The volume lives as long as the pod that defines it.
    Ephemeral,
}

/// A token of the pod's service account.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenRequest {
    /// The audience; empty means the API server.
    pub audience: String,
    /// The validity in seconds.
    pub expiration_seconds: u32,
}

impl Default for TokenRequest {
    fn default() -> TokenRequest {
        TokenRequest { audience: String::new(), expiration_seconds: 3600 }
    }
}
