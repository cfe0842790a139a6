//! Checks that the driver definitions agree with the driver. The crate that reads them tests that each loads without a
//! warning.

use std::collections::BTreeSet;

use csi_driver_definitions::{Capability, DriverDefinition, Loaded};
use csi_hostpath_driver::args::Args;
use csi_hostpath_driver::{Config, FsType};
use serde_json::json;

use super::{deploy, kustomize, plugin, root};

/// The definitions are for directory volumes, for images, and for several nodes in one process.
const DEFINITIONS: [&str; 3] = ["hostpath.yaml", "hostpath-image.yaml", NODES];
/// No manifest deploys this driver; the file names the flags with which to start it.
const NODES: &str = "hostpath-nodes.yaml";

/// Returns the settings of the driver that a definition describes, from its flags if it names any.
fn config_of(name: &str, deployed: &Config) -> Config {
    if name != NODES {
        return deployed.clone();
    }
    let lines =
        text(name).lines().map(|line| line.trim_start_matches('#').trim().to_owned()).collect::<Vec<_>>();
    let lines = lines.into_iter().skip_while(|line| !line.starts_with("csi-hostpath-driver "));
    let command: Vec<String> = lines.take_while(|line| !line.starts_with("csi-sanity ")).collect();
    let command = command.join(" ").replace('\\', "");
    Args::read(command.split_whitespace().map(Into::into)).unwrap().into_config().unwrap()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join("driver-definitions").join(name)).unwrap()
}

fn definitions() -> [(&'static str, Loaded); 3] {
    DEFINITIONS.map(|name| {
        let loaded = DriverDefinition::load(&root().join("driver-definitions").join(name));
        (name, loaded.unwrap_or_else(|error| panic!("{error}")))
    })
}

#[test]
fn every_definition_of_this_driver_is_looked_at() {
    let files = std::fs::read_dir(root().join("driver-definitions")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The driver in Go has this name as well.
    let found: BTreeSet<String> =
        names.filter(|name| name.starts_with("hostpath") && name != "hostpath-go.yaml").collect();
    assert_eq!(found, BTreeSet::from(DEFINITIONS.map(str::to_owned)));
}

#[test]
fn each_capability_is_decided() {
    for (name, Loaded { definition, .. }) in definitions() {
        let left_out = Capability::ALL.iter().filter(|one| !definition.driver_info.capabilities.sets(**one));
        // Only OpenShift's tests know this one.
        assert_eq!(left_out.collect::<Vec<_>>(), [&Capability::PodDeleteAfterUmount], "{name}");
    }
}

#[test]
fn they_agree_with_the_flags_of_the_driver() {
    let objects = kustomize::build(&deploy().join("kubernetes/full"));
    let deployed = plugin::config(&objects);
    let driver = objects.iter().find(|object| object["kind"] == json!("CSIDriver")).unwrap();
    for (name, loaded) in definitions() {
        let config = config_of(name, &deployed);
        let can = |capability| loaded.definition.can(capability);
        let has_nodes = !config.other_nodes.is_empty();
        assert_eq!(
            (can(Capability::Rwx), can(Capability::SingleNodeVolume)),
            (has_nodes, !has_nodes),
            "{name}"
        );
        assert_eq!(can(Capability::VolumeMountGroup), config.mount_group, "{name}");
        assert_eq!(loaded.definition.driver_info.name, config.name, "{name}");
        assert_eq!(loaded.storage_class().unwrap().unwrap().provisioner, config.name, "{name}");
        assert!(config.snapshot_metadata || !can(Capability::SnapshotMetadata), "{name}");
        assert_eq!(can(Capability::ControllerExpansion), config.controller_expansion, "{name}");
        assert_eq!(can(Capability::NodeExpansion), config.node_expansion, "{name}");
        assert_eq!(can(Capability::Topology), config.topology, "{name}");
        let limited = config.max_volumes_per_node != 0 || config.attach_limit != 0;
        assert_eq!(can(Capability::VolumeLimits), limited, "{name}");
        assert_eq!(can(Capability::SeLinuxMount), driver["spec"]["seLinuxMount"], "{name}");
        assert_eq!(can(Capability::Capacity), driver["spec"]["storageCapacity"], "{name}");
    }
}

#[test]
fn each_agrees_with_its_backend() {
    for (name, loaded) in definitions() {
        let DriverDefinition { driver_info, group_snapshot_class, .. } = &loaded.definition;
        let parameters = loaded.storage_class().unwrap().unwrap().parameters;
        let is_image = parameters.get("backend").is_some_and(|backend| backend == "image");
        assert_eq!(is_image, name != "hostpath.yaml");
        let can = |capability| loaded.definition.can(capability);
        assert_eq!(can(Capability::FsResizeFromSourceNotSupported), !is_image, "{name}");
        assert_eq!(can(Capability::GroupSnapshot), is_image, "{name}");
        assert_eq!(group_snapshot_class.source().is_some(), is_image, "{name}");
        let fs_types = driver_info.supported_fs_type.iter().filter(|fs_type| !fs_type.is_empty());
        let fs_types: Vec<FsType> = fs_types.map(|fs_type| FsType::parse(fs_type).expect(fs_type)).collect();
        assert_eq!(fs_types.is_empty(), !is_image, "{name}: directories have the file system of the host");
        let size_min = driver_info.supported_size_range.min.bytes();
        for fs_type in fs_types {
            assert!(size_min >= fs_type.size_bytes_min(), "{name}: no {fs_type} is as small as {size_min}");
        }
    }
}

#[test]
fn the_attributes_class_has_its_own_file() {
    for (name, loaded) in definitions() {
        assert!(loaded.volume_attributes_class().unwrap().is_some(), "{name}");
    }
}

#[test]
fn inline_volumes_can_be_had() {
    for (name, Loaded { definition, .. }) in definitions() {
        assert!(!definition.inline_volumes.is_empty());
        for key in definition.inline_volumes.iter().flat_map(|volume| volume.attributes.keys()) {
            assert!(["backend", "kind", "size"].contains(&key.as_str()), "{name}: {key}");
        }
    }
}
