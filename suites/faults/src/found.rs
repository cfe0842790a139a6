//! Compares a volume with its expected state, and words the violations.

use std::path::PathBuf;

use csi_harness::config::Pairs;
use csi_harness::prelude::*;
use csi_harness::resources::contents::{Found, Stamp};
use csi_harness::resources::workload::{self, WriteLocation, play};
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::message::times;

use crate::rules::{FAULT_DATA_001, FAULT_DONE_001};

/// The rule by which a published volume is there.
pub(crate) fn publish_rule(cx: &Cx) -> &'static Requirement {
    match cx.access() {
        AccessType::Block => &req::NODE_PUBLISH_026,
        AccessType::Mount => &req::NODE_PUBLISH_027,
    }
}

/// OK was said too early.
pub(crate) fn not_done(rpc: &str, actual: &str) -> Violation {
    Violation::new(format!("{rpc} returned OK, but did not do its work"))
        .of(&FAULT_DONE_001)
        .expected("OK for what is done, and an error for what is not")
        .actual(actual)
}

/// The volume is gone, after what follows.
pub(crate) const GONE: &str = "a volume for which CreateVolume returned OK is gone after ";

/// A volume that was answered for is known; `after` says what has happened since.
pub(crate) async fn is_known(cx: &Cx, id: &str, context: &Pairs, after: &str) -> CheckResult {
    let gone = |how: String| {
        let lost = Violation::new(format!("{GONE}{after}"));
        let lost = lost.of(&FAULT_DONE_001).expected(format!("volume {id:?}")).actual(how);
        Err(lost.damage(Damage::DataLoss).into())
    };
    if cx.target().capabilities().has(Capability::ListVolumes) {
        let listed = cx.list_volumes().await?;
        let is_it = |entry: &v1::list_volumes_response::Entry| {
            entry.volume.as_ref().is_some_and(|volume| volume.volume_id == id)
        };
        return if listed.iter().any(is_it) {
            Ok(())
        } else {
            gone("ListVolumes does not list it".to_owned())
        };
    }
    match cx.call(cx.validate_request(id, context)).await.answer() {
        Answer::Refused(refused) if refused.code == Code::NotFound => gone(refused.to_string()),
        _ => Ok(()),
    }
}

/// A path is free after the call that undoes what was there. Fails with a violation if something is mounted there, and
/// unmounts it.
pub(crate) fn is_free(cx: &Cx, path: &str, name: &str, rule: &'static Requirement) -> CheckResult {
    let left = cx.mounts_at(path);
    if left == 0 {
        return Ok(());
    }
    cx.unmount_below([path])?;
    Err(Violation::new(format!("OK was returned, but something is still mounted at the {name} path"))
        .of(rule)
        .expected("an error, so that the caller retries, or nothing mounted there")
        .actual(format!("{path:?} is in the mount table {}", times(left as u64)))
        .into())
}

/// The write of a workload to a volume of this name.
pub(crate) fn stamp(volume: &str) -> Stamp {
    Stamp { run: workload::new_run(), volume: volume.to_owned(), number: 1 }
}

/// Checks that a volume has the content that was written to it. `what` describes the volume in messages.
pub(crate) async fn holds(
    path: PathBuf,
    place: WriteLocation,
    stamp: &Stamp,
    what: &'static str,
) -> CheckResult {
    let found = play(move || workload::read(&path, place)).await?;
    let actual = match found {
        Ok(Found::Write(found)) if found == *stamp => return Ok(()),
        Ok(found) => found.to_string(),
        Err(error) => error.to_string(),
    };
    Err(Violation::new(what)
        .of(&FAULT_DATA_001)
        .damage(Damage::DataLoss)
        .expected(format!("{stamp}, which was durable"))
        .actual(actual)
        .into())
}
