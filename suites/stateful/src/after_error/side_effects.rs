//! Checks what a refused call has made or changed.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_harness::protocol::effect::{Effect, of_change};
use csi_model::rules::AFTER_ERROR_003;
use csi_ops::malformed::Malformed;
use csi_ops::operation::{Operation, Request};

use super::{Right, operations, rejected};
use crate::facts::{Change, Facts, Objects};

/// Times that a refusal has to leave something for it to be the cause.
const TIMES: usize = 3;

check! {
    /// A caller does not know of an object that a rejected call has made, and so never deletes it.
    pub(super) NOTHING_MADE {
        id: "after-error/nothing-made",
        title: "a call that is definitely rejected creates and changes nothing",
        spec: [AFTER_ERROR_003],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-refusal-makes-volume",
            "create-volume-refusal-keeps-volume",
            "create-volume-fails-late",
            "create-snapshot-refusal-makes-snapshot",
            "controller-publish-refusal-attaches",
            "controller-expand-refusal-grows",
            "node-unpublish-refusal-unpublishes",
        ],
        runs: Serial,
        access: Each,
        varies: true,
    }
    async |cx| {
        for operation in operations(cx) {
            after_rejections(cx, operation).await?;
        }
        Ok(())
    }
}

async fn after_rejections(cx: &Cx, operation: Operation) -> CheckResult {
    let scope = cx.scope();
    let volume = scope.node_volume().await?;
    let right = Right::prepare(&scope, &volume, operation).await?;
    let published = (operation == Operation::NodeUnpublishVolume).then(|| right.volume.published());
    let objects = Objects { volumes: vec![volume.clone()], ..Objects::default() };
    let mut before = Before::look(&scope, &objects, published.as_ref()).await?;
    for Malformed { what, request, .. } in right.malformed(&scope) {
        let known = Listed::now(&scope).await?;
        let deleted = Deleted::with_name_of(&scope, &right.request, &request).await?;
        let refused = rejected(&scope, &request).await?;
        let is_definite = refused.as_ref().is_some_and(is_definite);
        if let Some(refused) = refused.filter(ends_the_matter) {
            let after = format!("{} {what} was rejected with {refused}", right.method());
            if is_definite {
                before.is_still(&scope, &objects, published.as_ref(), &after).await?;
            }
            // Leftovers of a group snapshot are found by group/create-volume-group-snapshot/no-leak.
            if matches!(operation, Operation::CreateVolume | Operation::CreateSnapshot)
                && let Some(violation) = made(&scope, &known, &request, &after).await?
            {
                // Others may use the back end, and an error such as INTERNAL does not say that nothing was done.
                if is_definite && cx.target().is_owned() {
                    return Err(violation.into());
                }
                cx.warn(violation);
            }
            if is_definite && let Some(deleted) = deleted {
                deleted.is_still_gone(&scope, &after).await?;
            }
            if operation == Operation::ControllerPublishVolume && is_definite {
                deletable(cx, what, &after).await?;
            }
        }
        if !is_definite {
            // The call was or may have been done, which is permitted for some. The new state is then the one to compare
            // with.
            before = Before::look(&scope, &objects, published.as_ref()).await?;
        }
    }
    // Checks of undoing judge if the effects of a wrong call can be undone.
    scope.undo_best_effort().await;
    Ok(())
}

/// Returns true if a refusal states that nothing was done.
fn is_definite(refused: &Refused) -> bool {
    of_change(refused.code) == Effect::None
}

/// True for a refusal after which sidecars make no further attempt, so that an object which it leaves is never deleted.
fn ends_the_matter(refused: &Refused) -> bool {
    of_change(refused.code) != Effect::Pending && refused.code != Code::ResourceExhausted
}

/// The facts of a volume before a call, and those of its publication.
struct Before {
    facts: Facts,
    in_use: Facts,
}

impl Before {
    async fn look(cx: &Cx, objects: &Objects, published: Option<&Published>) -> CheckResult<Before> {
        // Looking at a publication repeats NodePublishVolume. If that alone changes something, such as the number of
        // mounts, the rejected call is not to blame for it.
        let first = in_use(cx, published).await?;
        let in_use = first.that_stay(&in_use(cx, published).await?);
        let first = Facts::of_objects(cx, objects).await?;
        let facts = first.that_stay(&Facts::of_objects(cx, objects).await?);
        Ok(Before { facts, in_use })
    }

    async fn is_still(
        &self,
        cx: &Cx,
        objects: &Objects,
        published: Option<&Published>,
        after: &str,
    ) -> CheckResult {
        let message = format!("the volume has changed after {after}");
        Change::must_be_none(&self.in_use.changed(&in_use(cx, published).await?), &message)?;
        Change::must_be_none(&self.facts.changed(&Facts::of_objects(cx, objects).await?), message)
    }
}

async fn in_use(cx: &Cx, published: Option<&Published>) -> CheckResult<Facts> {
    match published {
        Some(published) => Facts::of_published(cx, published).await,
        None => Ok(Facts::default()),
    }
}

/// Ids of volumes and snapshots, if the driver lists them.
struct Listed(BTreeSet<String>);

impl Listed {
    async fn now(cx: &Cx) -> CheckResult<Listed> {
        let has = |capability| cx.target().capabilities().has(capability);
        let mut ids = BTreeSet::new();
        if has(Capability::ListVolumes) {
            let volumes = cx.list_volumes().await?.into_iter().filter_map(|entry| entry.volume);
            ids.extend(volumes.map(|volume| format!("volume {}", volume.volume_id)));
        }
        if has(Capability::ListSnapshots) {
            let snapshots = cx.list_snapshots(v1::ListSnapshotsRequest::default()).await?;
            ids.extend(snapshots.into_iter().map(|snapshot| format!("snapshot {}", snapshot.snapshot_id)));
        }
        Ok(Listed(ids))
    }

    fn beyond(&self, known: &Listed) -> Vec<String> {
        self.0.difference(&known.0).cloned().collect()
    }
}

/// A volume that was deleted. Where ids are made of names, a later volume with its name has its id, and can be seen without a list.
struct Deleted(v1::ValidateVolumeCapabilitiesRequest);

impl Deleted {
    /// Makes and deletes a volume with the name of a malformed CreateVolume request. `None` for other requests, and if the driver still
    /// answers for the volume afterwards, or does not make it.
    async fn with_name_of(cx: &Cx, right: &Request, malformed: &Request) -> CheckResult<Option<Deleted>> {
        let (Request::CreateVolume(right), Request::CreateVolume(malformed)) = (right, malformed) else {
            return Ok(None);
        };
        if malformed.name.is_empty() {
            return Ok(None);
        }
        let request = v1::CreateVolumeRequest { name: malformed.name.clone(), ..right.clone() };
        let Ok(volume) = cx.create_volume(request).await.any_answer()? else { return Ok(None) };
        if cx.delete_volume(&volume.volume_id).await.any_answer()?.is_err() {
            return Ok(None);
        }
        let deleted = Deleted(v1::ValidateVolumeCapabilitiesRequest {
            volume_capabilities: right.volume_capabilities.clone(),
            ..cx.validate_request(&volume.volume_id, &volume.volume_context)
        });
        Ok((!deleted.is_there(cx).await?).then_some(deleted))
    }

    async fn is_there(&self, cx: &Cx) -> CheckResult<bool> {
        Ok(cx.call(self.0.clone()).await.any_answer()?.is_ok())
    }

    /// Fails if the volume is there again, and deletes it then: its caller does not know of it.
    async fn is_still_gone(&self, cx: &Cx, after: &str) -> CheckResult {
        if !self.is_there(cx).await? {
            return Ok(());
        }
        let _ = cx.delete_volume(&self.0.volume_id).await.any_answer()?;
        Err(Violation::new(format!("a volume was made although {after}"))
            .expected("NOT_FOUND from ValidateVolumeCapabilities: the volume of this name was deleted before")
            .actual(format!("OK for volume_id {:?}", self.0.volume_id))
            .into())
    }
}

/// Finds an object that is listed since a call was refused, if one comes each time, and stays.
async fn made(cx: &Cx, known: &Listed, malformed: &Request, after: &str) -> CheckResult<Option<Violation>> {
    let new = Listed::now(cx).await?.beyond(known);
    if new.is_empty() {
        return Ok(None);
    }
    for _ in 1..TIMES {
        let known = Listed::now(cx).await?;
        // If the driver has kept an object under the name, it makes no second one.
        rejected(cx, &malformed.renamed(cx)).await?;
        if Listed::now(cx).await?.beyond(&known).is_empty() {
            return Ok(None);
        }
    }
    let gone = cx.eventually(Settles::VolumeUnlisted, || async {
        let now = Listed::now(cx).await?;
        Ok((!new.iter().any(|id| now.0.contains(id))).then_some(()))
    });
    if gone.await?.is_some() {
        return Ok(None);
    }
    if cx.target().is_owned() {
        delete(cx, &Listed::now(cx).await?.beyond(known)).await?;
    }
    let violation = Violation::new(format!("something was made although {after}"))
        .expected("no new entry in the lists: an object whose id was never returned is never deleted")
        .actual(new.join(", "));
    Ok(Some(violation))
}

/// Deletes the objects that rejected calls have made, in a back end of this run alone. Other checks judge whether that works.
async fn delete(cx: &Cx, made: &[String]) -> CheckResult {
    for id in made {
        match id.split_once(' ') {
            Some(("volume", id)) => cx.delete_volume(id).await.any_answer()?.map_or((), drop),
            Some((_, id)) => cx.delete_snapshot(id).await.any_answer()?.map_or((), drop),
            None => {}
        }
    }
    Ok(())
}

/// A volume that was never attached can be deleted.
async fn deletable(cx: &Cx, what: &str, after: &str) -> CheckResult {
    let scope = cx.scope();
    let volume = scope.node_volume().await?;
    let right = Right::prepare(&scope, &volume, Operation::ControllerPublishVolume).await?;
    let Some(malformed) = right.malformed(&scope).into_iter().find(|other| other.what == what) else {
        return Ok(());
    };
    if rejected(&scope, &malformed.request).await?.filter(is_definite).is_none() {
        return scope.undo().await;
    }
    let Err(kept) = scope.delete_volume(&volume.id).await.any_answer()? else { return scope.undo().await };
    scope.undo_best_effort().await;
    if kept.code != Code::FailedPrecondition {
        return Ok(());
    }
    Err(Violation::new(format!("a volume counts as in use after {after}"))
        .expected("OK from DeleteVolume: the volume was never attached")
        .actual(kept)
        .into())
}
