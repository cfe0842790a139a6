//! Volumes that are made, used and deleted to see what a driver does.

use std::path::Path;
use std::sync::Arc;

use csi_harness::checks::check::{Body, Check, Runs};
use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::mounts;
use csi_harness::resources::workload::{self, WriteLocation};
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Service;
use csi_proto::lock::Mutex;

/// The content that the workload of a trial writes.
fn mark() -> Stamp {
    Stamp { run: 0, volume: "trial".to_owned(), number: 1 }
}

/// The result of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Tried {
    /// The result of CreateVolume, or of the configured volume; an error has the reason.
    pub(super) made: Option<Result<(), String>>,
    /// The result of publishing a volume on the node, if there is one.
    pub(super) published: Option<Result<(), String>>,
    /// The mount at the target path, if this program sees the driver's mounts.
    pub(super) mounted: Option<Mounted>,
    /// True if the volume still has its content when it is published again; `None` if the trial could not write.
    pub(super) keeps: Option<bool>,
    /// True if the volume can be published at two paths of the node at the same time.
    pub(super) shares: Option<bool>,
    /// Access modes other than that of one writer for which a volume can be made.
    pub(super) modes: Vec<Mode>,
    /// The response of NodeGetInfo.
    pub(super) node: Option<v1::NodeGetInfoResponse>,
    /// The process that listens at the socket, if it is one of this machine.
    pub(super) process: Option<u32>,
}

/// A file system at a target path.
#[derive(Clone, Debug)]
pub(super) struct Mounted {
    pub(super) fs_type: String,
    pub(super) is_executable: bool,
}

/// The shared place for the results of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings(Arc<Mutex<Tried>>);

impl Findings {
    fn note(&self, change: impl FnOnce(&mut Tried)) {
        change(&mut self.0.lock());
    }

    pub(super) fn take(&self) -> Tried {
        std::mem::take(&mut self.0.lock())
    }
}

/// The trial as a check, so that its calls are bounded and its objects are deleted. It never fails.
pub(super) fn suite(findings: &Findings) -> Suite {
    let findings = findings.clone();
    let body = Body::made(move |cx| {
        let findings = findings.clone();
        Box::pin(async move { run(cx, &findings).await })
    });
    let title = "a volume is made, published, written to, and deleted";
    let check =
        Check { needs: &[VOLUME], runs: Runs::Serial, ..Check::new("init/trial".into(), title.into(), body) };
    Suite { name: "init", checks: Checks::made([check]), retired: &[] }
}

async fn run(cx: &Cx, findings: &Findings) -> CheckResult {
    let process = cx.driver_process().await;
    findings.note(|tried| tried.process = process);
    if cx.target().serves(Service::Node) {
        let info = cx.call(v1::NodeGetInfoRequest::default()).await;
        if let Answer::Ok(info) = info.answer() {
            findings.note(|tried| tried.node = Some(info.clone()));
        }
    }
    let volume = match volume(cx).await {
        Ok(volume) => volume,
        Err(stop) => {
            findings.note(|tried| tried.made = Some(Err(why(&stop))));
            return Ok(());
        }
    };
    findings.note(|tried| tried.made = Some(Ok(())));
    if cx.target().serves(Service::Node) {
        let published = publish(cx, &volume, findings).await.map_err(|stop| why(&stop));
        let is_published = published.is_ok();
        findings.note(|tried| tried.published = Some(published));
        if is_published {
            let scope = cx.scope();
            // The refusal to share it is an answer as well.
            let _ = share(&scope, findings).await;
            scope.undo().await?;
        }
    }
    modes(cx, findings).await
}

/// Publishes a volume at two paths, as for two pods of a node, in the mode that Kubernetes has for that.
async fn share(cx: &Cx, findings: &Findings) -> CheckResult {
    let has = |capability| cx.target().capabilities().has(capability);
    if !has(Capability::CreateDeleteVolume) {
        return Ok(());
    }
    let many = has(Capability::SingleNodeMultiWriter) && has(Capability::NodeSingleNodeMultiWriter);
    let mode = if many { Mode::SingleNodeMultiWriter } else { Mode::SingleNodeWriter };
    let capability = cx.capability_with_mode(mode);
    let mut request = cx.create_node_volume_request().await?;
    request.volume_capabilities = vec![capability.clone()];
    let volume = NodeVolume::from(cx.create_volume(request).setup("a volume").await?);
    let mut volume = TrackedVolume { capability, ..TrackedVolume::new(cx, volume) };
    volume.reach(cx, Operation::NodePublishVolume).await?;
    let mut shares = true;
    for _ in 0..2 {
        volume.target_path.clear();
        let request = volume.request(cx, Operation::NodePublishVolume).await?;
        shares &= matches!(request.send(cx).await.answer(), Answer::Ok(_));
    }
    findings.note(|tried| tried.shares = Some(shares));
    Ok(())
}

async fn volume(cx: &Cx) -> CheckResult<NodeVolume> {
    if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
        return cx.provisioned_volume().await;
    }
    let reply = cx.create_volume(cx.create_node_volume_request().await?).await;
    match reply.answer() {
        // The rest of a message about a parameter or a secret that the driver wants is shown to the user, who can supply it.
        Answer::Refused(refused) => Err(Stop::broken(format!("CreateVolume answers {refused}"))),
        _ => Ok(reply.setup("a volume")?.into()),
    }
}

/// Publishes the volume, writes to it, and looks whether it is kept.
async fn publish(cx: &Cx, volume: &NodeVolume, findings: &Findings) -> CheckResult {
    let scope = cx.scope();
    let staged = scope.staged(scope.attached(volume.clone()).await?).await?;
    let published = scope.published(staged).await?;
    let path = Path::new(&published.target_path);
    let is_seen = cx.sees_published(&published.target_path);
    if is_seen
        && cx.access() == AccessType::Mount
        && let Some(mount) = mounts::at(path).last()
    {
        let (fs_type, is_executable) = (mount.fs_type.clone(), !mount.options.contains("noexec"));
        findings.note(|tried| tried.mounted = Some(Mounted { fs_type, is_executable }));
    }
    let written = is_seen
        && !volume.readonly
        && at(path, |path| workload::write(path, WriteLocation::near(0), &mark())).await?.is_some();
    scope.undo().await?;
    if !written {
        return Ok(());
    }
    let scope = cx.scope();
    let staged = scope.staged(scope.attached(volume.clone()).await?).await?;
    let published = scope.published(staged).await?;
    let found =
        at(Path::new(&published.target_path), |path| workload::read(path, WriteLocation::near(0))).await?;
    findings.note(|tried| tried.keeps = Some(found == Some(Found::Write(mark()))));
    if cx.access() == AccessType::Mount {
        // A volume of an administrator is left as it was.
        at(Path::new(&published.target_path), |path| workload::remove(path, WriteLocation::near(0))).await?;
    }
    scope.undo().await
}

/// Runs a workload at a path; `None` if it meets an error.
async fn at<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
) -> CheckResult<Option<T>> {
    let path = path.to_owned();
    Ok(workload::play(move || work(&path)).await?.ok())
}

/// Asks for a volume in each of the modes that Kubernetes has.
async fn modes(cx: &Cx, findings: &Findings) -> CheckResult {
    if !cx.target().capabilities().has(Capability::CreateDeleteVolume) {
        return Ok(());
    }
    for mode in [Mode::MultiNodeMultiWriter, Mode::MultiNodeReaderOnly] {
        let mut request = cx.create_node_volume_request().await?;
        request.volume_capabilities = vec![cx.capability_with_mode(mode)];
        if matches!(cx.create_volume(request).await.answer(), Answer::Ok(_)) {
            findings.note(|tried| tried.modes.push(mode));
        }
    }
    Ok(())
}

fn why(stop: &Stop) -> String {
    match stop {
        Stop::Violation(violation) | Stop::MetAgain(violation) => {
            format!("{}: {}", violation.message, violation.actual)
        }
        Stop::Skip(why) | Stop::Declined(_, why) | Stop::Broken(why) | Stop::Unanswered(why) => why.clone(),
    }
}
