//! Checks that the driver creates volumes as storage classes request them.

use std::collections::BTreeMap;
use std::path::Path;

use csi_hostpath_driver::{Config, HostpathDriver};
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::{CreateVolumeRequest, VolumeCapability};
use serde_json::Value;
use tonic::Request;

use super::yaml::{documents, files_under, list_at, text_at};
use super::{deploy, everything, plugin, rendered};

/// These parameters have an effect; the driver accepts others without one.
const PARAMETERS: &[&str] = &["backend", "kind"];
/// These attributes of inline volumes have an effect.
const ATTRIBUTES: &[&str] = &["backend", "kind", "size"];
/// A sidecar turns this parameter into the file system of the capability.
const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

fn of_kind(objects: Vec<Value>, kind: &str) -> Vec<Value> {
    objects.into_iter().filter(|object| text_at(object, "/kind") == Some(kind)).collect()
}

fn map_at(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = object.pointer(pointer).cloned().unwrap_or_else(|| Value::Object(Default::default()));
    serde_json::from_value(map).unwrap_or_else(|error| panic!("{pointer}: {error}"))
}

/// Returns the request that csi-provisioner makes for a claim of the class.
fn request(class: &Value, mutable: BTreeMap<String, String>) -> CreateVolumeRequest {
    let mut parameters = map_at(class, "/parameters");
    let mount =
        MountVolume { fs_type: parameters.remove(FS_TYPE).unwrap_or_default(), ..MountVolume::default() };
    let unknown = parameters.keys().find(|key| !PARAMETERS.contains(&key.as_str()));
    assert_eq!(unknown, None, "{}", text_at(class, "/metadata/name").unwrap());
    CreateVolumeRequest {
        name: format!("pvc-{}", text_at(class, "/metadata/name").unwrap()),
        volume_capabilities: vec![VolumeCapability {
            access_mode: Some(AccessMode { mode: Mode::SingleNodeMultiWriter.into() }),
            access_type: Some(AccessType::Mount(mount)),
        }],
        parameters,
        mutable_parameters: mutable,
        ..CreateVolumeRequest::default()
    }
}

/// Starts the driver as it is deployed, with its state below a directory. Returns the deployed objects as well.
async fn deployed(directory: &Path) -> (HostpathDriver, Vec<Value>) {
    let [_, (_, objects)] = rendered();
    let config = Config { state_dir: directory.join("state"), ..plugin::config(&objects) };
    let driver = HostpathDriver::new(config).unwrap();
    driver.ready().await;
    (driver, objects)
}

#[tokio::test]
async fn volumes_of_every_class_can_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let (driver, objects) = deployed(directory.path()).await;
    for class in of_kind(objects, "StorageClass") {
        let request = request(&class, BTreeMap::new());
        if request.parameters.get("backend").is_some_and(|backend| backend == "image")
            && !rustix::process::geteuid().is_root()
        {
            println!("skipped {}: images take root", request.name);
            continue;
        }
        let name = request.name.clone();
        let answer = driver.create_volume(Request::new(request)).await;
        assert!(answer.is_ok(), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn volumes_can_be_made_with_every_attributes_class() {
    let directory = tempfile::tempdir().unwrap();
    let (driver, objects) = deployed(directory.path()).await;
    let class = of_kind(objects.clone(), "StorageClass").remove(0);
    let attributes_classes = of_kind(objects, "VolumeAttributesClass");
    assert!(!attributes_classes.is_empty());
    for attributes_class in attributes_classes {
        let parameters = map_at(&attributes_class, "/parameters");
        let mut request = request(&class, parameters);
        request.name = text_at(&attributes_class, "/metadata/name").unwrap().to_owned();
        let answer = driver.create_volume(Request::new(request)).await;
        assert!(answer.is_ok(), "{attributes_class}: {answer:?}");
    }
    let other = BTreeMap::from([("colour".to_owned(), "blue".to_owned())]);
    let mut request = request(&class, other);
    request.name = "other".to_owned();
    assert!(driver.create_volume(Request::new(request)).await.is_err(), "an unknown name is rejected");
}

#[test]
fn inline_volumes_have_attributes_that_mean_something() {
    let mut inline = 0;
    for pod in of_kind(everything(), "Pod") {
        for volume in list_at(&pod, "/spec/volumes") {
            for key in map_at(volume, "/csi/volumeAttributes").keys() {
                assert!(ATTRIBUTES.contains(&key.as_str()), "{key}");
                inline += 1;
            }
        }
    }
    assert_ne!(inline, 0, "an example has attributes");
}

#[test]
fn claims_of_examples_fit_their_file_systems() {
    let smallest = |name: &str| match name {
        "csi-hostpath-xfs" => csi_hostpath_driver::FsType::Xfs.size_bytes_min(),
        "csi-hostpath-btrfs" => csi_hostpath_driver::FsType::Btrfs.size_bytes_min(),
        _ => csi_hostpath_driver::FsType::Ext4.size_bytes_min(),
    };
    for file in files_under(&deploy().join("examples"), "yaml") {
        for claim in of_kind(documents(&file), "PersistentVolumeClaim") {
            let size = text_at(&claim, "/spec/resources/requests/storage").unwrap();
            let bytes = size.strip_suffix("Gi").map(|gibibytes| gibibytes.parse::<u64>().unwrap() << 30);
            let class = text_at(&claim, "/spec/storageClassName").unwrap();
            assert!(bytes.is_some_and(|bytes| bytes >= smallest(class)), "{}: {size}", file.display());
        }
    }
}
