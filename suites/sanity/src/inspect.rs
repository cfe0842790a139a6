//! Checks the effects of calls in the back end, which the user's command reads, because no reply shows them.

use std::collections::BTreeSet;

use csi_harness::config::Pairs;
use csi_harness::prelude::*;

const INSPECT: Need = Need::Configured(Setting::Inspect);
const MUTABLE: Need = Need::Configured(Setting::MutableParameters);
/// A key that no driver has.
const UNKNOWN_KEY: &str = "csi-sanity-no-such-parameter";

fn modify<'a>(
    cx: &'a Cx,
    volume_id: &str,
    mutable_parameters: Pairs,
) -> PendingCall<'a, v1::ControllerModifyVolumeResponse> {
    let volume_id = volume_id.to_owned();
    cx.call(v1::ControllerModifyVolumeRequest { volume_id, mutable_parameters, ..Default::default() })
}

/// Makes a volume without mutable parameters.
async fn plain_volume(cx: &Cx) -> CheckResult<String> {
    let request =
        v1::CreateVolumeRequest { mutable_parameters: Default::default(), ..cx.create_volume_request() };
    Ok(cx.create_volume(request).setup("a volume without mutable parameters").await?.volume_id)
}

/// Returns the values of a volume's parameters in the back end.
async fn parameters(cx: &Cx, volume_id: &str) -> CheckResult<Pairs> {
    let known = cx.inspect_volume(volume_id).await?.parameters;
    known.ok_or_else(|| Stop::skip("inspect-command prints no parameters of a volume"))
}

/// Returns the back end's values of these parameters, once they are as wanted or the settling time is over.
async fn settled(cx: &Cx, volume_id: &str, wanted: &Pairs) -> CheckResult<Pairs> {
    let has_all = |now: &Pairs| wanted.iter().all(|(key, value)| now.get(key) == Some(value));
    let found = cx.eventually(Settles::Everything, || async {
        Ok(Some(parameters(cx, volume_id).await?).filter(has_all))
    });
    match found.await? {
        Some(now) => Ok(now),
        None => parameters(cx, volume_id).await,
    }
}

/// Fails unless the back end has these values.
async fn has(cx: &Cx, volume_id: &str, wanted: &Pairs, message: &str) -> CheckResult {
    let now = settled(cx, volume_id, wanted).await?;
    for (key, value) in wanted {
        ensure!(
            now.get(key) == Some(value),
            "{message}";
            expected: format!("{key} = {value:?} from inspect-command"),
            actual: now.get(key).map_or_else(|| format!("no {key}"), |now| format!("{key} = {now:?}"))
        );
    }
    Ok(())
}

check! {
    /// A caller that gets OK does not repeat the call.
    MODIFIED {
        id: "inspect/modified",
        title: "the back end has the values that ControllerModifyVolume accepted with OK",
        spec: [req::CTRL_MODIFYVOL_001],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE, INSPECT],
        refuted_by: ["controller-modify-changes-nothing"],
    }
    async |cx| {
        let wanted = &cx.config().mutable_parameters;
        let id = plain_volume(cx).await?;
        modify(cx, &id, wanted.clone()).setup("a modified volume").await?;
        has(cx, &id, wanted, "the back end does not have the values that a volume was modified to").await
    }
}

check! {
    /// A class with one key does not change the other parameters.
    LEFT_OUT {
        id: "inspect/left-out-keys",
        title: "parameters that ControllerModifyVolume does not name keep their values in the back end",
        spec: [req::CTRL_MODIFYVOL_008],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE, INSPECT],
        refuted_by: ["controller-modify-forgets-other-keys"],
        duplicate_of: "inspect/modified",
    }
    async |cx| {
        let all = &cx.config().mutable_parameters;
        let Some((last, value)) = all.last_key_value().filter(|_| all.len() > 1) else {
            return Err(Stop::skip("fewer than two mutable parameters are configured"));
        };
        let id = plain_volume(cx).await?;
        let mut first = all.clone();
        first.remove(last);
        modify(cx, &id, first.clone()).await.or_skip("one of the parameters cannot be left out")?;
        let now = settled(cx, &id, &first).await?;
        if first.iter().any(|(key, value)| now.get(key) != Some(value)) {
            return Err(Stop::skip("the back end does not have the values of the first modification"));
        }
        let then = Pairs::from([(last.clone(), value.clone())]);
        modify(cx, &id, then).await.or_skip("the driver rejects a second modification so soon")?;
        has(cx, &id, &first, "a parameter that a modification did not name has lost its value").await
    }
}

check! {
    /// A caller that gets an error assumes that nothing changed.
    REFUSED {
        id: "inspect/refused-modification",
        title: "a modification that was rejected has changed nothing in the back end",
        spec: [req::CTRL_MODIFYVOL_010],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE, INSPECT],
        refuted_by: ["controller-modify-applies-before-checking"],
    }
    async |cx| {
        let id = plain_volume(cx).await?;
        let before = parameters(cx, &id).await?;
        let mut wrong = cx.config().mutable_parameters.clone();
        wrong.insert(UNKNOWN_KEY.to_owned(), "x".to_owned());
        if modify(cx, &id, wrong).await.code()? != Code::InvalidArgument {
            return Err(Stop::skip("the driver does not refuse unknown keys with INVALID_ARGUMENT"));
        }
        let after = parameters(cx, &id).await?;
        ensure!(
            before == after,
            "a refused modification has changed the volume in the back end";
            expected: format!("{before:?} from inspect-command, as before"),
            actual: format!("{after:?}")
        );
        Ok(())
    }
}

check! {
    /// The values of a claim's VolumeAttributesClass take precedence over those of its StorageClass.
    MUTABLE_ONES_WIN {
        id: "inspect/mutable-parameters-win",
        title: "for a key in both parameters and mutable_parameters, the back end has the mutable value",
        spec: [req::CTRL_CREATEVOL_031],
        needs: [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE, INSPECT],
        refuted_by: ["create-volume-parameters-beat-mutable-ones"],
    }
    async |cx| {
        let config = cx.config();
        let is_in_both = |(key, value): &(&String, &String)| {
            config.parameters.get(*key).is_some_and(|other| other != *value)
        };
        let both: Pairs = config.mutable_parameters.iter().filter(is_in_both).map(owned).collect();
        if both.is_empty() {
            return Err(Stop::skip("no key is configured in parameters and, with another value, in mutable-parameters"));
        }
        let volume = cx.new_volume().await?;
        has(cx, &volume.volume_id, &both, "parameters take precedence over mutable_parameters").await
    }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

check! {
    /// A volume that stays attached cannot be used elsewhere, and a pod fails if its volume is not attached.
    ATTACHMENTS {
        id: "inspect/attachments",
        title: "the back end has a volume attached to a node from ControllerPublishVolume to ControllerUnpublishVolume",
        spec: [req::CTRL_PUBLISH_001, req::CTRL_UNPUBLISH_001],
        needs: [PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE, INSPECT],
        refuted_by: ["controller-publish-not-recorded", "controller-unpublish-keeps-attachment"],
    }
    async |cx| {
        let volume = cx.node_volume().await?;
        let node_id = cx.node_id().await?;
        let request = cx.controller_publish_request(&volume, &node_id);
        cx.controller_publish(request).setup("an attached volume").await?;
        let attached = attached_to(cx, &volume.id, &node_id, true).await?;
        ensure!(
            attached.contains(&node_id),
            "an attached volume is not attached in the back end";
            of: &req::CTRL_PUBLISH_001,
            expected: format!("{node_id:?} among attached_to of inspect-command"),
            actual: format!("{attached:?}")
        );
        cx.controller_unpublish(&volume.id, &node_id).setup("a detached volume").await?;
        let attached = attached_to(cx, &volume.id, &node_id, false).await?;
        ensure!(
            !attached.contains(&node_id),
            "a volume that was detached is still attached in the back end";
            of: &req::CTRL_UNPUBLISH_001,
            expected: format!("no {node_id:?} among attached_to of inspect-command"),
            actual: format!("{attached:?}")
        );
        Ok(())
    }
}

/// Returns the nodes of a volume once they are as wanted or the settling time is over.
async fn attached_to(cx: &Cx, volume_id: &str, node_id: &str, wanted: bool) -> CheckResult<BTreeSet<String>> {
    let now = || async {
        let known = cx.inspect_volume(volume_id).await?.attached_to;
        known.ok_or_else(|| Stop::skip("inspect-command does not print attached_to of a volume"))
    };
    let is_so = |attached: &BTreeSet<String>| attached.contains(node_id) == wanted;
    match cx.eventually(Settles::Everything, || async { Ok(Some(now().await?).filter(is_so)) }).await? {
        Some(attached) => Ok(attached),
        None => now().await,
    }
}

check! {
    /// Lists may omit a volume that still costs money.
    DELETED_VOLUME {
        id: "inspect/deleted-volume",
        title: "a deleted volume is gone from the back end",
        spec: [req::CTRL_DELETEVOL_002],
        needs: [CREATE_DELETE_VOLUME, INSPECT],
        refuted_by: ["delete-volume-keeps-volume"],
        duplicate_of: "controller/delete-volume/gone",
    }
    async |cx| {
        let id = cx.new_volume().await?.volume_id;
        exists(cx.inspect_volume(&id).await?.exists)?;
        cx.delete_volume(&id).setup("a deleted volume").await?;
        let gone = cx.eventually(Settles::VolumeGone, || async {
            Ok((cx.inspect_volume(&id).await?.exists == Some(false)).then_some(()))
        });
        is_gone(gone.await?, "volume")
    }
}

check! {
    /// Lists may omit a snapshot that still costs money.
    DELETED_SNAPSHOT {
        id: "inspect/deleted-snapshot",
        title: "a deleted snapshot is gone from the back end",
        spec: [req::CTRL_DELETESNAP_002],
        needs: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, INSPECT],
        refuted_by: ["delete-snapshot-keeps-snapshot"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let id = cx.new_snapshot(&volume.volume_id).await?.snapshot_id;
        exists(cx.inspect_snapshot(&id).await?.exists)?;
        cx.delete_snapshot(&id).setup("a deleted snapshot").await?;
        let gone = cx.eventually(Settles::SnapshotGone, || async {
            Ok((cx.inspect_snapshot(&id).await?.exists == Some(false)).then_some(()))
        });
        is_gone(gone.await?, "snapshot")
    }
}

/// Requires that the command sees a new object; otherwise its later answers prove nothing.
fn exists(said: Option<bool>) -> CheckResult {
    match said {
        Some(true) => Ok(()),
        Some(false) => Err(Stop::skip("inspect-command does not find what was just created")),
        None => Err(Stop::skip("inspect-command does not print whether something exists")),
    }
}

fn is_gone(gone: Option<()>, what: &str) -> CheckResult {
    ensure!(
        gone.is_some(),
        "a deleted {what} still exists in the back end";
        expected: "exists: false from inspect-command, after DeleteVolume or DeleteSnapshot was answered with OK",
        actual: "still exists: true after the time to settle (settle-ms)"
    );
    Ok(())
}

pub(crate) static CHECKS: &[&Check] =
    &[&MODIFIED, &LEFT_OUT, &REFUSED, &MUTABLE_ONES_WIN, &ATTACHMENTS, &DELETED_VOLUME, &DELETED_SNAPSHOT];
