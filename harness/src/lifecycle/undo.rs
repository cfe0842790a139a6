//! How each thing is undone. Deletions are repeated as an orchestrator would: a driver may be busy for a while.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use csi_proto::{UnaryCall, v1};

use super::group;
use crate::cx::Session;
use crate::ledger::Undo;
use crate::reply::Answer;

const TRIES_MAX: u32 = 6;
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// Sends a request until it is done: a few times at the most, no longer than `time-limits: settle-ms`, and once if the
/// driver does not have the RPC.
async fn insist<Q>(session: &Session, request: Q) -> Result<(), String>
where
    Q: UnaryCall + Send + Sync,
    Q::Response: Send + Sync,
{
    let settled = Instant::now() + Duration::from_millis(session.config().time_limits.settle_ms);
    let mut pause = PAUSE_MIN;
    for attempt in 1.. {
        let reply = session.call(request.clone()).await;
        let why = match reply.answer() {
            Answer::Ok(_) => return Ok(()),
            // Gone already: an unpublish of something unknown may be answered so.
            Answer::Refused(refused) if refused.code == tonic::Code::NotFound => return Ok(()),
            Answer::Refused(refused) => refused.to_string(),
            Answer::Unknown(no_answer) => no_answer.to_string(),
        };
        let in_vain = reply.code() == Some(tonic::Code::Unimplemented);
        let late = session.remaining() < pause || Instant::now() + pause > settled;
        if attempt == TRIES_MAX || in_vain || late {
            return Err(format!("{} answered {why}", Q::RPC));
        }
        tokio::time::sleep(pause).await;
        pause *= 3;
    }
    Ok(())
}

pub(super) fn volume(volume_id: String) -> Undo {
    Box::new(move |session| {
        Box::pin(insist(session, v1::DeleteVolumeRequest { volume_id, ..Default::default() }))
    })
}

/// For a creation without an answer: asked again, the driver says which volume it made, if any.
pub(super) fn volume_by_name(request: v1::CreateVolumeRequest) -> Undo {
    Box::new(move |session| {
        Box::pin(async move {
            match session.call(request).await.answer() {
                Answer::Ok(response) => {
                    let volume_id = response.volume.clone().unwrap_or_default().volume_id;
                    insist(session, v1::DeleteVolumeRequest { volume_id, ..Default::default() }).await
                }
                Answer::Refused(_) => Ok(()),
                Answer::Unknown(no_answer) => Err(no_answer.to_string()),
            }
        })
    })
}

pub(super) fn snapshot(snapshot_id: String) -> Undo {
    Box::new(move |session| {
        Box::pin(insist(session, v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() }))
    })
}

pub(super) fn snapshot_by_name(request: v1::CreateSnapshotRequest) -> Undo {
    Box::new(move |session| {
        Box::pin(async move {
            match session.call(request).await.answer() {
                Answer::Ok(response) => {
                    let snapshot_id = response.snapshot.clone().unwrap_or_default().snapshot_id;
                    insist(session, v1::DeleteSnapshotRequest { snapshot_id, ..Default::default() }).await
                }
                Answer::Refused(_) => Ok(()),
                Answer::Unknown(no_answer) => Err(no_answer.to_string()),
            }
        })
    })
}

pub(super) fn group_snapshot(request: v1::DeleteVolumeGroupSnapshotRequest) -> Undo {
    Box::new(move |session| Box::pin(insist(session, request)))
}

pub(super) fn group_snapshot_by_name(request: v1::CreateVolumeGroupSnapshotRequest) -> Undo {
    Box::new(move |session| {
        Box::pin(async move {
            match session.call(request).await.answer() {
                Answer::Ok(response) => {
                    let made = response.group_snapshot.clone().unwrap_or_default();
                    insist(session, group::delete_request(&made)).await
                }
                Answer::Refused(_) => Ok(()),
                Answer::Unknown(no_answer) => Err(no_answer.to_string()),
            }
        })
    })
}

pub(super) fn attachment(volume_id: String, node_id: String) -> Undo {
    Box::new(move |session| {
        let request = v1::ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
        Box::pin(insist(session, request))
    })
}

pub(super) fn staging(volume_id: String, staging_target_path: String) -> Undo {
    Box::new(move |session| {
        Box::pin(insist(session, v1::NodeUnstageVolumeRequest { volume_id, staging_target_path }))
    })
}

pub(super) fn publication(volume_id: String, target_path: String) -> Undo {
    Box::new(move |session| {
        Box::pin(insist(session, v1::NodeUnpublishVolumeRequest { volume_id, target_path }))
    })
}

pub(super) fn target_parent(path: PathBuf) -> Undo {
    Box::new(move |session| Box::pin(async move { session.target().paths.remove_target_parent(&path).await }))
}

pub(super) fn staging_directory(path: PathBuf) -> Undo {
    Box::new(move |session| Box::pin(async move { session.target().paths.remove_staging(&path).await }))
}
