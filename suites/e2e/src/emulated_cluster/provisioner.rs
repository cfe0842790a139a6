//! Emulates the external-provisioner, which makes volumes for claims and deletes released ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_harness::prelude::{Capability, Cx};
use csi_harness::text::size::sized;
use csi_proto::v1;

use super::failure::{Caller, Failure, Verdict};
use super::parameters::Tokens;
use super::queue::{Work, work};
use super::shared::{Shared, capability};
use super::store::{Objects, VolumeObject};
use super::{access_mode, parameters, topology};
use crate::cluster::{
    DataSource, Pairs, PersistentVolume, PvcPhase, PvcSpec, ReclaimPolicy, SecretReference, SecretUse,
    StorageClass, VolumeBindingMode, VolumePhase,
};

type Secrets = BTreeMap<SecretUse, SecretReference>;

/// The key that the provisioner adds to the volume_context.
const IDENTITY: &str = "storage.kubernetes.io/csiProvisionerIdentity";
/// Limits the attempts to delete a volume that does not match its request.
const UNDO_TRIES_MAX: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Provision(String),
    Delete(String),
}

pub(super) async fn run(shared: Arc<Shared>) {
    work(shared, wanted, |shared, key| async move {
        match key {
            Key::Provision(claim) => provision(&shared, &claim).await,
            Key::Delete(volume) => delete(&shared, &volume).await,
        }
    })
    .await;
}

fn wanted(objects: &Objects) -> Vec<Key> {
    let claims = objects.claims.iter().filter(|(_, object)| {
        let claim = &object.claim;
        let wanted = object.in_flight.is_some() || !object.deleting;
        let late = objects.storage_classes.get(&claim.spec.class).is_some_and(|class| {
            class.volume_binding_mode == VolumeBindingMode::Immediate || object.selected_node.is_some()
        });
        claim.phase == PvcPhase::Pending
            && claim.spec.volume.is_none()
            && claim.given_up.is_none()
            && wanted
            && late
    });
    let volumes = objects.volumes.iter().filter(|(name, object)| {
        object.volume.phase == VolumePhase::Released
            && object.volume.reclaim == ReclaimPolicy::Delete
            && object.volume.given_up.is_none()
            && !objects.attachments.keys().any(|(volume, _)| volume == *name)
    });
    let claims = claims.map(|(name, _)| Key::Provision(name.clone()));
    claims.chain(volumes.map(|(name, _)| Key::Delete(name.clone()))).collect()
}

/// Makes one attempt to create the volume of a claim.
async fn provision(shared: &Shared, name: &str) -> Work {
    let Some((spec, class, request)) = shared.store.look(|objects| {
        let object = objects.claims.get(name)?;
        let class = objects.storage_classes.get(&object.claim.spec.class)?;
        Some((object.claim.spec.clone(), class.clone(), object.in_flight.clone()))
    }) else {
        return Work::Done;
    };
    let prepared = read(shared, name, &class).and_then(|(read, secrets)| {
        let request = request.map_or_else(|| self::request(shared, name, &spec, &class, read), Ok)?;
        Ok((request, secrets))
    });
    let (request, secrets) = match prepared {
        Ok(prepared) => prepared,
        Err(Problem { text, for_good }) => {
            shared.store.event(name, "ProvisioningFailed", text.clone());
            if !for_good {
                return Work::Again;
            }
            shared.store.change_claim(name, |object| object.claim.given_up = Some(text));
            return Work::Done;
        }
    };
    shared.store.change_claim(name, |object| object.in_flight = Some(request.clone()));
    match create(shared, &request, secrets.get(&SecretUse::Provisioner)).await {
        Ok(volume) => {
            let volume = PersistentVolume { secrets, ..made_from(shared, &request, &spec, &class, volume) };
            shared.store.change(|objects| bind(objects, name, volume));
            Work::Done
        }
        Err(failure) => failed(shared, name, &failure),
    }
}

/// Returns the parameters of a claim's class, and the Secrets that it names.
fn read(shared: &Shared, claim: &str, class: &StorageClass) -> Result<(parameters::Read, Secrets), Problem> {
    let uid = shared.store.look(|objects| objects.claims.get(claim).map(|object| object.uid.clone()));
    let pv_name = pv_name(&uid.unwrap_or_default());
    let annotations = &shared.settings.claim_annotations;
    let annotations: Vec<(String, &str)> = annotations
        .iter()
        .map(|(key, value)| (format!("pvc.annotations['{key}']"), value.as_str()))
        .collect();
    let annotations = annotations.iter().map(|(token, value)| (token.as_str(), *value));
    let tokens = Tokens {
        anywhere: &[("pv.name", &pv_name), ("pvc.namespace", super::NAMESPACE)],
        in_names: &std::iter::once(("pvc.name", claim)).chain(annotations).collect::<Vec<_>>(),
    };
    let read = parameters::of_storage_class(&class.parameters)
        .and_then(|read| read.secrets(&tokens).map(|secrets| (read, secrets)));
    read.map_err(|why| {
        shared.is_wrong(format!("StorageClass {}: {why}", class.name));
        Problem::for_good(why)
    })
}

/// Calls CreateVolume once.
async fn create(
    shared: &Shared,
    request: &v1::CreateVolumeRequest,
    secret: Option<&SecretReference>,
) -> Result<v1::Volume, Failure> {
    let cx = shared.with_secret(&shared.cx, secret)?;
    let volume = shared.heard(&cx.create_volume(request.clone()).once().await)?;
    usable(shared, &cx, request, volume).await
}

/// Records a failure of CreateVolume.
fn failed(shared: &Shared, name: &str, failure: &Failure) -> Work {
    shared.store.event(name, "ProvisioningFailed", failure.to_string());
    let topology = shared.has(Capability::VolumeAccessibilityConstraints);
    let why = shared.gives_up(failure, Caller::Provisioner);
    shared.store.change(|objects| {
        let Some(object) = objects.claims.get_mut(name) else { return Work::Done };
        if Caller::Provisioner.judges(failure.code) != Verdict::Uncertain {
            object.in_flight = None;
        }
        if failure.code == tonic::Code::ResourceExhausted && topology {
            // The scheduler may choose another node with free space.
            object.selected_node = None;
        }
        object.claim.given_up = why;
        Work::after(object.claim.given_up.as_ref())
    })
}

/// The reason why no request can be made.
struct Problem {
    text: String,
    /// True if waiting does not help.
    for_good: bool,
}

impl Problem {
    fn for_now(text: impl Into<String>) -> Problem {
        Problem { text: text.into(), for_good: false }
    }

    fn for_good(text: impl Into<String>) -> Problem {
        Problem { text: text.into(), for_good: true }
    }
}

fn request(
    shared: &Shared,
    name: &str,
    spec: &PvcSpec,
    class: &StorageClass,
    read: parameters::Read,
) -> Result<v1::CreateVolumeRequest, Problem> {
    if !shared.has(Capability::CreateDeleteVolume) {
        return Err(Problem::for_good("the driver does not have CREATE_DELETE_VOLUME"));
    }
    let finer = shared.has(Capability::SingleNodeMultiWriter);
    let fs_type = read.fs_type.unwrap_or_else(|| shared.settings.default_fs_type.clone());
    let (uid, selected, content, usable, mutable) = shared.store.look(|objects| {
        let object = objects.claims.get(name).ok_or_else(|| Problem::for_good("the claim is gone"))?;
        let content = spec.source.as_ref().map(|source| content_source(shared, objects, spec, source));
        let mutable = mutable_parameters(shared, objects, spec)?;
        let usable = places_of_source(objects, spec.source.as_ref());
        Ok((object.uid.clone(), object.selected_node, content.transpose()?, usable, mutable))
    })?;
    let volume = PersistentVolume { fs_type, mount_options: class.mount_options.clone(), ..blank(spec) };
    let mut parameters = read.parameters;
    if shared.settings.extra_create_metadata {
        for (key, value) in
            [("pvc/name", name), ("pvc/namespace", super::NAMESPACE), ("pv/name", &pv_name(&uid))]
        {
            parameters.insert(format!("csi.storage.k8s.io/{key}"), value.to_owned());
        }
    }
    let accessibility_requirements = if shared.has(Capability::VolumeAccessibilityConstraints) {
        Some(topology::requirement(shared, name, class, selected, &usable).map_err(Problem::for_now)?)
    } else {
        None
    };
    let capabilities =
        spec.access_modes.iter().map(|mode| capability(&volume, access_mode::of_one(*mode, finer), None));
    Ok(v1::CreateVolumeRequest {
        name: pv_name(&uid),
        capacity_range: Some(v1::CapacityRange { required_bytes: spec.request_bytes, limit_bytes: 0 }),
        volume_capabilities: capabilities.collect(),
        parameters,
        volume_content_source: content,
        accessibility_requirements,
        mutable_parameters: mutable,
        ..Default::default()
    })
}

fn pv_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

fn mutable_parameters(shared: &Shared, objects: &Objects, spec: &PvcSpec) -> Result<Pairs, Problem> {
    let Some(class) = &spec.attributes_class else { return Ok(Pairs::new()) };
    if !shared.has(Capability::ModifyVolume) {
        return Err(Problem::for_good("the driver does not have MODIFY_VOLUME"));
    }
    let class = objects.attributes_classes.get(class);
    let class = class.ok_or_else(|| Problem::for_now("there is no such VolumeAttributesClass"))?;
    if class.driver != shared.driver() {
        return Err(Problem::for_good(format!("the VolumeAttributesClass is for driver {}", class.driver)));
    }
    Ok(class.parameters.clone())
}

/// Returns the topologies in which a claim's source can be used, from the content of its snapshot; empty means
/// everywhere.
fn places_of_source(objects: &Objects, source: Option<&DataSource>) -> Vec<Pairs> {
    let Some(DataSource::Snapshot(name)) = source else { return Vec::new() };
    objects.snapshots.get(name).map(|object| object.snapshot.topology.clone()).unwrap_or_default()
}

/// Returns the source of a claim, if it is usable.
fn content_source(
    shared: &Shared,
    objects: &Objects,
    spec: &PvcSpec,
    source: &DataSource,
) -> Result<v1::VolumeContentSource, Problem> {
    let too_small = |bytes: i64| {
        let asked = sized(spec.request_bytes);
        Problem::for_good(format!("{asked} are requested, but the source has {}", sized(bytes)))
    };
    Ok(match source {
        DataSource::Snapshot(name) => {
            if !shared.has(Capability::CreateDeleteSnapshot) {
                return Err(Problem::for_good("the driver does not have CREATE_DELETE_SNAPSHOT"));
            }
            let object = objects.snapshots.get(name).filter(|object| !object.deleting);
            let ready = object.map(|object| &object.snapshot).filter(|snapshot| snapshot.ready);
            let snapshot = ready.ok_or_else(|| Problem::for_now(format!("snapshot {name} is not ready")))?;
            if spec.request_bytes < snapshot.restore_size_bytes {
                return Err(too_small(snapshot.restore_size_bytes));
            }
            v1::VolumeContentSource::snapshot(snapshot.handle.clone().unwrap_or_default())
        }
        DataSource::Claim(name) => {
            if !shared.has(Capability::CloneVolume) {
                return Err(Problem::for_good("the driver does not have CLONE_VOLUME"));
            }
            let volume = objects.volume_of_claim(name);
            let volume = volume.ok_or_else(|| Problem::for_now(format!("claim {name} is not bound")))?;
            let request = objects.claims.get(name).map_or(0, |object| object.claim.spec.request_bytes);
            if spec.request_bytes < request {
                return Err(too_small(request));
            }
            if volume.mode != spec.mode {
                return Err(Problem::for_good("the source has another volume mode"));
            }
            v1::VolumeContentSource::volume(&volume.handle)
        }
    })
}

/// Returns the volume if it matches the request; otherwise it is deleted again.
async fn usable(
    shared: &Shared,
    cx: &Cx,
    request: &v1::CreateVolumeRequest,
    volume: v1::Volume,
) -> Result<v1::Volume, Failure> {
    let required = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
    let why = if volume.volume_id.is_empty() {
        return Err(Failure::of_answer("CreateVolume", "the answer is OK, but has no volume_id"));
    } else if request.volume_content_source.is_some()
        && volume.content_source != request.volume_content_source
    {
        "the new volume is not a copy: content_source is not the requested one".to_owned()
    } else if volume.capacity_bytes != 0 && volume.capacity_bytes < required {
        format!("the new volume has {}, not {}", sized(volume.capacity_bytes), sized(required))
    } else {
        return Ok(volume);
    };
    for _ in 0..UNDO_TRIES_MAX {
        if shared.heard(&cx.delete_volume(&volume.volume_id).once().await).is_ok() {
            break;
        }
    }
    Err(Failure::of_answer("CreateVolume", why))
}

/// Makes a PersistentVolume for a claim, without the driver's data.
fn blank(spec: &PvcSpec) -> PersistentVolume {
    PersistentVolume {
        capacity_bytes: spec.request_bytes,
        access_modes: spec.access_modes.clone(),
        class: spec.class.clone(),
        mode: spec.mode,
        claim: Some(spec.name.clone()),
        ..PersistentVolume::default()
    }
}

fn made_from(
    shared: &Shared,
    request: &v1::CreateVolumeRequest,
    spec: &PvcSpec,
    class: &StorageClass,
    volume: v1::Volume,
) -> PersistentVolume {
    let mut attributes = volume.volume_context;
    attributes.entry(IDENTITY.to_owned()).or_insert_with(|| format!("csi-sanity-{}", shared.driver()));
    let fs_type = request.volume_capabilities.iter().find_map(|capability| match &capability.access_type {
        Some(v1::volume_capability::AccessType::Mount(mount)) => Some(mount.fs_type.clone()),
        _ => None,
    });
    let mut made = blank(spec);
    if volume.capacity_bytes > 0 {
        made.capacity_bytes = volume.capacity_bytes;
    }
    PersistentVolume {
        name: request.name.clone(),
        handle: volume.volume_id,
        fs_type: fs_type.unwrap_or_default(),
        attributes,
        mount_options: class.mount_options.clone(),
        reclaim: class.reclaim_policy,
        topology: volume.accessible_topology.into_iter().map(|place| place.segments).collect(),
        ..made
    }
}

fn bind(objects: &mut Objects, claim: &str, volume: PersistentVolume) {
    if let Some(object) = objects.claims.get_mut(claim) {
        object.in_flight = None;
        object.claim.phase = PvcPhase::Bound;
        object.claim.volume = Some(volume.name.clone());
        object.claim.capacity_bytes = volume.capacity_bytes;
        object.claim.attributes_class.clone_from(&object.claim.spec.attributes_class);
    }
    objects.volumes.insert(volume.name.clone(), VolumeObject { volume, deleting: false });
}

/// Calls DeleteVolume once for a released volume.
async fn delete(shared: &Shared, name: &str) -> Work {
    let found = shared.store.look(|objects| objects.volumes.get(name).map(|object| object.volume.clone()));
    let Some(volume) = found else { return Work::Done };
    // A missing Secret does not prevent the deletion.
    let cx = shared.with_secret(&shared.cx, volume.secrets.get(&SecretUse::Provisioner));
    let cx = cx.unwrap_or_else(|_| shared.cx.clone());
    match shared.heard(&cx.delete_volume(&volume.handle).once().await) {
        Ok(_) => {
            shared.store.change(|objects| objects.volumes.remove(name));
            Work::Done
        }
        Err(failure) => {
            shared.store.event(name, "VolumeFailedDelete", failure.to_string());
            // Every error is retried here, whatever its code.
            let why = shared.gives_up(&failure, Caller::Attacher);
            shared.store.change(|objects| {
                let Some(object) = objects.volumes.get_mut(name) else { return Work::Done };
                object.volume.given_up = why;
                Work::after(object.volume.given_up.as_ref())
            })
        }
    }
}
