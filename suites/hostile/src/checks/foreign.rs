//! Uses ids and names that resemble those of other objects.

use std::fs;
use std::path::Path;

use csi_harness::prelude::*;
use csi_harness::spec::verdict::Damage;

use crate::rules::{HOSTILE_ID_001, HOSTILE_ID_002, HOSTILE_ID_004, HOSTILE_PATH_001};
use crate::scene::published;
use crate::sweep::{Budget, undo_noting};

/// The name of a file in a volume.
const MARK: &str = "csi-sanity-mark";
/// Shorter ids may come from counters, one for each kind of object.
const OWN_ID_BYTES_MIN: usize = 12;

/// Returns ids that contain the id of an object, in forms that no other object's id has.
fn resembling(id: &str) -> [String; 11] {
    [
        format!("{id}-csi-sanity"),
        format!("csi-sanity-{id}"),
        format!("{id}{id}"),
        format!("{id}*"),
        format!("{id} "),
        format!(" {id}"),
        format!("{id}\n"),
        format!("{id}\0"),
        format!("{id}/"),
        format!("./{id}"),
        format!("csi-sanity/../{id}"),
    ]
}

check! {
    /// An id has to be compared as a whole. If it becomes part of a pattern, a prefix or a path, deleting one volume
    /// deletes another one.
    VOLUMES {
        id: "hostile/foreign/volume-ids",
        title: "deleting an id that resembles the id of a volume deletes nothing",
        spec: [HOSTILE_ID_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["delete-volume-matches-beginnings", "delete-volume-trims-ids"],
        runs: CrashProne,
    }
    async |cx| { volume_outlives(cx, Deletes::Volume, |id| resembling(id).into()).await }
}

/// The calls that delete by an id.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deletes {
    Volume,
    Snapshot,
}

impl Deletes {
    const fn rpc(self) -> &'static str {
        match self {
            Deletes::Volume => "DeleteVolume",
            Deletes::Snapshot => "DeleteSnapshot",
        }
    }

    /// Makes the call. Returns the rejection, if it is rejected.
    async fn call(self, cx: &Cx, id: &str) -> CheckResult<Option<Refused>> {
        Ok(match self {
            Deletes::Volume => cx.delete_volume(id).await.any_answer()?.err(),
            Deletes::Snapshot => cx.delete_snapshot(id).await.any_answer()?.err(),
        })
    }
}

/// Checks that a volume still exists after the call with each of the ids that are derived from its own.
pub(super) async fn volume_outlives(
    cx: &Cx,
    deletes: Deletes,
    others: impl FnOnce(&str) -> Vec<String>,
) -> CheckResult {
    let request = cx.create_volume_request();
    let volume = cx.create_volume(request.clone()).setup("a volume").await?;
    let repeated = cx.create_volume(request.clone()).await.any_answer()?;
    if repeated.is_ok_and(|repeated| repeated.volume_id != volume.volume_id) {
        return Err(Stop::skip(
            "a repeated CreateVolume creates another volume, so it does not show whether the first one exists",
        ));
    }
    let others = others(&volume.volume_id);
    let budget = Budget::begin(cx, others.len());
    for (number, volume_id) in others.into_iter().enumerate() {
        if budget.is_over(cx, number) {
            break;
        }
        let refused = deletes.call(cx, &volume_id).await?;
        // A new volume may get the old id, so the old volume is looked up first.
        let known = is_known(cx, &volume.volume_id).await?;
        let again = cx.create_volume(request.clone()).await.any_answer()?;
        let there = known && again.map_or(true, |again| again.volume_id == volume.volume_id);
        ensure!(
            there,
            "{} of {volume_id:?} deletes the volume {:?}", deletes.rpc(), volume.volume_id;
            expected: "the volume still exists, since it was not named",
            actual: format!("the call was answered with {}", answer_text(refused.as_ref())),
        );
    }
    Ok(())
}

/// Returns whether the driver finds the volume by its id.
async fn is_known(cx: &Cx, volume_id: &str) -> CheckResult<bool> {
    let request = cx.validate_request(volume_id, &Default::default());
    let answer = cx.call(request).await.any_answer()?;
    Ok(!answer.is_err_and(|refused| refused.code == Code::NotFound))
}

fn answer_text(refused: Option<&Refused>) -> String {
    refused.map_or_else(|| "OK".to_owned(), Refused::to_string)
}

check! {
    /// If an id becomes part of a pattern, a prefix or a path, deleting one snapshot deletes another one.
    SNAPSHOTS {
        id: "hostile/foreign/snapshot-ids",
        title: "deleting an id that resembles the id of a snapshot deletes nothing",
        spec: [HOSTILE_ID_002],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["delete-snapshot-matches-beginnings"],
        runs: CrashProne,
    }
    async |cx| { snapshot_outlives(cx, Deletes::Snapshot, |id| resembling(id).into()).await }
}

/// Checks that a snapshot still exists after the call with each of the ids that are derived from its own.
pub(super) async fn snapshot_outlives(
    cx: &Cx,
    deletes: Deletes,
    others: impl FnOnce(&str) -> Vec<String>,
) -> CheckResult {
    let request = cx.create_snapshot_request(&cx.new_volume().await?.volume_id);
    let snapshot = cx.create_snapshot(request.clone()).setup("a snapshot").await?;
    let repeated = cx.create_snapshot(request.clone()).await.any_answer()?;
    if repeated.is_ok_and(|repeated| repeated.snapshot_id != snapshot.snapshot_id) {
        return Err(Stop::skip(
            "a repeated CreateSnapshot creates another snapshot, so it does not show whether the first one exists",
        ));
    }
    let others = others(&snapshot.snapshot_id);
    let budget = Budget::begin(cx, others.len());
    for (number, snapshot_id) in others.into_iter().enumerate() {
        if budget.is_over(cx, number) {
            break;
        }
        let refused = deletes.call(cx, &snapshot_id).await?;
        let mut is_there = true;
        if let Ok(again) = cx.create_snapshot(request.clone()).await.any_answer()?
            && is_perhaps_another(&snapshot, &again)
        {
            cx.wait_for_next_second().await;
            let later = cx.create_snapshot(request.clone()).await.any_answer()?;
            is_there = !is_another(&snapshot, &again, later.as_ref().ok());
        }
        ensure!(
            is_there,
            "{} of {snapshot_id:?} deletes the snapshot {:?}", deletes.rpc(), snapshot.snapshot_id;
            expected: "the snapshot still exists, since it was not named",
            actual: format!("the call was answered with {}", answer_text(refused.as_ref())),
        );
    }
    Ok(())
}

/// Returns true if a snapshot differs from the first in its id or its creation_time. Fractions of a second prove nothing, since drivers may
/// report them differently.
fn is_perhaps_another(first: &v1::Snapshot, again: &v1::Snapshot) -> bool {
    let seconds = |snapshot: &v1::Snapshot| snapshot.creation_time.map(|time| time.seconds);
    again.snapshot_id != first.snapshot_id || seconds(again) != seconds(first)
}

/// Returns true if a snapshot is another one than the first. Its time proves nothing if the driver answers the repeated call with yet another
/// one in a later second.
fn is_another(first: &v1::Snapshot, again: &v1::Snapshot, later: Option<&v1::Snapshot>) -> bool {
    let keeps_time = later.is_some_and(|later| later.creation_time == again.creation_time);
    again.snapshot_id != first.snapshot_id || keeps_time && is_perhaps_another(first, again)
}

check! {
    /// A back end often keeps volumes and snapshots in one list. A VolumeSnapshotContent that an administrator writes with the id of a volume
    /// then deletes that volume.
    OTHER_KINDS {
        id: "hostile/foreign/ids-of-other-kinds",
        title: "deleting the id of a volume as a snapshot deletes nothing, and the other way round",
        spec: [HOSTILE_ID_004],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["delete-snapshot-takes-volume-ids", "delete-volume-takes-snapshot-ids"],
        runs: CrashProne,
    }
    async |cx| {
        if cx.new_volume().await?.volume_id.len() < OWN_ID_BYTES_MIN {
            return Err(Stop::skip("the ids are so short that a snapshot of someone else may have the id of a volume"));
        }
        volume_outlives(cx, Deletes::Snapshot, |id| vec![id.to_owned()]).await?;
        snapshot_outlives(cx, Deletes::Volume, |id| vec![id.to_owned()]).await
    }
}

check! {
    /// Users choose names, but not ids. A driver that looks for a name among its ids gives a volume to anyone who
    /// guesses its id, such as the disk of a node (CVE-2024-1725).
    NAMES {
        id: "hostile/foreign/names",
        title: "a volume that is named like the id of another object, or like a snapshot, is not that object",
        spec: [HOSTILE_ID_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-adopts-ids", "create-volume-adopts-snapshots"],
        runs: CrashProne,
    }
    async |cx| {
        let request = cx.create_volume_request();
        let first = cx.create_volume(request.clone()).setup("a volume").await?;
        if first.volume_id == request.name {
            return Err(Stop::skip("the driver uses names as ids, so this is the same volume"));
        }
        let scope = cx.scope();
        let named = v1::CreateVolumeRequest { name: first.volume_id.clone(), ..scope.create_volume_request() };
        let Ok(second) = scope.create_volume(named).await.any_answer()? else { return Ok(()) };
        ensure!(
            second.volume_id != first.volume_id,
            "CreateVolume with the id of a volume as its name returns that volume";
            expected: "another volume, or a rejection",
            actual: format!("volume_id {:?}, which is that of the volume named {:?}", second.volume_id, request.name),
        );
        undo_noting(cx, &scope).await;
        ensure!(
            is_known(cx, &first.volume_id).await?,
            "deleting a volume that is named like the id of another one deletes the other one";
            expected: "two volumes that have nothing to do with each other",
            actual: format!("{:?} no longer exists", first.volume_id),
        );
        if cx.target().capabilities().has(Capability::CreateDeleteSnapshot) {
            is_not_the_snapshot_of_that_name(cx, &first).await?;
        }
        Ok(())
    }
}

async fn is_not_the_snapshot_of_that_name(cx: &Cx, source: &v1::Volume) -> CheckResult {
    let cut = cx.create_snapshot_request(&source.volume_id);
    let Ok(snapshot) = cx.create_snapshot(cut.clone()).await.any_answer()? else { return Ok(()) };
    if snapshot.snapshot_id == cut.name {
        // The volume may have this id as well, since it is unique among volumes.
        return Ok(());
    }
    let scope = cx.scope();
    let named = v1::CreateVolumeRequest { name: cut.name, ..scope.create_volume_request() };
    let Ok(volume) = scope.create_volume(named).await.any_answer()? else { return Ok(()) };
    ensure!(
        volume.volume_id != snapshot.snapshot_id,
        "CreateVolume with the name of a snapshot returns that snapshot";
        expected: "a volume of its own, or a rejection",
        actual: format!("volume_id {:?}, which is the snapshot_id", volume.volume_id),
    );
    undo_noting(cx, &scope).await;
    Ok(())
}

check! {
    /// A driver that joins names to a directory uses one directory for all volumes whose names resolve to that path. The second volume shows
    /// the data of the first one, and DeleteVolume of it deletes them.
    PATHS {
        id: "hostile/foreign/paths-as-names",
        title: "volumes whose names resolve to one path, such as a and x/../a, do not share their data",
        spec: [HOSTILE_PATH_001],
        needs: [NODE, CREATE_DELETE_VOLUME, MOUNT_ACCESS],
        refuted_by: ["create-volume-resolves-names"],
        runs: CrashProne,
    }
    async |cx| {
        let request = cx.create_node_volume_request().await?;
        let volume = cx.create_volume(request.clone()).setup("a volume").await?;
        let first = published(cx, volume.clone().into()).await?;
        let mark = Path::new(&first.target_path).join(MARK);
        if fs::write(&mark, &request.name).is_err() {
            return Err(Stop::skip("the tests cannot write into the volume"));
        }
        let ended = are_apart(cx, &request, &volume, &mark).await;
        // A driver without a mount there need not remove the contents of the directory.
        let _ = fs::remove_file(&mark);
        ended
    }
}

/// Checks that volumes whose names resolve to the name of this volume do not show its data, and that it outlives them.
async fn are_apart(
    cx: &Cx,
    request: &v1::CreateVolumeRequest,
    volume: &v1::Volume,
    mark: &Path,
) -> CheckResult {
    let name = &request.name;
    for other in [format!("csi-sanity/../{name}"), format!("./{name}"), format!("{name}/.")] {
        let scope = cx.scope();
        let named = v1::CreateVolumeRequest { name: other.clone(), ..request.clone() };
        let Ok(second) = scope.create_volume(named).await.any_answer()? else { continue };
        ensure!(
            second.volume_id != volume.volume_id,
            "CreateVolume with the name {other:?} returns the volume with the name {name:?}";
            expected: "another volume, or a rejection",
            actual: format!("volume_id {:?} in both replies", second.volume_id),
        );
        let users = scope.scope();
        let is_shown = match published(&users, second.clone().into()).await {
            Ok(published) => Path::new(&published.target_path).join(MARK).exists(),
            Err(Stop::Broken(_)) => false,
            Err(other) => return Err(other),
        };
        undo_noting(cx, &users).await;
        is_kept(mark, "unpublishing", &other, name)?;
        // The call that deletes the data belongs to the check, so that the evidence shows it.
        let _ = scope.delete_volume(&second.volume_id).await.any_answer()?;
        is_kept(mark, "deleting", &other, name)?;
        undo_noting(cx, &scope).await;
        ensure!(
            !is_shown,
            "the volume with the name {other:?} shows the data of the volume with the name {name:?}";
            expected: "an empty volume, or a rejection",
            actual: format!("a file that was written to the volume {:?}", volume.volume_id),
        );
    }
    Ok(())
}

/// Checks that the file of the first volume is still there.
fn is_kept(mark: &Path, doing: &str, other: &str, name: &str) -> CheckResult {
    if mark.exists() {
        return Ok(());
    }
    Err(Violation::new(format!(
        "{doing} the volume with the name {other:?} deletes the data of the volume with the name {name:?}"
    ))
    .expected("two volumes that have nothing to do with each other, or a rejection")
    .actual(format!("{} no longer exists", mark.display()))
    .damage(Damage::DataLoss)
    .into())
}

pub(crate) static CHECKS: &[&Check] = &[&VOLUMES, &SNAPSHOTS, &OTHER_KINDS, &NAMES, &PATHS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_changes_with_each_call_proves_nothing() {
        let snapshot = |id: &str, seconds| {
            let (snapshot_id, creation_time) = (id.to_owned(), Some(Default::default()));
            let mut snapshot = v1::Snapshot { snapshot_id, creation_time, ..Default::default() };
            snapshot.creation_time.as_mut().unwrap().seconds = seconds;
            snapshot
        };
        let first = snapshot("s", 1);
        assert!(is_another(&first, &snapshot("s", 2), Some(&snapshot("s", 2))));
        assert!(!is_another(&first, &snapshot("s", 2), Some(&snapshot("s", 3))));
        assert!(!is_another(&first, &snapshot("s", 2), None));
        assert!(!is_another(&first, &first, Some(&first)));
        assert!(is_another(&first, &snapshot("t", 1), None));
    }
}
