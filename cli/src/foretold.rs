//! What is known before a run of how long it takes.

use csi_harness::checks::planned::Planned;
use csi_harness::config::Effort;

/// How long all checks take on the driver that is built in, on a machine that does nothing else.
const BUILT_IN: &str = "about 15 s in all";

/// So begin the ids of checks that make calls until they have made enough, or this time is up.
const OF_MANY_CALLS: [&str; 6] =
    ["property/", "concurrency/", "restart/", "idempotency/", "after-error/", "data/sequences/"];
/// The same of those that send hostile requests, which stop earlier.
const HOSTILE: &str = "hostile/";
const HOSTILE_MS_MAX: u64 = 10_000;

/// The longest a run takes where, as a line; none where no check takes long, or all do.
pub(crate) fn foretold(checks: &[Planned], effort: &Effort, is_built_in: bool) -> Option<String> {
    let ids: Vec<&str> = checks.iter().map(|planned| &*planned.check.id).collect();
    let long = of_ids(&ids, effort)?;
    Some(if is_built_in { format!("{BUILT_IN}; {long}") } else { long })
}

fn of_ids(ids: &[&str], effort: &Effort) -> Option<String> {
    let number = |prefix: &str| ids.iter().filter(|id| id.starts_with(prefix)).count();
    let told = |prefix: &str| match number(prefix) {
        0 => None,
        number => Some(format!("{number} of {}", prefix.trim_end_matches('/'))),
    };
    let many: Vec<String> = OF_MANY_CALLS.into_iter().filter_map(told).collect();
    let all = OF_MANY_CALLS.into_iter().chain([HOSTILE]).map(number).sum::<usize>();
    if all == ids.len() {
        return None;
    }
    let most = match effort.budget_ms {
        Some(budget_ms) => format!("{} all together, see --budget", seconds(budget_ms)),
        None => format!("{} each", seconds(effort.check_budget_ms)),
    };
    let hostile = told(HOSTILE)
        .map(|told| format!("{told} (up to {} each)", seconds(HOSTILE_MS_MAX.min(effort.check_budget_ms))));
    let many = (!many.is_empty()).then(|| format!("{} (up to {most})", many.join(", ")));
    let parts: Vec<String> = many.into_iter().chain(hostile).collect();
    (!parts.is_empty()).then(|| format!("checks that may take long: {}", parts.join("; ")))
}

fn seconds(ms: u64) -> String {
    format!("{} s", ms.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told_with_its_limit() {
        let ids = ["property/nodes", "property/nodes", "restart/reboot", "hostile/paths/ids", "node/x"];
        let effort = Effort::default();
        assert_eq!(
            of_ids(&ids, &effort).unwrap(),
            "checks that may take long: 2 of property, 1 of restart (up to 30 s each); 1 of hostile (up to 10 s each)"
        );
        let hour = Effort { budget_ms: Some(3_600_000), ..Effort::default() };
        assert!(of_ids(&ids, &hour).unwrap().contains("(up to 3600 s all together, see --budget); "));
        assert_eq!(of_ids(&["node/x"], &effort), None);
        assert_eq!(of_ids(&["property/nodes"], &effort), None, "nothing is longer than the rest");
    }
}
