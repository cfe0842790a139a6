//! What a definition promises and the cluster has not.

use csi_driver_definitions::{Capability, DriverDefinition};

use super::{Class, Facts, Finding, unknown};

pub(super) fn judge(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let mut findings = kinds(definition, facts);
    findings.extend(classes(definition, facts));
    findings
}

/// Kinds of objects that are not there.
fn kinds(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let there = match &facts.kinds {
        Ok(there) => there,
        Err(why) => return vec![unknown("the kinds of objects that the cluster has", why)],
    };
    let snapshots = definition.can(Capability::SnapshotDataSource);
    let groups = definition.can(Capability::GroupSnapshot);
    let changes = definition.volume_attributes_class.source().is_some();
    let wanted = [
        ("VolumeSnapshot", snapshots, "snapshotDataSource: true", "install the CRDs of external-snapshotter"),
        (
            "VolumeGroupSnapshot",
            groups,
            "groupSnapshot: true",
            "install the CRDs of external-snapshotter for groups",
        ),
        (
            "VolumeAttributesClass",
            changes,
            "a VolumeAttributesClass",
            "use Kubernetes 1.34, or its API storage.k8s.io/v1beta1 in an older one",
        ),
    ];
    wanted
        .into_iter()
        .filter(|(kind, wanted, ..)| *wanted && !there.contains(kind))
        .map(|(kind, _, promise, mend)| {
            Finding::error(
                format!("the cluster has no {kind}"),
                format!("the definition has {promise}, the API server does not know the kind"),
                format!("{mend}, or take it out of the definition"),
            )
        })
        .collect()
}

/// Classes that are not there, or for another driver, or forbid what is tested.
fn classes(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let driver = &definition.driver_info.name;
    let mut findings = Vec::new();
    for (kind, class) in &facts.classes {
        match class {
            Err(why) => findings.push(unknown(&format!("the {kind} of the definition"), why)),
            Ok(None) => findings.push(Finding::error(
                format!("no {kind}"),
                "the definition takes one from the cluster, which has none of this name",
                "apply it, or correct FromExistingClassName",
            )),
            Ok(Some(class)) if class.driver != *driver => findings.push(Finding::error(
                format!("the {kind} is for another driver"),
                format!("{} is for {}, the definition for {driver}", class.place, class.driver),
                "correct the class, or DriverInfo.Name in the definition",
            )),
            Ok(Some(class)) => findings.extend(expansion(definition, class)),
        }
    }
    findings
}

fn expansion(definition: &DriverDefinition, class: &Class) -> Option<Finding> {
    let forbidden = class.expands == Some(false) && definition.can(Capability::ControllerExpansion);
    forbidden.then(|| {
        Finding::warning(
            "users of the class cannot let volumes grow, though its tests can",
            format!(
                "{} has no allowVolumeExpansion: true, the definition has `controllerExpansion: true`",
                class.place
            ),
            "set it, or take `controllerExpansion` out of the definition",
        )
    })
}
