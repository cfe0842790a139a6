//! Damages and repairs volumes, and checks their reported health.

use std::collections::BTreeMap;

use csi_harness::lifecycle::hooks::BACKEND;
use csi_harness::prelude::*;

use super::{Problems, page, problems_of, walk};

const HOOKS: Need = Need::Configured(Setting::Health);
/// The number of damaged volumes, so that the list has several pages.
const VOLUMES: usize = 3;
/// The number of calls about a volume that does not change.
const TIMES: usize = 3;

/// Makes and damages a volume, and returns its problems as ControllerGetVolumeHealth reports them.
async fn damaged(cx: &Cx) -> CheckResult<(String, Problems)> {
    let id = cx.new_volume().await?.volume_id;
    cx.make_ill(&id).await?;
    let problems = cx.eventually(Settles::IllnessReported, || async {
        Ok(Some(problems_of(cx, &id).await?).filter(|problems| !problems.is_empty()))
    });
    match problems.await? {
        Some(problems) => Ok((id, problems)),
        None => Err(Stop::skip("the effect of health: break does not show in ControllerGetVolumeHealth")),
    }
}

check! {
    /// A report that changes without a reason causes alerts, and a report that never ends is ignored.
    REPORTED {
        id: "volume-health/told",
        title: "an unhealthy volume is reported in the same words while it is unhealthy, and not afterwards",
        spec: [req::MSG_HEALTH_011, req::CTRL_GETHEALTH_009],
        needs: [GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME, HOOKS],
        refuted_by: [
            "controller-get-volume-health-forgets",
            "controller-get-volume-health-keeps-ill",
            "controller-get-volume-health-changes-reasons",
        ],
    }
    async |cx| {
        let (id, first) = damaged(cx).await?;
        for _ in 0..TIMES {
            let again = problems_of(cx, &id).await?;
            let rule = if again.is_empty() { &req::MSG_HEALTH_011 } else { &req::CTRL_GETHEALTH_009 };
            ensure!(
                again == first,
                "the answers about a volume differ, although its health is the same";
                of: rule,
                expected: format!("{first:?}"),
                actual: format!("{again:?}")
            );
        }
        cx.make_well(&id).await?;
        let over = cx.eventually(Settles::IllnessOver, || async {
            Ok(problems_of(cx, &id).await?.is_empty().then_some(()))
        });
        ensure!(
            over.await?.is_some(),
            "a volume that is healthy again is still reported as unhealthy";
            expected: "no health_statuses after health: heal",
            actual: format!("still {first:?} after the time to settle (settle-ms)")
        );
        Ok(())
    }
}

check! {
    /// An inverted filter lists every healthy volume and no damaged one.
    LISTED {
        id: "volume-health/listed",
        title: "an unhealthy volume is listed once, in the words of ControllerGetVolumeHealth",
        spec: [
            req::CTRL_LISTHEALTH_002,
            req::CTRL_LISTHEALTH_018,
            req::CTRL_LISTHEALTH_017,
            req::CTRL_LISTHEALTH_013,
        ],
        needs: [LIST_VOLUME_HEALTH, GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME, HOOKS],
        refuted_by: [
            "controller-list-volume-health-inverted",
            "controller-list-volume-health-other-reasons",
            "controller-list-volume-health-two-entries",
        ],
    }
    async |cx| {
        let (id, alone) = damaged(cx).await?;
        let listed = cx.eventually(Settles::IllnessReported, || async {
            Ok(walk(cx, 0).await?.remove(&id).filter(|entries| entries.contains(&alone)))
        });
        let Some(entries) = listed.await? else {
            let listed = walk(cx, 0).await?.remove(&id);
            let (rule, message) = match listed {
                None => (&req::CTRL_LISTHEALTH_002, "an unhealthy volume is missing from ControllerListVolumeHealth"),
                Some(_) => (&req::CTRL_LISTHEALTH_018, "the list and the single call disagree about a volume"),
            };
            return Err(Violation::new(message)
                .of(rule)
                .expected(format!("{id:?} with {alone:?}, as in ControllerGetVolumeHealth"))
                .actual(listed.map_or_else(|| "no such entry".to_owned(), |entries| format!("{entries:?}")))
                .into());
        };
        ensure!(
            entries.len() == 1,
            "a volume has several entries in the list, of which a caller keeps the last";
            of: &req::CTRL_LISTHEALTH_017,
            expected: "one entry with all that is wrong",
            actual: format!("{entries:?}")
        );
        Ok(())
    }
}

check! {
    /// A volume between two pages must be listed as well.
    PAGES {
        id: "volume-health/pages",
        title: "the pages of ControllerListVolumeHealth together have every unhealthy volume, and end",
        spec: [req::CTRL_LISTHEALTH_008, req::CTRL_LISTHEALTH_007, req::CTRL_LISTHEALTH_012, req::CTRL_LISTHEALTH_013],
        needs: [LIST_VOLUME_HEALTH, GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME, HOOKS],
        refuted_by: [
            "controller-list-volume-health-never-sets-next-token",
            "controller-list-volume-health-ignores-max-entries",
            "controller-list-volume-health-token-on-last-page",
            "controller-list-volume-health-refuses-its-tokens",
        ],
        runs: Serial,
    }
    async |cx| {
        let mut ids = Vec::new();
        for _ in 0..VOLUMES {
            ids.push(damaged(cx).await?.0);
        }
        let missing = |found: &BTreeMap<String, Vec<Problems>>| {
            ids.iter().filter(|id| !found.contains_key(*id)).cloned().collect::<Vec<_>>()
        };
        let complete = cx.eventually(Settles::IllnessReported, || async {
            Ok(missing(&walk(cx, 0).await?).is_empty().then_some(()))
        });
        if complete.await?.is_none() {
            return Err(Stop::skip("not all unhealthy volumes are listed, which another check judges"));
        }
        let left = missing(&walk(cx, 1).await?);
        ensure!(
            left.is_empty(),
            "unhealthy volumes are missing from the pages of max_entries 1";
            expected: format!("{ids:?} among the volumes of all pages"),
            actual: format!("no entry of {left:?}")
        );
        Ok(())
    }
}

check! {
    /// A driver that ignores a token restarts the list forever.
    TOKEN {
        id: "volume-health/made-up-token",
        title: "ControllerListVolumeHealth does not return the first page for a starting_token that it never returned",
        spec: [req::CTRL_LISTHEALTH_014, req::CTRL_LISTHEALTH_013],
        needs: [LIST_VOLUME_HEALTH, GET_VOLUME_HEALTH, CREATE_DELETE_VOLUME, HOOKS],
        refuted_by: ["controller-list-volume-health-accepts-any-token"],
    }
    async |cx| {
        let id = damaged(cx).await?.0;
        if !walk(cx, 0).await?.contains_key(&id) {
            return Err(Stop::skip("the unhealthy volume is not listed, which another check judges"));
        }
        // One of these is before all ids and one behind them: if tokens are ids after which the page starts, only the
        // first one yields entries.
        for token in ["!csi-sanity-no-such-token", "~csi-sanity-no-such-token"] {
            let listed = page(cx, 0, token).await.may_be_refused("with a made-up starting_token", refused_with(Code::Aborted))?;
            if !listed.is_some_and(|page| page.entries.iter().any(|health| health.volume_id == id)) {
                return Ok(());
            }
        }
        Err(Violation::new("starting_token is ignored: with any value, the list starts from the beginning")
            .expected("ABORTED")
            .actual(format!("{id:?} in the pages of two made-up tokens"))
            .into())
    }
}

check! {
    /// The RPC exists for storage that cannot be reached: a caller that gets an error keeps its former
    /// knowledge.
    STORAGE {
        id: "volume-health/storage",
        title: "NodeGetStorageHealth reports an unhealthy back end, and stops once it is healthy",
        spec: [req::NODE_STORHEALTH_011],
        needs: [NODE, GET_STORAGE_HEALTH, HOOKS],
        refuted_by: ["node-get-storage-health-never-ill"],
        runs: Serial,
    }
    async |cx| {
        let ask = || cx.call(v1::NodeGetStorageHealthRequest::default());
        if !ask().setup("the health of the storage").await?.backend_health.is_empty() {
            return Err(Stop::skip("the back end is reported as unhealthy before health: break"));
        }
        cx.make_ill(BACKEND).await?;
        // An error does not report good health, although it contains less information.
        let problems = cx.eventually(Settles::IllnessReported, || async {
            let answer = ask().once().await.any_answer()?;
            Ok(answer.map_or(true, |response| !response.backend_health.is_empty()).then_some(()))
        });
        ensure!(
            problems.await?.is_some(),
            "the back end is unhealthy after health: break, and NodeGetStorageHealth does not report it";
            expected: "backend_health, such as STORAGE_UNREACHABLE",
            actual: "still none after the time to settle (settle-ms)"
        );
        cx.make_well(BACKEND).await?;
        let over = cx.eventually(Settles::IllnessOver, || async {
            let answer = ask().once().await.any_answer()?;
            Ok(answer.is_ok_and(|response| response.backend_health.is_empty()).then_some(()))
        });
        ensure!(
            over.await?.is_some(),
            "a back end that is healthy again is still reported as unhealthy";
            expected: "no backend_health after health: heal",
            actual: "still some, or an error, after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&REPORTED, &LISTED, &PAGES, &TOKEN, &STORAGE];
