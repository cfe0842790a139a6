//! A check blames a driver only for rules that bind it: what its rules require stands in its `needs`.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::checks::check::SAME_RULE;
use csi_harness::config::profile::Profile;
use csi_harness::protocol::capability::Capability::{ControllerService, GroupControllerService};
use csi_harness::spec::need::Need;
use csi_harness::spec::requirements::{Requirement, req};
use csi_proto::{RPCS, Service};

const CHOSEN: &str = "the body chooses the rule by what the driver advertises";
const LISTED: &str = "the body looks at the list where there is one";
const GIVEN: &str = "a volume of the configuration can be asked about as well";
const MEMBERS: &str = "the members of a group are Snapshot messages too";

/// Checks that do not ask for all that a rule of theirs requires, with the rule, and why that is right.
const EXCEPTIONS: &[(&str, &Requirement, &str)] = &[
    ("identity/get-plugin-capabilities/expansion", &req::ID_PCAPS_011, CHOSEN),
    ("identity/get-plugin-capabilities/expansion", &req::ID_PCAPS_015, CHOSEN),
    ("group/create-volume-group-snapshot/members", &req::MSG_SNAPSHOT_003, MEMBERS),
    ("group/create-volume-group-snapshot/members", &req::MSG_SNAPSHOT_006, MEMBERS),
    ("node/node-publish-volume/single-node-second-path", &req::NODE_PUBLISH_013, CHOSEN),
    ("node/node-publish-volume/single-node-second-path", &req::NODE_PUBLISH_016, CHOSEN),
    ("controller/create-volume/any-name", &req::CTRL_LISTVOL_002, LISTED),
    ("controller/create-snapshot/unusual-names", &req::CTRL_LISTSNAP_001, LISTED),
    ("controller/create-snapshot/unusual-names", &req::CTRL_LISTSNAP_002, LISTED),
    ("controller/create-snapshot/same-topology", &req::MSG_SNAPSHOT_019, LISTED),
    ("controller/controller-get-volume-health/finds", &req::CTRL_GETHEALTH_008, GIVEN),
    ("controller/controller-get-volume-health/used-volume", &req::CTRL_GETHEALTH_014, GIVEN),
    ("lifecycle/created-volume/forth-and-back", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/each-step-repeated", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/forth-again", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/turned-back", &req::GEN_LIFE_002, CHOSEN),
    ("lifecycle/created-volume/forth-and-back", &req::GEN_LIFE_001, CHOSEN),
    ("lifecycle/created-volume/each-step-repeated", &req::GEN_LIFE_001, CHOSEN),
    ("lifecycle/created-volume/forth-again", &req::GEN_LIFE_001, CHOSEN),
    ("lifecycle/created-volume/turned-back", &req::GEN_LIFE_001, CHOSEN),
    ("lifecycle/provisioned-volume/forth-and-back", &req::GEN_LIFE_003, CHOSEN),
];

#[test]
fn checks_need_what_their_rules_require() {
    let registry = super::all();
    let mut found = Vec::new();
    // The stateful suites call only what is advertised, and judge by the rules of what they call.
    for (_, check) in registry.checks().filter(|(suite, _)| *suite == "sanity") {
        for rule in check.requirements {
            if !rule.requires.iter().all(|wanted| is_given(wanted, check.needs)) {
                found.push((&*check.id, rule.id));
            }
        }
    }
    let mut listed: Vec<_> = EXCEPTIONS.iter().map(|(check, rule, _)| (*check, rule.id)).collect();
    found.sort_unstable();
    listed.sort_unstable();
    assert_eq!(found, listed, "left: what checks do not ask for; right: EXCEPTIONS");
}

/// A plain call has one judge, and a check that follows another one follows one that exists.
#[test]
fn plain_calls_and_leaders_exist() {
    let registry = super::all();
    let mut judges = BTreeMap::new();
    for (_, check) in registry.checks() {
        for method in check.plain {
            assert!(RPCS.iter().any(|rpc| rpc.method == *method), "{}: there is no RPC {method}", check.id);
            let other = judges.insert(*method, &*check.id);
            assert_eq!(other, None, "{} judges the plain {method} as well", check.id);
        }
        if let Some(method) = check.judges_ids_of {
            assert!(RPCS.iter().any(|rpc| rpc.method == method), "{}: there is no RPC {method}", check.id);
        }
        if let Some(leader) = check.duplicate_of.filter(|leader| *leader != SAME_RULE) {
            assert!(
                registry.find(leader).is_ok_and(|leader| leader.id != check.id),
                "{}: {leader}",
                check.id
            );
        }
    }
}

/// Returns true if every driver that meets the needs of a check also meets this one.
fn is_given(wanted: &Need, needs: &[Need]) -> bool {
    needs.iter().any(|need| match (wanted, need) {
        // A driver that serves the service is meant to have it, whatever GetPluginCapabilities returns.
        (Need::Has(ControllerService), Need::Serves(Service::Controller)) => true,
        (Need::Has(GroupControllerService), Need::Serves(Service::GroupController)) => true,
        (Need::Has(wanted), Need::Has(given)) => wanted == given,
        (Need::Lacks(wanted), Need::Lacks(given)) => wanted == given,
        (Need::AnyOf(wanted), Need::Has(given)) => wanted.contains(given),
        (Need::AnyOf(wanted), Need::AnyOf(given)) => given.iter().all(|one| wanted.contains(one)),
        _ => false,
    })
}

/// A check outside of all areas would be missing in the statement of conformance without anyone noticing.
#[test]
fn every_check_belongs_to_an_area() {
    for (_, check) in super::all().checks() {
        assert!(csi_report::areas_of(check).next().is_some(), "{} is in no area of the statement", check.id);
    }
    let areas = |id| csi_report::areas_of(super::all().find(id).unwrap()).collect::<Vec<_>>();
    assert_eq!(areas("metadata/get-metadata-delta/order"), ["snapshot metadata"]);
    assert_eq!(areas("controller/create-volume/requisite-topology"), ["provisioning", "topology"]);
}

/// Each rule that Kubernetes relies on is refuted: a check accuses a defect by it, and fails under the profile kubernetes at the latest.
#[test]
fn what_kubernetes_relies_on_is_proven() {
    let proven: BTreeSet<&str> = super::all_accused()
        .filter(|accused| accused.warns != accused.rule.is_binding())
        .map(|accused| accused.rule.id)
        .collect();
    let relied_on = req::ALL.iter().filter(|rule| !rule.relied_on_by.is_empty());
    let unproven: Vec<&str> = relied_on.map(|rule| rule.id).filter(|id| !proven.contains(id)).collect();
    assert_eq!(unproven, Vec::<&str>::new());
    let needless: Vec<&str> = req::ALL
        .iter()
        .filter(|rule| !rule.relied_on_by.is_empty() && rule.binds_from() != Profile::Kubernetes)
        .filter(|rule| rule.meaning().is_none())
        .map(|rule| rule.id)
        .collect();
    assert_eq!(needless, Vec::<&str>::new(), "they bind anyway, by a keyword");
}
