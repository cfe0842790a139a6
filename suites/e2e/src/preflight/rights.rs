//! Judges our own rights, and those of the sidecars.

use std::collections::BTreeMap;

use super::{Facts, Finding, Right, unknown};

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &facts.refused {
        Err(why) => findings.push(unknown("what this account may do", why)),
        Ok(refused) => findings.extend(by_resource(refused).into_iter().map(|(resource, verbs)| {
            Finding::error(
                format!("the tests may not {verbs} {resource}"),
                "according to the API server",
                "bind it to the role that ci/kubernetes has for e2e",
            )
        })),
    }
    match &facts.sidecars_refused {
        Err(why) => findings.push(unknown("what the accounts of sidecars may do", why)),
        Ok(refused) => {
            let mut by_account = BTreeMap::<_, Vec<Right>>::new();
            for one in refused {
                by_account.entry((&one.account, one.role)).or_default().push(one.right.clone());
            }
            for ((account, role), rights) in by_account {
                findings.extend(by_resource(&rights).into_iter().map(|(resource, verbs)| {
                    Finding::error(
                        format!("{} may not {verbs} {resource}", role.name()),
                        format!("according to the API server, for {account}"),
                        "add it to the role that the account is bound to",
                    )
                }));
            }
        }
    }
    findings
}

/// Returns the verbs for each resource.
fn by_resource(rights: &[Right]) -> Vec<(String, String)> {
    let mut verbs = BTreeMap::<String, Vec<&str>>::new();
    for right in rights {
        let (resource, part) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let dot = if right.group.is_empty() { "" } else { "." };
        let slash = if part.is_empty() { "" } else { "/" };
        let name = format!("{resource}{dot}{}{slash}{part}", right.group);
        verbs.entry(name).or_default().push(&right.verb);
    }
    verbs.into_iter().map(|(resource, verbs)| (resource, verbs.join(", "))).collect()
}
