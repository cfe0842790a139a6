//! Judges sidecars: those that the definition needs run, and call the driver. No object says which driver a sidecar
//! serves: a pod that names the driver is assumed to be its own, and the lease of a leader contains the driver's
//! name.

use csi_driver_definitions::{Capability, DriverDefinition};

use super::{Facts, Finding, Lease, Role, Sidecar, SidecarVersion, unknown};

/// A lease that is older than this multiple of its validity has no holder.
const STALE_FACTOR: i64 = 4;

/// A bug of a sidecar that tests run into, and that users take for one of the driver.
struct Bug {
    role: Role,
    /// The first version without it.
    fixed: SidecarVersion,
    consequence: &'static str,
}

/// Both concern snapshots.
const BUGS: [Bug; 2] = [
    Bug {
        role: Role::Provisioner,
        fixed: (6, 2, 1),
        consequence: "if it crashes while it restores a snapshot, it never releases the snapshot, which then cannot be deleted",
    },
    Bug {
        role: Role::Snapshotter,
        fixed: (8, 6, 0),
        consequence: "it forgets to delete a snapshot that is deleted while the driver takes it",
    },
];

pub(super) fn judge(definition: &DriverDefinition, facts: &Facts) -> Vec<Finding> {
    let sidecars = match &facts.sidecars {
        Ok(sidecars) => sidecars,
        Err(why) => return vec![unknown("sidecars", why)],
    };
    let mut findings = Vec::new();
    for (role, why) in needed(definition, facts) {
        findings.extend(runs(role, why, sidecars, lease(role, definition, facts)));
    }
    findings.extend(strayed(sidecars));
    findings.extend(outdated(definition, sidecars));
    findings
}

/// Returns the driver's sidecars with a known bug.
fn outdated(definition: &DriverDefinition, sidecars: &[Sidecar]) -> Vec<Finding> {
    if !definition.can(Capability::SnapshotDataSource) {
        return Vec::new();
    }
    let has_bug = |bug: &Bug| {
        let is_it = |one: &&Sidecar| one.is_drivers && one.role == bug.role;
        let with_bug = |one: &&Sidecar| one.version.is_some_and(|version| version < bug.fixed);
        let sidecar = sidecars.iter().filter(is_it).find(with_bug)?;
        let (name, (major, minor, patch)) = (bug.role.name(), bug.fixed);
        Some(Finding::warning(
            format!("{name} has a bug that looks like one of the driver"),
            format!(
                "{} has it in a version before {major}.{minor}.{patch}: {}",
                sidecar.pod, bug.consequence
            ),
            format!("update {name}"),
        ))
    };
    BUGS.iter().filter_map(has_bug).collect()
}

/// Returns the roles that are needed, with the reasons.
fn needed(definition: &DriverDefinition, facts: &Facts) -> Vec<(Role, &'static str)> {
    let has_class = definition.storage_class.source().is_some();
    let attaches = matches!(&facts.csi_driver, Ok(Some(object)) if object.attach_required);
    let snapshots =
        definition.can(Capability::SnapshotDataSource) && definition.snapshot_class.source().is_some();
    let groups =
        definition.can(Capability::GroupSnapshot) && definition.group_snapshot_class.source().is_some();
    let modifies = definition.volume_attributes_class.source().is_some();
    let all = [
        (Role::Provisioner, has_class, "claims stay unbound"),
        (Role::Attacher, attaches, "pods wait for their volumes to be attached"),
        (Role::Resizer, definition.can(Capability::ControllerExpansion), "no volume grows"),
        (Role::Resizer, modifies && !definition.can(Capability::ControllerExpansion), "no volume is changed"),
        (Role::Snapshotter, snapshots, "no snapshot is taken"),
        (Role::Snapshotter, groups && !snapshots, "no group snapshot is taken"),
        (Role::SnapshotController, snapshots, "no snapshot is bound"),
        (Role::SnapshotController, groups && !snapshots, "no group snapshot is bound"),
    ];
    all.into_iter().filter(|(_, needed, _)| *needed).map(|(role, _, why)| (role, why)).collect()
}

fn runs(role: Role, why: &str, sidecars: &[Sidecar], lease: Option<&Lease>) -> Option<Finding> {
    let name = role.name();
    let of_role: Vec<&Sidecar> = sidecars.iter().filter(|one| one.role == role).collect();
    let is_ours = |one: &&&Sidecar| one.is_drivers || role == Role::SnapshotController;
    let ours: Vec<&&Sidecar> = of_role.iter().filter(is_ours).collect();
    if let Some(lease) = lease.filter(|lease| is_stale(lease)) {
        return Some(Finding::error(
            format!("{why}: no {name} has held its lease for a while"),
            format!(
                "the lease {} holds for {} s and is {} s behind",
                lease.name, lease.duration_s, lease.behind_s
            ),
            format!("look at the logs of {name}"),
        ));
    }
    if ours.iter().any(|one| one.trouble.is_none()) || (ours.is_empty() && lease.is_some()) {
        return None;
    }
    if let Some(first) = ours.first() {
        return Some(Finding::error(
            format!("{why}: {name} does not run"),
            format!("{}: {}", first.pod, first.trouble.clone().unwrap_or_default()),
            "look at the logs and events of that pod",
        ));
    }
    let what = format!("{why}: no {name} is found");
    let mend = if role == Role::SnapshotController {
        "install it once for the cluster, unless the cluster has its own".to_owned()
    } else {
        format!("add {name} to the driver's pods")
    };
    let standard = [Role::Provisioner, Role::Attacher, Role::Resizer, Role::Snapshotter];
    let others = sidecars.iter().find(|one| one.is_drivers && standard.contains(&one.role));
    Some(match (others, of_role.first()) {
        // A user of these has no other way for the rest.
        (Some(other), _) if role != Role::SnapshotController => {
            let evidence =
                format!("{} has {}, and no pod of the driver has this one", other.pod, other.role.name());
            Finding::error(what, evidence, mend)
        }
        (_, Some(other)) => {
            let evidence = format!(
                "{} has one, but neither it nor a lease names the driver, so it may belong to another driver",
                other.pod
            );
            Finding::warning(what, evidence, mend)
        }
        (_, None) => {
            let evidence = "no pod has such an image; if the driver does this itself, that cannot be seen";
            Finding::warning(what, evidence, mend)
        }
    })
}

fn is_stale(lease: &Lease) -> bool {
    lease.behind_s > lease.duration_s.max(1).saturating_mul(STALE_FACTOR)
}

/// Returns the lease of a role, by the names that the sidecars use.
fn lease<'a>(role: Role, definition: &DriverDefinition, facts: &'a Facts) -> Option<&'a Lease> {
    let driver = lease_part(&definition.driver_info.name);
    let name = match role {
        Role::Provisioner => driver,
        Role::Attacher => format!("external-attacher-leader-{driver}"),
        Role::Resizer => format!("external-resizer-{driver}"),
        Role::Snapshotter => format!("external-snapshotter-leader-{driver}"),
        Role::SnapshotController => "snapshot-controller-leader".to_owned(),
        Role::Registrar => return None,
    };
    // If several namespaces have it, the most recent one counts.
    facts.leases.as_ref().ok()?.iter().filter(|lease| lease.name == name).min_by_key(|lease| lease.behind_s)
}

/// Returns the driver's name as it is in the name of a lease.
fn lease_part(driver: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = driver.chars().map(plain).collect();
    if name.ends_with('-') { format!("{name}X") } else { name }
}

/// Returns sidecars that call another socket than the one that their pod registers with kubelet.
fn strayed(sidecars: &[Sidecar]) -> Vec<Finding> {
    let registrars = || sidecars.iter().filter(|one| one.role == Role::Registrar && one.is_drivers);
    let stray = |one: &&Sidecar| {
        let registrar = registrars().find(|registrar| registrar.pod == one.pod)?;
        let (theirs, ours) = (registrar.socket.as_ref()?, one.socket.as_ref()?);
        (theirs != ours).then(|| {
            Finding::error(
                format!("{} calls another socket than {}", one.role.name(), registrar.role.name()),
                format!("in {}: {ours}, and {theirs}", one.pod),
                "correct its --csi-address",
            )
        })
    };
    sidecars.iter().filter_map(|one| stray(&one)).collect()
}
