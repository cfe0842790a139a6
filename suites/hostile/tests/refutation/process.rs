//! Checks defects that only show in a driver's output or commands, for which this program is the driver in a process
//! of its own.

use csi_harness::checks::check::Check;
use csi_harness::results::outcome::CheckReport;
use csi_test_support::process;
use libtest_mimic::{Failed, Trial};

use crate::defects::is_found;
use crate::registry;

/// These defects show only in a process.
pub(crate) const IN_PROCESSES: &[&str] =
    &["node-publish-passes-context-as-option", "node-publish-prints-context", "prints-secrets"];

pub(crate) fn trials() -> Vec<Trial> {
    let checks: Vec<Check> =
        registry().checks().map(|(_, check)| check.clone()).filter(needs_process).collect();
    let found = checks.iter().flat_map(|check| {
        let printed = check.refuted_by.iter().filter(|defect| IN_PROCESSES.contains(defect));
        printed.map(|defect| {
            let (check, defect) = (check.clone(), *defect);
            Trial::test(format!("defect/{defect}/{}", check.id), move || {
                is_found(&check, &played(&check, defect)?)
            })
        })
    });
    let healthy = checks.iter().map(|check| {
        let check = check.clone();
        Trial::test(format!("healthy-process/{}", check.id), move || {
            let accused: Vec<String> = played(&check, "")?
                .iter()
                .filter_map(|said| said.outcome.violation())
                .map(|v| format!("{v:#?}"))
                .collect();
            if accused.is_empty() { Ok(()) } else { Err(Failed::from(accused.join("\n"))) }
        })
    });
    // The command of the trap is only in the PATH of a driver that the run started.
    let lent = Trial::test("process/create-volume-runs-names/hostile/commands/texts", || {
        let registry = registry();
        let check = registry.find("hostile/commands/texts")?;
        is_found(check, &played(check, "create-volume-runs-names")?)
    });
    found.chain(healthy).chain([lent]).collect()
}

fn needs_process(check: &Check) -> bool {
    check.refuted_by.iter().any(|defect| IN_PROCESSES.contains(defect))
}

fn played(check: &Check, defect: &str) -> Result<Vec<CheckReport>, Failed> {
    process::played(registry(), check, defect, 1)
}
