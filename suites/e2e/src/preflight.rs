//! Finds the problems of a deployment in seconds, where tests would wait for minutes and then accuse the driver.
//!
//! [`gather`] reads [`Facts`] from the cluster; [`judge`] draws the conclusions, without any request.

mod facts;
mod gather;
mod node;
mod object;
mod pods;
mod promises;
mod rights;
mod sidecars;
#[cfg(test)]
mod tests;

use std::fmt;

use csi_driver_definitions::DriverDefinition;

pub use facts::{Class, Facts, Known, Lease, Nodes, Plugin, Refusal, Right, Role, Sidecar, SidecarVersion};
pub use gather::{GatherError, gather};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Tests will fail or wait in vain.
    Error,
    /// Tests may fail, or this is unknown.
    Warning,
}

/// A problem, or something that could not be examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The problem.
    pub what: String,
    /// The observation.
    pub evidence: String,
    /// The remedy.
    pub mend: String,
}

impl Finding {
    fn error(what: impl Into<String>, evidence: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { level: Level::Error, what: what.into(), evidence: evidence.into(), mend: mend.into() }
    }

    fn warning(what: impl Into<String>, evidence: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { level: Level::Warning, ..Finding::error(what, evidence, mend) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        write!(f, "{level:<7}  {}: {}; {}", self.what, self.evidence, self.mend)
    }
}

/// Returns the problems of the deployment that a definition describes, the most severe first.
pub fn judge(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let mut findings = object::judge(definition, facts);
    findings.extend(node::judge(definition, facts));
    findings.extend(sidecars::judge(definition, facts));
    findings.extend(promises::judge(definition, facts));
    findings.extend(rights::judge(facts));
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Returns a finding about something that could not be examined.
fn unknown(what: &str, why: &str) -> Finding {
    Finding::warning(
        format!("{what} could not be looked at"),
        why,
        "give the account the rights of ci/kubernetes/e2e-rbac.yaml, or look yourself",
    )
}
