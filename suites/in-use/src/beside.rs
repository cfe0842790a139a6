//! A volume in use, and calls beside its workload.

use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::workload::{play, size_bytes};
use csi_harness::spec::requirements::Requirement;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_workload::beside::{Beside, Evidence, ObservedWorkload, Written};
use csi_workload::checker::{Contents, Moment, Writer};
use csi_workload::{StartError, Workload, read_all};

pub use csi_workload::beside::Action;

/// A file system has its volume for itself if it is at most so much smaller, in percent.
const OVERHEAD_PERCENT_MAX: u64 = 50;

/// A volume that is published and has a workload.
#[derive(Debug)]
pub struct InUse {
    /// The scope that is undone at the end of the use.
    cx: Cx,
    volume: TrackedVolume,
    workload: ObservedWorkload,
}

impl InUse {
    /// Publishes a new or a pre-provisioned volume, and starts to write to it.
    ///
    /// # Errors
    /// Broken if a call is rejected; skip where the tests do not see what is mounted or cannot start a workload.
    pub async fn begin(cx: &Cx) -> CheckResult<InUse> {
        let volume = cx.writable_volume().await?;
        InUse::of(cx, TrackedVolume::new(cx, volume)).await
    }

    /// Publishes two new volumes, and starts to write to both.
    ///
    /// # Errors
    /// Fails as [`InUse::begin`] does.
    pub async fn begin_two(cx: &Cx) -> CheckResult<[InUse; 2]> {
        // One after the other: calls about two volumes at the same time are for other checks to judge.
        Ok([InUse::begin(cx).await?, InUse::begin(cx).await?])
    }

    /// Publishes a new volume for several writers on one node where the driver has that mode, and starts to write to it.
    ///
    /// # Errors
    /// Fails as [`InUse::begin`] does.
    pub async fn begin_shared(cx: &Cx) -> CheckResult<InUse> {
        match cx.target().capabilities().has(Capability::NodeSingleNodeMultiWriter) {
            true => InUse::begin_with_mode(cx, Mode::SingleNodeMultiWriter).await,
            false => InUse::begin(cx).await,
        }
    }

    /// Publishes a new volume with an access mode, and starts to write to it.
    ///
    /// # Errors
    /// Fails like [`InUse::begin`], and skips if the driver makes no such volume.
    pub async fn begin_with_mode(cx: &Cx, mode: Mode) -> CheckResult<InUse> {
        let capability = cx.capability_with_mode(mode);
        let mut request = cx.create_node_volume_request().await?;
        request.volume_capabilities = vec![capability.clone()];
        let refused = format!("the driver makes no volume for {}", mode.as_str_name());
        let volume = cx.create_volume(request).await.or_skip(&refused)?;
        InUse::of(cx, TrackedVolume { capability, ..TrackedVolume::new(cx, volume.into()) }).await
    }

    /// Publishes a volume, and starts to write to it.
    ///
    /// # Errors
    /// Fails as [`InUse::begin`] does.
    pub async fn of(cx: &Cx, volume: TrackedVolume) -> CheckResult<InUse> {
        let cx = cx.scope();
        let volume = publish(&cx, volume).await?;
        let started = Workload::start(Path::new(&volume.target_path), &volume.volume.id).await;
        InUse::with(cx, volume, started)
    }

    /// Continues to write to a volume that is published in this scope after another node had it. It must hold everything that was written.
    ///
    /// # Errors
    /// A violation of the rule if it does not; broken if it cannot be read; skip where the tests cannot start a workload.
    pub async fn after_move(
        cx: Cx,
        volume: TrackedVolume,
        written: &Written,
        rule: &'static Requirement,
        noun: &str,
    ) -> CheckResult<InUse> {
        judge_moved(written, &volume, noun).await.map_err(|stop| stop.of(rule))?;
        InUse::resume(cx, volume, written).await
    }

    /// Continues to write to a volume that is published in this scope and was judged.
    ///
    /// # Errors
    /// Skip where the tests cannot start a workload.
    pub async fn resume(cx: Cx, volume: TrackedVolume, written: &Written) -> CheckResult<InUse> {
        let path = Path::new(&volume.target_path);
        let resumed = Workload::resume(path, &written.writer, written.last).await;
        InUse::with(cx, volume, resumed)
    }

    fn with(cx: Cx, volume: TrackedVolume, started: Result<Workload, StartError>) -> CheckResult<InUse> {
        let workload = started.map_err(|error| Stop::skip(format!("no workload can be started: {error}")))?;
        let own_paths = [&volume.target_path, &volume.staging_path].map(PathBuf::from);
        Ok(InUse { workload: ObservedWorkload::new(&cx, workload).on_file_system(own_paths), cx, volume })
    }

    /// The scope of the use, for calls that are undone with it.
    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// The volume with its ids and paths.
    pub fn volume(&self) -> &TrackedVolume {
        &self.volume
    }

    /// The id of the volume.
    pub fn id(&self) -> &str {
        &self.volume.volume.id
    }

    /// The path at which it is published.
    pub fn path(&self) -> &Path {
        Path::new(&self.volume.target_path)
    }

    pub fn workload(&self) -> &ObservedWorkload {
        &self.workload
    }

    /// Ends the workload, which reads everything that it has written, and undoes the use of the volume.
    ///
    /// # Errors
    /// A violation if the volume does not hold what was durable, or does not let the workload end.
    pub async fn end(self, last: Action) -> CheckResult {
        self.workload.end(last).await?;
        self.cx.undo().await
    }

    /// Ends the workload in that way, and takes the volume from the paths of the node. It stays attached. Returns the volume, and what it
    /// holds.
    ///
    /// # Errors
    /// Fails as [`InUse::end`] does.
    pub async fn leave_node(self, last: Action) -> CheckResult<(TrackedVolume, Written)> {
        let cx = self.cx.clone();
        let (mut volume, written) = self.fall_silent(last).await?;
        for step in [Operation::NodeUnpublishVolume, Operation::NodeUnstageVolume] {
            if step.is_offered(&cx) {
                let request = volume.request(&cx, step).await?;
                request.send(&cx).setup("a volume that is unpublished and unstaged").await?;
            }
        }
        Ok((volume, written))
    }

    /// Ends the workload in that way, and makes no call: the volume stays published on the node. Returns the volume, and what it holds.
    ///
    /// # Errors
    /// Fails as [`InUse::end`] does.
    pub(crate) async fn fall_silent(self, last: Action) -> CheckResult<(TrackedVolume, Written)> {
        self.workload.end(last).await?;
        Ok((self.volume, self.workload.written()))
    }

    /// Undoes the use of a volume whose workload has failed, without a judgement.
    pub async fn give_back(self) -> CheckResult {
        self.workload.end_unjudged().await;
        self.cx.undo().await
    }
}

/// Judges whether a volume that has moved still holds everything that was written to it, where it is published now.
///
/// # Errors
/// A violation if it does not; broken if it cannot be read.
pub async fn judge_moved(written: &Written, volume: &TrackedVolume, noun: &str) -> CheckResult {
    written.judge(&read(volume, &written.writer).await?, noun)
}

/// Reads all places of a volume that is published.
async fn read(volume: &TrackedVolume, writer: &Writer) -> CheckResult<Contents> {
    let (path, layout) = (PathBuf::from(&volume.target_path), writer.layout);
    let read = play(move || read_all(&path, &layout)).await?;
    read.map_err(|error| Stop::broken(format!("failed to read {}: {error}", volume.target_path)))
}

/// Judges a copy that a call beside a workload made. Nothing may use the source any more, since some file systems cannot be mounted beside
/// their copy, which other checks judge. Returns the moment of the copy.
///
/// # Errors
/// A violation if the copy is wrong; broken if it cannot be read.
pub async fn judge_copy(cx: &Cx, evidence: &Evidence, copy: NodeVolume, origin: &str) -> CheckResult<Moment> {
    let used = cx.scope();
    let volume = published(&used, copy).await?;
    let is_own = has_own_file_system(&used, &volume).await?;
    let contents = read(&volume, evidence.writer()).await?;
    used.undo().await?;
    evidence.judge(cx, &contents, is_own, origin)
}

/// Makes calls beside the workloads of volumes: the result of the calls, and the evidence for each volume. The workloads are judged
/// first, since a call that fails may not hurt them either.
///
/// # Errors
/// A violation if a workload is hurt; the error of the calls.
pub async fn beside<T, const N: usize>(
    action: Action,
    users: [&InUse; N],
    calls: impl Future<Output = CheckResult<T>>,
) -> CheckResult<(T, [Evidence; N])> {
    let beside = Beside::begin(action, users.map(InUse::workload)).await?;
    let result = calls.await;
    let evidence: Result<[Evidence; N], _> = beside.end().await?.try_into();
    let evidence = evidence.map_err(|_| Stop::broken("there is no evidence for one of the workloads"))?;
    Ok((result?, evidence))
}

/// A volume that is published on the node.
///
/// # Errors
/// Broken if a call is rejected; skip where the tests do not see what is mounted.
pub async fn published(cx: &Cx, volume: NodeVolume) -> CheckResult<TrackedVolume> {
    publish(cx, TrackedVolume::new(cx, volume)).await
}

async fn publish(cx: &Cx, mut volume: TrackedVolume) -> CheckResult<TrackedVolume> {
    for step in Lifecycle::of(cx).publication() {
        let response = volume.request(cx, step).await?.send(cx).setup(step.product()).await?;
        volume.record(response);
    }
    if !cx.sees_published(&volume.target_path) {
        return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
    }
    Ok(volume)
}

/// Makes one call about a volume in use, with the names and paths that it needs.
///
/// # Errors
/// Skip if the driver rejects it: nothing requires that it takes the call while the volume is in use.
pub async fn call(cx: &Cx, volume: &mut TrackedVolume, operation: Operation) -> CheckResult {
    let request = volume.request(cx, operation).await?;
    let response = request.send(cx).await.or_skip("the driver rejects this call for a volume in use")?;
    volume.record(response);
    Ok(())
}

/// Returns false if the volume is a directory of something larger.
pub async fn has_own_file_system(cx: &Cx, volume: &TrackedVolume) -> CheckResult<bool> {
    if cx.access() == AccessType::Block {
        return Ok(true);
    }
    let path = PathBuf::from(&volume.target_path);
    let found = play(move || size_bytes(&path)).await?;
    let found = found.map_err(|error| Stop::broken(format!("failed to measure the copy: {error}")))?;
    let capacity = u64::try_from(volume.volume.size_bytes).unwrap_or_default();
    Ok(capacity > 0 && (capacity / 100 * (100 - OVERHEAD_PERCENT_MAX)..=capacity).contains(&found))
}
