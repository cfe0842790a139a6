//! Expansion and modification of volumes in use.

use csi_harness::prelude::*;
use csi_harness::resources::contents::Stamp;
use csi_harness::resources::workload::{self, WriteLocation, play, size_bytes};
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Call as _;
use csi_workload::rules::{IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005};
use futures_util::future::join;

use crate::beside::{Action, InUse, beside, call, judge_copy, published};
use crate::copies::{CLONE, copy_of, from_snapshot, from_volume};
use crate::snapshots::snapshot;

const EXPAND: Action = Action {
    name: "ControllerExpandVolume and NodeExpandVolume",
    rpcs: &[v1::ControllerExpandVolumeRequest::RPC, v1::NodeExpandVolumeRequest::RPC],
};
const EXPAND_COPY: Action = Action { name: "ControllerExpandVolume of a copy", rpcs: &[] };
const MODIFY: Action =
    Action { name: "ControllerModifyVolume", rpcs: &[v1::ControllerModifyVolumeRequest::RPC] };

check! {
    /// A file system or a mapping that grows under its writer moves what is at its end.
    EXPANSION {
        id: "in-use/expansion",
        title: "the expansion of a volume in use does not hurt the workload, and the old and the new part hold what is written",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, EXPAND_VOLUME, ROOT],
        refuted_by: [
            "hostpath/expansion-wipes",
            "hostpath/expansion-freezes-writer",
            "hostpath/expansion-damages-old-part",
            "hostpath/node-expansion-breaks-writer",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let mut volume = larger(user.volume());
        beside(EXPAND, [&user], expand(cx, &mut volume)).await?;
        new_part_holds(cx, &user, &volume).await?;
        user.end(EXPAND).await
    }
}

/// The volume with the wish for twice its size.
pub(crate) fn larger(volume: &TrackedVolume) -> TrackedVolume {
    let twice = volume.volume.size_bytes.saturating_mul(2);
    TrackedVolume { expand_to_bytes: volume.expand_to_bytes.max(twice), ..volume.clone() }
}

/// Expands a volume in use, on the node as well if the controller asks for that.
async fn expand(cx: &Cx, volume: &mut TrackedVolume) -> CheckResult {
    call(cx, volume, Operation::ControllerExpandVolume).await?;
    let is_required = volume.expanded.as_ref().is_some_and(|answer| answer.node_expansion_required);
    if is_required && Operation::NodeExpandVolume.is_offered(cx) {
        call(cx, volume, Operation::NodeExpandVolume).await?;
    }
    Ok(())
}

/// Writes to the end of an expanded device, and reads it again. Whether the device is as large as the driver says, other checks judge, and
/// so does the workload for the old part.
async fn new_part_holds(cx: &Cx, user: &InUse, volume: &TrackedVolume) -> CheckResult {
    let promised = volume.expanded.as_ref().map_or(0, |answer| answer.capacity_bytes);
    let promised = u64::try_from(promised).unwrap_or_default();
    if cx.access() == AccessType::Mount || promised == 0 {
        return Ok(());
    }
    let path = user.path().to_owned();
    let stamp = Stamp { run: workload::new_run(), volume: user.id().to_owned(), number: 1 };
    let wanted = stamp.clone();
    let found = play(move || {
        if size_bytes(&path)? < promised {
            return Ok(None);
        }
        let end = WriteLocation::at_end(0, promised);
        workload::write(&path, end, &stamp)?;
        workload::read(&path, end).map(Some)
    });
    let found = match found.await? {
        Ok(None) => return Ok(()),
        Ok(Some(found)) => found.to_string(),
        Err(error) => error.to_string(),
    };
    ensure!(
        found == wanted.to_string(),
        "the new part of an expanded volume does not hold what is written to it";
        of: &IN_USE_001,
        expected: wanted,
        actual: found
    );
    Ok(())
}

check! {
    /// Volumes that are expanded to one size at one time may be taken for each other, by a driver that looks for a device by its size.
    TWO_AT_ONCE {
        id: "in-use/expand-two-at-once",
        title: "two volumes in use that are expanded to one size at the same time both keep their data",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, EXPAND_VOLUME, ROOT],
        refuted_by: ["hostpath/expansions-to-one-size-collide"],
        duplicate_of: "in-use/expansion",
        access: Each,
        varies: true,
    }
    async |cx| {
        let [first, second] = InUse::begin_two(cx).await?;
        let (mut one, mut other) = (larger(first.volume()), larger(second.volume()));
        let bytes = one.expand_to_bytes.max(other.expand_to_bytes);
        (one.expand_to_bytes, other.expand_to_bytes) = (bytes, bytes);
        let expanded = async {
            let (one, other) = join(expand(cx, &mut one), expand(cx, &mut other)).await;
            one.and(other)
        };
        beside(EXPAND, [&first, &second], expanded).await?;
        let (ended, also) = join(first.end(EXPAND), second.end(EXPAND)).await;
        ended.and(also)
    }
}

check! {
    /// A claim with a data source that asks for more than its source is expanded as soon as it exists, while a driver may still be copying.
    FRESH_COPY {
        id: "in-use/fresh-copy-expanded",
        title: "a copy of a volume in use that is expanded at once holds its data",
        spec: [IN_USE_001, IN_USE_002, IN_USE_003, IN_USE_004, IN_USE_005],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
            EXPAND_VOLUME,
            ROOT,
        ],
        refuted_by: [
            "hostpath/expansion-of-a-fresh-copy-empties-it",
            "hostpath/expansion-of-a-copy-breaks-source",
        ],
        duplicate_of: "in-use/clone",
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let bytes = user.volume().volume.size_bytes;
        let copied = async {
            let source = match cx.target().capabilities().has(Capability::CloneVolume) {
                true => from_volume(user.id()),
                false => from_snapshot(&snapshot(cx, user.id()).await?.snapshot_id),
            };
            copy_of(cx, source, bytes).await
        };
        let (copy, [evidence]) = beside(CLONE, [&user], copied).await?;
        let mut expanded = larger(&TrackedVolume::new(cx, copy.clone()));
        let controller = call(cx, &mut expanded, Operation::ControllerExpandVolume);
        let rejected = match beside(EXPAND_COPY, [&user], controller).await {
            // A driver may reject an expansion while it copies, or one of a volume that is not in use.
            Err(Stop::Skip(why)) => Some(why),
            done => done.map(|_| None)?,
        };
        user.end(EXPAND_COPY).await?;
        if let Some(why) = rejected {
            return Err(Stop::skip(why));
        }
        let on_node = expanded.expanded.as_ref().is_some_and(|answer| answer.node_expansion_required);
        if on_node && Operation::NodeExpandVolume.is_offered(cx) {
            let used = cx.scope();
            let mut volume = TrackedVolume { expanded: expanded.expanded, ..published(&used, copy.clone()).await? };
            volume.expand_to_bytes = expanded.expand_to_bytes;
            call(&used, &mut volume, Operation::NodeExpandVolume).await?;
            used.undo().await?;
        }
        judge_copy(cx, &evidence, copy, "a copy that was expanded at once").await.map(drop)
    }
}

check! {
    /// A change of the performance class may move the volume to other disks.
    MODIFY_IN_USE {
        id: "in-use/modify",
        title: "the modification of a volume in use does not hurt the workload",
        spec: [IN_USE_001, IN_USE_002],
        needs: [NODE, CREATE_DELETE_VOLUME, MODIFY_VOLUME, Need::Configured(Setting::MutableParameters), ROOT],
        refuted_by: [
            "hostpath/modification-breaks-writer",
            "hostpath/modification-freezes-writer",
            "hostpath/modification-loses-writes",
        ],
        access: Each,
        varies: true,
    }
    async |cx| {
        let user = InUse::begin(cx).await?;
        let mut volume = user.volume().clone();
        beside(MODIFY, [&user], call(cx, &mut volume, Operation::ControllerModifyVolume)).await?;
        user.end(MODIFY).await
    }
}

pub(crate) static CHECKS: &[&Check] = &[&EXPANSION, &TWO_AT_ONCE, &FRESH_COPY, &MODIFY_IN_USE];
