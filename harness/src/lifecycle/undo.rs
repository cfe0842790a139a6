//! Undoes each resource that a check can make, as patiently as an orchestrator, which asks again while a driver is
//! busy.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;

use csi_proto::{Rpc, UnaryCall, v1};
use tonic::Code;

use super::ledger::driver_is_gone;
use super::{group, hooks, own_mounts};
use crate::client::answer::{Answer, Exists, NoAnswer, Refused};
use crate::client::patience::{Pauses, Settles};
use crate::client::session::Session;
use crate::protocol::effect::{self, Effect};
use crate::resources::resource::{Obstacle, Resource, Stays};
use crate::resources::{frozen, mounts};
use crate::text::shorten::named;

/// Times that a call to undo something is made.
const TRIES_MAX: u32 = 6;
/// Times that a call to undo something is made to a driver that fails, and does not say "not now".
const FAILED_TRIES_MAX: u32 = 5;
/// Times that a driver has to fail alike in making a resource before it is believed that there is none.
const FAILURES_BELIEVED: u32 = 2;

impl Resource {
    /// Undoes it; the error says what stands in the way.
    pub(crate) async fn undo(&self, session: &Session, exists: Exists) -> Result<(), Stays> {
        match self {
            Resource::VolumeNamed(request) => {
                let Some(made) = ask_for(session, (**request).clone()).await? else { return Ok(()) };
                let id = made.volume.unwrap_or_default().volume_id;
                insist(session, delete_volume(&id), Exists::Yes).await
            }
            Resource::SnapshotNamed(request) => {
                let Some(made) = ask_for(session, (**request).clone()).await? else { return Ok(()) };
                let id = made.snapshot.unwrap_or_default().snapshot_id;
                insist(session, delete_snapshot(&id), Exists::Yes).await
            }
            Resource::GroupSnapshotNamed(request) => {
                let Some(made) = ask_for(session, (**request).clone()).await? else { return Ok(()) };
                let request = group::delete_request(&made.group_snapshot.unwrap_or_default());
                insist(session, request, Exists::Yes).await
            }
            known => known.undo_known(session, exists).await,
        }
    }

    /// Undoes a resource whose id is known.
    async fn undo_known(&self, session: &Session, exists: Exists) -> Result<(), Stays> {
        match self {
            Resource::VolumeNamed(_) | Resource::SnapshotNamed(_) | Resource::GroupSnapshotNamed(_) => Ok(()),
            Resource::Volume(id) => insist(session, delete_volume(id), exists).await,
            Resource::Snapshot(id) => insist(session, delete_snapshot(id), exists).await,
            Resource::GroupSnapshot { request, gone } => {
                let deleted = insist(session, (**request).clone(), exists).await;
                if deleted.is_ok() || gone.is_empty() {
                    return deleted;
                }
                let mut request = (**request).clone();
                request.snapshot_ids.extend(gone.iter().cloned());
                insist(session, request, exists).await
            }
            Resource::Attachment { volume_id, node_id } => {
                let request = v1::ControllerUnpublishVolumeRequest {
                    volume_id: volume_id.clone(),
                    node_id: node_id.clone(),
                    ..Default::default()
                };
                insist(session, request, exists).await
            }
            Resource::Staging { volume_id, path } => {
                let (volume_id, staging_target_path) = (volume_id.clone(), path.clone());
                let request = v1::NodeUnstageVolumeRequest { volume_id, staging_target_path };
                thaw(session, path).await;
                unstacked(session, path, || undone_by(session, request.clone(), exists)).await
            }
            Resource::Publication { volume_id, path } => {
                let (volume_id, target_path) = (volume_id.clone(), path.clone());
                let request = v1::NodeUnpublishVolumeRequest { volume_id, target_path };
                thaw(session, path).await;
                unstacked(session, path, || undone_by(session, request.clone(), exists)).await
            }
            Resource::StagingDirectory(path) => Ok(session.paths().remove_staging(path).await?),
            Resource::TargetDirectories(path) => Ok(session.paths().remove_target(path).await?),
            Resource::File(path) => match tokio::fs::remove_file(path).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(format!("failed to remove {}: {error}", path.display()).into())
                }
                _ => Ok(()),
            },
            Resource::Mount(path) => own_mounts::take_away(path).map_err(|error| error.to_string().into()),
            Resource::Broken { hook, what } => Ok(hooks::heal(session.config(), hook, what).await?),
        }
    }
}

/// Thaws the file system of a volume that is about to be given back. Once it is unmounted, nothing can be done about it, and its device stays
/// busy.
async fn thaw(session: &Session, path: &str) {
    if session.paths().commands().is_some() {
        return;
    }
    let directory = session.target().driver_directory();
    let roots: Vec<&Path> = session.paths().roots().into_iter().chain(directory.as_deref()).collect();
    if frozen::thaw(Path::new(path), &roots).await {
        session.note(format!(
            "the file system at {} was frozen when its volume was released, so all writes to it waited; it is thawed now",
            named(path)
        ));
    }
}

/// Undoes what is mounted at a path, and again for each mount that a driver has put over another.
async fn unstacked<F>(session: &Session, path: &str, mut undo: impl FnMut() -> F) -> Result<(), Stays>
where
    F: Future<Output = Result<Undone, Stays>>,
{
    let mut is_done = false;
    let is_seen_here = session.paths().commands().is_none();
    let is_mounted = || is_seen_here && !mounts::at(Path::new(path)).is_empty();
    let is_gone = || {
        let found = std::fs::symlink_metadata(path);
        is_seen_here && found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    for _ in 0..TRIES_MAX {
        match undo().await {
            Ok(undone) => is_done |= undone == Undone::Done,
            Err(stays) => {
                // The mount is there, so that the volume is in use whatever the driver answers.
                let obstacle = if is_mounted() { Obstacle::Other } else { stays.obstacle };
                // Nothing is at the path any more, so an earlier call may have undone it, such as one with a hostile id.
                let in_doubt = stays.in_doubt || is_gone();
                return Err(Stays { obstacle, in_doubt, ..stays });
            }
        }
        if !is_mounted() {
            return Ok(());
        }
    }
    let (obstacle, answer) = match is_done {
        true => (Obstacle::StillMounted, "OK"),
        false => (Obstacle::UnknownAndMounted, "that there is no such volume"),
    };
    let why = format!("{} is still mounted, although the driver answers {answer}", named(path));
    Err(Stays { why, in_doubt: false, obstacle })
}

fn delete_volume(id: &str) -> v1::DeleteVolumeRequest {
    v1::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }
}

fn delete_snapshot(id: &str) -> v1::DeleteSnapshotRequest {
    v1::DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() }
}

/// The answer after which nothing is left to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undone {
    /// It was undone.
    Done,
    /// The driver does not know it.
    NotThere,
}

/// Repeats a request that undoes something until there is nothing left to undo.
///
/// # Errors
/// Fails as [`undone_by`] does.
async fn insist<Q: UnaryCall>(session: &Session, request: Q, exists: Exists) -> Result<(), Stays> {
    undone_by(session, request, exists).await.map(drop)
}

/// Repeats a request that undoes something until it is done: a few times at most, no longer than `time-limits:
/// settle-ms`, and once if the driver does not have the RPC.
async fn undone_by<Q: UnaryCall>(session: &Session, request: Q, exists: Exists) -> Result<Undone, Stays> {
    let mut tries = Tries::new(session, Q::RPC);
    loop {
        match session.call(request.clone()).once().await.into_answer() {
            Answer::Ok(_) => {
                tries.count_if_it_had_failed();
                return Ok(tries.done(Ok(Undone::Done))?);
            }
            // Gone already: an unpublish of something unknown may be answered so.
            Answer::Refused(Refused { code: Code::NotFound, .. }) => {
                tries.count_if_it_had_failed();
                return Ok(Undone::NotThere);
            }
            // A definite no about something that may never have been.
            Answer::Refused(refused)
                if exists != Exists::Yes && effect::of(Q::RPC, refused.code) == Effect::None =>
            {
                return Ok(Undone::NotThere);
            }
            Answer::Refused(refused) => tries.again_after(&refused).await.map_err(Stays::rejected)?,
            Answer::Unknown(no_answer) => tries.again_unanswered(&no_answer).await?,
        }
    }
}

/// Sends a request to make a resource again, since that is the way to learn what it has made: `None` if that is nothing.
async fn ask_for<Q: UnaryCall>(session: &Session, request: Q) -> Result<Option<Q::Response>, Stays> {
    let mut tries = Tries::new(session, Q::RPC);
    loop {
        match session.call(request.clone()).once().await.into_answer() {
            Answer::Ok(response) => {
                session.patience().was_made_again(Q::RPC, true);
                return Ok(tries.done(Ok(Some(response)))?);
            }
            // An object has the name already. It is this run's, because nothing else makes objects under such names.
            Answer::Refused(refused @ Refused { code: Code::AlreadyExists, .. }) => {
                let why = format!("{}, repeated to learn the id, answered {refused}", Q::RPC);
                return Err(Stays { why, in_doubt: true, obstacle: Obstacle::Other });
            }
            Answer::Refused(refused) => match effect::of(Q::RPC, refused.code) {
                Effect::None => return Ok(None),
                Effect::Unsure
                    if tries.pauses.taken + 1 >= FAILURES_BELIEVED
                        || session.patience().is_made_again_in_vain(Q::RPC) =>
                {
                    session.patience().was_made_again(Q::RPC, false);
                    return Ok(None);
                }
                Effect::Unsure | Effect::Pending => tries.again_after(&refused).await?,
            },
            Answer::Unknown(no_answer) => tries.again_unanswered(&no_answer).await?,
        }
    }
}

/// Counts and limits the tries to undo something.
struct Tries<'a> {
    session: &'a Session,
    rpc: Rpc,
    settled: Instant,
    pauses: Pauses,
    /// The first failure, of which an orchestrator takes no notice since it makes the call again.
    failed: Option<String>,
}

impl Tries<'_> {
    fn new(session: &Session, rpc: Rpc) -> Tries<'_> {
        let settled = Instant::now() + session.settle_limit();
        Tries { session, rpc, settled, pauses: Pauses::default(), failed: None }
    }

    /// Pauses before the next try, or says why there is none.
    async fn again_after(&mut self, refused: &Refused) -> Result<(), String> {
        let fails = !effect::is_not_now(self.rpc.method, refused.code);
        if refused.code == Code::Unavailable || effect::says_nothing(refused.code) {
            self.failed.get_or_insert_with(|| refused.to_string());
        }
        let in_vain =
            refused.code == Code::Unimplemented || (fails && self.pauses.taken + 1 >= FAILED_TRIES_MAX);
        self.again(&format!("answered {refused}"), in_vain).await
    }

    /// Pauses after a call without an answer. A driver that is gone is not waited for: once it is back, everything is
    /// undone again.
    async fn again_unanswered(&mut self, no_answer: &NoAnswer) -> Result<(), String> {
        if !matches!(no_answer, NoAnswer::NotSent(_)) {
            self.failed.get_or_insert_with(|| no_answer.to_string());
        }
        let in_vain = match no_answer {
            NoAnswer::NotSent(_) => true,
            NoAnswer::Broken(_) if driver_is_gone(self.session).await => true,
            _ => self.session.patience().is_silent(self.rpc),
        };
        self.again(&format!("has no result: {no_answer}"), in_vain).await
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

    /// Counts the call if the driver has done it only when it was made again.
    fn count_if_it_had_failed(&self) {
        if let Some(failed) = &self.failed {
            self.session.target().tally.answered_when_repeated(self.session.label(), self.rpc, failed);
        }
    }

    /// Notes whether it was worth trying again.
    fn done<T>(&self, ended: Result<T, String>) -> Result<T, String> {
        if self.pauses.taken > 0 {
            self.session.patience().was_willing(self.rpc, ended.is_ok());
        }
        ended
    }
}
