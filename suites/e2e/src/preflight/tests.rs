//! Checks the findings about each mistake in a correct deployment.

use std::collections::BTreeSet;

use csi_driver_definitions::{CsiDriver, DriverDefinition, FsGroupPolicy};
use csi_harness::protocol::capability::Capability;

use super::facts::*;
use super::{Level, judge};
use crate::cluster::Node;
use crate::kube_cluster::discovery::DriverNode;

const DRIVER: &str = "d.example";

/// Returns a definition with many promises.
fn definition(more: &str) -> DriverDefinition {
    definition_with("seLinuxMount: true", more)
}

/// Returns this definition with another capability in place of `seLinuxMount`.
fn definition_with(capability: &str, more: &str) -> DriverDefinition {
    let text = format!(
        "StorageClass: {{ FromExistingClassName: gold }}\nSnapshotClass: {{ FromName: true }}\nDriverInfo:\n  Name: {DRIVER}\n  \
         TopologyKeys: [d.example/zone]\n  Capabilities: {{ snapshotDataSource: true, controllerExpansion: true, topology: true, \
         capacity: true, fsGroup: true, volumeLimits: true, {capability} }}\n{more}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    DriverDefinition::load(file.path()).unwrap().definition
}

fn sidecar(role: Role) -> Sidecar {
    Sidecar {
        role,
        pod: "csi/plugin-0".to_owned(),
        account: "system:serviceaccount:csi:plugin".to_owned(),
        is_drivers: role != Role::SnapshotController,
        trouble: None,
        socket: Some("/plugins/d/csi.sock".to_owned()),
        version: Some((9, 0, 0)),
        gates: Default::default(),
        publishes_capacity: role == Role::Provisioner,
    }
}

/// Returns the facts of a deployment that keeps the promises.
fn good() -> Facts {
    let topology = [("d.example/zone".to_owned(), "a".to_owned())].into();
    let node = DriverNode {
        node: Node { name: "node-1".to_owned(), topology, volume_limit: Some(8) },
        topology_keys: vec!["d.example/zone".to_owned()],
        ..DriverNode::default()
    };
    let class = Class {
        place: "the StorageClass \"gold\"".to_owned(),
        driver: DRIVER.to_owned(),
        expands: Some(true),
    };
    let object = CsiDriver {
        fs_group_policy: FsGroupPolicy::File,
        storage_capacity: true,
        se_linux_mount: true,
        ..CsiDriver::default()
    };
    let capabilities = BTreeSet::from([
        Capability::PublishUnpublishVolume,
        Capability::GetCapacity,
        Capability::CreateDeleteVolume,
        Capability::CreateDeleteSnapshot,
        Capability::ExpandVolume,
        Capability::VolumeAccessibilityConstraints,
    ]);
    Facts {
        csi_driver: Ok(Some(object)),
        csi_drivers: Ok(vec![DRIVER.to_owned()]),
        nodes: Ok(Nodes { with: vec![node], without: Vec::new() }),
        kinds: Ok(BTreeSet::from(["VolumeSnapshot"])),
        classes: [("StorageClass", Ok(Some(class)))].into(),
        sidecars: Ok(Role::ALL.map(sidecar).to_vec()),
        leases: Ok(Vec::new()),
        metadata_service: Ok(false),
        refused: Ok(Vec::new()),
        sidecars_refused: Ok(Vec::new()),
        plugin: Some(Plugin { name: DRIVER.to_owned(), capabilities }),
    }
}

/// Returns the findings after a change, one line each.
fn said(spoil: impl FnOnce(&mut Facts)) -> Vec<String> {
    said_of(&definition(""), spoil)
}

/// Returns the findings about another definition.
fn said_of(definition: &DriverDefinition, spoil: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = good();
    spoil(&mut facts);
    judge(definition, &facts).iter().map(ToString::to_string).collect()
}

/// Checks that there is one finding, of this level and with these words.
fn is_one(said: &[String], level: &str, words: &[&str]) {
    let [line] = said else { panic!("one finding: {said:#?}") };
    assert!(line.starts_with(&format!("{level:<7}  ")), "{line}");
    assert!(words.iter().all(|word| line.contains(word)), "{words:?}: {line}");
    assert!(!line.contains('\n'), "{line}");
}

/// Checks that a change has one finding, of this level and with these words.
fn finds(level: &str, words: &[&str], spoil: impl FnOnce(&mut Facts)) {
    is_one(&said(spoil), level, words);
}

fn node(facts: &mut Facts) -> &mut DriverNode {
    &mut facts.nodes.as_mut().unwrap().with[0]
}

fn object(facts: &mut Facts) -> &mut CsiDriver {
    facts.csi_driver.as_mut().unwrap().as_mut().unwrap()
}

fn sidecars(facts: &mut Facts) -> &mut Vec<Sidecar> {
    facts.sidecars.as_mut().unwrap()
}

fn without(role: Role) -> impl FnOnce(&mut Facts) {
    move |facts| sidecars(facts).retain(|one| one.role != role)
}

#[test]
fn of_a_good_deployment_nothing_is_said() {
    assert_eq!(said(|_| {}), Vec::<String>::new());
}

#[test]
fn a_driver_that_is_not_installed() {
    finds("error", &["no CSIDriver d.example", "the cluster has e.example"], |facts| {
        facts.csi_driver = Ok(None);
        facts.csi_drivers = Ok(vec!["e.example".to_owned()]);
        without(Role::Attacher)(facts);
    });
}

#[test]
fn nodes_without_the_driver() {
    finds("error", &["no node has the driver d.example", "node-1, node-2"], |facts| {
        let nodes = ["node-1", "node-2"].map(str::to_owned).to_vec();
        facts.nodes = Ok(Nodes { with: Vec::new(), without: nodes });
    });
    finds("warning", &["nodes lack the driver", "node-2 lack it, 1 of others"], |facts| {
        facts.nodes.as_mut().unwrap().without.push("node-2".to_owned());
    });
    let facts = good();
    let lines = judge(&definition("ClientNodeName: node-9\n"), &facts);
    assert!(lines[0].what.contains("node-9"), "{lines:?}");
}

#[test]
fn topology_and_limits_that_no_node_has() {
    finds("error", &["no node has the topology key d.example/zone", "kubelet has received none"], |facts| {
        node(facts).topology_keys.clear();
    });
    finds("error", &["d.example/zone", "no Node has the label"], |facts| node(facts).node.topology.clear());
    finds("error", &["how many volumes", "allocatable.count"], |facts| node(facts).node.volume_limit = None);
}

#[test]
fn an_object_that_denies_what_is_promised() {
    finds("error", &["capacity: true", "storageCapacity: false"], |facts| {
        object(facts).storage_capacity = false
    });
    finds("error", &["seLinuxMount: false"], |facts| object(facts).se_linux_mount = false);
    finds("error", &["fsGroupPolicy: None"], |facts| object(facts).fs_group_policy = FsGroupPolicy::None);
    let by_driver = said(|facts| {
        object(facts).fs_group_policy = FsGroupPolicy::None;
        facts.plugin.as_mut().unwrap().capabilities.insert(Capability::VolumeMountGroup);
    });
    assert_eq!(by_driver, Vec::<String>::new(), "the driver does it");
}

#[test]
fn an_object_that_promises_more_than_the_definition() {
    let definition = definition_with("seLinuxMount: false", "");
    is_one(&said_of(&definition, |_| {}), "warning", &["add `seLinuxMount: true`"]);
}

#[test]
fn a_mount_option_that_containers_do_not_have() {
    let said = |option: &str| {
        let options = format!("  SupportedMountOption: {{ noatime: {{}}, {option}: {{}} }}");
        said_of(&definition(&options), |_| {})
    };
    assert_eq!(said("nodiratime"), Vec::<String>::new());
    is_one(&said("nodev"), "warning", &["do not have the mount option nodev"]);
}

#[test]
fn an_object_that_says_what_the_driver_does_not() {
    let plugin = |facts: &mut Facts, capability| {
        facts.plugin.as_mut().unwrap().capabilities.remove(&capability);
    };
    finds("error", &["ControllerPublishVolume is never called"], |facts| {
        object(facts).attach_required = false
    });
    finds("warning", &["attachRequired: true"], |facts| plugin(facts, Capability::PublishUnpublishVolume));
    finds("error", &["GET_CAPACITY"], |facts| plugin(facts, Capability::GetCapacity));
    finds("error", &["another driver answers", "\"e.example\""], |facts| {
        "e.example".clone_into(&mut facts.plugin.as_mut().unwrap().name);
    });
}

#[test]
fn sidecars_that_are_not_there() {
    for (role, waits) in [
        (Role::Provisioner, "claims stay unbound"),
        (Role::Attacher, "pods wait"),
        (Role::Resizer, "no volume grows"),
        (Role::Snapshotter, "no snapshot is taken"),
    ] {
        finds("error", &[waits, role.name(), "no pod of the driver has this one"], without(role));
    }
    finds("warning", &["no snapshot is bound", "snapshot-controller"], without(Role::SnapshotController));
}

#[test]
fn where_nobody_can_know_it_is_a_warning() {
    let said = said(|facts| sidecars(facts).retain(|one| one.role == Role::SnapshotController));
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(
        said.iter().all(|line| line.starts_with("warning") && line.contains("does this itself")),
        "{said:#?}"
    );
    finds("warning", &["may belong to another driver"], |facts| {
        // There is one provisioner of unknown owner; the other sidecars have leases.
        sidecars(facts).retain(|one| matches!(one.role, Role::Provisioner | Role::SnapshotController));
        sidecars(facts)[0].is_drivers = false;
        let names = ["external-attacher-leader-", "external-resizer-", "external-snapshotter-leader-"];
        let fresh = |name: &str| Lease { name: format!("{name}d-example"), behind_s: 1, duration_s: 15 };
        facts.leases = Ok(names.map(fresh).to_vec());
    });
}

#[test]
fn sidecars_that_do_not_run_or_watch() {
    finds("error", &["csi-resizer does not run", "csi/plugin-0: CrashLoopBackOff"], |facts| {
        let resizer = sidecars(facts).iter_mut().find(|one| one.role == Role::Resizer).unwrap();
        resizer.trouble = Some("CrashLoopBackOff".to_owned());
    });
    finds("error", &["csi-provisioner has held its lease", "900 s behind"], |facts| {
        facts.leases = Ok(vec![Lease { name: "d-example".to_owned(), behind_s: 900, duration_s: 15 }]);
    });
    finds("error", &["csi-attacher calls another socket", "/plugins/e/csi.sock", "--csi-address"], |facts| {
        let attacher = sidecars(facts).iter_mut().find(|one| one.role == Role::Attacher).unwrap();
        attacher.socket = Some("/plugins/e/csi.sock".to_owned());
    });
}

#[test]
fn sidecars_with_a_known_bug() {
    let in_version = |role: Role, version| {
        move |facts: &mut Facts| {
            sidecars(facts)
                .iter_mut()
                .filter(|one| one.role == role)
                .for_each(|one| one.version = Some(version));
        }
    };
    finds(
        "warning",
        &["csi-provisioner has a bug", "before 6.2.1"],
        in_version(Role::Provisioner, (6, 2, 0)),
    );
    finds(
        "warning",
        &["csi-snapshotter has a bug", "before 8.6.0"],
        in_version(Role::Snapshotter, (8, 5, 0)),
    );
    assert_eq!(said(in_version(Role::Provisioner, (6, 2, 1))), [""; 0]);
    assert_eq!(said(in_version(Role::Provisioner, (6, 2, u32::MAX))), [""; 0], "the tag has no patch");
}

#[test]
fn promises_that_the_cluster_does_not_keep() {
    finds("error", &["no VolumeSnapshot", "install the CRDs"], |facts| {
        facts.kinds.as_mut().unwrap().clear();
    });
    finds("error", &["no StorageClass \"gold\"", "FromExistingClassName"], |facts| {
        facts.classes.insert("StorageClass", Ok(None));
    });
    let class = |facts: &mut Facts, change: fn(&mut Class)| {
        change(facts.classes.get_mut("StorageClass").unwrap().as_mut().unwrap().as_mut().unwrap());
    };
    finds("error", &["for another driver", "is for e.example"], |facts| {
        class(facts, |class| "e.example".clone_into(&mut class.driver));
    });
    finds("warning", &["allowVolumeExpansion"], |facts| class(facts, |class| class.expands = Some(false)));
}

#[test]
fn promises_that_a_sidecar_is_told_not_to_keep() {
    let class = tempfile::NamedTempFile::new().unwrap();
    let attributes = format!("VolumeAttributesClass: {{ FromFile: {} }}\n", class.path().display());
    let definition = definition(&attributes);
    let facts = |change: fn(&mut Sidecar)| {
        move |facts: &mut Facts| {
            facts.kinds.as_mut().unwrap().insert("VolumeAttributesClass");
            let plugin = facts.plugin.as_mut().unwrap();
            plugin.capabilities.insert(Capability::ModifyVolume);
            change(sidecars(facts).iter_mut().find(|one| one.role == Role::Resizer).unwrap());
        }
    };
    let is_off: fn(&mut Sidecar) = |one| _ = one.gates.insert("VolumeAttributesClass".to_owned(), false);
    let is_old: fn(&mut Sidecar) = |one| one.version = Some((1, 11, 0));
    for (spoil, word) in [(is_off, "VolumeAttributesClass=false"), (is_old, "has version 1.11")] {
        let words = ["csi-resizer", word, "--feature-gates=VolumeAttributesClass=true"];
        is_one(&said_of(&definition, facts(spoil)), "error", &words);
    }
    let turned_on: fn(&mut Sidecar) = |one| {
        one.version = Some((1, 11, 0));
        one.gates.insert("VolumeAttributesClass".to_owned(), true);
    };
    assert_eq!(said_of(&definition, facts(turned_on)), [""; 0]);
    finds("error", &["no free space is published", "no --enable-capacity"], |facts| {
        let provisioner = sidecars(facts).iter_mut().find(|one| one.role == Role::Provisioner);
        provisioner.unwrap().publishes_capacity = false;
    });
}

#[test]
fn promises_that_object_or_driver_does_not_keep() {
    let inline = definition("InlineVolumes: [{ Attributes: { a: b } }]\n");
    is_one(&said_of(&inline, |_| {}), "error", &["no ephemeral volume", "InlineVolumes"]);
    finds("error", &["does not advertise CREATE_DELETE_SNAPSHOT", "snapshotDataSource"], |facts| {
        facts.plugin.as_mut().unwrap().capabilities.remove(&Capability::CreateDeleteSnapshot);
    });
}

#[test]
fn rights_that_are_refused() {
    let right = |resource: &str, verb: &str| Right {
        group: "storage.k8s.io".to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
    };
    finds("error", &["may not create, delete storageclasses.storage.k8s.io", "ci/kubernetes"], |facts| {
        facts.refused = Ok(vec![right("storageclasses", "create"), right("storageclasses", "delete")]);
    });
    finds(
        "error",
        &[
            "csi-attacher may not patch volumeattachments.storage.k8s.io/status",
            "system:serviceaccount:csi:plugin",
        ],
        |facts| {
            facts.sidecars_refused = Ok(vec![Refusal {
                account: "system:serviceaccount:csi:plugin".to_owned(),
                role: Role::Attacher,
                right: right("volumeattachments/status", "patch"),
            }]);
        },
    );
}

#[test]
fn what_cannot_be_looked_at_is_told_with_the_reason() {
    let no = || "403 Forbidden: not you".to_owned();
    finds("warning", &["nodes could not be looked at", "not you"], |facts| facts.nodes = Err(no()));
    finds("warning", &["sidecars could not be looked at"], |facts| facts.sidecars = Err(no()));
    finds("warning", &["what this account may do"], |facts| facts.refused = Err(no()));
}

#[test]
fn errors_come_first() {
    let mut facts = good();
    facts.nodes.as_mut().unwrap().without.push("node-2".to_owned());
    facts.sidecars_refused = Err("no".to_owned());
    facts.csi_driver = Ok(None);
    let levels: Vec<Level> = judge(&definition(""), &facts).iter().map(|finding| finding.level).collect();
    assert_eq!(levels.first(), Some(&Level::Error));
    assert!(levels.is_sorted());
}
