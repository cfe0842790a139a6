//! A plain driver that does its work with commands, as many drivers do: images in a directory, losetup, mkfs, mount
//! and cp, with its state in a file. It works correctly or makes one mistake; most of the mistakes only show when
//! something fails.

mod mistake;
mod state;
pub mod storage;
pub(crate) mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use csi_proto::v1::controller_server::{Controller, ControllerServer};
use csi_proto::v1::identity_server::{Identity, IdentityServer};
use csi_proto::v1::node_server::{Node, NodeServer};
use csi_proto::v1::volume_content_source::Type as Source;
use csi_proto::v1::*;
use tonic::service::Routes;
use tonic::{Request, Response, Status, async_trait};

use crate::Reply;
pub use mistake::Mistake;
use state::{Kind, Object, State};
use storage::Storage;
use tools::{InternalError as _, beside, is_blank, loop_devices, mounts_at, mounts_of, must, run, text};

/// The id of the only node.
const NODE: &str = "plain-node";

/// The driver. Clones share everything. It answers each call with the method of `Offered` that is named like its RPC, or with that of
/// `NotOffered` if there is none.
#[derive(Clone, Debug)]
pub struct PlainDriver(Offered);

/// The RPCs that are implemented.
#[derive(Clone, Debug)]
struct Offered(Arc<Inner>);

impl Deref for Offered {
    type Target = NotOffered;

    fn deref(&self) -> &NotOffered {
        &NotOffered
    }
}

/// Answers every call with UNIMPLEMENTED.
struct NotOffered;

/// While a file of this name exists in the driver's directory, the storage cannot be reached.
const OFFLINE: &str = "offline";
/// A file of this name in the driver's directory turns the INTERNAL of the next bind mount that fails into UNKNOWN; that
/// removes the file. Another INTERNAL may be due to a busy machine.
const UNKNOWN_ONCE: &str = "unknown-once";
/// While a file of this name exists in the driver's directory, staging a restored volume fails, as on a machine
/// without the necessary rights.
const NO_COPIES: &str = "no-copies";
/// While a file of this name exists in the driver's directory, a volume of which both staging and publishing have failed
/// cannot be deleted.
const TWO_ERRORS: &str = "two-errors";
/// A file of this name in its directory keeps the driver from starting once its state could not be written.
const NO_REPAIR: &str = "no-repair";

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    mistake: Option<Mistake>,
    state: Mutex<State>,
    /// Volumes with a call in progress.
    busy: Mutex<BTreeSet<String>>,
    /// The lock of the mistake that allows only one call at a time.
    everything: Mutex<()>,
    /// Targets that are recorded as published.
    noted: Mutex<BTreeSet<String>>,
    /// True if the storage was unreachable before.
    was_offline: AtomicBool,
    /// The server that stores the list of volumes, if there is one.
    storage: Option<Storage>,
}

/// Marks a volume as busy until it is dropped.
struct Held<'a> {
    busy: &'a Mutex<BTreeSet<String>>,
    id: String,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.busy.lock().unwrap().remove(&self.id);
    }
}

impl PlainDriver {
    /// Creates a driver with its files in a directory. With the address of a storage server, that server stores the
    /// list of volumes.
    ///
    /// # Errors
    /// Explains why the state cannot be used.
    pub fn new(
        directory: &Path,
        mistake: Option<Mistake>,
        storage: Option<String>,
    ) -> Result<PlainDriver, String> {
        for place in ["volumes", "snapshots"] {
            fs::create_dir_all(directory.join(place)).map_err(|error| error.to_string())?;
        }
        let inner = Arc::new(Inner {
            directory: directory.to_owned(),
            mistake,
            state: Mutex::new(State::load(directory, mistake)?),
            busy: Mutex::default(),
            everything: Mutex::default(),
            noted: Mutex::default(),
            was_offline: AtomicBool::new(false),
            storage: storage.map(|address| Storage::new(address, mistake)),
        });
        if mistake == Some(Mistake::CleansAtStart) {
            inner.clean_staged();
        }
        if mistake == Some(Mistake::UnmountsAtStart) {
            inner.unmount_all().map_err(|status| status.message().to_owned())?;
        }
        Ok(PlainDriver(Offered(inner)))
    }

    pub fn routes(&self) -> Routes {
        Routes::new(IdentityServer::new(self.clone()))
            .add_service(ControllerServer::new(self.clone()))
            .add_service(NodeServer::new(self.clone()))
    }
}

impl Offered {
    /// Runs the work of a call on one volume, on a thread that may block.
    async fn work<T: Send + 'static>(
        &self,
        id: String,
        work: impl FnOnce(&Inner) -> Result<T, Status> + Send + 'static,
    ) -> Reply<T> {
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _everything = inner.has(Mistake::LocksEverything).then(|| inner.everything.lock().unwrap());
            inner.reach_storage()?;
            let held = inner.hold(&id)?;
            inner.ask_storage("list")?;
            let done = work(&inner);
            if done.is_err() && inner.has(Mistake::KeepsLockAfterError) {
                std::mem::forget(held);
            }
            done.map_err(|status| inner.alter_status(status))
        });
        done.await.unwrap().map(Response::new)
    }
}

impl Inner {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Fails if a file says that the storage is unreachable.
    fn reach_storage(&self) -> Result<(), Status> {
        if self.directory.join(OFFLINE).exists() {
            self.was_offline.store(true, Ordering::SeqCst);
        } else if !(self.has(Mistake::StaysOffline) && self.was_offline.load(Ordering::SeqCst)) {
            return Ok(());
        }
        Err(Status::unavailable("the storage cannot be reached"))
    }

    /// Sends a request to the storage server. Returns the stored names, or `None` without a server.
    fn ask_storage(&self, request: &str) -> Result<Option<Vec<String>>, Status> {
        self.storage.as_ref().map(|storage| storage.ask(request)).transpose()
    }

    /// Removes the content of all staging paths.
    fn clean_staged(&self) {
        for volume in self.state().all(Kind::Volume) {
            if let Ok(path) = fs::read_to_string(beside(&self.image(&volume.id), ".staged")) {
                empty(Path::new(&path));
            }
        }
    }

    /// Unmounts all volumes, as if the mounts had ended with the process.
    fn unmount_all(&self) -> Result<(), Status> {
        let volumes: Vec<Object> = self.state().all(Kind::Volume).cloned().collect();
        for volume in volumes {
            for device in loop_devices(&self.image(&volume.id))? {
                while mounts_of(&device)? > 0 {
                    must("umount", &["--all-targets", &device])?;
                }
            }
        }
        Ok(())
    }

    fn hold(&self, id: &str) -> Result<Held<'_>, Status> {
        match self.busy.lock().unwrap().insert(id.to_owned()) {
            true => Ok(Held { busy: &self.busy, id: id.to_owned() }),
            false => Err(Status::aborted(format!("another call is at work on {id}"))),
        }
    }

    fn alter_status(&self, status: Status) -> Status {
        let is_internal = status.code() == tonic::Code::Internal;
        let is_bind = status.message().starts_with("mount --bind");
        if is_internal && is_bind && fs::remove_file(self.directory.join(UNKNOWN_ONCE)).is_ok() {
            return Status::unknown(status.message());
        }
        match self.mistake {
            Some(Mistake::EndsOnError) if is_internal => std::process::exit(1),
            Some(Mistake::SaysUnknown) if is_internal => Status::unknown(status.message()),
            Some(Mistake::SaysNotFound) if is_internal => Status::not_found(status.message()),
            _ => status,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn image(&self, id: &str) -> PathBuf {
        self.directory.join("volumes").join(id)
    }

    fn snapshot(&self, id: &str) -> PathBuf {
        self.directory.join("snapshots").join(id)
    }

    fn volume(&self, id: &str) -> Result<Object, Status> {
        let found = self.state().find(Kind::Volume, id);
        found.ok_or_else(|| Status::not_found(format!("there is no volume {id:?}")))
    }

    fn create(&self, request: &CreateVolumeRequest) -> Result<Volume, Status> {
        let bytes = request.capacity_range.map_or(64 << 20, |range| range.required_bytes.max(1 << 20));
        if self.has(Mistake::NeedsEveryImage) {
            self.has_every_image()?;
        }
        if let Some(made) = self.state().named(Kind::Volume, &request.name) {
            self.ask_storage(&format!("put {}", made.id))?;
            return match made.bytes == bytes {
                true => Ok(volume_message(made, request)),
                false => Err(Status::already_exists("it has another size")),
            };
        }
        // The id is derived from the name, so that a repeated call finds the remains of a failed one.
        let id = match self.has(Mistake::MakesAnotherEachTime) {
            true => self.state().new_id("volume"),
            false => request.name.clone(),
        };
        let image = self.image(&id);
        let mut copied_from = String::new();
        match &request.volume_content_source {
            None => {}
            Some(VolumeContentSource { r#type: Some(Source::Snapshot(source)) }) => {
                let known = self.state().find(Kind::Snapshot, &source.snapshot_id);
                known.ok_or_else(|| Status::not_found("there is no such snapshot"))?;
                self.copy(&self.snapshot(&source.snapshot_id), &image)?;
                copied_from.clone_from(&source.snapshot_id);
            }
            Some(_) => return Err(Status::invalid_argument("only snapshots are restored")),
        }
        let (kind, name, source) = (Kind::Volume, request.name.clone(), copied_from);
        let made = Object { kind, id, name, bytes, source };
        if self.has(Mistake::NeedsEveryImage) {
            self.state().put(made.clone())?;
        }
        must("truncate", &["-s", &bytes.to_string(), &text(&image)])?;
        self.state().put(made.clone())?;
        self.ask_storage(&format!("put {}", made.id))?;
        Ok(volume_message(made, request))
    }

    fn has_every_image(&self) -> Result<(), Status> {
        let volumes: Vec<Object> = self.state().all(Kind::Volume).cloned().collect();
        match volumes.iter().find(|volume| !self.image(&volume.id).exists()) {
            Some(volume) => Err(Status::internal(format!("volume {:?} has no image", volume.id))),
            None => Ok(()),
        }
    }

    /// Copies an image. The copy appears completely or not at all.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), Status> {
        if self.has(Mistake::TakesHalfACopyForAll) {
            return match to.exists() {
                true => Ok(()),
                false => must("cp", &["--sparse=always", &text(from), &text(to)]).map(drop),
            };
        }
        let unfinished = match self.has(Mistake::LeavesTemporaryFiles) {
            true => beside(to, &format!(".{:?}", std::time::Instant::now()).replace([' ', '{', '}'], "")),
            false => beside(to, ".unfinished"),
        };
        let copied = run("cp", &["--sparse=always", &text(from), &text(&unfinished)])?.done();
        if self.has(Mistake::IgnoresFailedCopy) && copied.is_err() {
            fs::File::create(&unfinished).internal()?;
        } else {
            copied?;
        }
        if !self.has(Mistake::SyncsNoCopy) {
            fs::File::open(&unfinished).and_then(|copy| copy.sync_all()).internal()?;
        }
        fs::rename(&unfinished, to).internal()?;
        tools::sync(to.parent().unwrap())
    }

    /// Remembers a failed call of a volume.
    fn remember_error(&self, method: &str, id: &str) {
        if self.directory.join(TWO_ERRORS).exists() {
            self.noted.lock().unwrap().insert(format!("{method} {id}"));
        }
    }

    fn delete(&self, id: &str) -> Result<(), Status> {
        let image = self.image(id);
        let has_failed = |method| self.noted.lock().unwrap().contains(&format!("{method} {id}"));
        if has_failed("stage") && has_failed("publish") {
            return Err(Status::internal("staging and publishing have failed"));
        }
        self.ask_storage(&format!("remove {id}"))?;
        if self.state().find(Kind::Volume, id).is_none() {
            return Ok(());
        }
        if !loop_devices(&image)?.is_empty() {
            return Err(Status::failed_precondition("the volume is in use"));
        }
        if self.has(Mistake::ForgetsBeforeRemoving) {
            self.state().remove(id)?;
        }
        must(
            "rm",
            &[
                "-f",
                &text(&image),
                &text(&beside(&image, ".formatting")),
                &text(&beside(&image, ".staged")),
                &text(&beside(&image, ".noted")),
                &text(&beside(&image, ".unfinished")),
            ],
        )?;
        self.state().remove(id)
    }

    /// The loop device of a volume; attaches one if necessary.
    fn device(&self, id: &str) -> Result<String, Status> {
        let image = self.image(id);
        if let Some(device) = loop_devices(&image)?.into_iter().next()
            && !self.has(Mistake::LeaksLoopDevices)
        {
            return Ok(device);
        }
        match must("losetup", &["--find", "--show", &text(&image)]) {
            Err(status) if self.has(Mistake::TakesFirstLoopDevice) => {
                let volumes: Vec<Object> = self.state().all(Kind::Volume).cloned().collect();
                let devices = volumes.iter().flat_map(|volume| loop_devices(&self.image(&volume.id)));
                devices.flatten().next().ok_or(status)
            }
            attached => attached,
        }
    }

    fn stage(&self, id: &str, path: &str, is_block: bool) -> Result<(), Status> {
        let volume = self.volume(id)?;
        if !volume.source.is_empty() && self.directory.join(NO_COPIES).exists() {
            return Err(Status::internal("resize2fs: Permission denied to resize filesystem"));
        }
        let staged = beside(&self.image(id), ".staged");
        if mounts_at(path)? > 0 || self.has(Mistake::RemembersMounts) && staged.exists() {
            return Ok(());
        }
        let device = self.device(id)?;
        if is_block {
            return Ok(());
        }
        if !self.has(Mistake::TakesFirstLoopDevice) || mounts_of(&device)? == 0 {
            self.format(id, &device)?;
        }
        let mounted = must("mount", &["-t", "ext4", &device, path]);
        if self.has(Mistake::FormatsWhatItCannotMount) && mounted.is_err() {
            must("mkfs.ext4", &["-q", "-F", &device])?;
        }
        mounted?;
        match self.has(Mistake::RemembersMounts) || self.has(Mistake::CleansAtStart) {
            true => note(&staged, path),
            false => Ok(()),
        }
    }

    /// Formats a blank device, or repairs an existing file system. Records that formatting has begun, so that the
    /// remains of an interrupted one are not taken for data.
    fn format(&self, id: &str, device: &str) -> Result<(), Status> {
        let begun = beside(&self.image(id), ".formatting");
        let mkfs = || must("mkfs.ext4", &["-q", "-F", "-E", "nodiscard", device]);
        if begun.exists() {
            if self.has(Mistake::RefusesHalfFormatted) {
                return Err(Status::internal("the volume is being formatted"));
            }
            mkfs()?;
            return match self.has(Mistake::FormatsAgainEachTime) {
                true => Ok(()),
                false => is_formatted(&begun),
            };
        }
        let noted = beside(&self.image(id), ".noted");
        if self.has(Mistake::TakesCorrectedForBroken) && noted.exists() {
            return Err(Status::internal("the file system is broken"));
        }
        let probed = run("blkid", &["-p", "-s", "TYPE", "-o", "value", device])?;
        if probed.status.success() && probed.output == "ext4" {
            let checked = run("e2fsck", &["-f", "-p", device])?;
            if self.has(Mistake::TakesCorrectedForBroken) && checked.status.code() == Some(1) {
                note(&noted, "broken")?;
                return Err(Status::internal("the file system is broken"));
            }
            if checked.status.code().is_none_or(|code| code > 1) {
                if self.has(Mistake::FormatsWhatItCannotRepair) {
                    mkfs()?;
                }
                return checked.done().map(drop);
            }
            return self.grow(id, device);
        }
        if !self.has(Mistake::FormatsWhatItCannotRead) && !is_blank(device).internal()? {
            return Err(Status::internal("the device has something on it that is no ext4"));
        }
        fs::File::create(&begun).and_then(|note| note.sync_all()).internal()?;
        tools::sync(begun.parent().unwrap())?;
        mkfs()?;
        is_formatted(&begun)
    }

    fn publish(&self, id: &str, staging: &str, target: &str, is_block: bool) -> Result<(), Status> {
        self.volume(id)?;
        let is_noted = self.has(Mistake::NotesPublishedTooEarly)
            && !self.noted.lock().unwrap().insert(target.to_owned());
        if is_noted || mounts_at(target)? > 0 {
            return Ok(());
        }
        let source = if is_block { self.device(id)? } else { staging.to_owned() };
        if !is_block && mounts_at(staging)? == 0 {
            return Err(Status::failed_precondition("the volume is not staged"));
        }
        match is_block {
            true => drop(fs::File::create(target).internal()?),
            false => fs::create_dir_all(target).internal()?,
        }
        match must("mount", &["--bind", &source, target]) {
            Err(_) if self.has(Mistake::IgnoresFailedMount) => Ok(()),
            mounted => mounted.map(drop),
        }
    }

    fn unpublish(&self, target: &str) -> Result<(), Status> {
        if !self.has(Mistake::GivesUpOnMount) {
            self.noted.lock().unwrap().remove(target);
        }
        self.unmount(target)?;
        let path = Path::new(target);
        let removed = match path.symlink_metadata() {
            Ok(there) if there.is_dir() => fs::remove_dir(path),
            Ok(_) => fs::remove_file(path),
            Err(_) => Ok(()),
        };
        let believes = self.has(Mistake::BelievesUmount)
            || self.has(Mistake::TakesUnreadableForUnmounted)
            || self.has(Mistake::IgnoresFailedUmount);
        if believes { Ok(()) } else { removed.internal() }
    }

    fn unmount(&self, path: &str) -> Result<(), Status> {
        if self.has(Mistake::TakesUnreadableForUnmounted) {
            if !run("mountpoint", &["-q", path])?.status.success() {
                return Ok(());
            }
        } else if mounts_at(path)? == 0 {
            return Ok(());
        }
        if self.has(Mistake::GivesUpOnMount) && self.noted.lock().unwrap().contains(path) {
            return Err(Status::internal("the mount is corrupted"));
        }
        match must("umount", &[path]) {
            Err(status) if self.has(Mistake::GivesUpOnMount) => {
                self.noted.lock().unwrap().insert(path.to_owned());
                return Err(status);
            }
            Err(_) if self.has(Mistake::IgnoresFailedUmount) => return Ok(()),
            Err(_) if self.has(Mistake::RemovesBelowAMount) => empty(Path::new(path)),
            unmounted => drop(unmounted?),
        }
        match mounts_at(path)? > 0 && !self.has(Mistake::BelievesUmount) {
            true => Err(Status::internal(format!("{path} is still mounted"))),
            false => Ok(()),
        }
    }

    fn unstage(&self, id: &str, path: &str) -> Result<(), Status> {
        self.unmount(path)?;
        if self.has(Mistake::RemembersMounts) || self.has(Mistake::CleansAtStart) {
            let removed = fs::remove_file(beside(&self.image(id), ".staged"));
            removed
                .or_else(
                    |error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) },
                )
                .internal()?;
        }
        for device in loop_devices(&self.image(id))? {
            match must("losetup", &["--detach", &device]) {
                Err(_) if self.has(Mistake::IgnoresFailedDetach) => return self.state().remove(id),
                detached => drop(detached?),
            }
            if self.has(Mistake::LeaksLoopDevices) {
                return Ok(());
            }
        }
        tools::wait_until_detached(&self.image(id))
    }

    fn expand(&self, id: &str, bytes: i64) -> Result<i64, Status> {
        let volume = self.volume(id)?;
        if volume.bytes < bytes {
            must("truncate", &["-s", &bytes.to_string(), &text(&self.image(id))])?;
            self.state().put(Object { bytes, ..volume })?;
        }
        Ok(bytes)
    }

    /// Grows the file system to the size of its device.
    fn grow(&self, id: &str, device: &str) -> Result<(), Status> {
        if self.has(Mistake::NotesGrownTooEarly) {
            let (noted, bytes) = (beside(&self.image(id), ".noted"), self.volume(id)?.bytes.to_string());
            if fs::read_to_string(&noted).is_ok_and(|noted| noted == bytes) {
                return Ok(());
            }
            note(&noted, &bytes)?;
        }
        match must("resize2fs", &[device]) {
            Err(_) if self.has(Mistake::IgnoresFailedResize) => Ok(()),
            Err(_) if self.has(Mistake::FormatsWhatItCannotGrow) => {
                must("mkfs.ext4", &["-q", "-F", device]).map(drop)
            }
            grown => grown.map(drop),
        }
    }

    fn create_snapshot(&self, request: &CreateSnapshotRequest) -> Result<Snapshot, Status> {
        if let Some(taken) = self.state().named(Kind::Snapshot, &request.name) {
            return match taken.source == request.source_volume_id {
                true => Ok(snapshot_message(taken)),
                false => Err(Status::already_exists("it is of another volume")),
            };
        }
        let volume = self.volume(&request.source_volume_id)?;
        let id = request.name.clone();
        self.copy(&self.image(&volume.id), &self.snapshot(&id))?;
        let (kind, name, source) = (Kind::Snapshot, request.name.clone(), volume.id);
        let taken = Object { kind, id, name, bytes: volume.bytes, source };
        self.state().put(taken.clone())?;
        Ok(snapshot_message(taken))
    }

    fn delete_snapshot(&self, id: &str) -> Result<(), Status> {
        if self.state().find(Kind::Snapshot, id).is_none() {
            return Ok(());
        }
        let image = self.snapshot(id);
        must("rm", &["-f", &text(&image), &text(&beside(&image, ".unfinished"))])?;
        self.state().remove(id)
    }
}

/// Writes a note beside an image, durably.
fn note(path: &Path, words: &str) -> Result<(), Status> {
    fs::write(path, words).and_then(|()| fs::File::open(path)?.sync_all()).internal()
}

/// Records that formatting is finished.
fn is_formatted(begun: &Path) -> Result<(), Status> {
    fs::remove_file(begun).internal()?;
    tools::sync(begun.parent().unwrap())
}

/// Removes the content of a directory, which may be a mount.
fn empty(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // Files that cannot be removed do not matter.
        let _ = fs::remove_file(entry.path());
    }
}

fn volume_message(volume: Object, request: &CreateVolumeRequest) -> Volume {
    let content_source = request.volume_content_source.clone();
    Volume { volume_id: volume.id, capacity_bytes: volume.bytes, content_source, ..Volume::default() }
}

fn snapshot_message(taken: Object) -> Snapshot {
    Snapshot {
        snapshot_id: taken.id,
        source_volume_id: taken.source,
        size_bytes: taken.bytes,
        creation_time: Some(Default::default()),
        ready_to_use: true,
        ..Snapshot::default()
    }
}

fn is_block(capability: Option<&VolumeCapability>) -> bool {
    let access = capability.and_then(|capability| capability.access_type.as_ref());
    matches!(access, Some(volume_capability::AccessType::Block(_)))
}

#[async_trait]
impl Identity for PlainDriver {
    async fn get_plugin_info(&self, _: Request<GetPluginInfoRequest>) -> Reply<GetPluginInfoResponse> {
        let (name, vendor_version) = ("plain.example.com".to_owned(), "1".to_owned());
        Ok(Response::new(GetPluginInfoResponse { name, vendor_version, ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Reply<GetPluginCapabilitiesResponse> {
        use plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
        let service = Type::Service(Service { r#type: service::Type::ControllerService.into() });
        let online = Type::VolumeExpansion(VolumeExpansion { r#type: volume_expansion::Type::Online.into() });
        let capabilities =
            [service, online].map(|one| PluginCapability { r#type: Some(one) }).into_iter().collect();
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Reply<ProbeResponse> {
        Ok(Response::new(ProbeResponse::default()))
    }
}

/// The RPCs of the Controller service.
impl Offered {
    async fn create_volume(&self, request: Request<CreateVolumeRequest>) -> Reply<CreateVolumeResponse> {
        let request = request.into_inner();
        let name = request.name.clone();
        let made = self.work(name, move |inner| inner.create(&request));
        Ok(made.await?.map(|volume| CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(&self, request: Request<DeleteVolumeRequest>) -> Reply<DeleteVolumeResponse> {
        let id = request.into_inner().volume_id;
        let done = self.work(id.clone(), move |inner| inner.delete(&id).map(|()| DeleteVolumeResponse {}));
        match done.await {
            Err(status)
                if status.code() == tonic::Code::Unavailable && self.0.has(Mistake::TakesOfflineForGone) =>
            {
                Ok(Response::new(DeleteVolumeResponse {}))
            }
            done => done,
        }
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Reply<ValidateVolumeCapabilitiesResponse> {
        let inner = self.0.clone();
        tokio::task::spawn_blocking(move || {
            let _everything = inner.has(Mistake::LocksEverything).then(|| inner.everything.lock().unwrap());
            inner.volume(&request.get_ref().volume_id)?;
            Ok(Response::new(ValidateVolumeCapabilitiesResponse::default()))
        })
        .await
        .unwrap()
    }

    async fn list_volumes(&self, _: Request<ListVolumesRequest>) -> Reply<ListVolumesResponse> {
        let inner = self.0.clone();
        let stored = tokio::task::spawn_blocking(move || inner.ask_storage("list")).await.unwrap();
        let stored = match stored {
            Err(_) if self.0.has(Mistake::ListsNothingUnreached) => Some(Vec::new()),
            stored => stored?,
        };
        let mut all = self.0.state().all(Kind::Volume).cloned().collect::<Vec<_>>();
        all.retain(|volume| stored.as_ref().is_none_or(|stored| stored.contains(&volume.id)));
        let entry = |volume: Object| {
            let volume = volume_message(volume, &CreateVolumeRequest::default());
            list_volumes_response::Entry { volume: Some(volume), status: None }
        };
        let entries = all.into_iter().map(entry).collect();
        Ok(Response::new(ListVolumesResponse { entries, next_token: String::new() }))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Reply<ControllerGetCapabilitiesResponse> {
        use controller_service_capability::rpc::Type;
        let types =
            [Type::CreateDeleteVolume, Type::CreateDeleteSnapshot, Type::ExpandVolume, Type::ListVolumes];
        let capability = |one: Type| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(controller_service_capability::Rpc {
                r#type: one.into(),
            })),
        };
        let capabilities = types.map(capability).into_iter().collect();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Reply<CreateSnapshotResponse> {
        let request = request.into_inner();
        let volume = request.source_volume_id.clone();
        let taken = self.work(volume, move |inner| inner.create_snapshot(&request));
        Ok(taken.await?.map(|snapshot| CreateSnapshotResponse { snapshot: Some(snapshot) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Reply<DeleteSnapshotResponse> {
        let id = request.into_inner().snapshot_id;
        let done = self.work(id.clone(), move |inner| inner.delete_snapshot(&id));
        Ok(done.await?.map(|()| DeleteSnapshotResponse {}))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Reply<ControllerExpandVolumeResponse> {
        let ControllerExpandVolumeRequest { volume_id, capacity_range, .. } = request.into_inner();
        let bytes = capacity_range.map_or(0, |range| range.required_bytes);
        let grown = self.work(volume_id.clone(), move |inner| inner.expand(&volume_id, bytes));
        // The file system grows when it is staged next.
        let node_expansion_required = false;
        Ok(grown
            .await?
            .map(|capacity_bytes| ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required }))
    }
}

/// The RPCs of the Node service.
impl Offered {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Reply<NodeStageVolumeResponse> {
        let NodeStageVolumeRequest { volume_id, staging_target_path, volume_capability, .. } =
            request.into_inner();
        let is_block = is_block(volume_capability.as_ref());
        let staged = self.work(volume_id.clone(), move |inner| {
            let staged = inner.stage(&volume_id, &staging_target_path, is_block);
            staged.inspect_err(|_| inner.remember_error("stage", &volume_id))
        });
        Ok(staged.await?.map(|()| NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Reply<NodeUnstageVolumeResponse> {
        let NodeUnstageVolumeRequest { volume_id, staging_target_path } = request.into_inner();
        let unstaged =
            self.work(volume_id.clone(), move |inner| inner.unstage(&volume_id, &staging_target_path));
        Ok(unstaged.await?.map(|()| NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Reply<NodePublishVolumeResponse> {
        let NodePublishVolumeRequest {
            volume_id, staging_target_path, target_path, volume_capability, ..
        } = request.into_inner();
        let is_block = is_block(volume_capability.as_ref());
        let published = self.work(volume_id.clone(), move |inner| {
            let published = inner.publish(&volume_id, &staging_target_path, &target_path, is_block);
            published.inspect_err(|_| inner.remember_error("publish", &volume_id))
        });
        Ok(published.await?.map(|()| NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Reply<NodeUnpublishVolumeResponse> {
        let NodeUnpublishVolumeRequest { volume_id, target_path } = request.into_inner();
        let done = self.work(volume_id, move |inner| inner.unpublish(&target_path));
        Ok(done.await?.map(|()| NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Reply<NodeGetCapabilitiesResponse> {
        use node_service_capability::rpc::Type;
        let capability = |one: Type| NodeServiceCapability {
            r#type: Some(node_service_capability::Type::Rpc(node_service_capability::Rpc {
                r#type: one.into(),
            })),
        };
        let capabilities = [Type::StageUnstageVolume].map(capability).into_iter().collect();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Reply<NodeGetInfoResponse> {
        Ok(Response::new(NodeGetInfoResponse { node_id: NODE.to_owned(), ..Default::default() }))
    }
}

macro_rules! serve {
    ($service:ident: $($rpc:ident($request:ident) -> $response:ident;)*) => {
        #[async_trait]
        impl $service for NotOffered {
            $(async fn $rpc(&self, _: Request<$request>) -> Reply<$response> {
                Err(Status::unimplemented("it is not advertised"))
            })*
        }

        #[async_trait]
        impl $service for PlainDriver {
            $(async fn $rpc(&self, request: Request<$request>) -> Reply<$response> {
                self.0.$rpc(request).await
            })*
        }
    };
}

csi_proto::rpcs!(Controller serve);
csi_proto::rpcs!(Node serve);
