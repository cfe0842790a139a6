//! What is done again and again: something that is made and undone, or calls that are refused or given up.

use std::time::Duration;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use v1::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};

use super::rules::{GROWTH_001, GROWTH_002, GROWTH_003};

/// After how long a call is given up at the most.
const GIVEN_UP_MAX: Duration = Duration::from_millis(4);

/// NodeGetVolumeStats calls of a round.
const LOOKS_AT_VOLUME: usize = 5;

/// What one round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    Looks,
    Volumes,
    Copies,
    Clones,
    Snapshots,
    GroupSnapshots,
    Attachments,
    Stagings,
    Publications,
    Statistics,
    Expansions,
    RefusedVolumes,
    RefusedCopies,
    RefusedSnapshots,
    RefusedAttachments,
    RefusedStagings,
    RefusedPublications,
    GivenUp,
    Connections,
}

/// What the rounds of a check share.
#[derive(Debug, Default)]
pub(super) struct Scene {
    volume: v1::Volume,
    sources: Vec<Source>,
    node_id: String,
    /// A volume that is no more.
    deleted_id: String,
    attached: Option<Attached>,
    staged: Option<Staged>,
    published: Option<Published>,
    staging_path: String,
    target_path: String,
}

impl Cycle {
    /// The rule that a driver breaks which grows with it.
    pub(super) fn rule(self) -> &'static Requirement {
        use Cycle::*;
        match self {
            Looks | Volumes | Copies | Clones | Snapshots | GroupSnapshots | Attachments | Stagings
            | Publications | Statistics | Expansions => &GROWTH_001,
            RefusedVolumes | RefusedCopies | RefusedSnapshots | RefusedAttachments | RefusedStagings
            | RefusedPublications => &GROWTH_002,
            GivenUp | Connections => &GROWTH_003,
        }
    }

    /// A round, for people; reads after "for".
    pub(super) fn told(self) -> &'static str {
        match self {
            Cycle::Looks => "each round of calls that only look",
            Cycle::Volumes => "each CreateVolume that was undone",
            Cycle::Copies => "each CreateVolume from a source that was undone",
            Cycle::Clones => "each CreateVolume from a volume that was undone",
            Cycle::Snapshots => "each CreateSnapshot that was undone",
            Cycle::GroupSnapshots => "each CreateVolumeGroupSnapshot that was undone",
            Cycle::Attachments => "each ControllerPublishVolume that was undone",
            Cycle::Stagings => "each NodeStageVolume that was undone",
            Cycle::Publications => "each NodePublishVolume that was undone",
            Cycle::Statistics => "each round of calls that look at a published volume",
            Cycle::Expansions => "each volume that was expanded while unused, then deleted",
            Cycle::RefusedCopies => "each CreateVolume from a source that was rejected",
            Cycle::RefusedVolumes => "each round of CreateVolume and DeleteVolume that were rejected",
            Cycle::RefusedSnapshots => "each round of CreateSnapshot and DeleteSnapshot that were rejected",
            Cycle::RefusedAttachments => "each round of ControllerPublishVolume that was rejected",
            Cycle::RefusedStagings => "each round of NodeStageVolume that was rejected",
            Cycle::RefusedPublications => "each round of NodePublishVolume that was rejected",
            Cycle::GivenUp => "each CreateVolume that was given up, made again and undone",
            Cycle::Connections => "each connection that was broken",
        }
    }

    /// Returns true if a round makes and undoes something, which takes longer than a look or a rejection.
    pub(super) fn makes_something(self) -> bool {
        use Cycle::*;
        matches!(
            self,
            Volumes
                | Copies
                | Clones
                | Snapshots
                | GroupSnapshots
                | Attachments
                | Stagings
                | Publications
                | Expansions
                | GivenUp
        )
    }

    /// Makes what the rounds need.
    pub(super) async fn begin(self, cx: &Cx) -> CheckResult<Scene> {
        let mut scene = Scene::default();
        match self {
            Cycle::Volumes | Cycle::Expansions | Cycle::GivenUp | Cycle::Looks | Cycle::Connections => {}
            Cycle::Copies | Cycle::Clones | Cycle::RefusedCopies => {
                scene.sources = sources(cx, &cx.new_volume().await?).await?;
            }
            Cycle::Snapshots | Cycle::GroupSnapshots => scene.volume = cx.new_volume().await?,
            Cycle::Attachments => {
                scene.volume =
                    cx.create_volume(cx.create_node_volume_request().await?).setup("a volume").await?;
                scene.node_id = cx.node_id().await?;
            }
            Cycle::Stagings => {
                let attached = cx.attached(cx.node_volume().await?).await?;
                scene.staging_path = cx.staging_path_of(&attached.volume.id).await?;
                scene.attached = Some(attached);
            }
            Cycle::Publications => {
                scene.staged = Some(cx.staged(cx.attached(cx.node_volume().await?).await?).await?);
                scene.target_path = cx.target_path().await?;
            }
            Cycle::Statistics => {
                let staged = cx.staged(cx.attached(cx.node_volume().await?).await?).await?;
                scene.published = Some(cx.published(staged).await?);
            }
            Cycle::RefusedVolumes => {}
            Cycle::RefusedSnapshots => scene.deleted_id = cx.deleted_volume_id().await?,
            Cycle::RefusedAttachments => {
                scene.volume = cx.new_volume().await?;
                scene.deleted_id = cx.deleted_volume_id().await?;
                scene.node_id = cx.node_id().await?;
            }
            Cycle::RefusedStagings => {
                scene.deleted_id = cx.deleted_volume_id().await?;
                scene.staging_path = cx.staging_path().await?;
            }
            Cycle::RefusedPublications => {
                scene.deleted_id = cx.deleted_volume_id().await?;
                scene.staging_path = cx.staging_path().await?;
                scene.target_path = cx.target_path().await?;
            }
        }
        Ok(scene)
    }

    /// Does it once.
    pub(super) async fn round(self, cx: &Cx, scene: &Scene, rng: &mut fastrand::Rng) -> CheckResult {
        let cx = &cx.scope();
        match self {
            Cycle::Looks => look(cx).await?,
            Cycle::Volumes => drop(cx.new_volume().await?),
            Cycle::Copies => {
                drop(cx.create_volume(copy_request(cx, scene.sources.first())).setup("a copy").await?)
            }
            Cycle::Clones => {
                drop(cx.create_volume(copy_request(cx, scene.sources.last())).setup("a clone").await?)
            }
            Cycle::Snapshots => {
                let request = cx.create_snapshot_request(&scene.volume.volume_id);
                cx.create_snapshot(request).setup("a snapshot").await?;
            }
            Cycle::GroupSnapshots => {
                let request = cx.create_group_snapshot_request(&[&scene.volume.volume_id]);
                cx.create_group_snapshot(request).setup("a group snapshot").await?;
            }
            Cycle::Attachments => {
                let volume = NodeVolume::from(scene.volume.clone());
                let request = cx.controller_publish_request(&volume, &scene.node_id);
                cx.controller_publish(request).setup("an attached volume").await?;
            }
            Cycle::Stagings => {
                if let Some(attached) = &scene.attached {
                    cx.node_stage(cx.stage_request(attached, &scene.staging_path))
                        .setup("a staged volume")
                        .await?;
                }
            }
            Cycle::Publications => {
                if let Some(staged) = &scene.staged {
                    let request = cx.publish_request(staged, &scene.target_path);
                    cx.node_publish(request).setup("a published volume").await?;
                }
            }
            Cycle::Statistics => {
                if let Some(published) = &scene.published {
                    statistics(cx, published).await?;
                }
            }
            Cycle::Expansions => expanded(cx).await?,
            Cycle::RefusedVolumes => refused_volumes(cx).await?,
            Cycle::RefusedCopies => refused_copies(cx, scene).await?,
            Cycle::RefusedSnapshots => refused_snapshots(cx, scene).await?,
            Cycle::RefusedAttachments => refused_attachments(cx, scene).await?,
            Cycle::RefusedStagings => refused_stagings(cx, scene).await?,
            Cycle::RefusedPublications => refused_publications(cx, scene).await?,
            Cycle::GivenUp => {
                let request = cx.create_volume_request();
                let limit = GIVEN_UP_MAX.mul_f64(rng.f64());
                // Whatever came of it, the same call says.
                let _ = cx.give_up_after(limit, cx.create_volume(request.clone()).once()).await;
                cx.create_volume(request).setup("a volume").await?;
            }
            Cycle::Connections => {
                cx.break_connections().await;
                heard(cx.call(v1::GetPluginInfoRequest {}).once().await)?;
            }
        }
        cx.undo().await
    }
}

/// What can be copied, as far as the driver can do that: a snapshot of the volume first, the volume itself last.
async fn sources(cx: &Cx, volume: &v1::Volume) -> CheckResult<Vec<Source>> {
    let has = |capability| cx.target().capabilities().has(capability);
    let mut sources = Vec::new();
    if has(Capability::CreateDeleteSnapshot) {
        let snapshot_id = cx.new_snapshot(&volume.volume_id).await?.snapshot_id;
        sources.push(Source::Snapshot(SnapshotSource { snapshot_id }));
    }
    if has(Capability::CloneVolume) {
        sources.push(Source::Volume(VolumeSource { volume_id: volume.volume_id.clone() }));
    }
    Ok(sources)
}

fn copy_request(cx: &Cx, source: Option<&Source>) -> v1::CreateVolumeRequest {
    let volume_content_source = Some(v1::VolumeContentSource { r#type: source.cloned() });
    v1::CreateVolumeRequest { volume_content_source, ..cx.create_volume_request() }
}

/// Looks at a published volume as kubelet does, and some times more, since each call takes little.
async fn statistics(cx: &Cx, published: &Published) -> CheckResult {
    for _ in 0..LOOKS_AT_VOLUME {
        let request = v1::NodeGetVolumeStatsRequest {
            volume_id: published.staged.attached.volume.id.clone(),
            volume_path: published.target_path.clone(),
            staging_target_path: published.staged.staging_path.clone(),
        };
        heard(cx.call(request).once().await)?;
    }
    Ok(())
}

/// Expands a volume that no node has.
async fn expanded(cx: &Cx) -> CheckResult {
    let volume_id = cx.new_volume().await?.volume_id;
    let range = v1::CapacityRange { required_bytes: cx.expand_size_bytes(), limit_bytes: 0 };
    let request =
        v1::ControllerExpandVolumeRequest { volume_id, capacity_range: Some(range), ..Default::default() };
    heard(cx.call(request).once().await)
}

/// A copy with a limit below the size of its source.
async fn refused_copies(cx: &Cx, scene: &Scene) -> CheckResult {
    for source in &scene.sources {
        let impossible = Some(v1::CapacityRange { required_bytes: 0, limit_bytes: 1 });
        let request =
            v1::CreateVolumeRequest { capacity_range: impossible, ..copy_request(cx, Some(source)) };
        heard(cx.create_volume(request).once().await)?;
    }
    Ok(())
}

/// Only that there is an answer counts: whether it is the right one, other checks judge.
fn heard<T>(reply: Reply<T>) -> CheckResult {
    reply.any_answer().map(|_| ())
}

async fn look(cx: &Cx) -> CheckResult {
    let capabilities = cx.target().capabilities();
    heard(cx.call(v1::GetPluginInfoRequest {}).once().await)?;
    heard(cx.call(v1::GetPluginCapabilitiesRequest {}).once().await)?;
    heard(cx.call(v1::ProbeRequest {}).once().await)?;
    if NODE.unmet(cx.target(), cx.access()).is_none() {
        heard(cx.call(v1::NodeGetInfoRequest {}).once().await)?;
    }
    if capabilities.has(Capability::ListVolumes) {
        heard(cx.call(v1::ListVolumesRequest::default()).once().await)?;
    }
    if capabilities.has(Capability::ListSnapshots) {
        heard(cx.call(v1::ListSnapshotsRequest::default()).once().await)?;
    }
    if capabilities.has(Capability::GetCapacity) {
        heard(cx.call(v1::GetCapacityRequest::default()).once().await)?;
    }
    Ok(())
}

async fn refused_volumes(cx: &Cx) -> CheckResult {
    let request = cx.create_volume_request();
    let nameless = v1::CreateVolumeRequest { name: String::new(), ..request.clone() };
    let without_use = v1::CreateVolumeRequest { volume_capabilities: Vec::new(), ..request.clone() };
    let impossible = Some(v1::CapacityRange { required_bytes: cx.volume_size_bytes(), limit_bytes: 1 });
    let too_small = v1::CreateVolumeRequest { capacity_range: impossible, ..request };
    for wrong in [nameless, without_use, too_small] {
        heard(cx.create_volume(wrong).once().await)?;
    }
    let (unknown, id) = (Source::Volume(VolumeSource { volume_id: cx.unknown_volume_id() }), String::new());
    if cx.target().capabilities().has(Capability::CloneVolume) {
        let volume_content_source = Some(v1::VolumeContentSource { r#type: Some(unknown) });
        let request = v1::CreateVolumeRequest { volume_content_source, ..cx.create_volume_request() };
        heard(cx.create_volume(request).once().await)?;
    }
    heard(cx.call(v1::DeleteVolumeRequest { volume_id: id, ..Default::default() }).once().await)
}

async fn refused_snapshots(cx: &Cx, scene: &Scene) -> CheckResult {
    let request = cx.create_snapshot_request(&scene.deleted_id);
    let nameless = v1::CreateSnapshotRequest { name: String::new(), ..request.clone() };
    let of_nothing = v1::CreateSnapshotRequest { source_volume_id: String::new(), ..request.clone() };
    for wrong in [request, nameless, of_nothing] {
        heard(cx.create_snapshot(wrong).once().await)?;
    }
    heard(cx.call(v1::DeleteSnapshotRequest::default()).once().await)
}

async fn refused_attachments(cx: &Cx, scene: &Scene) -> CheckResult {
    let volume = NodeVolume::from(scene.volume.clone());
    let gone = NodeVolume::from(v1::Volume { volume_id: scene.deleted_id.clone(), ..scene.volume.clone() });
    let right = cx.controller_publish_request(&volume, &scene.node_id);
    let without_use = v1::ControllerPublishVolumeRequest { volume_capability: None, ..right.clone() };
    let nowhere = v1::ControllerPublishVolumeRequest { node_id: String::new(), ..right };
    let wrong = [
        cx.controller_publish_request(&gone, &scene.node_id),
        cx.controller_publish_request(&volume, &cx.unknown_node_id()),
        without_use,
        nowhere,
    ];
    for wrong in wrong {
        heard(cx.controller_publish(wrong).once().await)?;
    }
    Ok(())
}

fn gone(scene: &Scene) -> Attached {
    let volume = v1::Volume { volume_id: scene.deleted_id.clone(), ..Default::default() };
    Attached { volume: volume.into(), publish_context: Default::default() }
}

async fn refused_stagings(cx: &Cx, scene: &Scene) -> CheckResult {
    let request = cx.stage_request(&gone(scene), &scene.staging_path);
    let nameless = v1::NodeStageVolumeRequest { volume_id: String::new(), ..request.clone() };
    let nowhere = v1::NodeStageVolumeRequest { staging_target_path: String::new(), ..request.clone() };
    let without_use = v1::NodeStageVolumeRequest { volume_capability: None, ..request.clone() };
    for wrong in [request, nameless, nowhere, without_use] {
        heard(cx.node_stage(wrong).once().await)?;
    }
    Ok(())
}

async fn refused_publications(cx: &Cx, scene: &Scene) -> CheckResult {
    let staged = Staged { attached: gone(scene), staging_path: scene.staging_path.clone() };
    let request = cx.publish_request(&staged, &scene.target_path);
    let nameless = v1::NodePublishVolumeRequest { volume_id: String::new(), ..request.clone() };
    let nowhere = v1::NodePublishVolumeRequest { target_path: String::new(), ..request.clone() };
    let without_use = v1::NodePublishVolumeRequest { volume_capability: None, ..request.clone() };
    for wrong in [request, nameless, nowhere, without_use] {
        heard(cx.node_publish(wrong).once().await)?;
    }
    Ok(())
}
