//! Brings volumes into a pod and out of it: staged once on the node, and published for each pod.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use csi_driver_definitions::VolumeLifecycleMode;
use csi_harness::prelude::{AccessType, Cx, Stop};
use csi_proto::v1;

use super::{Kubelet, NodeCapability, fs_group};
use crate::cluster::{AccessMode, Pairs, PersistentVolume, Pod, SeLinuxChangePolicy, SecretUse, VolumeMode};
use crate::emulated_cluster::failure::{Caller, Failure, Verdict};
use crate::emulated_cluster::shared::{Watched, capability, hex_sha256};
use crate::emulated_cluster::store::Objects;
use crate::emulated_cluster::{NAMESPACE, access_mode};

/// The file in which kubelet stores the data of a volume.
pub(super) const DATA_FILE: &str = "vol_data.json";
/// Kubelet takes the part of an SELinux context that a pod leaves open from the policy of its node. These are the values of most
/// distributions.
const USER_ROLE_TYPE: &str = "system_u:object_r:container_file_t";

/// The state of a call that mounts something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    No,
    /// The last call had no final result.
    Uncertain,
    Yes,
}

/// A volume on this node.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) scope: Cx,
    staged: State,
    pub(super) path: String,
    /// The SELinux context of the pods that need the volume.
    context: Option<String>,
    /// The UIDs of the pods that need the volume.
    users: BTreeSet<String>,
}

impl Device {
    pub(super) fn new(scope: Cx) -> Device {
        Device { scope, staged: State::No, path: String::new(), context: None, users: BTreeSet::new() }
    }

    /// Records that the volume was here before kubelet started, for this pod.
    pub(super) fn is_found(&mut self, path: String, is_staged: bool, pod_uid: String) {
        self.path = path;
        self.staged = if is_staged { State::Uncertain } else { State::No };
        self.users.insert(pod_uid);
    }
}

/// A volume of a pod.
#[derive(Debug)]
pub(super) struct PodMount {
    /// Its name in the pod.
    pub(super) name: String,
    volume: PersistentVolume,
    pub(super) read_only: bool,
    /// True if the volume lives as long as the pod, and needs no staging.
    inline: bool,
    scope: Cx,
    published: State,
    /// The target_path, once there is one.
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

    /// Records that the volume was here before kubelet started.
    pub(super) fn is_found(&mut self, target: String) {
        self.target = target;
        self.published = State::Uncertain;
    }

    pub(super) fn volume_name(&self) -> &str {
        &self.volume.name
    }

    pub(super) fn access(&self) -> AccessType {
        match self.volume.mode {
            VolumeMode::Filesystem => AccessType::Mount,
            VolumeMode::Block => AccessType::Block,
        }
    }

    /// Returns the key of its staging.
    pub(super) fn device_key(&self) -> String {
        device_key(&self.volume)
    }
}

/// Makes a failure of a path on the node, without which no call is made.
fn local(error: &Stop) -> Failure {
    Failure::of_node(match error {
        Stop::Broken(why) | Stop::Skip(why) | Stop::Declined(_, why) | Stop::Unanswered(why) => why.clone(),
        Stop::Violation(violation) | Stop::MetAgain(violation) => violation.message.clone(),
    })
}

impl Kubelet {
    /// Returns why the driver's CSIDriver excludes such volumes, if it does.
    pub(super) fn lacks_mode(&self, mount: &PodMount) -> Option<String> {
        let mode =
            if mount.inline { VolumeLifecycleMode::Ephemeral } else { VolumeLifecycleMode::Persistent };
        let lists = self.shared.csi_driver.volume_lifecycle_modes.contains(&mode);
        (!lists).then(|| format!("the CSIDriver does not list {mode:?} in volumeLifecycleModes"))
    }

    /// Tries once to bring a volume into a pod.
    pub(super) async fn set_up(&self, pod: &Pod, mount: &mut PodMount) -> Result<(), Failure> {
        if mount.inline {
            return self.publish(pod, mount, Pairs::new(), None).await;
        }
        let Some(context) = self.attached(pod, mount).await? else { return Ok(()) };
        let device = self.device(&mount.device_key());
        let mut device = device.lock().await;
        let label = self.selinux_context(pod, mount);
        if device.context != label && device.users.iter().any(|user| *user != pod.uid) {
            let of = |context: &Option<String>| context.clone().unwrap_or_else(|| "none".to_owned());
            let (name, present, wanted) = (mount.volume_name(), of(&device.context), of(&label));
            let why = format!("conflicting SELinux labels of volume {name}: {present} and {wanted}");
            return Err(Failure::of_node(why));
        }
        device.context = label;
        device.users.insert(pod.uid.clone());
        self.shared.store.change(|objects| objects.in_use.insert((mount.volume.name.clone(), self.node)));
        if device.staged != State::Yes {
            self.stage(pod, mount, &mut device, &context).await?;
        }
        let staging = device.path.clone();
        self.publish(pod, mount, context, Some(&staging)).await?;
        self.expand_published(pod, mount, &staging).await
    }

    /// Returns the publish_context of a volume once it is attached, or `None` if the pod is deleted. If kubelet reads
    /// limits again, a full node ends the wait.
    async fn attached(&self, pod: &Pod, mount: &PodMount) -> Result<Option<Pairs>, Failure> {
        let driver = &self.shared.csi_driver;
        if !driver.attach_required {
            return Ok(Some(Pairs::new()));
        }
        let ends_wait = |failure: &&Failure| {
            driver.node_allocatable_update_period_seconds.is_some() && failure.is_full_node()
        };
        let place = (mount.volume.name.clone(), self.node);
        let attached = self.shared.store.until(|objects| {
            let attachment = objects.attachments.get(&place).filter(|attachment| !attachment.detaching)?;
            let failed = attachment.failed.as_ref().filter(ends_wait).cloned();
            attachment.attached.clone().map(Ok).or(failed.map(Err))
        });
        tokio::select! {
            attached = attached => attached.map(Some),
            () = self.deleted(&pod.uid) => Ok(None),
        }
    }

    async fn stage(
        &self,
        pod: &Pod,
        mount: &PodMount,
        device: &mut Device,
        context: &Pairs,
    ) -> Result<(), Failure> {
        let PersistentVolume { handle, name, attributes, secrets, .. } = &mount.volume;
        let path = device.scope.kubelet_staging_path(handle, name, mount.access()).await;
        device.path = path.map_err(|error| local(&error))?;
        if mount.access() == AccessType::Block {
            let file = device.scope.kubelet_device_data_path(name).await.map_err(|error| local(&error))?;
            write_data(&device.scope, Path::new(&file), &self.publish_data(mount)).await?;
        }
        if !self.can(NodeCapability::StageUnstageVolume).await? {
            return Ok(());
        }
        if mount.access() == AccessType::Mount {
            let data = [("volumeHandle", handle.as_str()), ("driverName", self.shared.driver())];
            let mut data: Pairs = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            data.extend(self.context_data(pod, mount));
            write_data(&device.scope, &data_file(&device.path), &data).await?;
        }
        let request = v1::NodeStageVolumeRequest {
            volume_id: handle.clone(),
            publish_context: context.clone(),
            staging_target_path: device.path.clone(),
            volume_capability: Some(self.capability(pod, mount).await?),
            volume_context: attributes.clone(),
            ..Default::default()
        };
        let cx = self.shared.with_secret(&device.scope, secrets.get(&SecretUse::NodeStage))?;
        let staged = self.shared.heard(&cx.node_stage(request).once().await);
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
        // Kubelet only reads the first mode.
        let first = mount.volume.access_modes.first().copied();
        let mode = access_mode::of_one(first.unwrap_or(AccessMode::ReadWriteOnce), finer);
        let mut capability = capability(&mount.volume, mode, group);
        if let Some(context) = self.selinux_context(pod, mount)
            && let Some(v1::volume_capability::AccessType::Mount(mount)) = &mut capability.access_type
        {
            mount.mount_flags.push(mount_option(&context));
        }
        Ok(capability)
    }

    /// Returns the context with which the driver has to mount a volume for a pod, if its CSIDriver has `seLinuxMount`. Without one, the
    /// volume is relabelled file by file when containers start, which no driver sees.
    fn selinux_context(&self, pod: &Pod, mount: &PodMount) -> Option<String> {
        let is_relabelled = pod.spec.selinux_policy == Some(SeLinuxChangePolicy::Recursive);
        let has_option = mount.access() == AccessType::Mount && !mount.inline;
        let has_mode = self.shared.settings.version.labels_every_access_mode()
            || mount.volume.access_modes == [AccessMode::ReadWriteOncePod];
        let is_wanted = self.shared.csi_driver.se_linux_mount && self.shared.labels_volumes() && has_mode;
        let level = pod.spec.selinux_level.as_ref()?;
        (is_wanted && has_option && !is_relabelled).then(|| format!("{USER_ROLE_TYPE}:{level}"))
    }

    /// Returns what kubelet writes beside a volume about its SELinux context.
    fn context_data(&self, pod: &Pod, mount: &PodMount) -> Option<(String, String)> {
        self.selinux_context(pod, mount).map(|context| ("seLinuxMountContext".to_owned(), context))
    }

    async fn publish(
        &self,
        pod: &Pod,
        mount: &mut PodMount,
        context: Pairs,
        staging: Option<&str>,
    ) -> Result<(), Failure> {
        let name = &mount.volume.name;
        let target = mount.scope.kubelet_target_path(&pod.uid, name, mount.access()).await;
        mount.target = target.map_err(|error| local(&error))?;
        self.shared.publishes(self.node, &pod.uid, &mount.target);
        if mount.access() == AccessType::Mount {
            let mut data = self.publish_data(mount);
            data.extend(self.context_data(pod, mount));
            write_data(&mount.scope, &data_file(&mount.target), &data).await?;
        }
        let (cx, request) = self.publish_request(pod, mount, context, staging).await?;
        let driver_sets_group = sets_group(&request);
        let before = mount.published;
        let published = self.shared.heard(&cx.node_publish(request).once().await);
        mount.published = after(&published, before);
        published?;
        if let Some(group) = pod.spec.fs_group {
            let policy = self.shared.csi_driver.fs_group_policy;
            if driver_sets_group {
                let volume = &mount.volume.name;
                self.cx.happened(format!(
                    "kubelet left the fsGroup {group} of a pod to the driver, which advertises VOLUME_MOUNT_GROUP, for the volume {volume}"
                ));
            } else if !fs_group::applies(policy, &mount.volume, mount.read_only) {
                let has_object = self.shared.has_csi_driver;
                self.cx.happened(fs_group::left_alone(policy, has_object, &mount.volume));
            } else if self.cx.is_mount_point(&mount.target) {
                fs_group::hand_over(mount.target.clone().into(), group, pod.spec.fs_group_policy).await;
            }
        }
        Ok(())
    }

    /// Publishes a volume again, as the CSIDriver requests. The volume stays whatever the result is.
    pub(super) async fn republish(&self, pod: &Pod, mount: &PodMount) -> Result<(), Failure> {
        let (context, staging) = match mount.inline {
            true => (Pairs::new(), None),
            false => {
                let Some(context) = self.attached(pod, mount).await? else { return Ok(()) };
                let device = self.device(&mount.device_key());
                let path = device.lock().await.path.clone();
                (context, Some(path))
            }
        };
        let (cx, request) = self.publish_request(pod, mount, context, staging.as_deref()).await?;
        self.shared.heard(&cx.node_publish(request).once().await).map(|_| ())
    }

    /// Returns the request for NodePublishVolume, and the context with its secrets.
    async fn publish_request(
        &self,
        pod: &Pod,
        mount: &PodMount,
        context: Pairs,
        staging: Option<&str>,
    ) -> Result<(Cx, v1::NodePublishVolumeRequest), Failure> {
        let PersistentVolume { handle, attributes, secrets, .. } = &mount.volume;
        let staging = match (staging, mount.access()) {
            (Some(staging), AccessType::Block) => staging,
            (Some(staging), AccessType::Mount) if self.can(NodeCapability::StageUnstageVolume).await? => {
                staging
            }
            _ => "",
        };
        let driver = &self.shared.csi_driver;
        let mut volume_context = attributes.clone();
        if driver.pod_info_on_mount {
            volume_context.extend(pod_information(pod, mount.inline));
        }
        // Block volumes get no tokens.
        let tokens = (mount.access() == AccessType::Mount).then(|| self.tokens()).flatten();
        let (in_secrets, in_context) = match self.puts_tokens_in_secrets() {
            true => (tokens, None),
            false => (None, tokens),
        };
        volume_context.extend(in_context);
        let secret = secrets.get(&SecretUse::NodePublish);
        let cx = self.shared.with_more_secrets(&mount.scope, secret, in_secrets.into_iter().collect())?;
        let request = v1::NodePublishVolumeRequest {
            volume_id: handle.clone(),
            publish_context: context,
            staging_target_path: staging.to_owned(),
            target_path: mount.target.clone(),
            volume_capability: Some(self.capability(pod, mount).await?),
            readonly: mount.read_only,
            volume_context,
            ..Default::default()
        };
        Ok((cx, request))
    }

    /// Starts to monitor a volume that kubelet tried to bring into a pod. Inline volumes are not monitored.
    pub(super) async fn watch(&self, pod: &Pod, mount: &PodMount) {
        if mount.inline {
            return;
        }
        let device = self.device(&mount.device_key());
        let device = device.lock().await;
        let (staging, target) = (device.path.clone(), mount.target.clone());
        let asked = match mount.access() {
            AccessType::Mount => vec![(staging, target.clone())],
            // Kubelet 1.37 passes the directory of its own links. The paths of the other calls are tried as well.
            AccessType::Block => {
                let map = device.scope.kubelet_device_map_path(mount.volume_name()).await.unwrap_or_default();
                vec![(map, String::new()), (staging, target.clone())]
            }
        };
        let watched = Watched { volume_id: mount.volume.handle.clone(), asked, target };
        self.shared.watch(self.node, &pod.spec.name, &mount.name, watched);
    }

    /// Returns the data that kubelet writes beside the target path.
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

    /// Tries once to remove a volume from a pod, and from the node if no other pod has it.
    pub(super) async fn tear_down(&self, pod: &Pod, mount: &mut PodMount) -> Result<(), Failure> {
        if mount.published != State::No {
            let reply = self.cx.node_unpublish(&mount.volume.handle, &mount.target).once().await;
            self.shared.heard(&reply).inspect_err(|_| mount.published = State::Uncertain)?;
            mount.published = State::No;
        }
        mount.scope.undo().await.map_err(|error| local(&error))?;
        if mount.inline {
            return Ok(());
        }
        let device = self.device(&mount.device_key());
        let mut device = device.lock().await;
        device.users.remove(&pod.uid);
        if !device.users.is_empty() {
            return Ok(());
        }
        if device.staged != State::No && self.can(NodeCapability::StageUnstageVolume).await? {
            let reply = self.cx.node_unstage(&mount.volume.handle, &device.path).once().await;
            self.shared.heard(&reply).inspect_err(|_| device.staged = State::Uncertain)?;
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

/// Returns the key of a volume's staging: kubelet finds file systems by the volume's id, and devices by its name.
fn device_key(volume: &PersistentVolume) -> String {
    match volume.mode {
        VolumeMode::Filesystem => format!("mount {}", volume.handle),
        VolumeMode::Block => format!("block {}", volume.name),
    }
}

/// Returns the state after a call; after a definite error it is unchanged.
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

/// Returns whether the driver has to give the volume to the pod's group.
fn sets_group(request: &v1::NodePublishVolumeRequest) -> bool {
    let access = request.volume_capability.as_ref().and_then(|capability| capability.access_type.as_ref());
    matches!(access, Some(v1::volume_capability::AccessType::Mount(mount)) if !mount.volume_mount_group.is_empty())
}

/// Writes kubelet's data about a volume.
async fn write_data(scope: &Cx, file: &Path, data: &Pairs) -> Result<(), Failure> {
    let text = serde_json::to_string(data).map_err(|error| Failure::of_node(error.to_string()))?;
    scope.write_file(file, &text).await.map_err(|error| local(&error))
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

/// Returns the file about a path, which is beside it.
pub(super) fn data_file(path: &str) -> PathBuf {
    Path::new(path).with_file_name(DATA_FILE)
}

/// Returns the mount option for a context. The quotes protect the commas in it.
fn mount_option(context: &str) -> String {
    format!("context=\"{context}\"")
}
