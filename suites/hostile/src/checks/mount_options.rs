//! Sends texts that could become mount options.

use std::collections::BTreeSet;
use std::path::Path;

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use csi_harness::resources::mounts;

use crate::rules::HOSTILE_MOUNT_001;
use crate::sweep::{Budget, undo_noting};

/// Harmless options that can be observed, and options that disable the protection of the host.
const SUFFIXES: [&str; 4] =
    [",noatime,suid,dev,exec", " -o noatime,suid,dev,exec", "\nnoatime", "%2Cnoatime%2Csuid%2Cdev%2Cexec"];
/// A mount option that a file system only has if it was requested.
const MARK: &str = "noatime";
/// The options that protect the host, if the driver sets them.
const GUARDS: [&str; 3] = ["nosuid", "nodev", "noexec"];
/// Keys whose values drivers put into the arguments of mount.
const KEYS: [&str; 5] = ["server", "share", "source", "subDir", "mounttargetip"];
/// Parts of the names of keys whose values are meant to be options, such as `mountOptions`.
const MADE_FOR_OPTIONS: [&str; 2] = ["option", "flag"];

check! {
    /// A driver that joins an id or an address to a comma-separated list of options lets anyone with a comma choose
    /// options: a file system that permits set-user-id programs, or one that is mounted from elsewhere
    /// (CVE-2026-6437).
    TEXTS {
        id: "hostile/mount-options/texts",
        title: "nothing but mount_flags becomes a mount option",
        spec: [HOSTILE_MOUNT_001],
        needs: [VOLUME, NODE, MOUNT_ACCESS, ROOT],
        refuted_by: ["node-publish-joins-mount-options"],
        runs: CrashProne,
    }
    async |cx| {
        let attached = cx.attached(cx.node_volume().await?).await?;
        let Some(Some(plain)) = options_with(cx, &attached, &Change::default()).await? else {
            return Err(Stop::skip("the tests see no mount at a target path"));
        };
        if plain.contains(MARK) {
            return Err(Stop::skip("the driver mounts volumes with noatime anyway"));
        }
        let changes = changes(&attached);
        let budget = Budget::begin(cx, changes.len());
        for (number, change) in changes.iter().enumerate() {
            if budget.is_over(cx, number) {
                break;
            }
            let Some(Some(found)) = options_with(cx, &attached, change).await? else { continue };
            let lost = GUARDS.iter().any(|guard| plain.contains(*guard) && !found.contains(*guard));
            ensure!(
                !lost && !found.contains(MARK),
                "{} changes the options of the mount", change.description;
                expected: format!("the options of a mount without it: {}", joined(&plain)),
                actual: joined(&found),
            );
        }
        Ok(())
    }
}

/// A change of the requests that stage and publish a volume.
#[derive(Debug, Default)]
struct Change {
    description: String,
    context: Pairs,
    id_suffix: &'static str,
    fs_type: &'static str,
}

/// Returns entries of volume_context that are not meant for mount options: the volume's own, and some that drivers know.
fn entries(context: &Pairs) -> Vec<(&str, &str)> {
    let own = context.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let is_for_options =
        |key: &str| MADE_FOR_OPTIONS.iter().any(|part| key.to_ascii_lowercase().contains(part));
    own.chain(KEYS.map(|key| (key, "a"))).filter(|(key, _)| !is_for_options(key)).collect()
}

fn changes(attached: &Attached) -> Vec<Change> {
    let entries = entries(&attached.volume.context);
    let mut all = Vec::new();
    for suffix in SUFFIXES {
        for (key, value) in &entries {
            let value = format!("{value}{suffix}");
            let description = format!("volume_context[{key:?}] = {value:?}");
            all.push(Change {
                description,
                context: [((*key).to_owned(), value)].into(),
                ..Change::default()
            });
        }
        let description = format!("volume_id followed by {suffix:?}");
        all.push(Change { description, id_suffix: suffix, ..Change::default() });
        let description = format!("fs_type = {suffix:?}");
        all.push(Change { description, fs_type: suffix, ..Change::default() });
    }
    all
}

/// Returns the options of the mount at the target path, which are empty without a mount, or `None` if the driver
/// rejects the request.
async fn options_with(
    cx: &Cx,
    attached: &Attached,
    change: &Change,
) -> CheckResult<Option<Option<BTreeSet<String>>>> {
    use v1::volume_capability::AccessType::Mount;
    let scope = cx.scope();
    let mut attached = attached.clone();
    attached.volume.id.push_str(change.id_suffix);
    attached.volume.context.extend(change.context.clone());
    let mut capability = scope.capability();
    if let (Some(Mount(mount)), false) = (&mut capability.access_type, change.fs_type.is_empty()) {
        mount.fs_type.push_str(change.fs_type);
    }
    let staging_path = match scope.target().capabilities().has(Capability::StageUnstageVolume) {
        true => scope.staging_path().await?,
        false => String::new(),
    };
    if !staging_path.is_empty() {
        let mut request = scope.stage_request(&attached, &staging_path);
        request.volume_capability = Some(capability.clone());
        if scope.node_stage(request).once().await.any_answer()?.is_err() {
            undo_noting(cx, &scope).await;
            return Ok(None);
        }
    }
    let target_path = scope.target_path().await?;
    let mut request = scope.publish_request(&Staged { attached, staging_path }, &target_path);
    request.volume_capability = Some(capability);
    let published = scope.node_publish_hostile(request).once().await.any_answer()?;
    let uppermost = || mounts::at(Path::new(&target_path)).pop();
    let found = published.is_ok().then(|| uppermost().map(|mount| mount.options));
    undo_noting(cx, &scope).await;
    Ok(found)
}

fn joined(options: &BTreeSet<String>) -> String {
    options.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

pub(crate) static CHECKS: &[&Check] = &[&TEXTS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_there_for_options_is_left_alone() {
        let context = ["mountOptions", "MOUNT_FLAGS", "pool"].map(|key| (key.to_owned(), "hard".to_owned()));
        let context = Pairs::from(context);
        let keys: Vec<&str> = entries(&context).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&["pool"], &KEYS[..]].concat());
    }
}
