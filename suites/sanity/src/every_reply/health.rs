//! Checks health entries, and topologies of snapshots.

use csi_harness::client::response_rules::ResponseBreach;
use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_proto::Call as _;

use super::{ask, heard, report};

const HEALTH_REPORTED: Need =
    any_of(&[Capability::GetVolumeHealth, Capability::ListVolumeHealth, Capability::NodeGetVolumeHealth]);

/// A rule, the message of its violation, and the expected behaviour.
type Rule = (&'static Requirement, &'static str, &'static str);

/// Calls the health RPCs of the controller, if there is a volume; other checks have called the nodes.
async fn ask_controller(cx: &Cx) -> CheckResult {
    let has = |capability| cx.target().capabilities().has(capability);
    let asked = cx.target().has_done(v1::ControllerGetVolumeHealthRequest::RPC);
    if has(Capability::GetVolumeHealth) && VOLUME.unmet(cx.target(), cx.access()).is_none() && !asked {
        let volume_id = cx.node_volume().await?.id;
        ask(cx, v1::ControllerGetVolumeHealthRequest { volume_id, ..Default::default() }).await?;
    }
    if has(Capability::ListVolumeHealth) {
        ask(cx, v1::ControllerListVolumeHealthRequest::default()).await?;
    }
    Ok(())
}

/// Makes a snapshot, if the driver can and none was made.
async fn ask_for_a_snapshot(cx: &Cx) -> CheckResult {
    let lacks =
        CREATE_DELETE_SNAPSHOT.unmet(cx.target(), cx.access()).or(VOLUME.unmet(cx.target(), cx.access()));
    if lacks.is_some() || cx.target().has_done(v1::CreateSnapshotRequest::RPC) {
        return Ok(());
    }
    let volume = cx.node_volume().await?;
    heard(cx.create_snapshot(cx.create_snapshot_request(&volume.id)).await)
}

/// Reports all places where the first of the broken rules was broken.
fn judge(cx: &Cx, rules: &[Rule]) -> CheckResult {
    rules.iter().try_for_each(|(rule, message, expected)| {
        report(Ok(()), rule, &cx.target().breaches(rule), message, expected)
    })
}

/// Texts must be short. The limit also applies to messages, but many drivers explain more, and Kubernetes keeps 1024
/// bytes, so long messages are only a remark.
fn short(cx: &Cx, rule: &'static Requirement) -> CheckResult {
    let is_message = |breach: &ResponseBreach| breach.place.ends_with(".message");
    let (messages, reasons): (Vec<_>, Vec<_>) = cx.target().breaches(rule).into_iter().partition(is_message);
    let (message, expected) = ("it is too long", "at most 128 bytes");
    report(Ok(()), rule, &reasons, message, expected)?;
    if let Err(Stop::Violation(violation)) = report(Ok(()), rule, &messages, message, expected) {
        cx.warn(*violation);
    }
    Ok(())
}

check! {
    /// Programs use status and reason, and keep one record for each pair: they reject an answer that lacks or repeats
    /// a pair.
    ENTRIES {
        id: "every-reply/health/entries",
        title: "each problem reported for a volume has a status and a reason, and is reported once",
        spec: [req::MSG_HEALTH_001, req::MSG_HEALTH_004, req::MSG_HEALTH_005, req::MSG_HEALTH_007],
        needs: [HEALTH_REPORTED],
        refuted_by: [
            "volume-health-id-missing",
            "volume-health-status-unknown",
            "volume-health-reason-empty",
            "volume-health-entry-twice",
        ],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_controller(cx).await;
        judge(
            cx,
            &[
                (&req::MSG_HEALTH_001, "it is missing", "the id of the volume"),
                (&req::MSG_HEALTH_004, "it is missing", "DEGRADED, INACCESSIBLE or DATA_LOSS"),
                (&req::MSG_HEALTH_005, "it is empty", "a short word"),
                (&req::MSG_HEALTH_007, "two entries are the same", "each pair of status and reason once"),
            ],
        )?;
        asked
    }
}

check! {
    /// Programs read reasons, and Kubernetes limits their form.
    WORDS {
        id: "every-reply/health/words",
        title: "the reasons of volume problems are short words in CamelCase, and their messages are short",
        spec: [req::MSG_HEALTH_009, req::MSG_HEALTH_006, req::MSG_HEALTH_017],
        needs: [HEALTH_REPORTED],
        refuted_by: [
            "volume-health-reason-too-long",
            "volume-health-message-too-long",
            "volume-health-reason-in-words",
            "volume-health-floods",
        ],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_controller(cx).await;
        short(cx, &req::MSG_HEALTH_009)?;
        judge(
            cx,
            &[
                (&req::MSG_HEALTH_006, "it is not a word in CamelCase", "such as ReplicaLost"),
                (&req::MSG_HEALTH_017, "there are too many", "at most 16 entries, all that Kubernetes keeps"),
            ],
        )?;
        asked
    }
}

check! {
    /// The rules for volumes also apply to the storage system.
    STORAGE {
        id: "every-reply/health/storage",
        title: "each problem reported for the storage has a status and a short reason, and is reported once",
        spec: [
            req::NODE_STORHEALTH_003,
            req::NODE_STORHEALTH_004,
            req::NODE_STORHEALTH_006,
            req::NODE_STORHEALTH_007,
            req::NODE_STORHEALTH_005,
        ],
        needs: [NODE, GET_STORAGE_HEALTH],
        refuted_by: [
            "storage-health-status-unknown",
            "storage-health-reason-empty",
            "storage-health-entry-twice",
            "storage-health-reason-too-long",
            "storage-health-reason-in-words",
        ],
        runs: Finally,
    }
    async |cx| {
        let asked = ask(cx, v1::NodeGetStorageHealthRequest::default()).await;
        judge(
            cx,
            &[
                (&req::NODE_STORHEALTH_003, "it is missing", "STORAGE_DEGRADED or STORAGE_UNREACHABLE"),
                (&req::NODE_STORHEALTH_004, "it is empty", "a short word"),
                (&req::NODE_STORHEALTH_006, "two entries are the same", "each status, reason and volume_capability once"),
            ],
        )?;
        short(cx, &req::NODE_STORHEALTH_007)?;
        judge(cx, &[(&req::NODE_STORHEALTH_005, "it is not a word in CamelCase", "such as PathDown")])?;
        asked
    }
}

check! {
    /// A caller that does not know the capability restores anywhere, and fails where the snapshot is not usable.
    PLACES {
        id: "every-reply/health/places-of-snapshots",
        title: "snapshots have a topology only with SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
        spec: [req::MSG_SNAPSHOT_020],
        needs: [any_of(&[
            Capability::CreateDeleteSnapshot,
            Capability::ListSnapshots,
            Capability::GetSnapshot,
            Capability::CreateDeleteGetVolumeGroupSnapshot,
        ])],
        refuted_by: ["get-plugin-capabilities-hides-snapshot-topology"],
        runs: Finally,
    }
    async |cx| {
        let asked = ask_for_a_snapshot(cx).await;
        let rule = &req::MSG_SNAPSHOT_020;
        let has_rule = cx.target().judged().has_any_of(rule.versions);
        if cx.target().capabilities().has(Capability::SnapshotAccessibilityConstraints) || !has_rule {
            return asked;
        }
        let message = "it is set, although SNAPSHOT_ACCESSIBILITY_CONSTRAINTS is not advertised";
        report(asked, rule, &cx.target().breaches(rule), message, "the capability, or no topology")
    }
}

pub(crate) static CHECKS: &[&Check] = &[&ENTRIES, &WORDS, &STORAGE, &PLACES];
