use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_harness::text::size::sized;
use futures_util::future::BoxFuture;

use super::{Scene, Seen, failed};
use crate::cluster::{
    AccessMode, DataSource, Done, Event, PersistentVolume, Pvc, PvcPhase, PvcSpec, ReclaimPolicy,
    StorageClass, VolumeBindingMode, VolumeMode, VolumeSource,
};
use crate::pattern::VolumeType;

/// A volume as pods use it.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    /// The source of the volume in pods.
    pub(crate) source: VolumeSource,
    /// True if pods get a block device.
    pub(crate) block: bool,
}

impl Volume {
    /// Makes a volume from a claim.
    pub(crate) fn of_claim(name: &str, block: bool) -> Volume {
        Volume { source: VolumeSource::Claim { name: name.to_owned(), read_only: false }, block }
    }

    /// Returns the volume for read-only use.
    pub(crate) fn read_only(&self) -> Volume {
        let mut volume = self.clone();
        match &mut volume.source {
            VolumeSource::Claim { read_only, .. } | VolumeSource::Inline { read_only, .. } => {
                *read_only = true
            }
            VolumeSource::Ephemeral(_) | VolumeSource::EmptyDir => {}
        }
        volume
    }

    /// Returns the name of the claim; empty if the volume is none.
    pub(crate) fn claim(&self) -> &str {
        match &self.source {
            VolumeSource::Claim { name, .. } => name,
            _ => "",
        }
    }
}

impl Scene {
    /// Creates a class for the pattern.
    pub(crate) async fn class(&self) -> Done<StorageClass> {
        self.class_with(|_| ()).await
    }

    /// Creates a class for the pattern that differs from the definition's.
    pub(crate) async fn class_with(&self, change: impl FnOnce(&mut StorageClass)) -> Done<StorageClass> {
        let defined = self.definition.storage.as_ref();
        let defined = defined.ok_or_else(|| Stop::skip("the definition has no StorageClass"))?;
        let pattern = self.pattern;
        let mut class = StorageClass { name: self.name("class"), ..defined.clone() };
        class.allow_volume_expansion = pattern.allow_expansion;
        if !pattern.fs_type.is_empty() {
            class.parameters.insert("csi.storage.k8s.io/fstype".to_owned(), pattern.fs_type.to_owned());
        }
        if let Some(binding) = pattern.binding {
            class.volume_binding_mode = binding;
        }
        change(&mut class);
        self.cluster().create_storage_class(&class).await?;
        Ok(class)
    }

    /// Describes a claim for a class, as the common helper does.
    pub(crate) fn claim_spec(&self, class: &StorageClass) -> PvcSpec {
        let mut access_modes = self.driver().driver_info.required_access_modes.clone();
        if access_modes.is_empty() {
            access_modes.push(AccessMode::ReadWriteOnce);
        }
        PvcSpec {
            name: self.name("claim"),
            class: class.name.clone(),
            access_modes,
            mode: self.pattern.mode.unwrap_or_default(),
            request_bytes: self.claim_bytes,
            ..PvcSpec::default()
        }
    }

    /// Makes a volume of the pattern, in its own class. The claim is bound unless it waits for a pod.
    pub(crate) fn volume(&self) -> BoxFuture<'_, Done<Volume>> {
        Box::pin(async move {
            if self.pattern.volume == VolumeType::Inline {
                return self.inline_volume(0);
            }
            let class = self.class().await?;
            self.volume_of(&class).await
        })
    }

    /// Makes a volume of a class.
    pub(crate) async fn volume_of(&self, class: &StorageClass) -> Done<Volume> {
        let spec = self.claim_spec(class);
        let block = spec.mode == VolumeMode::Block;
        if self.pattern.volume == VolumeType::GenericEphemeral {
            return Ok(Volume { source: VolumeSource::Ephemeral(Box::new(spec)), block });
        }
        self.claim(&spec, class).await
    }

    /// Makes a volume from a claim that differs from others, in its own class.
    pub(crate) async fn claim_with(&self, change: impl FnOnce(&mut PvcSpec)) -> Done<Volume> {
        let class = self.class().await?;
        let mut spec = self.claim_spec(&class);
        change(&mut spec);
        self.claim(&spec, &class).await
    }

    /// Creates a claim, and waits until it is bound unless it waits for a pod.
    pub(crate) fn claim<'a>(
        &'a self,
        spec: &'a PvcSpec,
        class: &'a StorageClass,
    ) -> BoxFuture<'a, Done<Volume>> {
        Box::pin(async move {
            self.cluster().create_pvc(spec).await?;
            if class.volume_binding_mode == VolumeBindingMode::Immediate {
                let limit = match spec.source {
                    Some(_) => self.timeouts().data_source_provision,
                    None => self.timeouts().claim_provision,
                };
                self.bound(&spec.name, limit).await?;
            }
            Ok(Volume::of_claim(&spec.name, spec.mode == VolumeMode::Block))
        })
    }

    /// Returns the definition's inline volume with this index.
    pub(crate) fn inline_volume(&self, index: usize) -> Done<Volume> {
        let inline = &self.driver().inline_volumes;
        let Some(one) = inline.get(index % inline.len().max(1)) else {
            return Err(Stop::skip("the definition has no InlineVolumes"));
        };
        let source = VolumeSource::Inline {
            driver: self.driver().driver_info.name.clone(),
            attributes: one.attributes.clone(),
            fs_type: self.pattern.fs_type.to_owned(),
            read_only: false,
        };
        Ok(Volume { source, block: self.pattern.is_block() })
    }

    /// Waits until a claim has a volume.
    pub(crate) fn bound<'a>(
        &'a self,
        claim: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Done<(Pvc, PersistentVolume)>> {
        Box::pin(async move {
            let what = format!("claim {claim} is bound");
            let found = self.until(&what, limit, || async {
                let claim = self.existing_claim(claim).await?;
                Ok(match (claim.phase, &claim.given_up) {
                    (PvcPhase::Bound, _) => Seen::There(claim),
                    (_, Some(why)) => Seen::Never(why.clone()),
                    (phase, None) => Seen::NotYet(format!(
                        "it is {phase:?}{}",
                        self.explaining_event(&claim.spec.name).await?
                    )),
                })
            });
            let claim = found.await?;
            let volume = self.volume_behind(&claim).await?;
            Ok((claim, volume))
        })
    }

    /// Returns a claim of the test.
    pub(crate) async fn existing_claim(&self, name: &str) -> Done<Pvc> {
        self.cluster().claim(name).await?.ok_or_else(|| Stop::broken(format!("claim {name} is gone")))
    }

    /// Returns the PersistentVolume of a bound claim.
    pub(crate) async fn volume_behind(&self, claim: &Pvc) -> Done<PersistentVolume> {
        let name = claim.volume.as_deref().unwrap_or_default();
        let volume = self.cluster().volume(name).await?;
        volume.ok_or_else(|| {
            Stop::broken(format!("PersistentVolume {name:?} of claim {} is gone", claim.spec.name))
        })
    }

    /// Deletes a claim, and waits until its volume is gone as well, unless that is retained.
    pub(crate) async fn delete_pvc(&self, name: &str, limit: Duration) -> Done {
        let claim = self.existing_claim(name).await?;
        self.cluster().delete_pvc(name).await?;
        self.claim_gone(name, limit).await?;
        match claim.volume {
            Some(volume) => self.volume_gone(&volume, limit).await,
            None => Ok(()),
        }
    }

    /// Waits until a claim is gone.
    pub(crate) async fn claim_gone(&self, name: &str, limit: Duration) -> Done {
        self.until(&format!("claim {name} is gone"), limit, || async {
            Ok(match self.cluster().claim(name).await? {
                None => Seen::There(()),
                Some(_) => Seen::NotYet(format!("it still exists{}", self.explaining_event(name).await?)),
            })
        })
        .await
    }

    /// Waits until a PersistentVolume is gone, unless it is to be retained.
    pub(crate) async fn volume_gone(&self, name: &str, limit: Duration) -> Done {
        self.until(&format!("PersistentVolume {name} is gone"), limit, || async {
            Ok(match self.cluster().volume(name).await? {
                None => Seen::There(()),
                Some(volume) if volume.reclaim == ReclaimPolicy::Retain => Seen::There(()),
                Some(PersistentVolume { given_up: Some(why), .. }) => Seen::Never(why),
                Some(volume) => {
                    Seen::NotYet(format!("it is {:?}{}", volume.phase, self.explaining_event(name).await?))
                }
            })
        })
        .await
    }

    /// Waits until a PersistentVolume is attached to no node.
    pub(crate) async fn detached(&self, volume: &str, limit: Duration) -> Done {
        self.until(&format!("PersistentVolume {volume} is detached"), limit, || async {
            Ok(match self.cluster().is_attached(volume).await? {
                false => Seen::There(()),
                true => Seen::NotYet(format!("it is still attached{}", self.explaining_event(volume).await?)),
            })
        })
        .await
    }

    /// Waits until the volume of a bound claim is attached to no node. It has all data of the node's cache then.
    pub(crate) async fn claim_detached(&self, claim: &str) -> Done {
        let (_, volume) = self.bound(claim, self.timeouts().claim_provision).await?;
        self.detached(&volume.name, self.timeouts().pv_delete).await
    }

    /// Returns `; REASON: MESSAGE` of the event that explains most, or nothing.
    pub(crate) async fn explaining_event(&self, object: &str) -> Done<String> {
        let events = self.cluster().events(object).await?;
        let event = Event::most_explaining(&events);
        Ok(event.map(|event| format!("; {}: {}", event.reason, event.message)).unwrap_or_default())
    }

    /// Upstream's check of dynamic provisioning: a claim gets a matching volume, and the volume is deleted with it.
    /// With [`VolumeBindingMode::WaitForFirstConsumer`] a pod uses it once before.
    pub(crate) async fn provisions(
        &self,
        class: &StorageClass,
        spec: &PvcSpec,
    ) -> Done<(Pvc, PersistentVolume)> {
        let volume = self.claim(spec, class).await?;
        if class.volume_binding_mode == VolumeBindingMode::WaitForFirstConsumer {
            self.run(self.pod(&[&volume])).await?.delete().await?;
        }
        let limit = self.timeouts().claim_provision;
        let (claim, volume) = self.bound(&spec.name, limit).await?;
        let as_asked = |holds: bool, what: &str, expected: String, actual: String| match holds {
            true => Ok(()),
            false => Err(failed(format!("the volume created for a claim has {what}"), expected, actual)),
        };
        as_asked(
            volume.capacity_bytes >= spec.request_bytes,
            "another capacity",
            format!("{} or more", sized(spec.request_bytes)),
            sized(volume.capacity_bytes).to_string(),
        )?;
        as_asked(
            spec.access_modes.iter().all(|mode| volume.access_modes.contains(mode)),
            "other access modes",
            format!("{:?}", spec.access_modes),
            format!("{:?}", volume.access_modes),
        )?;
        as_asked(
            volume.reclaim == class.reclaim_policy,
            "another reclaim policy",
            format!("{:?}", class.reclaim_policy),
            format!("{:?}", volume.reclaim),
        )?;
        as_asked(
            volume.mount_options == class.mount_options,
            "other mount options",
            format!("{:?}", class.mount_options),
            format!("{:?}", volume.mount_options),
        )?;
        as_asked(
            volume.mode == spec.mode,
            "another volume mode",
            format!("{:?}", spec.mode),
            format!("{:?}", volume.mode),
        )?;
        Ok((claim, volume))
    }

    /// Describes a claim that starts as a copy.
    pub(crate) fn copy_spec(&self, class: &StorageClass, source: DataSource) -> PvcSpec {
        PvcSpec { source: Some(source), ..self.claim_spec(class) }
    }
}
