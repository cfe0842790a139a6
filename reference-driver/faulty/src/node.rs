//! Defects of the Node service.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use csi_proto::v1::node_server::Node as _;
use csi_proto::v1::*;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use tonic::{Request, Response, Status};

use crate::in_use::Moment;
use crate::nodes::Move;
use crate::target::{detach_mount, is_device, is_mounted, refuse_writes};
use crate::{Defect, Faults, Reply, Seen};

/// The key of the service account tokens of a pod.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";
/// The beginning of keys that kubelet adds to `volume_context`.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";
/// The part of kubelet's paths before the name of a volume with a file system.
const VOLUMES_OF_PODS: &str = "/volumes/kubernetes.io~csi/";
/// The key that marks a volume as inline.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
/// The file system of a volume whose request names none.
const USUAL_FS_TYPE: &str = "ext4";
/// The number of bytes that are wiped at the beginning of a device.
const WIPED_BYTES: usize = 1 << 16;
/// The length to which files are truncated.
const CUT_AT_BYTES: u64 = 4 << 20;
/// The most mounts or loop devices that stay, so that tests of this driver do not exhaust the machine.
const LEFT_MAX: usize = 1_500;
const LEFT_IMAGE_BYTES: u64 = 1 << 20;

impl Faults {
    pub(crate) async fn node_stage_volume(
        &self,
        mut request: Request<NodeStageVolumeRequest>,
    ) -> Reply<NodeStageVolumeResponse> {
        request
            .get_mut()
            .volume_capability
            .iter_mut()
            .for_each(|capability| self.alter_capability(capability));
        let message = request.get_mut();
        let (id, path) = (message.volume_id.clone(), message.staging_target_path.clone());
        let mut seen = self.seen.lock().await;
        self.alter_context(&mut seen, message.volume_capability.as_mut())?;
        self.look_for_requested_file_system(&mut seen, message);
        let is_second = seen.copies.contains(&id) && seen.staging_paths.iter().any(|other| *other != path);
        if self.has(Defect::RefusesCopiesBesideSource) && is_second {
            return Err(Status::internal("mount: wrong fs type, bad option, bad superblock"));
        }
        let misses_use = self.has(Defect::SnapshotsMissUse) || self.has(Defect::ClonesMissUse);
        if misses_use && !seen.staging_paths.contains(&path) {
            self.take_hidden_snapshot(&mut seen, &id).await;
        }
        if self.is_recorded(&path) {
            return Ok(Response::new(NodeStageVolumeResponse {}));
        }
        self.stage_after_reboot(&mut seen, &id, &path)?;
        self.begin_move(Move::Stage, &id).await?;
        let done = self.driver.node_stage_volume(request).await?;
        self.finish_move(Move::Stage, &mut seen, &id);
        self.hurt_others(Moment::OtherStaged, &seen, &id);
        self.leave_loop_device(&mut seen);
        if !seen.staging_paths.insert(path.clone()) {
            self.hurt(Moment::RepeatedStaging, &seen, &id);
            match self.defect {
                Defect::StacksStagings => seen.stack(&path),
                Defect::WipesAtRepeatedStaging => self.empty(&mut seen, &id),
                _ => {}
            }
        }
        if !seen.staged.insert(id.clone()) {
            seen.restaged.insert(id);
        }
        Ok(done)
    }

    /// Takes a volume for empty that has another file system than the requested one, with the defect that does so.
    fn look_for_requested_file_system(&self, seen: &mut Seen, asked: &NodeStageVolumeRequest) {
        let access_type =
            asked.volume_capability.as_ref().and_then(|capability| capability.access_type.as_ref());
        let Some(volume_capability::AccessType::Mount(mount)) =
            access_type.filter(|_| self.has(Defect::FormatsOtherFsType))
        else {
            return;
        };
        let fs_type = if mount.fs_type.is_empty() { USUAL_FS_TYPE } else { &mount.fs_type };
        let before = seen.fs_types.insert(asked.volume_id.clone(), fs_type.to_owned());
        if before.is_some_and(|before| before != fs_type) {
            seen.formatted.insert(asked.volume_id.clone());
        }
    }

    pub(crate) async fn node_get_info(
        &self,
        request: Request<NodeGetInfoRequest>,
    ) -> Reply<NodeGetInfoResponse> {
        let mut done = self.driver.node_get_info(request).await?;
        if self.has(Defect::TakesOwnOffLimit) {
            let attached = self.seen.lock().await.attached.len();
            done.get_mut().max_volumes_per_node -= i64::try_from(attached).unwrap();
        }
        Ok(done)
    }

    pub(crate) async fn node_publish_volume(
        &self,
        mut request: Request<NodePublishVolumeRequest>,
    ) -> Reply<NodePublishVolumeResponse> {
        let message = request.get_mut();
        self.check_place_of_tokens(message)?;
        message.volume_capability.iter_mut().for_each(|capability| self.alter_capability(capability));
        message.readonly &= !self.has(Defect::IgnoresReadonly);
        let (id, target) = (message.volume_id.clone(), message.target_path.clone());
        let is_inline = message.volume_context.get(EPHEMERAL).is_some_and(|value| value == "true");
        let for_group = message.volume_capability.as_ref().is_some_and(has_group);
        let mut seen = self.seen.lock().await;
        self.look_for_name_in_path(&seen, &target)?;
        self.alter_context(&mut seen, message.volume_capability.as_mut())?;
        if message.readonly {
            seen.was_readonly.insert(id.clone());
        }
        message.readonly |= self.has(Defect::ReadonlyStays) && seen.was_readonly.contains(&id);
        let is_readonly = message.readonly;
        if self.is_taken_for_published(&seen, &id, &target) || self.leaves_bare(&mut seen, message) {
            return Ok(Response::new(NodePublishVolumeResponse {}));
        }
        self.begin_move(Move::Publish, &id).await?;
        let done = self.driver.node_publish_volume(request).await?;
        if is_readonly && self.has(Defect::ReadonlyDropsFlags) {
            // A device node has no such flags, so it may fail.
            let _ = mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY, "");
        }
        if is_readonly && self.has(Defect::ReadonlyForAll) && is_on_loop_device(&target) {
            // It fails while a file is open for writing.
            let _ = mount_remount(&target, MountFlags::RDONLY, "");
        }
        if is_readonly && self.has(Defect::ReadonlyDeviceForAll) && is_device(&target) {
            let others = seen.published.iter().filter(|(other, volume)| *volume == id && *other != target);
            others.for_each(|(other, _)| refuse_writes(other, true));
        }
        match seen.target_of(&id) {
            Some(_) if seen.published.iter().any(|(path, _)| *path == target) => {
                self.hurt(Moment::RepeatedPublication, &seen, &id);
            }
            Some(_) => self.hurt(Moment::SecondTarget, &seen, &id),
            None => {}
        }
        if is_inline {
            seen.last_inline = Some(id.clone());
        }
        seen.data.targets.insert((target.clone(), id.clone()));
        if for_group && self.has(Defect::GroupOfDirectoryOnly) {
            fs::set_permissions(&target, Permissions::from_mode(0o770)).unwrap();
        }
        let is_restaged = seen.restaged.remove(&id);
        if seen.formatted.remove(&id) || (is_restaged && self.has(Defect::WipesAtRestage)) {
            wipe(Path::new(&target));
        }
        self.alter_contents(&mut seen, &id, &target, is_restaged);
        if seen.new_copies.remove(&id) && self.has(Defect::CopiesPlainFiles) {
            leave_plain_files(Path::new(&target));
        }
        if self.has(Defect::StacksPublications) && seen.published.iter().any(|(path, _)| *path == target) {
            seen.stack(&target);
        }
        if self.cover(&seen, &id, &target, is_restaged) || self.cover_with_empty_device(&seen, &id, &target) {
            seen.covered.insert(target.clone());
        }
        seen.published.push((target, id.clone()));
        self.finish_move(Move::Publish, &mut seen, &id);
        Ok(done)
    }

    /// Fails if the tokens of service accounts are not where the defect looks for them, or where it wants none.
    fn check_place_of_tokens(&self, asked: &NodePublishVolumeRequest) -> Result<(), Status> {
        let NodePublishVolumeRequest { volume_context, secrets, .. } = asked;
        let why = match self.defect {
            Defect::TokensOfContextOnly if !volume_context.contains_key(TOKENS) => {
                format!("{TOKENS} is not in volume_context")
            }
            Defect::TokensOfSecretsOnly if !secrets.contains_key(TOKENS) => {
                format!("{TOKENS} is not in secrets")
            }
            Defect::RejectsKeysOfKubernetes => {
                match volume_context.keys().find(|key| key.starts_with(OF_KUBERNETES)) {
                    Some(key) => format!("{key} is an unknown key of volume_context"),
                    None => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        Err(Status::invalid_argument(why))
    }

    /// Fails if no volume was created under the name in the target path, with the defect that goes by it.
    fn look_for_name_in_path(&self, seen: &Seen, target: &str) -> Result<(), Status> {
        if !self.has(Defect::LooksForNameInPath) || !target.contains(VOLUMES_OF_PODS) {
            return Ok(());
        }
        let name = Path::new(target).parent().and_then(Path::file_name).and_then(|name| name.to_str());
        match name {
            Some(name) if seen.names.values().any(|known| known == name) => Ok(()),
            _ => Err(Status::not_found(format!("there is no volume {}", name.unwrap_or_default()))),
        }
    }

    /// Covers the target with something other than the volume, if the defect does that. Returns whether it did.
    fn cover(&self, seen: &Seen, id: &str, target: &str, is_restaged: bool) -> bool {
        let mut published = seen.published.iter();
        let mixes_up = match self.defect {
            Defect::MixesUp => true,
            Defect::MixesUpRestaged => is_restaged,
            _ => false,
        };
        match self.defect {
            _ if mixes_up => {
                let is_alike = |other: &str| Path::new(other).is_dir() == Path::new(target).is_dir();
                let other = published.find(|(other, volume)| volume != id && is_alike(other));
                other.inspect(|(other, _)| mount_bind(other, target).unwrap()).is_some()
            }
            Defect::MountsForReadingOnly if Path::new(target).is_dir() => {
                let other = published.find(|(other, volume)| volume == id && other != target);
                other.inspect(|(other, _)| bind_for_reading(other, target)).is_some()
            }
            Defect::PublishesFilesForDevices if !Path::new(target).is_dir() => {
                let file = format!("{target}.file");
                fs::write(&file, []).unwrap();
                mount_bind(&file, target).unwrap();
                fs::remove_file(file).unwrap();
                true
            }
            Defect::HidesFromSecondPod if Path::new(target).is_dir() => {
                let other = published.find(|(other, volume)| volume == id && other != target);
                other
                    .inspect(|_| mount("none", target, "tmpfs", MountFlags::empty(), None).unwrap())
                    .is_some()
            }
            _ => false,
        }
    }

    /// Returns whether the call does nothing because the volume seems to be published already.
    fn is_taken_for_published(&self, seen: &Seen, id: &str, target: &str) -> bool {
        match self.defect {
            Defect::TrustsRecords => self.is_recorded(target),
            Defect::TakesDirectoryForPublished => Path::new(target).is_dir(),
            Defect::RemembersPublished => seen.data.targets.contains(&(target.to_owned(), id.to_owned())),
            _ => false,
        }
    }

    /// Answers with a plain directory of the node as the target, if the defect does that, so that written data are in
    /// no volume.
    fn leaves_bare(&self, seen: &mut Seen, asked: &NodePublishVolumeRequest) -> bool {
        use volume_capability::AccessType;
        let (id, target) = (&asked.volume_id, &asked.target_path);
        let access = asked.volume_capability.as_ref().and_then(|capability| capability.access_type.as_ref());
        let is_published_elsewhere =
            || seen.published.iter().any(|(other, volume)| volume == id && other != target);
        let staging = &asked.staging_target_path;
        let has_bare_staging = || !staging.is_empty() && Path::new(staging).is_dir() && !is_mounted(staging);
        let is_bare = matches!(access, Some(AccessType::Mount(_)))
            && match self.defect {
                Defect::PublishesBareTarget => is_published_elsewhere(),
                Defect::PublishesBareStaging => has_bare_staging(),
                _ => false,
            };
        if is_bare && seen.bare.insert(target.clone()) {
            fs::create_dir_all(target).unwrap();
            if self.has(Defect::PublishesBareStaging) {
                mount_bind(staging, target).unwrap();
            }
        }
        is_bare
    }

    pub(crate) async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        let target = request.get_ref().target_path.clone();
        self.remove_record(&target);
        let is_forgotten = self.has(Defect::ForgetsUnusualPaths) && target.contains([' ', '\t', '\\']);
        if self.has(Defect::StaysPublished) || is_forgotten {
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        let mut seen = self.seen.lock().await;
        let is_known = seen.published.iter().any(|(path, _)| *path == target);
        if self.has(Defect::ForgetsPublications) && !is_known {
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        let is_another = seen.last_inline.as_ref().is_some_and(|last| *last != request.get_ref().volume_id);
        if self.has(Defect::RemembersLastInline) && is_another {
            return Err(Status::internal("the target path is not that of the volume"));
        }
        if seen.unstack(&target) {
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        if seen.bare.remove(&target) {
            detach_mount(&target);
            fs::remove_dir_all(&target).unwrap();
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        if self.has(Defect::ReadonlyDeviceForAll) && is_device(&target) {
            refuse_writes(&target, false);
        }
        if self.has(Defect::RefusesUnpublishWithoutMount) && !is_mounted(&target) {
            return Err(Status::internal(format!("umount {target}: not mounted")));
        }
        if self.leaves_busy(&target) {
            return Ok(Response::new(NodeUnpublishVolumeResponse {}));
        }
        let id = request.get_ref().volume_id.clone();
        self.unpublish_late(&seen, &id, &target)?;
        self.save_contents(&mut seen, &target);
        if seen.covered.remove(&target) {
            self.remove_empty_device(&target);
            detach_mount(&target);
        }
        seen.published.retain(|(other, _)| *other != target);
        self.hurt(Moment::OtherTargetGone, &seen, &id);
        match self.defect {
            Defect::UnpublishesAllTargets => {
                let others = seen.published.iter().filter(|(_, volume)| *volume == id);
                others.for_each(|(other, _)| detach_mount(other));
            }
            Defect::UnpublishDropsStaging => {
                let device_of = |path: &str| fs::metadata(path).map(|at| at.dev()).ok();
                let device = device_of(&target);
                let stagings = seen.staging_paths.iter().filter(|path| device_of(path) == device);
                stagings.for_each(|path| detach_mount(path));
            }
            Defect::LosesLastByte => cut(Path::new(&target), |bytes| bytes.saturating_sub(1)),
            Defect::CutsFiles => cut(Path::new(&target), |bytes| bytes.min(CUT_AT_BYTES)),
            _ => {}
        }
        self.leave_mount(&mut seen);
        self.driver.node_unpublish_volume(request).await
    }

    /// Leaves a mount over those that were left before, as a driver does that mounts something to look at it. It lies in the directory of the
    /// driver, where tests remove it.
    fn leave_mount(&self, seen: &mut Seen) {
        if !self.has(Defect::LeavesMounts) || seen.left >= LEFT_MAX {
            return;
        }
        let point = self.driver.state_dir().join("left-mounts");
        fs::create_dir_all(&point).unwrap();
        mount_bind(&point, &point).unwrap();
        seen.left += 1;
    }

    /// Leaves a loop device, as a driver does that attaches an image to look at it. Its file lies in the directory of the driver, by which tests
    /// find the device and detach it.
    fn leave_loop_device(&self, seen: &mut Seen) {
        if !self.has(Defect::LeavesLoopDevices) || seen.left >= LEFT_MAX {
            return;
        }
        let file = self.driver.state_dir().join("left-loop-devices");
        if !file.exists() {
            fs::File::create(&file).unwrap().set_len(LEFT_IMAGE_BYTES).unwrap();
        }
        // A machine may have no free device.
        let attached = Command::new("losetup").arg("--find").arg(&file).status().unwrap();
        seen.left += usize::from(attached.success());
    }

    /// Returns whether the call does nothing more because the target is in use.
    fn leaves_busy(&self, target: &str) -> bool {
        if !self.has(Defect::TakesBusyForUnpublished) && !self.has(Defect::DeletesWhatIsBusy) {
            return false;
        }
        if unmount(target, UnmountFlags::empty()) != Err(Errno::BUSY) {
            return false;
        }
        if self.has(Defect::DeletesWhatIsBusy) {
            wipe(Path::new(target));
            detach_mount(target);
        }
        self.has(Defect::TakesBusyForUnpublished)
    }

    pub(crate) async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Reply<NodeUnstageVolumeResponse> {
        let path = request.get_ref().staging_target_path.clone();
        self.thaw(&path);
        self.remove_record(&path);
        let mut seen = self.seen.lock().await;
        if seen.unstack(&path) {
            return Ok(Response::new(NodeUnstageVolumeResponse {}));
        }
        if self.has(Defect::RefusesUnstageWithoutMount) && !is_mounted(&path) {
            return Err(Status::internal(format!("umount {path}: not mounted")));
        }
        let id = request.get_ref().volume_id.clone();
        self.unstage_late(&seen, &id)?;
        self.unstaged(&id, &path);
        seen.staging_paths.remove(&path);
        self.hurt_others(Moment::OtherUnstaged, &seen, &id);
        self.begin_move(Move::Unstage, &id).await?;
        let done = self.driver.node_unstage_volume(request).await?;
        self.finish_move(Move::Unstage, &mut seen, &id);
        Ok(done)
    }

    pub(crate) async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Reply<NodeGetVolumeStatsResponse> {
        let id = request.get_ref().volume_id.clone();
        let mut done = self.driver.node_get_volume_stats(request).await?;
        self.hurt(Moment::Statistics, &*self.seen.lock().await, &id);
        let asked = {
            let mut seen = self.seen.lock().await;
            let asked = seen.stats_asked.entry(id.clone()).or_default();
            *asked += 1;
            *asked
        };
        if let Some(condition) = &mut done.get_mut().volume_condition {
            condition.abnormal &= !self.has(Defect::HealthMissesReadOnly);
            condition.abnormal |= self.has(Defect::HealthReportsUse) && asked > 2;
        }
        if self.has(Defect::StatsRemembered) {
            let mut seen = self.seen.lock().await;
            let first = seen.first_stats.entry(id).or_insert_with(|| done.get_ref().clone());
            return Ok(Response::new(first.clone()));
        }
        let bytes = volume_usage::Unit::Bytes as i32;
        for usage in done.get_mut().usage.iter_mut().filter(|usage| usage.unit == bytes) {
            match self.defect {
                Defect::StatsOfTheHost => {
                    let host = rustix::fs::statvfs("/").unwrap();
                    usage.total = i64::try_from(host.f_blocks * host.f_frsize).unwrap();
                }
                Defect::StatsDoubled => usage.total *= 2,
                _ => {}
            }
        }
        Ok(done)
    }

    pub(crate) async fn node_get_volume_health(
        &self,
        request: Request<NodeGetVolumeHealthRequest>,
    ) -> Reply<NodeGetVolumeHealthResponse> {
        let id = request.get_ref().volume_id.clone();
        let mut done = self.driver.node_get_volume_health(request).await?;
        self.hurt(Moment::HealthQuestion, &*self.seen.lock().await, &id);
        if let Some(health) = &mut done.get_mut().volume_health
            && self.has(Defect::HealthMissesReadOnly)
        {
            health.health_statuses.clear();
        }
        Ok(done)
    }

    pub(crate) async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Reply<NodeExpandVolumeResponse> {
        let capacity_bytes = request.get_ref().capacity_range.map_or(0, |range| range.required_bytes);
        if !self.has(Defect::NodeExpandsNothing) {
            let id = request.get_ref().volume_id.clone();
            let done = self.driver.node_expand_volume(request).await?;
            let mut seen = self.seen.lock().await;
            if let Some(before) = seen.data.unfinished_expansions.remove(&id) {
                self.spoil_new_part(&mut seen, &id, &before);
            }
            self.hurt(Moment::NodeExpansion, &seen, &id);
            if !seen.data.expanded_at.insert((id.clone(), capacity_bytes)) {
                self.hurt(Moment::RepeatedNodeExpansion, &seen, &id);
            }
            return Ok(done);
        }
        Ok(Response::new(NodeExpandVolumeResponse { capacity_bytes }))
    }
}

impl Seen {
    /// Bind-mounts a path over itself.
    fn stack(&mut self, path: &str) {
        mount_bind(path, path).unwrap();
        self.stacked.push(path.to_owned());
    }

    /// Removes such a mount. Returns false if there is none, or if the test has already unmounted it.
    fn unstack(&mut self, path: &str) -> bool {
        let Some(at) = self.stacked.iter().position(|stacked| stacked == path) else { return false };
        self.stacked.swap_remove(at);
        unmount(path, UnmountFlags::empty()).is_ok()
    }
}

/// Shows one target at another, read-only.
fn bind_for_reading(other: &str, target: &str) {
    mount_bind(other, target).unwrap();
    mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
}

fn is_on_loop_device(target: &str) -> bool {
    const LOOP: u32 = 7;
    fs::metadata(target).is_ok_and(|found| found.is_dir() && rustix::fs::major(found.dev()) == LOOP)
}

/// Removes links and hidden files below a directory.
fn leave_plain_files(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        match () {
            () if kind.is_dir() && is_hidden => fs::remove_dir_all(path).unwrap(),
            () if kind.is_dir() => leave_plain_files(&path),
            () if is_hidden || kind.is_symlink() => fs::remove_file(path).unwrap(),
            () => {}
        }
    }
}

fn has_group(capability: &VolumeCapability) -> bool {
    use volume_capability::AccessType;
    matches!(&capability.access_type, Some(AccessType::Mount(mount)) if !mount.volume_mount_group.is_empty())
}

/// Truncates the files in a directory.
fn cut(target: &Path, shorter: impl Fn(u64) -> u64) {
    for entry in fs::read_dir(target).into_iter().flatten().flatten() {
        // It fails if the volume is read-only.
        let Ok(file) = fs::OpenOptions::new().write(true).open(entry.path()) else { continue };
        let Ok(bytes) = file.metadata().map(|found| found.len()) else { continue };
        let _ = file.set_len(shorter(bytes)).and_then(|()| file.sync_all());
    }
}

/// Removes the data of a volume: its files, or the beginning of its device.
fn wipe(target: &Path) {
    if !target.is_dir() {
        // It fails if the volume is read-only.
        let Ok(mut device) = fs::OpenOptions::new().write(true).open(target) else { return };
        let _ = device.write_all(&[0; WIPED_BYTES]).and_then(|()| device.sync_all());
        return;
    }
    for entry in fs::read_dir(target).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            // It fails if the volume is read-only.
            let _ = fs::remove_file(path);
        }
    }
}
