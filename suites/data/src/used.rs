//! A volume while a workload uses it.

use std::io;
use std::path::{Path, PathBuf};

use csi_harness::prelude::*;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::workload::{self, WriteLocation, play};
use csi_harness::spec::requirements::Requirement;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::operation::{Operation, Request};
use csi_ops::volume::TrackedVolume;

/// The place that most checks write to.
pub(crate) const PLACE: WriteLocation = WriteLocation::of_one_block(0);
/// The largest overhead of a file system, in percent of the volume: tables, journals, and space reserved for root.
const OVERHEAD_PERCENT_MAX: u64 = 50;

/// The capability and the flags with which a volume is used.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) capability: v1::VolumeCapability,
    /// `readonly` of ControllerPublishVolume.
    pub(crate) attached_readonly: bool,
    /// `readonly` of NodePublishVolume.
    pub(crate) published_readonly: bool,
}

impl Usage {
    /// The usage of a check for which the usage does not matter.
    pub(crate) fn plain(cx: &Cx) -> Usage {
        Usage::with(cx.capability())
    }

    pub(crate) fn with(capability: v1::VolumeCapability) -> Usage {
        Usage { capability, attached_readonly: false, published_readonly: false }
    }

    /// The plain usage with this file system, if a volume has one at all.
    pub(crate) fn with_fs_type(cx: &Cx, fs_type: &str) -> Usage {
        let mut usage = Usage::plain(cx);
        if let Some(v1::volume_capability::AccessType::Mount(mount)) = &mut usage.capability.access_type {
            fs_type.clone_into(&mut mount.fs_type);
        }
        usage
    }

    /// A request for a volume that is used so.
    pub(crate) async fn request(&self, cx: &Cx) -> CheckResult<v1::CreateVolumeRequest> {
        let volume_capabilities = vec![self.capability.clone()];
        Ok(v1::CreateVolumeRequest { volume_capabilities, ..cx.create_node_volume_request().await? })
    }
}

/// A volume that is attached, staged and published.
#[derive(Debug)]
pub(crate) struct Used {
    /// The scope that is undone when the workload goes.
    cx: Cx,
    volume: TrackedVolume,
    usage: Usage,
    path: PathBuf,
}

impl Used {
    /// Is broken if a call is rejected, and skips where the tests do not see what is mounted.
    pub(crate) async fn begin(cx: &Cx, volume: &NodeVolume) -> CheckResult<Used> {
        Used::begin_with(cx, volume, Usage::plain(cx)).await
    }

    pub(crate) fn begin_with<'a>(
        cx: &'a Cx,
        volume: &'a NodeVolume,
        usage: Usage,
    ) -> BoxFuture<'a, CheckResult<Used>> {
        Box::pin(async move {
            let mut used = Used {
                cx: cx.scope(),
                volume: TrackedVolume {
                    capability: usage.capability.clone(),
                    ..TrackedVolume::new(cx, volume.clone())
                },
                usage,
                path: PathBuf::new(),
            };
            for step in Lifecycle::of(cx).publication() {
                used.step(step).await?;
            }
            Ok(used)
        })
    }

    /// Sends the request of a step.
    async fn step(&mut self, step: Operation) -> CheckResult {
        let mut request = self.volume.request(&self.cx, step).await?;
        match &mut request {
            Request::ControllerPublishVolume(attach) => attach.readonly = self.usage.attached_readonly,
            Request::NodePublishVolume(publish) => publish.readonly |= self.usage.published_readonly,
            _ => {}
        }
        self.volume.record(request.send(&self.cx).setup(step.product()).await?);
        if step == Operation::NodePublishVolume {
            if !self.cx.sees_published(&self.volume.target_path) {
                // Other checks judge whether something has to be there.
                return Err(Stop::skip("these tests see nothing mounted where the driver publishes"));
            }
            self.path = PathBuf::from(&self.volume.target_path);
        }
        Ok(())
    }

    /// Publishes the volume for one more workload, which goes with the first one. Whether the driver may reject
    /// that is judged by other checks.
    pub(crate) async fn once_more(&self) -> CheckResult<Used> {
        self.published_again(self.usage.clone()).await
    }

    /// Publishes the volume for one more workload, which only reads. Whether the driver may reject that is judged
    /// by other checks.
    pub(crate) async fn once_more_readonly(&self) -> CheckResult<Used> {
        self.published_again(Usage { published_readonly: true, ..self.usage.clone() }).await
    }

    async fn published_again(&self, usage: Usage) -> CheckResult<Used> {
        let mut volume = self.volume.clone();
        volume.target_path.clear();
        let mut used = Used { cx: self.cx.clone(), volume, usage, path: PathBuf::new() };
        used.step(Operation::NodePublishVolume).await?;
        Ok(used)
    }

    /// Takes the volume from the workload, and from the node.
    pub(crate) async fn end(self) -> CheckResult {
        self.cx.undo().await
    }

    /// The target path at which it is published.
    /// Does the work of the workload, with the path of the volume.
    pub(crate) async fn play<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> CheckResult<io::Result<T>> {
        let path = self.path.clone();
        play(move || work(&path)).await
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The volume with its contexts and paths.
    pub(crate) fn volume(&self) -> &TrackedVolume {
        &self.volume
    }

    /// Writes a number for the check to build on.
    pub(crate) async fn write(&self, stamp: u32) -> CheckResult {
        let written = self.try_to_write(stamp).await?;
        written.map_err(|error| Stop::broken(format!("failed to write to the volume: {error}")))
    }

    /// Writes a number, which may not work.
    pub(crate) async fn try_to_write(&self, stamp: u32) -> CheckResult<io::Result<()>> {
        let stamp = self.stamp(stamp);
        self.play(move |path| workload::write(path, PLACE, &stamp)).await
    }

    /// The stamp of a write to this volume.
    pub(crate) fn stamp(&self, number: u32) -> Stamp {
        Stamp { run: 0, volume: self.volume.volume.id.clone(), number }
    }

    /// Reads the place that these checks write to.
    pub(crate) async fn read(&self) -> CheckResult<Found> {
        let read = self.try_to_read().await?;
        read.map_err(|error| Stop::broken(format!("failed to read the volume: {error}")))
    }

    /// Reads the place that these checks write to. The inner error is the volume's.
    pub(crate) async fn try_to_read(&self) -> CheckResult<io::Result<Found>> {
        self.play(|path| workload::read(path, PLACE)).await
    }

    /// Bytes that a workload finds; `None` where that says nothing of the volume, as in a file system that it shares with
    /// others.
    pub(crate) async fn size_bytes(&self, capacity_bytes: i64) -> CheckResult<Option<u64>> {
        let found = self.measured_bytes().await?;
        let capacity = u64::try_from(capacity_bytes).unwrap_or_default();
        let is_its_own = match self.cx.access() {
            AccessType::Block => true,
            AccessType::Mount => {
                let least = capacity / 100 * (100 - OVERHEAD_PERCENT_MAX);
                capacity > 0 && (least..=capacity).contains(&found)
            }
        };
        Ok(is_its_own.then_some(found))
    }

    pub(crate) fn stats_request(&self) -> v1::NodeGetVolumeStatsRequest {
        self.cx.stats_request(&self.volume.published().staged, &self.volume.target_path)
    }

    /// Fills this much of its file system with a file.
    pub(crate) async fn fill(&self, bytes: u64) -> CheckResult {
        let mut rng = self.cx.rng();
        let filled = self.play(move |path| workload::fill(path, bytes, &mut rng)).await?;
        filled.map_err(|error| Stop::broken(format!("failed to fill the volume: {error}")))
    }

    /// Bytes that the file system has in use.
    pub(crate) async fn in_use_bytes(&self) -> CheckResult<u64> {
        self.measured(workload::in_use_bytes).await
    }

    /// Bytes that a workload finds, whatever they say of the volume.
    pub(crate) async fn measured_bytes(&self) -> CheckResult<u64> {
        self.measured(workload::size_bytes).await
    }

    async fn measured(&self, measure: fn(&Path) -> io::Result<u64>) -> CheckResult<u64> {
        let found = self.play(measure).await?;
        found.map_err(|error| Stop::broken(format!("failed to measure the volume: {error}")))
    }
}

/// A write that has to be there, for people.
pub(crate) fn describe_write(number: u32) -> String {
    format!("write {number}")
}

/// Fails with a violation of the rule if a workload has found something else than this write.
pub(crate) fn judge(found: &Found, number: u32, rule: &'static Requirement, message: &str) -> CheckResult {
    ensure!(
        found.number() == Some(number),
        "{message}";
        of: rule,
        expected: describe_write(number),
        actual: found
    );
    Ok(())
}
