//! Everything that a check can make, and how each is undone: as an orchestrator would, which asks again while a driver is
//! busy.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use csi_proto::{Rpc, UnaryCall, v1};
use prost::Message as _;
use serde::{Deserialize, Serialize};
use tonic::Code;

use super::group;
use crate::calling::Pauses;
use crate::cx::Session;
use crate::effect::{self, Effect};
use crate::ledger::Exists;
use crate::mounts;
use crate::patience::Settles;
use crate::reply::{Answer, NoAnswer, Refused};
use crate::story::named;

/// Times that a call to undo something is made.
const TRIES_MAX: u32 = 6;
/// Times that a driver has to fail alike in making a thing before it is believed that there is none.
const FAILURES_BELIEVED: u32 = 2;

/// Something to be undone. Its text names it, and two of one text are the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Thing {
    Volume(String),
    /// A volume whose id nobody knows yet.
    VolumeNamed(#[serde(with = "encoded")] Box<v1::CreateVolumeRequest>),
    Snapshot(String),
    /// A snapshot whose id nobody knows yet.
    SnapshotNamed(#[serde(with = "encoded")] Box<v1::CreateSnapshotRequest>),
    GroupSnapshot {
        #[serde(with = "encoded")]
        request: Box<v1::DeleteVolumeGroupSnapshotRequest>,
        /// Members that were deleted alone, or perhaps were. Whether the driver still counts them only it knows.
        gone: Vec<String>,
    },
    /// A group snapshot whose id nobody knows yet.
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
}

/// Why a thing is not undone.
#[derive(Clone, Debug)]
pub(crate) struct Stays {
    pub(crate) why: String,
    /// Whether nobody knows that it is there.
    pub(crate) in_doubt: bool,
}

impl From<String> for Stays {
    fn from(why: String) -> Stays {
        Stays { why, in_doubt: false }
    }
}

/// Requests as hexadecimal bytes, without secrets.
mod encoded {
    use prost::Message;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use csi_proto::Call;

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
        let digits: String = request.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }

    pub(super) fn deserialize<'de, Q: Message + Default, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<Q>, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.ok_or_else(|| D::Error::custom("a request is not hexadecimal"))?;
        Q::decode(bytes.as_slice()).map(Box::new).map_err(D::Error::custom)
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Volume(id) => write!(f, "volume {}", named(id)),
            Thing::VolumeNamed(request) => write!(f, "volume named {:?}", request.name),
            Thing::Snapshot(id) => write!(f, "snapshot {}", named(id)),
            Thing::SnapshotNamed(request) => write!(f, "snapshot named {:?}", request.name),
            Thing::GroupSnapshot { request, .. } => {
                write!(f, "group snapshot {}", named(&request.group_snapshot_id))
            }
            Thing::GroupSnapshotNamed(request) => write!(f, "group snapshot named {:?}", request.name),
            Thing::Attachment { volume_id, node_id } => {
                write!(f, "attachment of volume {} to node {}", named(volume_id), named(node_id))
            }
            Thing::Staging { volume_id, path } => {
                write!(f, "volume {} staged at {}", named(volume_id), named(path))
            }
            Thing::Publication { volume_id, path } => {
                write!(f, "volume {} published at {}", named(volume_id), named(path))
            }
            Thing::StagingDirectory(path) => write!(f, "directory {}", named(&path.to_string_lossy())),
            Thing::TargetDirectories(path) => {
                write!(f, "directories above {}", named(&path.to_string_lossy()))
            }
            Thing::File(path) => write!(f, "file {}", named(&path.to_string_lossy())),
        }
    }
}

impl Thing {
    /// Whether this may be a use of that, and has to be undone before it: a volume is unpublished, then unstaged, then detached,
    /// then deleted.
    pub(crate) fn uses(&self, that: &Thing) -> bool {
        // The id of such a volume nobody knows yet.
        let of_any = matches!(that, Thing::VolumeNamed(_));
        match (self.use_of(), that.use_of()) {
            (Some((by, _)), Some(_)) if of_any => by > 0,
            (Some((by, volume)), Some((of, other))) => by > of && volume == other,
            _ => false,
        }
    }

    /// Whether it is a use of a volume.
    pub(crate) fn is_use(&self) -> bool {
        self.use_of().is_some_and(|(far, _)| far > 0)
    }

    /// How far a volume is on its way to a workload, and which one.
    fn use_of(&self) -> Option<(u8, &str)> {
        Some(match self {
            Thing::VolumeNamed(_) => (0, ""),
            Thing::Volume(id) => (0, id),
            Thing::Attachment { volume_id, .. } => (1, volume_id),
            Thing::Staging { volume_id, .. } => (2, volume_id),
            Thing::Publication { volume_id, .. } => (3, volume_id),
            _ => return None,
        })
    }

    /// Notes that a member of this group snapshot was deleted alone, or perhaps was.
    pub(crate) fn part_with(&mut self, member: &str) {
        if let Thing::GroupSnapshot { request, gone } = self
            && let Some(at) = request.snapshot_ids.iter().position(|id| id == member)
        {
            gone.push(request.snapshot_ids.remove(at));
        }
    }

    /// The request that is to make it, encoded, where nobody knows its id yet.
    pub(crate) fn request(&self) -> Option<Vec<u8>> {
        match self {
            Thing::VolumeNamed(request) => Some(request.encode_to_vec()),
            Thing::SnapshotNamed(request) => Some(request.encode_to_vec()),
            Thing::GroupSnapshotNamed(request) => Some(request.encode_to_vec()),
            _ => None,
        }
    }

    /// Its id or path, where that is known, as lists of what there is have it.
    pub(crate) fn id(&self) -> Option<String> {
        match self {
            Thing::Volume(id) | Thing::Snapshot(id) => Some(id.clone()),
            Thing::Staging { path, .. } | Thing::Publication { path, .. } => Some(path.clone()),
            _ => None,
        }
    }

    /// Whether it is on one node only.
    pub(crate) fn is_on_node(&self) -> bool {
        matches!(
            self,
            Thing::Staging { .. }
                | Thing::Publication { .. }
                | Thing::StagingDirectory(_)
                | Thing::TargetDirectories(_)
                | Thing::File(_)
        )
    }

    /// Whether the driver is needed to undo it.
    pub(crate) fn takes_a_call(&self) -> bool {
        !matches!(self, Thing::StagingDirectory(_) | Thing::TargetDirectories(_) | Thing::File(_))
    }

    /// Undoes it; the error says what stands in the way.
    pub(crate) async fn undo(&self, session: &Session, exists: Exists) -> Result<(), Stays> {
        match self {
            Thing::VolumeNamed(request) => {
                let Some(made) = ask_for(session, (**request).clone()).await? else { return Ok(()) };
                let id = made.volume.unwrap_or_default().volume_id;
                Ok(insist(session, delete_volume(&id), Exists::Yes).await?)
            }
            Thing::SnapshotNamed(request) => {
                let Some(made) = ask_for(session, (**request).clone()).await? else { return Ok(()) };
                let id = made.snapshot.unwrap_or_default().snapshot_id;
                Ok(insist(session, delete_snapshot(&id), Exists::Yes).await?)
            }
            Thing::GroupSnapshotNamed(request) => {
                let Some(made) = ask_for(session, (**request).clone()).await? else { return Ok(()) };
                let request = group::delete_request(&made.group_snapshot.unwrap_or_default());
                Ok(insist(session, request, Exists::Yes).await?)
            }
            named => Ok(named.undo_known(session, exists).await?),
        }
    }

    /// The same for a thing of which everything is known that undoes it.
    async fn undo_known(&self, session: &Session, exists: Exists) -> Result<(), String> {
        match self {
            Thing::VolumeNamed(_) | Thing::SnapshotNamed(_) | Thing::GroupSnapshotNamed(_) => Ok(()),
            Thing::Volume(id) => insist(session, delete_volume(id), exists).await,
            Thing::Snapshot(id) => insist(session, delete_snapshot(id), exists).await,
            Thing::GroupSnapshot { request, gone } => {
                let deleted = insist(session, (**request).clone(), exists).await;
                if deleted.is_ok() || gone.is_empty() {
                    return deleted;
                }
                let mut request = (**request).clone();
                request.snapshot_ids.extend(gone.iter().cloned());
                insist(session, request, exists).await
            }
            Thing::Attachment { volume_id, node_id } => {
                let request = v1::ControllerUnpublishVolumeRequest {
                    volume_id: volume_id.clone(),
                    node_id: node_id.clone(),
                    ..Default::default()
                };
                insist(session, request, exists).await
            }
            Thing::Staging { volume_id, path } => {
                let (volume_id, staging_target_path) = (volume_id.clone(), path.clone());
                let request = v1::NodeUnstageVolumeRequest { volume_id, staging_target_path };
                unstacked(session, path, || insist(session, request.clone(), exists)).await
            }
            Thing::Publication { volume_id, path } => {
                let (volume_id, target_path) = (volume_id.clone(), path.clone());
                let request = v1::NodeUnpublishVolumeRequest { volume_id, target_path };
                unstacked(session, path, || insist(session, request.clone(), exists)).await
            }
            Thing::StagingDirectory(path) => session.paths().remove_staging(path).await,
            Thing::TargetDirectories(path) => session.paths().remove_target(path).await,
            Thing::File(path) => match tokio::fs::remove_file(path).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(format!("failed to remove {}: {error}", path.display()))
                }
                _ => Ok(()),
            },
        }
    }
}

/// Undoes what is mounted at a path, and again for each mount that a driver has put over another.
async fn unstacked<F>(session: &Session, path: &str, mut undo: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    for _ in 0..TRIES_MAX {
        undo().await?;
        if session.paths().commands().is_some() || mounts::at(Path::new(path)).is_empty() {
            return Ok(());
        }
    }
    Err(format!("{} is mounted still, after OK for an answer", named(path)))
}

fn delete_volume(id: &str) -> v1::DeleteVolumeRequest {
    v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }
}

fn delete_snapshot(id: &str) -> v1::DeleteSnapshotRequest {
    v1::DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() }
}

/// Sends a request that undoes something until it is done: a few times at the most, no longer than `time-limits:
/// settle-ms`, and once if the driver does not have the RPC.
async fn insist<Q>(session: &Session, request: Q, exists: Exists) -> Result<(), String>
where
    Q: UnaryCall + Send + Sync,
    Q::Response: Send + Sync,
{
    let mut tries = Tries::new(session, Q::RPC);
    loop {
        match session.call(request.clone()).once().await.into_answer() {
            Answer::Ok(_) => return tries.done(Ok(())),
            // Gone already: an unpublish of something unknown may be answered so.
            Answer::Refused(Refused { code: Code::NotFound, .. }) => return Ok(()),
            // A definite no about something that may never have been.
            Answer::Refused(refused)
                if exists != Exists::Yes && effect::of(Q::RPC, refused.code) == Effect::None =>
            {
                return Ok(());
            }
            Answer::Refused(refused) => tries.again_after(&refused).await?,
            Answer::Unknown(no_answer) => tries.again_unanswered(&no_answer).await?,
        }
    }
}

/// Sends a request to make a thing again, since that is the way to learn what it has made: `None` if that is nothing.
async fn ask_for<Q>(session: &Session, request: Q) -> Result<Option<Q::Response>, Stays>
where
    Q: UnaryCall + Send + Sync,
    Q::Response: Send + Sync,
{
    let mut tries = Tries::new(session, Q::RPC);
    loop {
        match session.call(request.clone()).once().await.into_answer() {
            Answer::Ok(response) => return Ok(tries.done(Ok(Some(response)))?),
            // Something has the name, and nobody else makes things under names of this run.
            Answer::Refused(refused @ Refused { code: Code::AlreadyExists, .. }) => {
                let why = format!("{}, made again to learn the id, answered {refused}", Q::RPC);
                return Err(Stays { why, in_doubt: true });
            }
            Answer::Refused(refused) => match effect::of(Q::RPC, refused.code) {
                Effect::None => return Ok(None),
                Effect::Unsure if tries.pauses.taken + 1 >= FAILURES_BELIEVED => return Ok(None),
                Effect::Unsure | Effect::Pending => tries.again_after(&refused).await?,
            },
            Answer::Unknown(no_answer) => tries.again_unanswered(&no_answer).await?,
        }
    }
}

/// How often something is tried, and for how long.
struct Tries<'a> {
    session: &'a Session,
    rpc: Rpc,
    settled: Instant,
    pauses: Pauses,
}

impl Tries<'_> {
    fn new(session: &Session, rpc: Rpc) -> Tries<'_> {
        let settled = Instant::now() + session.settle_limit();
        Tries { session, rpc, settled, pauses: Pauses::default() }
    }

    /// Pauses before the next try, or says why there is none.
    async fn again_after(&mut self, refused: &Refused) -> Result<(), String> {
        self.again(&format!("answered {refused}"), refused.code == Code::Unimplemented).await
    }

    /// The same after a call without an answer.
    async fn again_unanswered(&mut self, no_answer: &NoAnswer) -> Result<(), String> {
        let withheld = matches!(no_answer, NoAnswer::Withheld(_));
        self.again(
            &format!("has no result: {no_answer}"),
            withheld || self.session.patience().is_silent(self.rpc),
        )
        .await
    }

    async fn again(&mut self, why: &str, in_vain: bool) -> Result<(), String> {
        let pause = self.pauses.next;
        let late = self.session.remaining() < pause || Instant::now() + pause > self.settled;
        let known = self.session.patience().is_unwilling(self.rpc) && self.pauses.taken > 0;
        if in_vain || late || known || self.pauses.taken + 1 >= TRIES_MAX {
            return self.done(Err(format!("{} {why}", self.rpc)));
        }
        let what = Settles::Willing(self.rpc.method);
        self.session.wait_to_repeat(what, &mut self.pauses, self.settled).await;
        Ok(())
    }

    /// Notes whether it was worth trying again.
    fn done<T>(&self, ended: Result<T, String>) -> Result<T, String> {
        if self.pauses.taken > 0 {
            self.session.patience().was_willing(self.rpc, ended.is_ok());
        }
        ended
    }
}
