//! A volume takes what is written to it, keeps that, and shows nothing else.

use std::io;

use csi_harness::prelude::*;
use csi_harness::resources::contents::Found;
use csi_harness::resources::mounts;
use csi_harness::resources::workload::whereabouts;
use csi_proto::{RPCS, Rpc, Service, code_named};

use crate::copies;
use crate::used::{Usage, Used, describe_write};

/// Codes that say that the call does not have to wait for something.
const DEFINITE_CODES: [Code; 5] =
    [Code::FailedPrecondition, Code::Internal, Code::InvalidArgument, Code::NotFound, Code::Unknown];
/// The file systems that drivers make on devices.
const FORMATTED: [&str; 2] = ["ext4", "xfs"];

/// The violation that a workload gets something other than its volume.
fn no_volume(cx: &Cx, message: &str) -> Violation {
    Violation::new(message).of(match cx.access() {
        AccessType::Block => &req::NODE_PUBLISH_026,
        AccessType::Mount => &req::NODE_PUBLISH_027,
    })
}

async fn write(cx: &Cx, used: &Used, stamp: u32) -> CheckResult {
    used.try_to_write(stamp).await?.map_err(|error| {
        no_volume(cx, "a workload cannot write to a volume that was published for writing")
            .expected("a file that can be written, or a range of blocks")
            .actual(error)
            .into()
    })
}

async fn holds(cx: &Cx, used: &Used, stamp: u32, otherwise: &str) -> CheckResult {
    let found: io::Result<Found> = used.try_to_read().await?;
    if matches!(&found, Ok(found) if found.number() == Some(stamp)) {
        return Ok(());
    }
    let actual = found.map_or_else(|error| error.to_string(), |found| found.to_string());
    let actual = format!("{actual}, at {}", whereabouts(used.path()));
    Err(no_volume(cx, otherwise).expected(describe_write(stamp)).actual(actual).into())
}

check! {
    /// When a pod moves or its node restarts, its volume is unpublished and published again, and must still
    /// hold all data.
    LASTS {
        id: "data/kept/until-published-again",
        title: "data that a workload has written exist when the volume is published again",
        spec: [req::NODE_PUBLISH_026, req::NODE_PUBLISH_027],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/wipes-at-restage"],
        access: Each,
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let first = Used::begin(cx, &volume).await?;
        write(cx, &first, 1).await?;
        first.end().await?;
        let second = Used::begin(cx, &volume).await?;
        holds(cx, &second, 1, "data written to a volume are lost when it is published again").await?;
        second.end().await
    }
}

check! {
    /// A PersistentVolume that an administrator writes for an existing volume may name another fs_type than the one that the volume has. A
    /// driver that only looks for the requested file system takes such a volume for empty, and formats it.
    OTHER_FS_TYPE {
        id: "data/kept/other-fs-type",
        title: "a volume keeps its data when it is staged or published with another fs_type",
        spec: [req::NODE_PUBLISH_027],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/formats-other-fs-type"],
    }
    async |cx| {
        let mut tried = 0;
        for own in FORMATTED {
            let scope = cx.scope();
            let Some(volume) = written_with(&scope, own).await? else {
                scope.undo().await?;
                continue;
            };
            for other in FORMATTED.into_iter().filter(|other| *other != own) {
                let scope = cx.scope();
                // The driver may mount the file system that is there, or reject the request.
                match Used::begin_with(&scope, &volume, Usage::with_fs_type(cx, other)).await {
                    Ok(_) | Err(Stop::Broken(_) | Stop::Skip(_) | Stop::Declined(..)) => scope.undo().await?,
                    Err(other) => return Err(other),
                }
            }
            let again = match Used::begin_with(cx, &volume, Usage::with_fs_type(cx, own)).await {
                Err(Stop::Broken(why)) if let Some((rpc, code)) = rejected_by_node(cx) => {
                    return Err(no_volume(cx, "a volume cannot be used any more after another fs_type was requested for it")
                        .expected(format!("the volume can be used with {own}, as before"))
                        .actual(why)
                        .refused(rpc, code)
                        .into());
                }
                again => again?,
            };
            holds(cx, &again, 1, "data written to a volume are lost after another fs_type was requested for it").await?;
            again.end().await?;
            tried += 1;
        }
        match tried {
            0 => Err(Stop::skip("the driver makes no file system of its own on its volumes")),
            _ => Ok(()),
        }
    }
}

/// The last call, if the node rejected it for good. Without an answer, nothing is known of the volume, and the controller knows nothing of
/// file systems.
fn rejected_by_node(cx: &Cx) -> Option<(Rpc, Code)> {
    let call = cx.last_call()?;
    let rpc = RPCS.iter().copied().find(|rpc| Some(rpc.method) == call.rpc.as_deref())?;
    let code = code_named(&call.code).filter(|code| DEFINITE_CODES.contains(code))?;
    (rpc.service == Service::Node).then_some((rpc, code))
}

/// Creates a volume that a workload has written to, with a file system of this type; `None` if the driver makes no such volumes.
async fn written_with(cx: &Cx, fs_type: &str) -> CheckResult<Option<NodeVolume>> {
    let usage = Usage::with_fs_type(cx, fs_type);
    let Ok(volume) = cx.create_volume(usage.request(cx).await?).await.any_answer()? else { return Ok(None) };
    let volume = NodeVolume::from(volume);
    let used = match Used::begin_with(cx, &volume, usage).await {
        Ok(used) => used,
        Err(Stop::Broken(_) | Stop::Declined(..)) => return Ok(None),
        Err(other) => return Err(other),
    };
    if mounts::at(used.path()).pop().is_none_or(|mount| mount.fs_type != fs_type) {
        return Ok(None);
    }
    write(cx, &used, 1).await?;
    used.end().await?;
    Ok(Some(volume))
}

check! {
    /// Volumes that share a back end, a directory or a device must not share their data.
    APART {
        id: "data/kept/apart-from-others",
        title: "two volumes that are published at the same time each hold their own data",
        spec: [req::NODE_PUBLISH_026, req::NODE_PUBLISH_027],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/mixes-up"],
        access: Each,
    }
    async |cx| {
        let volumes = [cx.node_volume().await?, cx.node_volume().await?];
        let [first, second] = [Used::begin(cx, &volumes[0]).await?, Used::begin(cx, &volumes[1]).await?];
        write(cx, &first, 1).await?;
        write(cx, &second, 2).await?;
        for (used, stamp) in [(&first, 1), (&second, 2)] {
            holds(cx, used, stamp, "a volume holds the data of another volume instead of its own").await?;
        }
        second.end().await?;
        first.end().await
    }
}

check! {
    /// A driver that remembers names as deleted, or whose back end does so for a while, may answer OK and
    /// delete nothing when a name is used again: the next workload then reads the data of the previous one.
    /// So the name is used and deleted once before anything is written. Parameters that keep the data of
    /// deleted volumes would have the same effect, so this check only warns.
    GONE {
        id: "data/kept/not-by-name",
        title: "a volume with the name of a deleted volume holds no data of it",
        spec: [req::CTRL_DELETEVOL_002],
        needs: [NODE, CREATE_DELETE_VOLUME, ROOT],
        refuted_by: ["hostpath/deletes-a-name-once"],
        access: Each,
    }
    async |cx| {
        let request = cx.create_node_volume_request().await?;
        let made = async || cx.create_volume(request.clone()).setup("a volume under a name that is free").await;
        let first = made().await?;
        cx.delete_volume(&first.volume_id).setup("a volume that is deleted").await?;
        let second = NodeVolume::from(made().await?);
        copies::write(cx, &second, 1).await?;
        cx.delete_volume(&second.id).setup("a volume that is deleted").await?;
        let third = NodeVolume::from(made().await?);
        let found = copies::read(cx, &third).await?;
        ensure!(
            found.number() != Some(1),
            "a new volume holds data of a deleted volume of the same name";
            expected: "no data written before CreateVolume, since DeleteVolume of that volume was answered with OK",
            actual: found
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&LASTS, &OTHER_FS_TYPE, &APART, &GONE];
