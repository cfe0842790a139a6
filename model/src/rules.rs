//! The rules that suites with a model can blame a driver for: those of the specification that the model judges by, and our own about rejected
//! calls.

use csi_harness::spec::list::{joined, length};
use csi_harness::spec::requirements::{Level, Requirement, req};

type Rules = &'static [&'static Requirement];

/// Defines a rule about what a rejected call leaves behind. It is ours: the specification describes single calls.
const fn after_error(id: &'static str, when: &'static str, expect: &'static str) -> Requirement {
    Requirement::own("csi-sanity's own rules, docs/after-error.md", id, Level::Must, when, expect)
}

/// The next call is not affected.
pub static AFTER_ERROR_001: Requirement =
    after_error("AFTER-ERROR-001", "a call was rejected", "the right call for the same object works");

/// Other objects are not affected.
pub static AFTER_ERROR_002: Requirement =
    after_error("AFTER-ERROR-002", "a call was rejected or given up", "other objects do not change");

/// Effects of a rejected call.
pub static AFTER_ERROR_003: Requirement = after_error(
    "AFTER-ERROR-003",
    "a call was rejected with a code that says that nothing was done",
    "the call created and changed nothing",
);

/// Calls in another order.
pub static AFTER_ERROR_004: Requirement = after_error(
    "AFTER-ERROR-004",
    "something was undone too early, or deleted while it was in use",
    "the right order of calls then undoes everything",
);

/// Calls without an answer.
pub static AFTER_ERROR_005: Requirement = after_error(
    "AFTER-ERROR-005",
    "a call was given up, or its connection broken, and nothing else is under way since",
    "the same call succeeds in the end",
);

/// The rules about what a rejected call leaves behind.
pub static AFTER_ERROR: &[&Requirement] =
    &[&AFTER_ERROR_001, &AFTER_ERROR_002, &AFTER_ERROR_003, &AFTER_ERROR_004, &AFTER_ERROR_005];

const OF_VOLUMES: Rules = &[
    &req::GEN_CONC_003,
    &req::CTRL_CREATESNAP_001,
    &req::CTRL_CREATESNAP_013,
    &req::CTRL_CREATEVOL_001,
    &req::CTRL_CREATEVOL_002,
    &req::CTRL_CREATEVOL_003,
    &req::CTRL_CREATEVOL_039,
    &req::CTRL_CREATEVOL_040,
    &req::CTRL_CREATEVOL_041,
    &req::CTRL_CREATEVOL_042,
    &req::CTRL_CREATEVOL_043,
    &req::CTRL_CREATEVOL_045,
    &req::CTRL_DELETEVOL_001,
    &req::CTRL_DELETEVOL_002,
    &req::CTRL_DELETEVOL_003,
    &req::CTRL_DELETEVOL_011,
    &req::CTRL_EXPAND_001,
    &req::CTRL_EXPAND_003,
    &req::CTRL_EXPAND_004,
    &req::CTRL_EXPAND_011,
    &req::CTRL_EXPAND_012,
    &req::CTRL_EXPAND_015,
    &req::CTRL_EXPAND_016,
    &req::CTRL_GETHEALTH_001,
    &req::CTRL_GETHEALTH_004,
    &req::CTRL_GETHEALTH_006,
    &req::CTRL_GETHEALTH_008,
    &req::CTRL_GETVOL_002,
    &req::CTRL_GETVOL_004,
    &req::CTRL_GETVOL_007,
    &req::CTRL_GETVOL_011,
    &req::CTRL_GETVOL_015,
    &req::CTRL_LISTHEALTH_001,
    &req::CTRL_LISTHEALTH_008,
    &req::CTRL_LISTHEALTH_019,
    &req::CTRL_LISTVOL_001,
    &req::CTRL_LISTVOL_002,
    &req::CTRL_LISTVOL_012,
    &req::CTRL_MODIFYVOL_001,
    &req::CTRL_MODIFYVOL_011,
    &req::CTRL_PUBLISH_001,
    &req::CTRL_PUBLISH_004,
    &req::CTRL_PUBLISH_006,
    &req::CTRL_PUBLISH_010,
    &req::CTRL_PUBLISH_018,
    &req::CTRL_PUBLISH_024,
    &req::CTRL_PUBLISH_026,
    &req::CTRL_PUBLISH_027,
    &req::CTRL_UNPUBLISH_001,
    &req::CTRL_UNPUBLISH_005,
    &req::CTRL_UNPUBLISH_011,
    &req::CTRL_UNPUBLISH_015,
    &req::CTRL_VALIDATE_001,
    &req::CTRL_VALIDATE_004,
    &req::CTRL_VALIDATE_018,
    &req::MSG_CAPRANGE_005,
    &req::MSG_CAPRANGE_008,
    &req::MSG_VOLSOURCE_004,
    &req::MSG_VOLSOURCE_006,
    &req::MSG_VOLUME_002,
    &req::MSG_VOLUME_003,
    &req::MSG_VOLUME_008,
    &req::MSG_VOLUME_011,
    &req::MSG_VOLUME_013,
];

const OF_SNAPSHOTS: Rules = &[
    &req::CTRL_CREATESNAP_002,
    &req::CTRL_CREATESNAP_024,
    &req::CTRL_CREATESNAP_035,
    &req::CTRL_DELETESNAP_001,
    &req::CTRL_DELETESNAP_002,
    &req::CTRL_DELETESNAP_003,
    &req::CTRL_GETSNAP_001,
    &req::CTRL_GETSNAP_007,
    &req::CTRL_GETSNAP_010,
    &req::CTRL_INTERACT_008,
    &req::CTRL_LISTSNAP_001,
    &req::CTRL_LISTSNAP_002,
    &req::MSG_SNAPSHOT_002,
    &req::MSG_SNAPSHOT_003,
    &req::MSG_SNAPSHOT_006,
    &req::MSG_SNAPSHOT_007,
    &req::MSG_SNAPSHOT_008,
    &req::MSG_SNAPSHOT_019,
];

const OF_GROUPS: Rules = &[
    &req::CTRL_DELETESNAP_011,
    &req::GROUP_CREATE_001,
    &req::GROUP_CREATE_003,
    &req::GROUP_CREATE_009,
    &req::GROUP_CREATE_010,
    &req::GROUP_CREATE_011,
    &req::GROUP_CREATE_020,
    &req::GROUP_CREATE_022,
    &req::GROUP_CREATE_023,
    &req::GROUP_CREATE_024,
    &req::GROUP_CREATE_029,
    &req::GROUP_DELETE_001,
    &req::GROUP_DELETE_002,
    &req::GROUP_DELETE_003,
    &req::GROUP_GET_002,
    &req::GROUP_GET_010,
    &req::GROUP_GET_014,
];

const OF_NODES: Rules = &[
    &req::CTRL_CREATESNAP_015,
    &req::NODE_EXPAND_001,
    &req::NODE_EXPAND_004,
    &req::NODE_EXPAND_021,
    &req::NODE_HEALTH_004,
    &req::NODE_HEALTH_011,
    &req::NODE_HEALTH_014,
    &req::NODE_PUBLISH_001,
    &req::NODE_PUBLISH_004,
    &req::NODE_PUBLISH_007,
    &req::NODE_PUBLISH_013,
    &req::NODE_PUBLISH_026,
    &req::NODE_PUBLISH_027,
    &req::NODE_PUBLISH_034,
    &req::NODE_PUBLISH_039,
    &req::NODE_PUBLISH_040,
    &req::NODE_PUBLISH_041,
    &req::NODE_STAGE_001,
    &req::NODE_STAGE_006,
    &req::NODE_STAGE_021,
    &req::NODE_STAGE_022,
    &req::NODE_STATS_001,
    &req::NODE_STATS_017,
    &req::NODE_UNPUBLISH_001,
    &req::NODE_UNPUBLISH_006,
    &req::NODE_UNPUBLISH_016,
    &req::NODE_UNSTAGE_001,
    &req::NODE_UNSTAGE_006,
    &req::NODE_UNSTAGE_017,
];

/// Calls about volumes to the Controller service.
pub static VOLUMES: Rules = OF_VOLUMES;
/// The rules of volumes, with snapshots and copies of them.
pub static SNAPSHOTS: Rules =
    &joined::<_, { length(&[OF_VOLUMES, OF_SNAPSHOTS]) }>(&[OF_VOLUMES, OF_SNAPSHOTS]);
/// The rules of volumes, with group snapshots.
pub static GROUPS: Rules = {
    const LISTS: &[Rules] = &[OF_GROUPS, OF_VOLUMES, OF_SNAPSHOTS];
    &joined::<_, { length(LISTS) }>(LISTS)
};
/// Everything, and what is said of calls that are given up.
pub static GIVEN_UP: Rules = {
    const OF_CALLS: Rules = &[&req::GEN_TIMEOUT_002, &AFTER_ERROR_005];
    const LISTS: &[Rules] = &[OF_CALLS, OF_VOLUMES, OF_SNAPSHOTS, OF_GROUPS, OF_NODES];
    &joined::<_, { length(LISTS) }>(LISTS)
};
/// Everything, and what is said of drivers that end.
pub static RESTARTED: Rules = {
    const OF_ENDS: Rules = &[&req::GEN_TIMEOUT_002, &AFTER_ERROR_005, &req::GEN_ERR_001];
    const LISTS: &[Rules] = &[OF_ENDS, OF_VOLUMES, OF_SNAPSHOTS, OF_GROUPS, OF_NODES];
    &joined::<_, { length(LISTS) }>(LISTS)
};
/// All rules, with the one that is broken when parallel calls end the driver.
pub static AT_ONCE: Rules = {
    const LISTS: &[Rules] =
        &[&[&req::GEN_ERR_001, &AFTER_ERROR_003], OF_VOLUMES, OF_SNAPSHOTS, OF_GROUPS, OF_NODES];
    &joined::<_, { length(LISTS) }>(LISTS)
};
/// The rules of all objects.
pub static ALL: Rules = {
    const LISTS: &[Rules] = &[OF_VOLUMES, OF_SNAPSHOTS, OF_GROUPS, OF_NODES];
    &joined::<_, { length(LISTS) }>(LISTS)
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_that_is_judged_by_is_listed() {
        let sources = [
            include_str!("judge.rs"),
            include_str!("judge/health.rs"),
            include_str!("judge/volume.rs"),
            include_str!("judge/snapshot.rs"),
            include_str!("judge/group.rs"),
            include_str!("judge/node.rs"),
        ];
        let named = |source: &'static str| {
            let rest = source.split("req::").skip(1);
            rest.map(|rest| {
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
            })
        };
        let judged: BTreeSet<String> =
            sources.into_iter().flat_map(named).map(|name| name.replace('_', "-")).collect();
        let listed: BTreeSet<String> = ALL.iter().map(|rule| rule.id.to_owned()).collect();
        assert_eq!(judged.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new());
        assert_eq!(listed.len(), ALL.len(), "a rule stands in two lists");
    }
}
