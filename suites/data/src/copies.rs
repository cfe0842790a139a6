//! Volumes made from snapshots and from volumes hold the data of their source.

use csi_harness::prelude::*;
use csi_harness::resources::contents::Found;
use csi_harness::spec::requirements::Requirement;
use v1::VolumeContentSource as Source;

use crate::used::{Usage, Used, describe_write, judge};

/// Numbers of the writes to the source: before it is copied, and after that.
const BEFORE: u32 = 1;
const AFTER: u32 = 2;

/// A copy as large as its source.
pub(crate) async fn copy(cx: &Cx, source: Source, bytes: i64) -> CheckResult<NodeVolume> {
    let request = cx.create_node_volume_request().await?.copy_of(source, bytes);
    Ok(cx.create_volume(request).setup("a volume made from another one").await?.into())
}

pub(crate) async fn write(cx: &Cx, volume: &NodeVolume, stamp: u32) -> CheckResult {
    let used = Used::begin(cx, volume).await?;
    used.write(stamp).await?;
    used.end().await
}

pub(crate) async fn read(cx: &Cx, volume: &NodeVolume) -> CheckResult<Found> {
    read_as(cx, volume, &Usage::plain(cx)).await
}

async fn read_as(cx: &Cx, volume: &NodeVolume, usage: &Usage) -> CheckResult<Found> {
    let used = Used::begin_with(cx, volume, usage.clone()).await?;
    let found = used.read().await?;
    used.end().await?;
    Ok(found)
}

check! {
    /// A backup that is empty, or holds later data, is detected only on the day when it is needed. The source
    /// is not in use while the snapshot is taken, so no writes are pending.
    FROM_SNAPSHOT {
        id: "data/copies/from-snapshot",
        title: "a volume made from a snapshot holds the data that its source held when the snapshot was taken",
        spec: [req::MSG_VOLSOURCE_004, req::CTRL_CREATESNAP_015],
        needs: [NODE, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, ROOT],
        refuted_by: ["hostpath/restores-nothing", "hostpath/restores-later"],
        access: Each,
    }
    async |cx| {
        let source = cx.node_volume().await?;
        write(cx, &source, BEFORE).await?;
        let snapshot = cx.new_snapshot(&source.id).await?;
        write(cx, &source, AFTER).await?;
        let copy = copy(cx, Source::snapshot(&snapshot.snapshot_id), source.size_bytes).await?;
        let found = read(cx, &copy).await?;
        ensure!(
            found.number() != Some(AFTER),
            "the snapshot holds data written to its source after CreateSnapshot was answered";
            of: &req::CTRL_CREATESNAP_015,
            expected: describe_write(BEFORE),
            actual: found
        );
        let message = "a volume made from a snapshot does not hold the data of the snapshot";
        judge(&found, BEFORE, &req::MSG_VOLSOURCE_004, message)
    }
}

check! {
    /// A copy is independent of its source as soon as it exists.
    FROM_VOLUME {
        id: "data/copies/from-volume",
        title: "a clone holds the data of its source, and later writes to one do not change the other",
        spec: [req::MSG_VOLSOURCE_006],
        needs: [NODE, CREATE_DELETE_VOLUME, CLONE_VOLUME, ROOT],
        refuted_by: ["hostpath/clones-nothing"],
        access: Each,
    }
    async |cx| {
        let source = cx.node_volume().await?;
        write(cx, &source, BEFORE).await?;
        let copy = copy(cx, Source::volume(&source.id), source.size_bytes).await?;
        write(cx, &source, AFTER).await?;
        let found = read(cx, &copy).await?;
        let message = "a volume made from a volume does not hold the data that the source had";
        judge(&found, BEFORE, &req::MSG_VOLSOURCE_006, message)
    }
}

check! {
    /// A copy of a file system has the UUID of its source unless the driver changes it, and XFS and Btrfs
    /// refuse to mount both at the same time. The driver fails only if each of the two volumes can be used
    /// alone, and the source can be used together with a volume that is not a copy.
    BESIDE {
        id: "data/copies/beside-source",
        title: "a copy can be used on the node where its source is in use",
        spec: [req::MSG_VOLSOURCE_004, req::MSG_VOLSOURCE_006],
        needs: [NODE, CREATE_DELETE_VOLUME, any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]), ROOT],
        refuted_by: ["hostpath/refuses-copies-beside-source"],
        access: Each,
    }
    async |cx| {
        let copied = Copied::of(cx, Usage::plain(cx)).await?;
        judge(&copied.alone, BEFORE, copied.rule, "a copy does not hold the data of its source, even if it is used alone")?;
        copied.is_usable_beside_source(cx).await
    }
}

check! {
    /// The volumes are requested with XFS here, whatever the configuration says: a copy has the UUID of its
    /// source, and XFS refuses to mount both at the same time. A driver without XFS may reject any of the
    /// calls.
    XFS_BESIDE {
        id: "data/copies/xfs-beside-source",
        title: "a copy with XFS can be used on the node where its source is in use",
        spec: [req::MSG_VOLSOURCE_004, req::MSG_VOLSOURCE_006],
        needs: [
            NODE,
            CREATE_DELETE_VOLUME,
            any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]),
            ROOT,
            MOUNT_ACCESS,
        ],
        refuted_by: ["hostpath/refuses-copies-beside-source"],
        duplicate_of: "data/copies/beside-source",
    }
    async |cx| {
        match Copied::of(cx, Usage::with_fs_type(cx, "xfs")).await {
            Ok(copied) if copied.alone.number() == Some(BEFORE) => copied.is_usable_beside_source(cx).await,
            Ok(_) => Err(Stop::skip("a copy does not hold the data of its source, which other checks judge")),
            Err(Stop::Broken(why)) => Err(Stop::skip(format!("no copy with XFS can be used: {why}"))),
            Err(other) => Err(other),
        }
    }
}

/// A volume, and a copy of it that was used alone.
struct Copied {
    source: NodeVolume,
    copy: NodeVolume,
    usage: Usage,
    /// The content of the copy.
    alone: Found,
    rule: &'static Requirement,
}

impl Copied {
    async fn of(cx: &Cx, usage: Usage) -> CheckResult<Copied> {
        let source = new_volume(cx, &usage).await?;
        let used = Used::begin_with(cx, &source, usage.clone()).await?;
        used.write(BEFORE).await?;
        used.end().await?;
        let (from, rule) = any_copy(cx, &source).await?;
        let request = usage.request(cx).await?.copy_of(from, source.size_bytes);
        let copy = cx.create_volume(request).setup("a volume made from another one").await?.into();
        let alone = read_as(cx, &copy, &usage).await?;
        Ok(Copied { source, copy, usage, alone, rule })
    }

    async fn is_usable_beside_source(&self, cx: &Cx) -> CheckResult {
        let used = Used::begin_with(cx, &self.source, self.usage.clone()).await?;
        read_as(cx, &new_volume(cx, &self.usage).await?, &self.usage).await?;
        let beside = match read_as(cx, &self.copy, &self.usage).await {
            Ok(found) => found.to_string(),
            Err(Stop::Broken(why)) => why,
            Err(other) => return Err(other),
        };
        ensure!(
            beside == self.alone.to_string(),
            "a copy that can be used alone cannot be used while its source is in use";
            of: self.rule,
            expected: self.alone.clone(),
            actual: beside
        );
        used.end().await
    }
}

async fn new_volume(cx: &Cx, usage: &Usage) -> CheckResult<NodeVolume> {
    Ok(cx.create_volume(usage.request(cx).await?).setup("a volume").await?.into())
}

/// The source of a copy, a snapshot if there are any, and the rule that demands its content.
pub(crate) async fn any_copy(cx: &Cx, source: &NodeVolume) -> CheckResult<(Source, &'static Requirement)> {
    Ok(match cx.target().capabilities().has(Capability::CreateDeleteSnapshot) {
        true => (Source::snapshot(cx.new_snapshot(&source.id).await?.snapshot_id), &req::MSG_VOLSOURCE_004),
        false => (Source::volume(&source.id), &req::MSG_VOLSOURCE_006),
    })
}

check! {
    /// A driver may reject a copy that is larger than its source. If it creates one, the space has to exist.
    /// For file systems only a gross shortfall counts, because they use space themselves.
    LARGER {
        id: "data/copies/larger",
        title: "a volume that is larger than its source has the requested size and the data of the source",
        spec: [req::CTRL_CREATEVOL_008, req::CTRL_CREATEVOL_009],
        needs: [NODE, CREATE_DELETE_VOLUME, any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]), ROOT],
        refuted_by: ["hostpath/restores-no-larger"],
        access: Each,
    }
    async |cx| {
        let source = cx.node_volume().await?;
        let used = Used::begin(cx, &source).await?;
        used.write(BEFORE).await?;
        let small = used.size_bytes(source.size_bytes).await?;
        used.end().await?;
        if source.size_bytes <= 0 {
            return Err(Stop::skip("the driver does not report the size of its volumes"));
        }
        let wanted = source.size_bytes.saturating_mul(2);
        let Some(copy) = larger(cx, &source, wanted).await? else {
            cx.note("a copy larger than its source is rejected, which is allowed");
            return Ok(());
        };
        let used = Used::begin(cx, &copy).await?;
        let found = used.read().await?;
        let message = "a volume created larger than its source does not hold the data of the source";
        judge(&found, BEFORE, &req::CTRL_CREATEVOL_008, message)?;
        // A driver may have rounded up, so that it has more than was asked for.
        let large = used.measured_bytes().await?;
        let Some(small) = small else {
            cx.note("the mounted file system does not show the size of the volume");
            return used.end().await;
        };
        let (rule, least) = match cx.access() {
            AccessType::Block => (&req::CTRL_CREATEVOL_008, wanted.unsigned_abs()),
            AccessType::Mount => (&req::CTRL_CREATEVOL_009, small + small / 2),
        };
        ensure!(
            large >= least,
            "a volume created larger than its source is not larger when it is published";
            of: rule,
            expected: format!("at least {}, since CreateVolume returned OK for {}", sized(least), sized(wanted)),
            actual: format!("{}; the source has {}", sized(large), sized(small))
        );
        used.end().await
    }
}

/// A copy of this size in bytes, of a snapshot if there are any; `None` if the driver makes none that are larger.
async fn larger(cx: &Cx, source: &NodeVolume, bytes: i64) -> CheckResult<Option<NodeVolume>> {
    let (from, _) = any_copy(cx, source).await?;
    let request = cx.create_node_volume_request().await?.copy_of(from, bytes);
    let reply = cx.create_volume(request).await;
    Ok(reply.any_answer()?.ok().map(NodeVolume::from))
}

pub(crate) static CHECKS: &[&Check] = &[&FROM_SNAPSHOT, &FROM_VOLUME, &BESIDE, &XFS_BESIDE, &LARGER];
