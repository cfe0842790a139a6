//! Everything that a check can make.

use std::fmt;
use std::path::{Path, PathBuf};

use csi_proto::v1;
use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::text::shorten::named;

/// Something to be undone. Its text names it, so two resources with equal texts are equal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Resource {
    Volume(String),
    /// A volume whose id is not known yet.
    VolumeNamed(#[serde(with = "encoded")] Box<v1::CreateVolumeRequest>),
    Snapshot(String),
    /// A snapshot whose id is not known yet.
    SnapshotNamed(#[serde(with = "encoded")] Box<v1::CreateSnapshotRequest>),
    GroupSnapshot {
        #[serde(with = "encoded")]
        request: Box<v1::DeleteVolumeGroupSnapshotRequest>,
        /// Members that were deleted alone, or perhaps were. Whether the driver still counts them only it knows.
        gone: Vec<String>,
    },
    /// A group snapshot whose id is not known yet.
    GroupSnapshotNamed(#[serde(with = "encoded")] Box<v1::CreateVolumeGroupSnapshotRequest>),
    Attachment {
        volume_id: String,
        node_id: String,
    },
    Staging {
        volume_id: String,
        path: String,
    },
    Publication {
        volume_id: String,
        path: String,
    },
    StagingDirectory(PathBuf),
    /// The directories above a target path.
    TargetDirectories(PathBuf),
    /// A file that the check wrote beside them.
    File(PathBuf),
    /// A fault that a command of the user has injected.
    Broken {
        hook: String,
        what: String,
    },
    /// A file system of the tests over a directory of the driver.
    Mount(PathBuf),
}

/// The reason why a resource is not undone.
#[derive(Clone, Debug)]
pub(crate) struct Stays {
    pub(crate) why: String,
    /// True if the resource may not exist.
    pub(crate) in_doubt: bool,
    pub(crate) obstacle: Obstacle,
}

/// The reason for which a resource cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The driver rejects the call that undoes it.
    Rejected,
    /// The driver answers OK, and the volume is still mounted.
    StillMounted,
    /// The driver answers that there is no such volume, and it is still mounted.
    UnknownAndMounted,
    /// The call got no answer, or it is no call of the driver that fails.
    Other,
}

impl Stays {
    /// Returns true if this reason holds although a later try met the other one: the driver has answered OK before, and knows nothing of the
    /// volume by now.
    pub(crate) fn outlasts(&self, later: &Stays) -> bool {
        self.obstacle == Obstacle::StillMounted && later.obstacle == Obstacle::UnknownAndMounted
    }

    /// True if only the mount is left.
    pub(crate) fn is_mount(&self) -> bool {
        matches!(self.obstacle, Obstacle::StillMounted | Obstacle::UnknownAndMounted)
    }

    /// The driver rejects the call that undoes it.
    pub(crate) fn rejected(why: String) -> Stays {
        Stays { why, in_doubt: false, obstacle: Obstacle::Rejected }
    }
}

impl From<String> for Stays {
    fn from(why: String) -> Stays {
        Stays { why, in_doubt: false, obstacle: Obstacle::Other }
    }
}

/// Requests as hexadecimal bytes, without secrets.
mod encoded {
    use prost::Message;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use csi_proto::Call;

    use crate::text::encoding::{from_hex, hex};

    // The signature that serde wants for a field of this type.
    #[expect(clippy::borrowed_box)]
    pub(super) fn serialize<Q: Call + Message, S: Serializer>(
        request: &Box<Q>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut request = request.clone();
        if let Some(secrets) = request.secrets_mut() {
            secrets.clear();
        }
        serializer.serialize_str(&hex(&request.encode_to_vec()))
    }

    pub(super) fn deserialize<'de, Q: Message + Default, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<Q>, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let bytes = from_hex(&digits).ok_or_else(|| D::Error::custom("a request is not hexadecimal"))?;
        Q::decode(bytes.as_slice()).map(Box::new).map_err(D::Error::custom)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Volume(id) => write!(f, "volume {}", named(id)),
            Resource::VolumeNamed(request) => write!(f, "volume named {:?}", request.name),
            Resource::Snapshot(id) => write!(f, "snapshot {}", named(id)),
            Resource::SnapshotNamed(request) => write!(f, "snapshot named {:?}", request.name),
            Resource::GroupSnapshot { request, .. } => {
                write!(f, "group snapshot {}", named(&request.group_snapshot_id))
            }
            Resource::GroupSnapshotNamed(request) => write!(f, "group snapshot named {:?}", request.name),
            Resource::Attachment { volume_id, node_id } => {
                write!(f, "attachment of volume {} to node {}", named(volume_id), named(node_id))
            }
            Resource::Staging { volume_id, path } => {
                write!(f, "volume {} staged at {}", named(volume_id), named(path))
            }
            Resource::Publication { volume_id, path } => {
                write!(f, "volume {} published at {}", named(volume_id), named(path))
            }
            Resource::StagingDirectory(path) => write!(f, "directory {}", named(&path.to_string_lossy())),
            Resource::TargetDirectories(path) => {
                write!(f, "directories above {}", named(&path.to_string_lossy()))
            }
            Resource::File(path) => write!(f, "file {}", named(&path.to_string_lossy())),
            Resource::Mount(path) => {
                write!(f, "file system of the tests over {}", named(&path.to_string_lossy()))
            }
            Resource::Broken { hook, what } => write!(f, "{}, broken by the commands of {hook}", named(what)),
        }
    }
}

impl Resource {
    /// Returns true if this may be a use of that, and has to be undone before it: a volume is unpublished, then
    /// unstaged, then detached, then deleted.
    pub(crate) fn uses(&self, that: &Resource) -> bool {
        // The id of such a volume is not known yet, so any use may be one of it.
        let of_any = matches!(that, Resource::VolumeNamed(_));
        match (self.use_of(), that.use_of()) {
            (Some((by, _)), Some(_)) if of_any => by > 0,
            (Some((by, volume)), Some((of, other))) => by > of && volume == other,
            _ => false,
        }
    }

    /// Returns true if it is a use of a volume.
    pub(crate) fn is_use(&self) -> bool {
        self.use_of().is_some_and(|(far, _)| far > 0)
    }

    /// The id of the volume that it is, or is a use of.
    pub(crate) fn volume_id(&self) -> Option<&str> {
        self.use_of().map(|(_, id)| id).filter(|id| !id.is_empty())
    }

    /// The step of a volume on its way to a workload, and the id of the volume.
    fn use_of(&self) -> Option<(u8, &str)> {
        Some(match self {
            Resource::VolumeNamed(_) => (0, ""),
            Resource::Volume(id) => (0, id),
            Resource::Attachment { volume_id, .. } => (1, volume_id),
            Resource::Staging { volume_id, .. } => (2, volume_id),
            Resource::Publication { volume_id, .. } => (3, volume_id),
            _ => return None,
        })
    }

    /// Notes that a member of this group snapshot was deleted alone, or perhaps was.
    pub(crate) fn part_with(&mut self, member: &str) {
        if let Resource::GroupSnapshot { request, gone } = self
            && let Some(at) = request.snapshot_ids.iter().position(|id| id == member)
        {
            gone.push(request.snapshot_ids.remove(at));
        }
    }

    /// The encoded request that is to make it, if its id is not known yet.
    pub(crate) fn request(&self) -> Option<Vec<u8>> {
        match self {
            Resource::VolumeNamed(request) => Some(request.encode_to_vec()),
            Resource::SnapshotNamed(request) => Some(request.encode_to_vec()),
            Resource::GroupSnapshotNamed(request) => Some(request.encode_to_vec()),
            _ => None,
        }
    }

    /// Its id or path, if that is known, as lists contain it.
    pub(crate) fn id(&self) -> Option<String> {
        match self {
            Resource::Volume(id) | Resource::Snapshot(id) => Some(id.clone()),
            Resource::Staging { path, .. } | Resource::Publication { path, .. } => Some(path.clone()),
            _ => None,
        }
    }

    /// The path for which directories were made, if it is that.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Resource::StagingDirectory(path) | Resource::TargetDirectories(path) => Some(path),
            _ => None,
        }
    }

    /// Returns true if it exists on one node only.
    pub(crate) fn is_on_node(&self) -> bool {
        matches!(
            self,
            Resource::Staging { .. }
                | Resource::Publication { .. }
                | Resource::StagingDirectory(_)
                | Resource::TargetDirectories(_)
                | Resource::File(_)
        )
    }

    /// Returns true if undoing it takes a call of the driver.
    pub(crate) fn takes_a_call(&self) -> bool {
        !matches!(
            self,
            Resource::StagingDirectory(_)
                | Resource::TargetDirectories(_)
                | Resource::File(_)
                | Resource::Broken { .. }
                | Resource::Mount(_)
        )
    }
}
