//! A check blames a driver only for rules that bind it: what its rules require stands in its `needs`.

use csi_harness::capability::Capability::{ControllerService, GroupControllerService};
use csi_harness::need::Need;
use csi_harness::requirements::{Requirement, req};
use csi_proto::Service;

const CHOSEN: &str = "the body chooses the rule by what the driver advertises";
const MEMBERS: &str = "the members of a group are Snapshot messages too";

/// Checks that do not ask for all that a rule of theirs requires, with the rule, and why that is right.
const EXCEPTIONS: &[(&str, &Requirement, &str)] = &[
    ("identity/get-plugin-capabilities/expansion", &req::ID_PCAPS_011, CHOSEN),
    ("identity/get-plugin-capabilities/expansion", &req::ID_PCAPS_015, CHOSEN),
    ("group/create-volume-group-snapshot/members", &req::MSG_SNAPSHOT_003, MEMBERS),
    ("group/create-volume-group-snapshot/members", &req::MSG_SNAPSHOT_006, MEMBERS),
    ("node/node-publish-volume/single-node-second-path", &req::NODE_PUBLISH_013, CHOSEN),
    ("node/node-publish-volume/single-node-second-path", &req::NODE_PUBLISH_016, CHOSEN),
    ("node/node-get-volume-stats/works", &req::NODE_CAPS_004, "it is named, and the other rule is blamed"),
    ("lifecycle/created-volume/forth-and-back", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/each-step-repeated", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/forth-again", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/turned-back", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/provisioned-volume/forth-and-back", &req::GEN_LIFE_003, CHOSEN),
];

#[test]
fn checks_need_what_their_rules_require() {
    let mut found = Vec::new();
    for (suite, check) in super::all().checks() {
        // The others judge by a model, which is told what the driver advertises.
        if suite != csi_suite_sanity::SUITE.name {
            continue;
        }
        for rule in check.requirements {
            if !rule.requires.iter().all(|wanted| is_given(wanted, check.needs)) {
                found.push((check.id, rule.id));
            }
        }
    }
    let mut listed: Vec<_> = EXCEPTIONS.iter().map(|(check, rule, _)| (*check, rule.id)).collect();
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(found, listed, "left: what checks do not ask for; right: EXCEPTIONS");
}

/// Whether a driver that meets the needs of a check advertises what is wanted.
fn is_given(wanted: &Need, needs: &[Need]) -> bool {
    needs.iter().any(|need| match (wanted, need) {
        // Whoever serves the service is set up for it, whatever GetPluginCapabilities says of the whole.
        (Need::Has(ControllerService), Need::Serves(Service::Controller)) => true,
        (Need::Has(GroupControllerService), Need::Serves(Service::GroupController)) => true,
        (Need::Has(wanted), Need::Has(given)) => wanted == given,
        (Need::Lacks(wanted), Need::Lacks(given)) => wanted == given,
        (Need::AnyOf(wanted), Need::Has(given)) => wanted.contains(given),
        (Need::AnyOf(wanted), Need::AnyOf(given)) => given.iter().all(|one| wanted.contains(one)),
        _ => false,
    })
}
