//! The DriverDefinition, and the classes that it names: what Kubernetes' storage tests have to know.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use csi_driver_definitions::Capability as Can;
use csi_harness::config::{AccessType, Pairs, StaticVolume};
use csi_harness::protocol::capability::Capability as Has;
use csi_proto::v1::volume_capability::access_mode::Mode;
use serde_json::json;

use super::survey::Survey;
use super::trial::Mounted;
use super::{DEFINITION, Draft};

/// Manifests of classes, for what a class by name alone cannot say.
pub(super) const CLASSES: [&str; 3] =
    ["storage-class.yaml", "snapshot-class.yaml", "volume-attributes-class.yaml"];
/// File systems that several nodes can have mounted, by how their names begin.
const SHARED_FS_TYPES: [&str; 7] = ["nfs", "cifs", "smb", "ceph", "fuse", "lustre", "gpfs"];
/// Files of the tests of reading and writing, in bytes; larger ones take long.
const FILE_BYTES_MAX: u64 = 100 << 20;

/// The definition, and the classes that have parameters.
pub(super) fn drafts(survey: &Survey) -> Vec<Draft> {
    let config = &survey.config;
    let [storage, snapshot, attributes] = CLASSES;
    let mut drafts = vec![Draft::new(DEFINITION, definition(survey))];
    let mut class = |name: &'static str, kind: &str, version: &str, driver: &str, parameters: &Pairs| {
        if !parameters.is_empty() {
            let text = manifest(kind, version, (driver, survey.name()), parameters);
            drafts.push(Draft::new(name, text));
        }
    };
    class(storage, "StorageClass", "storage.k8s.io/v1", "provisioner", &storage_parameters(survey));
    if survey.has(Has::CreateDeleteSnapshot) {
        let parameters = &config.snapshot_parameters;
        class(snapshot, "VolumeSnapshotClass", "snapshot.storage.k8s.io/v1", "driver", parameters);
    }
    if survey.has(Has::ModifyVolume) {
        class(
            attributes,
            "VolumeAttributesClass",
            "storage.k8s.io/v1",
            "driverName",
            &config.mutable_parameters,
        );
    }
    drafts
}

/// The parameters of CreateVolume, and the file system type without which the driver rejects volumes.
fn storage_parameters(survey: &Survey) -> Pairs {
    let mut parameters = survey.config.parameters.clone();
    if survey.needs_fs_type {
        parameters.insert("csi.storage.k8s.io/fstype".to_owned(), survey.config.fs_type.clone());
    }
    parameters
}

fn manifest(kind: &str, version: &str, (key, driver): (&str, &str), parameters: &Pairs) -> String {
    let mut text = format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: csi-sanity\n");
    // JSON is YAML, whatever is in a name or a value.
    let _ = writeln!(text, "{key}: {}", json!(driver));
    match kind {
        "StorageClass" => text.push_str("allowVolumeExpansion: true\n"),
        "VolumeSnapshotClass" => text.push_str("deletionPolicy: Delete\n"),
        _ => {}
    }
    let _ = writeln!(text, "parameters: {}", json!(parameters));
    text
}

fn definition(survey: &Survey) -> String {
    let mut text = format!(
        "# What Kubernetes' storage tests may expect of {}, as found out by trying on one machine.\n# Every key: csi-sanity's \
         docs/driver-definition.md.\n",
        survey.driver()
    );
    classes(&mut text, survey);
    text.push_str("DriverInfo:\n");
    if survey.name().is_empty() {
        text.push_str("  # To be filled in: the driver returns no name in GetPluginInfo, and a run reports that as a failure.\n");
    }
    let _ = writeln!(text, "  Name: {}", json!(survey.name()));
    if survey.has(Has::CreateDeleteVolume) {
        let _ = writeln!(
            text,
            "  # Volumes of this size were made. Smaller ones make the tests faster, if the driver has them.\n  SupportedSizeRange: \
             {{Min: {}Mi}}",
            survey.size_bytes.div_euclid(1 << 20).max(1)
        );
    }
    let _ = writeln!(text, "  MaxFileSize: {FILE_BYTES_MAX}");
    let _ =
        writeln!(text, "  # The empty name is the driver's own choice.\n  SupportedFsType:\n    \"\": {{}}");
    survey.fs_types.iter().for_each(|fs_type| text.push_str(&format!("    {fs_type}: {{}}\n")));
    let keys = survey.topology_keys();
    if survey.has(Has::VolumeAccessibilityConstraints) && !keys.is_empty() {
        let _ = writeln!(text, "  TopologyKeys: {}", json!(keys));
    }
    capabilities(&mut text, survey);
    text
}

/// Kubelet adds the keys of pods to the attributes itself.
const OF_KUBELET: &str = "csi.storage.k8s.io/";

/// The pre-provisioned volumes that are published as a kubelet publishes inline volumes.
fn inline_volumes(text: &mut String, volumes: &[StaticVolume]) {
    let is_inline = |volume: &&StaticVolume| {
        volume.context.get("csi.storage.k8s.io/ephemeral").is_some_and(|ephemeral| ephemeral == "true")
    };
    let Some(volume) = volumes.iter().find(is_inline) else {
        text.push_str(
            "\n# The driver creates no volumes. If it has inline volumes, write what they need:\n# InlineVolumes:\n#   - Attributes: \
             {key: value}\n",
        );
        return;
    };
    let own: Pairs = volume
        .context
        .iter()
        .filter(|(key, _)| !key.starts_with(OF_KUBELET))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let (attributes, read_only) = (json!(own), volume.readonly);
    let _ = writeln!(text, "\nInlineVolumes:\n  - Attributes: {attributes}\n    ReadOnly: {read_only}");
}

fn classes(text: &mut String, survey: &Survey) {
    let config = &survey.config;
    let [storage, snapshot, attributes] = CLASSES;
    let from = |parameters: &Pairs, file: &str| match parameters.is_empty() {
        true => "FromName: true".to_owned(),
        false => format!("FromFile: {file}"),
    };
    if survey.has(Has::CreateDeleteVolume) {
        let _ = writeln!(text, "\nStorageClass:\n  {}", from(&storage_parameters(survey), storage));
    }
    if !survey.has(Has::CreateDeleteVolume) {
        inline_volumes(text, &config.volumes);
    }
    if survey.has(Has::CreateDeleteSnapshot) {
        let _ = writeln!(text, "\nSnapshotClass:\n  {}", from(&config.snapshot_parameters, snapshot));
    }
    if survey.has(Has::CreateDeleteGetVolumeGroupSnapshot) {
        text.push_str("\nGroupSnapshotClass:\n  FromName: true\n");
    }
    if survey.has(Has::ModifyVolume) {
        match config.mutable_parameters.is_empty() {
            true => text.push_str(
                "\n# With --mutable-parameters, a class that volumes are changed to would be written, too.\n",
            ),
            false => {
                let _ = writeln!(text, "\nVolumeAttributesClass:\n  FromFile: {attributes}");
            }
        }
    }
    text.push('\n');
}

fn advertised_or_not(survey: &Survey, capability: Has) -> String {
    let verb = if survey.has(capability) { "is" } else { "is not" };
    format!("{} {verb} advertised.", capability.name())
}

/// Writes the capabilities of the driver, each with its evidence.
fn capabilities(text: &mut String, survey: &Survey) {
    text.push_str("  Capabilities:\n");
    let mut known = BTreeSet::new();
    let mut say = |can: Can, has: bool, why: &str| {
        known.insert(can);
        let _ = writeln!(text, "    # {why}\n    {can}: {has}");
    };
    let mount = survey.of(AccessType::Mount);
    let advertised = [
        (Can::VolumeMountGroup, Has::VolumeMountGroup),
        (Can::SnapshotDataSource, Has::CreateDeleteSnapshot),
        (Can::SnapshotMetadata, Has::SnapshotMetadataService),
        (Can::GroupSnapshot, Has::CreateDeleteGetVolumeGroupSnapshot),
        (Can::PvcDataSource, Has::CloneVolume),
        (Can::ControllerExpansion, Has::ExpandVolume),
        (Can::NodeExpansion, Has::NodeExpandVolume),
        (Can::Topology, Has::VolumeAccessibilityConstraints),
        (Can::Capacity, Has::GetCapacity),
        (Can::ReadWriteOncePod, Has::SingleNodeMultiWriter),
    ];
    say(
        Can::Persistence,
        mount.keeps.or(survey.of(AccessType::Block).keeps).unwrap_or(true),
        match mount.keeps {
            Some(_) => "Whether a file was still there when its volume was published again.",
            None => "Not tried: the contents of a volume are not visible from here.",
        },
    );
    say(Can::Block, survey.works_as(AccessType::Block), "Whether a block volume could be published.");
    say(
        Can::Exec,
        mount.mounted.as_ref().is_none_or(|mounted| mounted.is_executable),
        match mount.mounted {
            Some(_) => "Whether it is mounted without noexec.",
            None => "Not tried: mounts are not visible from here.",
        },
    );
    let is_made_here =
        mount.mounted.as_ref().is_some_and(|mounted| survey.fs_types.contains(&mounted.fs_type.as_str()));
    say(
        Can::FsGroup,
        survey.has(Has::VolumeMountGroup) || is_made_here,
        "Whether a volume has a file system of its own, or the driver sets the group. fsGroupPolicy of the CSIDriver object matters, too.",
    );
    let is_a_part = survey.fs_types.is_empty() && mount.mounted.is_some();
    say(
        Can::FsResizeFromSourceNotSupported,
        is_a_part,
        "Negative: whether volumes are parts of an existing file system, whose size does not show the size of the volume.",
    );
    say(
        Can::Multipods,
        mount.shares.unwrap_or(false),
        "Whether a volume could be published at two paths of the node.",
    );
    let takes_many = survey.has_mode(Mode::MultiNodeMultiWriter);
    let is_shared =
        |mounted: &Mounted| SHARED_FS_TYPES.iter().any(|fs_type| mounted.fs_type.starts_with(fs_type));
    let over_a_network = mount.mounted.as_ref().is_some_and(is_shared);
    say(
        Can::Rwx,
        takes_many && over_a_network,
        match (takes_many, over_a_network) {
            (true, true) => {
                "CreateVolume takes MULTI_NODE_MULTI_WRITER, and what is mounted comes over a network."
            }
            (true, false) => {
                "CreateVolume takes MULTI_NODE_MULTI_WRITER: make it true if nodes share what is written."
            }
            (false, _) if survey.has(Has::CreateDeleteVolume) => {
                "CreateVolume rejects MULTI_NODE_MULTI_WRITER."
            }
            (false, _) => "The driver creates no volumes.",
        },
    );
    say(
        Can::CapReadOnlyMany,
        survey.has_mode(Mode::MultiNodeReaderOnly),
        "Whether CreateVolume takes MULTI_NODE_READER_ONLY.",
    );
    for (can, has) in advertised {
        say(can, survey.has(has), &advertised_or_not(survey, has));
    }
    let (offline, online) = (survey.has(Has::OfflineExpansion), survey.has(Has::OnlineExpansion));
    say(
        Can::OfflineExpansion,
        survey.has(Has::ExpandVolume) && (offline || !online),
        "True if the driver advertises OFFLINE, or EXPAND_VOLUME without either of OFFLINE and ONLINE.",
    );
    say(
        Can::OnlineExpansion,
        survey.has(Has::ExpandVolume) && online,
        "Whether the driver advertises ONLINE.",
    );
    say(Can::VolumeLimits, survey.limit() > 0, "Whether NodeGetInfo returns max_volumes_per_node.");
    let open: Vec<&str> = Can::ALL.iter().filter(|can| !known.contains(can)).map(|can| can.name()).collect();
    let _ = writeln!(text, "    # Not tried, so left out: {}.", open.join(", "));
}
