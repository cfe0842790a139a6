//! Volumes on their way into a pod and out of it again: staged once on the node, published for each pod.

use std::collections::BTreeSet;
use std::path::Path;

use csi_harness::prelude::{AccessType, Cx, Stop};
use csi_proto::v1;

use super::{Kubelet, NodeCapability, fs_group};
use crate::cluster::{Pairs, PersistentVolume, Pod, VolumeMode};
use crate::local::failure::{Caller, Failure, Verdict};
use crate::local::shared::{Found, capability, hex_sha256};
use crate::local::store::Objects;
use crate::local::{NAMESPACE, access_mode};

/// How far a call has come that mounts something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    No,
    /// The latest call left it open.
    Uncertain,
    Yes,
}

/// A volume on this node.
#[derive(Debug)]
pub(super) struct Device {
    scope: Cx,
    staged: State,
    pub(super) path: String,
    /// UIDs of the pods that want it.
    users: BTreeSet<String>,
}

impl Device {
    pub(super) fn new(scope: Cx) -> Device {
        Device { scope, staged: State::No, path: String::new(), users: BTreeSet::new() }
    }

    /// It was here before kubelet was started.
    pub(super) fn is_found(&mut self, path: String) {
        self.path = path;
        self.staged = State::Uncertain;
    }
}

/// A volume of a pod.
#[derive(Debug)]
pub(super) struct PodMount {
    /// Its name in the pod.
    pub(super) name: String,
    volume: PersistentVolume,
    read_only: bool,
    /// Whether it lives as long as the pod, and needs no staging.
    inline: bool,
    scope: Cx,
    published: State,
    /// target_path, once there is one.
    pub(super) target: String,
}

impl PodMount {
    pub(super) fn new(
        name: String,
        volume: PersistentVolume,
        read_only: bool,
        inline: bool,
        scope: Cx,
    ) -> PodMount {
        PodMount { name, volume, read_only, inline, scope, published: State::No, target: String::new() }
    }

    /// As kubelet finds it when it starts.
    pub(super) fn found(name: String, found: &Found, scope: Cx) -> PodMount {
        let mut mount = PodMount::new(name, found.volume.clone(), false, found.inline, scope);
        mount.is_found(found.target.clone());
        mount
    }

    /// It was here before kubelet was started.
    pub(super) fn is_found(&mut self, target: String) {
        self.target = target;
        self.published = State::Uncertain;
    }

    /// The PersistentVolume.
    pub(super) fn volume_name(&self) -> &str {
        &self.volume.name
    }

    pub(super) fn read_only(&self) -> bool {
        self.read_only
    }

    pub(super) fn access(&self) -> AccessType {
        match self.volume.mode {
            VolumeMode::Filesystem => AccessType::Mount,
            VolumeMode::Block => AccessType::Block,
        }
    }

    /// The key of what is staged for it.
    pub(super) fn device_key(&self) -> String {
        device_key(&self.volume)
    }
}

/// What a path on the node is good for: without it no call is made.
fn local(error: &Stop) -> Failure {
    Failure::of_node(match error {
        Stop::Broken(why) | Stop::Skip(why) => why.clone(),
        other => format!("{other:?}"),
    })
}

impl Kubelet {
    /// One try to bring a volume into a pod.
    pub(super) async fn set_up(&self, pod: &Pod, mount: &mut PodMount) -> Result<(), Failure> {
        if mount.inline {
            if !self.shared.csi_driver.ephemeral {
                return Err(Failure::of_node(
                    "the CSIDriver does not list Ephemeral in volumeLifecycleModes",
                ));
            }
            return self.publish(pod, mount, Pairs::new(), None).await;
        }
        let Some(context) = self.attached(pod, mount).await else { return Ok(()) };
        let device = self.device(&mount.device_key());
        let mut device = device.lock().await;
        device.users.insert(pod.uid.clone());
        self.shared.store.change(|objects| objects.in_use.insert((mount.volume.name.clone(), self.node)));
        if device.staged != State::Yes {
            self.stage(pod, mount, &mut device, &context).await?;
        }
        let staging = device.path.clone();
        self.publish(pod, mount, context, Some(&staging)).await?;
        self.expand_published(pod, mount, &staging).await
    }

    /// publish_context of a volume once it is attached; none if the pod is not wanted any more.
    async fn attached(&self, pod: &Pod, mount: &PodMount) -> Option<Pairs> {
        if !self.shared.csi_driver.attach_required {
            return Some(Pairs::new());
        }
        let place = (mount.volume.name.clone(), self.node);
        let attached = self.shared.store.until(|objects| {
            let attachment = objects.attachments.get(&place)?;
            attachment.attached.clone().filter(|_| !attachment.detaching)
        });
        tokio::select! {
            attached = attached => Some(attached),
            () = self.deleted(&pod.uid) => None,
        }
    }

    async fn stage(
        &self,
        pod: &Pod,
        mount: &PodMount,
        device: &mut Device,
        context: &Pairs,
    ) -> Result<(), Failure> {
        let PersistentVolume { handle, name, .. } = &mount.volume;
        let path = device.scope.kubelet_staging_path(handle, name, mount.access()).await;
        device.path = path.map_err(|error| local(&error))?;
        if !self.can(NodeCapability::StageUnstageVolume).await? {
            return Ok(());
        }
        if mount.access() == AccessType::Mount {
            let data = Pairs::from([
                ("volumeHandle".to_owned(), handle.clone()),
                ("driverName".to_owned(), self.shared.driver().to_owned()),
            ]);
            write_data(&device.scope, &device.path, &data).await?;
        }
        let request = v1::NodeStageVolumeRequest {
            volume_id: handle.clone(),
            publish_context: context.clone(),
            staging_target_path: device.path.clone(),
            volume_capability: Some(self.capability(pod, mount).await?),
            volume_context: mount.volume.attributes.clone(),
            ..Default::default()
        };
        let staged = Failure::or(&device.scope.node_stage(request).once().await);
        device.staged = after(&staged, State::No);
        staged.map(|_| ())
    }

    pub(super) async fn capability(
        &self,
        pod: &Pod,
        mount: &PodMount,
    ) -> Result<v1::VolumeCapability, Failure> {
        let group = match pod.spec.fs_group {
            Some(group) if mount.access() == AccessType::Mount => {
                self.can(NodeCapability::VolumeMountGroup).await?.then_some(group)
            }
            _ => None,
        };
        let finer = self.can(NodeCapability::SingleNodeMultiWriter).await?;
        // kubelet looks at no other mode than the first.
        let first = mount.volume.access_modes.first().copied();
        let mode = access_mode::of_one(first.unwrap_or(crate::cluster::AccessMode::ReadWriteOnce), finer);
        Ok(capability(&mount.volume, mode, group))
    }

    async fn publish(
        &self,
        pod: &Pod,
        mount: &mut PodMount,
        context: Pairs,
        staging: Option<&str>,
    ) -> Result<(), Failure> {
        let PersistentVolume { handle, name, .. } = &mount.volume;
        let target = mount.scope.kubelet_target_path(&pod.uid, name, mount.access()).await;
        mount.target = target.map_err(|error| local(&error))?;
        self.shared.publishes(self.node, &pod.uid, &mount.target);
        let found = Found {
            pod: pod.clone(),
            volume: mount.volume.clone(),
            inline: mount.inline,
            target: mount.target.clone(),
            staging: staging.unwrap_or_default().to_owned(),
        };
        self.shared.write_down(self.node, &mount.name, found);
        if mount.access() == AccessType::Mount {
            write_data(&mount.scope, &mount.target, &self.publish_data(mount)).await?;
        }
        let staging = match (staging, mount.access()) {
            (Some(staging), AccessType::Block) => staging,
            (Some(staging), AccessType::Mount) if self.can(NodeCapability::StageUnstageVolume).await? => {
                staging
            }
            _ => "",
        };
        let mut volume_context = mount.volume.attributes.clone();
        if self.shared.csi_driver.pod_info_on_mount {
            volume_context.extend(pod_information(pod, mount.inline));
        }
        let volume_capability = self.capability(pod, mount).await?;
        let driver_sets_group = matches!(
            &volume_capability.access_type,
            Some(v1::volume_capability::AccessType::Mount(mount)) if !mount.volume_mount_group.is_empty()
        );
        let request = v1::NodePublishVolumeRequest {
            volume_id: handle.clone(),
            publish_context: context,
            staging_target_path: staging.to_owned(),
            target_path: mount.target.clone(),
            volume_capability: Some(volume_capability),
            readonly: mount.read_only,
            volume_context,
            ..Default::default()
        };
        let before = mount.published;
        let published = Failure::or(&mount.scope.node_publish(request).once().await);
        mount.published = after(&published, before);
        published?;
        if let Some(group) = pod.spec.fs_group.filter(|_| !driver_sets_group)
            && fs_group::applies(self.shared.csi_driver.fs_group_policy, &mount.volume, mount.read_only)
            && self.cx.is_mount_point(&mount.target)
        {
            fs_group::hand_over(mount.target.clone().into(), group, pod.spec.fs_group_policy).await;
        }
        Ok(())
    }

    /// What kubelet writes beside the target path.
    fn publish_data(&self, mount: &PodMount) -> Pairs {
        let PersistentVolume { handle, name, .. } = &mount.volume;
        let node = &self.shared.nodes[self.node].node.name;
        let (mode, attachment) = match mount.inline {
            true => ("Ephemeral", String::new()),
            false => {
                let attachment = format!("{handle}{}{node}", self.shared.driver());
                ("Persistent", format!("csi-{}", hex_sha256(&attachment)))
            }
        };
        [
            ("specVolID", name.as_str()),
            ("volumeHandle", handle),
            ("driverName", self.shared.driver()),
            ("nodeName", node),
            ("volumeLifecycleMode", mode),
            ("attachmentID", &attachment),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// One try to take a volume out of a pod, and off the node if no other pod has it.
    pub(super) async fn tear_down(&self, pod: &Pod, mount: &mut PodMount) -> Result<(), Failure> {
        if mount.published != State::No {
            let reply = self.cx.node_unpublish(&mount.volume.handle, &mount.target).once().await;
            Failure::or(&reply).inspect_err(|_| mount.published = State::Uncertain)?;
            mount.published = State::No;
        }
        mount.scope.undo().await.map_err(|error| local(&error))?;
        if mount.inline {
            self.shared.strike_out(self.node, &pod.uid, &mount.name);
            return Ok(());
        }
        let device = self.device(&mount.device_key());
        let mut device = device.lock().await;
        device.users.remove(&pod.uid);
        self.shared.strike_out(self.node, &pod.uid, &mount.name);
        let found = self.shared.found_on(self.node);
        let is_used =
            |found: &Found| !found.inline && found.staging == device.path && found.pod.uid != pod.uid;
        if !device.users.is_empty() || found.iter().any(|(_, found)| is_used(found)) {
            return Ok(());
        }
        if device.staged != State::No && self.can(NodeCapability::StageUnstageVolume).await? {
            let reply = self.cx.node_unstage(&mount.volume.handle, &device.path).once().await;
            Failure::or(&reply).inspect_err(|_| device.staged = State::Uncertain)?;
        }
        device.staged = State::No;
        device.scope.undo().await.map_err(|error| local(&error))?;
        self.shared.store.change(|objects| {
            let Objects { in_use, volumes, .. } = objects;
            let shares_device = |name: &String| {
                volumes.get(name).is_some_and(|object| device_key(&object.volume) == mount.device_key())
            };
            in_use.retain(|(name, node)| {
                *node != self.node || (*name != mount.volume.name && !shares_device(name))
            });
        });
        Ok(())
    }
}

/// The key of what is staged for a volume: kubelet finds file systems by the volume's id, and devices by its name.
fn device_key(volume: &PersistentVolume) -> String {
    match volume.mode {
        VolumeMode::Filesystem => format!("mount {}", volume.handle),
        VolumeMode::Block => format!("block {}", volume.name),
    }
}

/// What a call leaves behind; after a definite no it is as it was `before`.
fn after<T>(outcome: &Result<T, Failure>, before: State) -> State {
    match outcome {
        Ok(_) => State::Yes,
        Err(failure) if Caller::Kubelet.judges(failure.code) == Verdict::Uncertain => match before {
            State::Yes => State::Yes,
            _ => State::Uncertain,
        },
        Err(_) => before,
    }
}

/// Writes `vol_data.json` beside a path.
async fn write_data(scope: &Cx, path: &str, data: &Pairs) -> Result<(), Failure> {
    let above = Path::new(path).parent().unwrap_or(Path::new("/"));
    let text = serde_json::to_string(data).map_err(|error| Failure::of_node(error.to_string()))?;
    scope.write_file(&above.join("vol_data.json"), &text).await.map_err(|error| local(&error))
}

fn pod_information(pod: &Pod, ephemeral: bool) -> [(String, String); 5] {
    [
        ("pod.name", pod.spec.name.clone()),
        ("pod.namespace", NAMESPACE.to_owned()),
        ("pod.uid", pod.uid.clone()),
        ("serviceAccount.name", "default".to_owned()),
        ("ephemeral", ephemeral.to_string()),
    ]
    .map(|(key, value)| (format!("csi.storage.k8s.io/{key}"), value))
}
