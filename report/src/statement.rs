//! The statement of conformance: the areas that users of a driver ask about, each with one word.

use std::collections::BTreeSet;

use csi_harness::checks::check::Check;
use csi_harness::client::target::Target;
use csi_harness::config::AccessType;
use csi_harness::protocol::capability::Capability::*;
use csi_harness::results::outcome::OutcomeKind;
use csi_harness::spec::need::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entry::CheckEntry;

/// One line of the statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The area, such as `snapshots`.
    pub area: String,
    /// The statement on it.
    pub says: Says,
    /// Checks that passed, with warnings or without.
    pub passed: usize,
    /// Checks that were run and judged.
    pub judged: usize,
    /// Checks that were run, and could not judge.
    pub not_judged: usize,
    /// Labels of the checks in which the driver breaks a rule of the area, listed as known or not.
    pub deviations: Vec<String>,
    /// The number of these that are checks of other areas, and so in none of the other numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found_elsewhere: Vec<String>,
}

/// Above the checks that found a deviation from elsewhere.
pub(crate) const FOUND_ELSEWHERE: &str = "found by checks of other areas";

/// The behaviour of a driver in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// Every check that applies has judged, and no rule that binds is broken.
    Conforms,
    /// A rule that binds is broken.
    Deviates,
    /// The driver does not advertise what the area is about.
    NotOffered,
    /// A check could not judge, and none has found a rule broken.
    Inconclusive,
    /// No check has judged.
    NotTested,
}

impl Says {
    pub fn words(self) -> &'static str {
        match self {
            Says::Conforms => "conforms",
            Says::Deviates => "deviates",
            Says::NotOffered => "not offered",
            Says::Inconclusive => "inconclusive",
            Says::NotTested => "not tested",
        }
    }
}

/// The checks, rules and needs of an area.
struct Area {
    name: &'static str,
    /// Prefixes of the ids of its checks or, after `*`, a part that ids contain.
    checks: &'static [&'static str],
    /// Prefixes of the ids of its rules: if any check finds one broken, the driver deviates here.
    rules: &'static [&'static str],
    /// The capabilities by which a driver offers it.
    needs: &'static [Need],
}

/// The heading of the area whose checks are those that Kubernetes has a name for.
const KUBERNETES: &str = "Kubernetes patterns";

const AREAS: &[Area] = &[
    Area { name: "identity", checks: &["identity/"], rules: &["ID-"], needs: &[] },
    Area { name: "every call", checks: &["every-reply/"], rules: &["GEN-", "PROTO-", "OPS-"], needs: &[] },
    Area {
        name: "provisioning",
        checks: &[
            "controller/create-volume/",
            "controller/delete-volume/",
            "controller/validate-volume-capabilities/",
            "controller/controller-get-capabilities/",
            "inspect/deleted-volume",
        ],
        rules: &[
            "CTRL-CREATEVOL-",
            "CTRL-DELETEVOL-",
            "CTRL-VALIDATE-",
            "CTRL-CAPS-",
            "MSG-VOLUME-",
            "MSG-CAPRANGE-",
            "MSG-VOLSOURCE-",
        ],
        needs: &[CREATE_DELETE_VOLUME],
    },
    Area {
        name: "attach",
        checks: &[
            "controller/controller-publish-volume/",
            "controller/controller-unpublish-volume/",
            "controller/controller-get-node-info/",
            "inspect/attachments",
        ],
        rules: &["CTRL-PUBLISH-", "CTRL-UNPUBLISH-", "CTRL-NODEINFO-"],
        needs: &[PUBLISH_UNPUBLISH_VOLUME],
    },
    Area {
        name: "staging and publishing",
        checks: &[
            "lifecycle/",
            "node/node-get-capabilities/",
            "node/node-get-info/",
            "node/node-publish-volume/",
            "node/node-stage-volume/",
            "node/node-unpublish-volume/",
            "node/node-unstage-volume/",
        ],
        rules: &[
            "MSG-VOLCAP-",
            "NODE-CAPS-",
            "NODE-INFO-",
            "NODE-REFCOUNT-",
            "NODE-PUBLISH-",
            "NODE-STAGE-",
            "NODE-UNPUBLISH-",
            "NODE-UNSTAGE-",
        ],
        needs: &[NODE],
    },
    Area {
        name: "listing",
        checks: &["controller/list-volumes/", "controller/controller-get-volume/"],
        rules: &["CTRL-LISTVOL-", "CTRL-GETVOL-"],
        needs: &[any_of(&[ListVolumes, GetVolume])],
    },
    Area {
        name: "capacity",
        checks: &["controller/get-capacity/"],
        rules: &["CTRL-CAPACITY-"],
        needs: &[GET_CAPACITY],
    },
    Area {
        name: "snapshots",
        checks: &[
            "controller/create-snapshot/",
            "controller/delete-snapshot/",
            "controller/get-snapshot/",
            "controller/list-snapshots/",
            "inspect/deleted-snapshot",
        ],
        rules: &["CTRL-CREATESNAP-", "CTRL-DELETESNAP-", "CTRL-GETSNAP-", "CTRL-LISTSNAP-", "MSG-SNAPSHOT-"],
        needs: &[any_of(&[CreateDeleteSnapshot, ListSnapshots, GetSnapshot])],
    },
    Area { name: "group snapshots", checks: &["group/"], rules: &["GROUP-"], needs: &[GROUP_CONTROLLER] },
    Area {
        name: "snapshot metadata",
        checks: &["metadata/"],
        rules: &["META-"],
        needs: &[SNAPSHOT_METADATA_SERVICE],
    },
    Area {
        name: "expansion",
        checks: &["controller/controller-expand-volume/", "node/node-expand-volume/"],
        rules: &["CTRL-EXPAND-", "CTRL-INTERACT-", "NODE-EXPAND-"],
        needs: &[any_of(&[ExpandVolume, NodeExpandVolume])],
    },
    Area {
        name: "modification",
        checks: &[
            "controller/controller-modify-volume/",
            "inspect/left-out-keys",
            "inspect/modified",
            "inspect/mutable-parameters-win",
            "inspect/refused-modification",
        ],
        rules: &["CTRL-MODIFYVOL-"],
        needs: &[MODIFY_VOLUME],
    },
    Area {
        name: "topology",
        checks: &["*topolog"],
        rules: &["MSG-TOPO"],
        needs: &[VOLUME_ACCESSIBILITY_CONSTRAINTS],
    },
    Area {
        name: "statistics and health",
        checks: &[
            "node/node-get-volume-stats/",
            "controller/controller-get-volume-health/",
            "controller/controller-list-volume-health/",
            "node/node-get-volume-health/",
            "node/node-get-storage-health/",
            "volume-health/",
        ],
        rules: &[
            "NODE-STATS-",
            "MSG-USAGE-",
            "CTRL-GETHEALTH-",
            "CTRL-LISTHEALTH-",
            "NODE-HEALTH-",
            "NODE-STORHEALTH-",
            "MSG-HEALTH-",
        ],
        needs: &[any_of(&[
            GetVolumeStats,
            VolumeCondition,
            NodeVolumeCondition,
            GetVolumeHealth,
            ListVolumeHealth,
            NodeGetVolumeHealth,
            GetStorageHealth,
        ])],
    },
    Area { name: "data", checks: &["data/"], rules: &[], needs: &[NODE] },
    Area {
        name: "volumes in use",
        checks: &["in-use/", "nodes/"],
        rules: &["IN-USE-", "NODES-"],
        needs: &[NODE],
    },
    Area { name: "retries", checks: &["idempotency/", "property/"], rules: &[], needs: &[] },
    Area { name: "errors", checks: &["after-error/"], rules: &["AFTER-ERROR-"], needs: &[] },
    Area { name: "concurrency", checks: &["concurrency/"], rules: &[], needs: &[] },
    Area { name: "restarts", checks: &["restart/"], rules: &["RESTART-"], needs: &[] },
    Area { name: "upgrades", checks: &["upgrade/"], rules: &["UPGRADE-"], needs: &[] },
    Area { name: "faults", checks: &["faults/"], rules: &["FAULT-"], needs: &[NODE] },
    Area { name: KUBERNETES, checks: &[], rules: &[], needs: &[] },
    Area { name: "growth", checks: &["growth/"], rules: &["GROWTH-"], needs: &[] },
    Area { name: "load", checks: &["load/"], rules: &["LOAD-"], needs: &[CREATE_DELETE_VOLUME] },
    Area { name: "hostile input", checks: &["hostile/", "fuzz/"], rules: &["HOSTILE-"], needs: &[] },
];

impl Area {
    fn has_check(&self, id: &str, is_kubernetes: bool) -> bool {
        match self.name {
            KUBERNETES => is_kubernetes,
            _ => self.checks.iter().any(|part| match part.strip_prefix('*') {
                Some(part) => id.contains(part),
                None => id.starts_with(part),
            }),
        }
    }

    fn has_rule(&self, id: &str) -> bool {
        self.rules.iter().any(|prefix| id.starts_with(prefix))
    }

    fn is_offered(&self, target: &Target) -> bool {
        self.needs.iter().all(|need| need.unmet(target, AccessType::Mount).is_none())
    }
}

/// The areas that a check belongs to.
pub fn areas_of(check: &Check) -> impl Iterator<Item = &'static str> {
    let is_kubernetes = check.known_as.is_some();
    AREAS.iter().filter(move |area| area.has_check(&check.id, is_kubernetes)).map(|area| area.name)
}

/// A statement that grows during the run.
#[derive(Debug, Default)]
pub(crate) struct Statement {
    lines: Vec<Line>,
    /// For each area, its own checks in which the driver deviates.
    own: Vec<BTreeSet<String>>,
}

impl Statement {
    /// Begins a statement about a driver of which only its capabilities are known.
    pub(crate) fn begin(target: &Target) -> Statement {
        Statement::of(|area| area.is_offered(target))
    }

    /// Begins a statement about a driver by what other runs have stated about its capabilities.
    pub(crate) fn again(stated: &[Line]) -> Statement {
        // An area is offered if any of the runs found that it is.
        Statement::of(|area| {
            let mut lines = stated.iter().filter(|line| line.area == area.name).peekable();
            lines.peek().is_none() || lines.any(|line| line.says != Says::NotOffered)
        })
    }

    fn of(offers: impl Fn(&Area) -> bool) -> Statement {
        let line = |area: &Area| Line {
            area: area.name.to_owned(),
            says: if offers(area) { Says::NotTested } else { Says::NotOffered },
            passed: 0,
            judged: 0,
            not_judged: 0,
            deviations: Vec::new(),
            found_elsewhere: Vec::new(),
        };
        Statement { lines: AREAS.iter().map(line).collect(), own: vec![BTreeSet::new(); AREAS.len()] }
    }

    pub(crate) fn add(&mut self, check: &CheckEntry) {
        let is_own = check.outcome() != OutcomeKind::SameFault;
        let deviates = is_own && matches!(check.counts_as(), OutcomeKind::Failed | OutcomeKind::KnownFailure);
        // The broken one comes first.
        let rule = check.requirements.first();
        for ((area, line), own) in AREAS.iter().zip(&mut self.lines).zip(&mut self.own) {
            let is_within = area.has_check(&check.id, check.known_as.is_some());
            if is_within {
                line.count(check.counts_as());
            }
            if deviates && (is_within || rule.is_some_and(|rule| area.has_rule(rule))) {
                line.deviations.push(check.id.clone());
                if is_within {
                    own.insert(check.id.clone());
                }
            }
            if let Some(first) = check.reported_in.as_ref().filter(|_| is_within) {
                line.deviations.push(first.clone());
            }
        }
    }

    /// A line for each area.
    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.lines.into_iter().zip(&self.own).map(|(line, own)| line.concluded(own)).collect()
    }
}

impl Line {
    /// The words about the area, and where a deviation was seen if that was in none of its own checks.
    pub(crate) fn words(&self) -> String {
        match self.says {
            Says::Deviates if self.found_here().is_empty() => {
                format!("{}, {FOUND_ELSEWHERE}", self.says.words())
            }
            says => says.words().to_owned(),
        }
    }

    /// Checks of the area that ran, whether or not they could judge: what the number of those that passed is a part of.
    pub(crate) fn run(&self) -> usize {
        self.judged + self.not_judged
    }

    /// Its own checks in which the driver deviates.
    pub(crate) fn found_here(&self) -> Vec<&str> {
        let here = self.deviations.iter().filter(|label| !self.found_elsewhere.contains(label));
        here.map(String::as_str).collect()
    }

    /// Checks of other areas in which it does.
    pub(crate) fn found_there(&self) -> Vec<&str> {
        self.found_elsewhere.iter().map(String::as_str).collect()
    }

    fn count(&mut self, outcome: OutcomeKind) {
        match outcome {
            OutcomeKind::Skipped => {}
            OutcomeKind::Broken => self.not_judged += 1,
            _ => self.judged += 1,
        }
        self.passed += usize::from(outcome.passes());
    }

    fn concluded(mut self, own: &BTreeSet<String>) -> Line {
        if !self.deviations.is_empty() {
            self.says = Says::Deviates;
            // The order must not depend on that of the run.
            self.deviations.sort();
            self.deviations.dedup();
            let there = self.deviations.iter().filter(|label| !own.contains(*label));
            self.found_elsewhere = there.cloned().collect();
        } else if self.says == Says::NotTested && self.not_judged > 0 {
            self.says = Says::Inconclusive;
        } else if self.says == Says::NotTested && self.judged > 0 {
            self.says = Says::Conforms;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use csi_harness::spec::requirements::{Party, req};
    use serde_json::{Value, json};

    use super::*;

    /// The line of an area after these checks.
    fn line(area: &str, checks: &[Value]) -> Line {
        let mut statement = Statement::again(&[]);
        for check in checks {
            statement.add(&serde_json::from_value(check.clone()).unwrap());
        }
        statement.into_lines().into_iter().find(|line| line.area == area).unwrap()
    }

    fn check(id: &str, outcome: &str, rule: &str) -> Value {
        json!({
            "id": id, "suite": "s", "outcome": outcome, "duration_ms": 1, "requirements": [rule], "message": "", "expected": "",
            "actual": "", "calls": [], "repeat": "", "title": "",
        })
    }

    /// Older reports only state that it was skipped, and which check reports the fault.
    #[test]
    fn a_fault_reported_elsewhere_is_a_deviation_too() {
        let first = check("node/node-stage-volume/one", "failed", "NODE-STAGE-001");
        let mut skipped = check("data/two", "skipped", "CTRL-CREATEVOL-001");
        skipped["reported_in"] = json!("node/node-stage-volume/one@block");
        let checks = [first, check("data/three", "passed", "CTRL-CREATEVOL-001"), skipped.clone()];
        let data = line("data", &checks);
        assert_eq!((data.says, data.judged, data.passed), (Says::Deviates, 2, 1));
        assert_eq!(data.deviations, ["node/node-stage-volume/one@block"], "where it is reported");
        assert_eq!(
            line("provisioning", &checks).says,
            Says::NotTested,
            "its rule is not the one that is broken"
        );
        skipped["reported_in"] = Value::Null;
        assert_eq!(
            line("data", &[checks[1].clone(), skipped]).says,
            Says::Conforms,
            "a check that just skips"
        );
    }

    /// Otherwise the statement would be "deviates, 1 of 1 passed", which no reader could explain.
    #[test]
    fn deviations_found_elsewhere_are_listed_separately() {
        let checks = [
            check("controller/create-volume/one", "passed", "CTRL-CREATEVOL-001"),
            check("idempotency/create-volume", "failed", "CTRL-CREATEVOL-002"),
        ];
        let there = line("provisioning", &checks);
        assert_eq!((there.says, there.passed, there.run()), (Says::Deviates, 1, 1));
        assert_eq!(there.words(), "deviates, found by checks of other areas");
        assert_eq!(there.found_elsewhere, ["idempotency/create-volume"]);
        assert!(there.found_here().is_empty());
        let own = line("retries", &checks);
        assert_eq!((own.words().as_str(), own.found_elsewhere.len()), ("deviates", 0));
        assert_eq!(own.found_here(), ["idempotency/create-volume"]);
    }

    #[test]
    fn every_rule_for_a_driver_has_one_area() {
        for rule in req::ALL.iter().filter(|rule| rule.on == Party::Plugin) {
            let areas: Vec<&str> =
                AREAS.iter().filter(|area| area.has_rule(rule.id)).map(|area| area.name).collect();
            assert_eq!(areas.len(), 1, "{}: {areas:?}", rule.id);
        }
    }
}
