//! Compares what is mounted with what was asked for, after each successful NodePublishVolume of the run. Checks report
//! the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use csi_proto::lock::Mutex;
use csi_proto::v1;
use v1::volume_capability::AccessType;
use v1::volume_capability::access_mode::Mode;

use crate::config;
use crate::resources::mounts::{self, Mount};
use crate::resources::workload::is_published;
use crate::spec::requirements::{Requirement, req};
use crate::spec::verdict::ReproductionStep;
use crate::text::encoding::wire;

/// Mismatches kept for one run; one that has more has enough to mend.
const MISMATCHES_MAX: usize = 100;
/// Flags that protect the node or the volume, as the mount table shows them.
const PROTECTING_FLAGS: [&str; 4] = ["nodev", "noexec", "nosuid", "ro"];
/// Flags that the mount table shows, and that only save time.
const OTHER_FLAGS: [&str; 2] = ["noatime", "nodiratime"];
/// The finding for a target without a mount. A driver that never mounts anything may fill the directory itself.
const BARE_TARGET: &str = "a volume requested with a file system is a bare directory at its target path";
/// The finding for a target that shows a staging directory without a mount. A driver that mounts nothing when it stages may keep
/// its files there.
pub const BARE_STAGING: &str = "the target shows the staging directory, in which nothing is mounted";

/// A volume that is not published as it was asked for. A volume with several mistakes of one kind is reported once.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// The rule.
    pub requirement: &'static Requirement,
    /// The mistake, in words that do not depend on the volume.
    pub what: &'static str,
    /// The mount that was asked for.
    pub expected: String,
    /// The mount that is there.
    pub actual: String,
    /// Label of the check that published it.
    pub check: String,
    /// The call that published it, in a line.
    pub call: String,
    /// The calls of that check by which the volume came there, in order.
    pub steps: Vec<ReproductionStep>,
}

/// A volume on a node.
type Place = (usize, String);
/// The device or file system at a target.
#[derive(Clone, Debug)]
struct Shown {
    /// The number of the device, or of the file system.
    number: u64,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A device, which may refuse writes. A loop device shows a part of a file.
    Device {
        readonly: bool,
        file: Option<String>,
    },
    FileSystem(String),
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Device { .. } => "a device",
            Kind::FileSystem(fs_type) => fs_type,
        };
        write!(f, "{kind} {}:{}", rustix::fs::major(self.number), rustix::fs::minor(self.number))
    }
}

/// The capability and the `readonly` with which a volume was asked for at a target.
type Asked = (Option<v1::VolumeCapability>, bool);

/// The targets and mismatches of a run.
#[derive(Debug, Default)]
pub(crate) struct ReadBack {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    mismatches: BTreeMap<(&'static str, &'static str), Mismatch>,
    /// The number of calls about a volume that are under way or have had no answer, and the number of all.
    calls: BTreeMap<Place, (u64, u64)>,
    /// The target paths at which volumes are published.
    targets: BTreeMap<Place, BTreeSet<String>>,
    /// The first request for each target at which a volume is published.
    asked: BTreeMap<(usize, String), Asked>,
    /// Volumes that were attached for reading only.
    readonly: BTreeSet<String>,
    /// True once a mount was seen at the target of a file system.
    mounts_targets: bool,
    /// True once a mount was seen in the staging directory of a volume that was being published.
    mounts_staging: bool,
    /// True once a file system was seen that ends with its process and then leaves a bare directory.
    has_fuse: bool,
}

impl Inner {
    /// Returns true if a finding proves a fault. What the run has seen of the driver decides if the finding is normal
    /// for it.
    fn is_certain(&self, what: &str) -> bool {
        match what {
            BARE_TARGET => self.mounts_targets && !self.has_fuse,
            BARE_STAGING => self.mounts_staging && !self.has_fuse,
            _ => true,
        }
    }

    /// A target path belongs to the volume that was published there last.
    fn forget_target(&mut self, node: usize, target_path: &str) {
        let of_node = self.targets.iter_mut().filter(|((on, _), _)| *on == node);
        of_node.for_each(|(_, targets)| {
            targets.remove(target_path);
        });
    }
}

/// A call about a volume on a node. If it is dropped without an end, it may still be under way, and the state of that
/// volume proves nothing.
#[derive(Debug)]
pub(crate) struct UnderWay {
    place: Place,
    number: u64,
}

impl ReadBack {
    /// A call begins that changes what is there for a volume on a node.
    pub(crate) fn begin(&self, node: usize, volume_id: &str) -> UnderWay {
        let place = (node, volume_id.to_owned());
        let mut inner = self.inner.lock();
        let (open, all) = inner.calls.entry(place.clone()).or_default();
        (*open, *all) = (*open + 1, *all + 1);
        UnderWay { number: *all, place }
    }

    /// Ends a call that was answered.
    pub(crate) fn end(&self, call: UnderWay) {
        if let Some((open, _)) = self.inner.lock().calls.get_mut(&call.place) {
            *open = open.saturating_sub(1);
        }
    }

    /// Nothing is published at a target of a node any more.
    pub(crate) fn unpublished(&self, node: usize, target_path: &str) {
        let mut inner = self.inner.lock();
        inner.asked.remove(&(node, target_path.to_owned()));
        inner.forget_target(node, target_path);
    }

    /// A volume is no longer staged on a node, or attached to it. Places at which it is still published show an earlier use of it, and its next
    /// use may be by another device.
    pub(crate) fn left_node(&self, node: usize, volume_id: &str) {
        self.inner.lock().targets.remove(&(node, volume_id.to_owned()));
    }

    /// A volume was attached for reading only.
    pub(crate) fn attached_readonly(&self, volume_id: &str) {
        self.inner.lock().readonly.insert(volume_id.to_owned());
    }

    /// Compares a publication with the request. It is not judged if the tests cannot see it, or if another call about the volume was
    /// under way. `is_staged` is true if NodeStageVolume succeeded before: no orchestrator publishes a volume from a staging directory
    /// without that, so that such a directory may be bare. `steps` are the calls of the check about the volume so far.
    pub(crate) fn published(
        &self,
        call: &UnderWay,
        request: &v1::NodePublishVolumeRequest,
        is_staged: bool,
        check: &str,
        steps: impl Fn() -> Vec<ReproductionStep>,
    ) {
        let path = Path::new(&request.target_path);
        let (is_there, other_kind, bare) =
            (is_published(path), other_kind(path, request), bare(path, request));
        if !is_there && other_kind.is_none() && bare.is_none() {
            return;
        }
        let mount = mounts::at(path).pop();
        let shown = shown(path, mount.as_ref());
        let mut inner = self.inner.lock();
        if inner.calls.get(&call.place) != Some(&(1, call.number)) {
            return;
        }
        if let Some(AccessType::Mount(_)) = access(request) {
            inner.mounts_targets |= is_there;
            inner.mounts_staging |= is_published(Path::new(&request.staging_target_path));
            inner.has_fuse |= mount.as_ref().is_some_and(|mount| mount.fs_type.starts_with("fuse"));
        }
        // The mount is compared with the first request for the place. Whether a second request may succeed is for the
        // checks of repeated calls.
        let asked = (request.volume_capability.clone(), request.readonly);
        let target = (call.place.0, request.target_path.clone());
        let is_repeated = inner.asked.contains_key(&target);
        let first = inner.asked.entry(target).or_insert_with(|| asked.clone());
        if *first != asked {
            return;
        }
        // The specification does not say that a repeated call has to notice a mount that someone else has removed.
        let bare = bare.filter(|(_, what, ..)| match *what {
            BARE_TARGET => !is_repeated,
            _ => is_staged,
        });
        let attached_readonly = inner.readonly.contains(&request.volume_id);
        let mut found: Vec<Found> = other_kind.into_iter().chain(bare).collect();
        inner.forget_target(call.place.0, &request.target_path);
        let targets = inner.targets.entry(call.place.clone()).or_default();
        if let Some(shown) = shown {
            // The other targets are looked at again: since they were published, the volume may have got another device.
            let others = targets.iter().filter_map(|other| Some((other, shown_now(Path::new(other))?)));
            let other = others.into_iter().find(|(_, other)| is_another(other, &shown));
            found.extend(other.map(|(path, other)| elsewhere(request, &shown, path, &other)));
            targets.insert(request.target_path.clone());
        }
        if let Some(mount) = &mount {
            found.extend(unlike(request, mount, attached_readonly));
        }
        for (requirement, what, expected, actual) in found {
            if inner.mismatches.len() < MISMATCHES_MAX {
                let actual = format!("{actual}, at {:?}", request.target_path);
                let call = format!("NodePublishVolume {}", wire(request));
                let check = check.to_owned();
                let mismatch = Mismatch { requirement, what, expected, actual, check, call, steps: steps() };
                inner.mismatches.entry((requirement.id, what)).or_insert(mismatch);
            }
        }
    }

    /// The mismatches found so far.
    pub(crate) fn mismatches(&self) -> Vec<Mismatch> {
        let inner = self.inner.lock();
        inner.mismatches.values().filter(|one| inner.is_certain(one.what)).cloned().collect()
    }
}

type Found = (&'static Requirement, &'static str, String, String);

/// The device at a target, with its number, or the file system.
fn shown(path: &Path, mount: Option<&Mount>) -> Option<Shown> {
    let there = path.metadata().ok()?;
    match there.file_type().is_block_device() {
        true => {
            let (number, readonly) = (there.rdev(), mounts::refuses_writes(there.rdev()));
            Some(Shown { number, kind: Kind::Device { readonly, file: mounts::loop_file(number) } })
        }
        false => Some(Shown { number: there.dev(), kind: Kind::FileSystem(mount?.fs_type.clone()) }),
    }
}

/// The volume that a target shows, if it is still published there.
fn shown_now(path: &Path) -> Option<Shown> {
    is_published(path).then(|| shown(path, mounts::at(path).pop().as_ref())).flatten()
}

/// Returns true if two targets cannot show one volume. A file system without a device of its own may have another
/// number each time, and a volume may have one device for writing and others that refuse writes, or several loop devices for its file.
fn is_another(one: &Shown, other: &Shown) -> bool {
    let has_device = |shown: &Shown| rustix::fs::major(shown.number) != 0;
    match (&one.kind, &other.kind) {
        (Kind::Device { readonly: true, .. }, Kind::Device { .. })
        | (Kind::Device { .. }, Kind::Device { readonly: true, .. }) => false,
        (Kind::Device { file: Some(file), .. }, Kind::Device { file: Some(other), .. }) => file != other,
        (kind, other_kind) if kind != other_kind => true,
        _ => one.number != other.number && has_device(one) && has_device(other),
    }
}

/// A target that is no device although one was requested, or a device although a file system was.
fn other_kind(path: &Path, request: &v1::NodePublishVolumeRequest) -> Option<Found> {
    let kind = path.metadata().ok()?.file_type();
    match access(request)? {
        AccessType::Block(_) if !kind.is_block_device() && !mounts::at(path).is_empty() => Some((
            &req::NODE_PUBLISH_026,
            "a volume requested as a block device is not one at its target path",
            "a block device".to_owned(),
            if kind.is_dir() { "a directory" } else { "a file" }.to_owned(),
        )),
        AccessType::Mount(_) if kind.is_block_device() => Some((
            &req::NODE_PUBLISH_027,
            "a volume requested with a file system is a block device at its target path",
            "a mounted directory".to_owned(),
            "a block device".to_owned(),
        )),
        _ => None,
    }
}

/// Finds a directory of the node's own file system where a workload expects its volume: what it writes there is not in the volume.
fn bare(path: &Path, request: &v1::NodePublishVolumeRequest) -> Option<Found> {
    let Some(AccessType::Mount(_)) = access(request) else { return None };
    path.symlink_metadata().ok().filter(Metadata::is_dir)?;
    if !is_published(path) {
        let actual = "a directory in which nothing is mounted".to_owned();
        return Some((&req::NODE_PUBLISH_027, BARE_TARGET, "a mounted directory".to_owned(), actual));
    }
    let staging = Path::new(&request.staging_target_path);
    shows_bare_staging(path, staging).then(|| {
        let expected = "the volume, or an error: what a workload writes here is not in the volume".to_owned();
        (&req::NODE_PUBLISH_027, BARE_STAGING, expected, format!("the directory {}", staging.display()))
    })
}

/// Returns true if a target path shows the directory of a staging path, in which nothing is mounted.
pub fn shows_bare_staging(target: &Path, staging: &Path) -> bool {
    let place = |path: &Path| path.metadata().ok().map(|there| (there.dev(), there.ino()));
    !is_published(staging) && place(staging).is_some_and(|staging| place(target) == Some(staging))
}

fn elsewhere(request: &v1::NodePublishVolumeRequest, shown: &Shown, path: &str, other: &Shown) -> Found {
    let is_block = matches!(access(request), Some(AccessType::Block(_)));
    let rule = if is_block { &req::NODE_PUBLISH_026 } else { &req::NODE_PUBLISH_027 };
    let what = "two targets of one volume show different devices or file systems";
    (rule, what, format!("{other} as at {path:?}"), shown.to_string())
}

/// Returns true if a volume is asked for with this access type.
pub(crate) fn is_for(access_type: config::AccessType, request: &v1::NodePublishVolumeRequest) -> bool {
    match access(request) {
        Some(AccessType::Mount(_)) => access_type == config::AccessType::Mount,
        Some(AccessType::Block(_)) => access_type == config::AccessType::Block,
        None => false,
    }
}

fn access(request: &v1::NodePublishVolumeRequest) -> Option<&AccessType> {
    request.volume_capability.as_ref()?.access_type.as_ref()
}

/// The difference between a mount and the request.
fn unlike(request: &v1::NodePublishVolumeRequest, mount: &Mount, attached_readonly: bool) -> Vec<Found> {
    let Some(AccessType::Mount(asked)) = access(request) else { return Vec::new() };
    let has = |flag: &str| mount.options.contains(flag) || mount.fs_options.contains(flag);
    let mut found = Vec::new();
    let mode = request.volume_capability.as_ref().and_then(|capability| capability.access_mode);
    let is_for_readers = mode.is_some_and(|mode| {
        [Mode::SingleNodeReaderOnly, Mode::MultiNodeReaderOnly]
            .iter()
            .any(|reader| mode.mode == *reader as i32)
    });
    let is_asked_for = |flag: &&str| asked.mount_flags.iter().any(|asked| asked == flag);
    let may_be_readonly = request.readonly || is_for_readers || attached_readonly || is_asked_for(&"ro");
    if has("ro") && !may_be_readonly {
        let what = "a volume requested writable is mounted read-only";
        found.push((
            &req::NODE_PUBLISH_032,
            what,
            "a mount with rw".to_owned(),
            "a mount with ro".to_owned(),
        ));
    }
    for (flags, what) in [(&PROTECTING_FLAGS[..], LACKS_PROTECTION), (&OTHER_FLAGS[..], MISSES_FLAGS)] {
        let missing: Vec<&str> =
            flags.iter().copied().filter(is_asked_for).filter(|flag| !has(flag)).collect();
        if !missing.is_empty() {
            let options: Vec<&str> = mount.options.iter().map(String::as_str).collect();
            let (expected, actual) = (format!("a mount with {}", missing.join(",")), options.join(","));
            found.push((&req::NODE_PUBLISH_032, what, expected, format!("one with {actual}")));
        }
    }
    // A directory of a larger file system has no type of its own.
    let is_whole = mount.source.starts_with("/dev/") && mount.root == Path::new("/");
    if is_whole && !asked.fs_type.is_empty() && asked.fs_type != mount.fs_type {
        let what = "a volume has another file system than fs_type requests";
        let actual = format!("{} on {}", mount.fs_type, mount.source);
        found.push((&req::NODE_PUBLISH_032, what, asked.fs_type.clone(), actual));
    }
    found
}

/// The finding for a flag that only saves time: the specification leaves open for what mount_flags may be used.
pub const MISSES_FLAGS: &str = "a volume is mounted without the mount_flags of the request";
/// The finding for a flag without which a workload can do what the administrator has forbidden.
const LACKS_PROTECTION: &str =
    "a volume is mounted without the mount_flags that protect the node or the volume";

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fs_type: &str, flags: &[&str], readonly: bool) -> v1::NodePublishVolumeRequest {
        let mount = v1::volume_capability::MountVolume {
            fs_type: fs_type.to_owned(),
            mount_flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            ..Default::default()
        };
        let capability =
            v1::VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..Default::default() };
        v1::NodePublishVolumeRequest { volume_capability: Some(capability), readonly, ..Default::default() }
    }

    fn whats(request: &v1::NodePublishVolumeRequest, line: &str) -> usize {
        unlike(request, &Mount::read(line).unwrap(), false).len()
    }

    #[test]
    fn only_what_the_table_shows_is_judged() {
        let loop_device = "30 22 7:0 / /t rw,noatime shared:1 - ext4 /dev/loop0 rw";
        let directory = "30 22 8:1 /volumes/v /t ro,noatime shared:1 - ext4 /dev/sda1 rw";
        assert_eq!(whats(&request("", &[], false), loop_device), 0);
        assert_eq!(whats(&request("ext4", &["noatime", "discard"], false), loop_device), 0);
        assert_eq!(whats(&request("xfs", &["noexec"], false), loop_device), 2, "type and flag");
        assert_eq!(whats(&request("xfs", &[], true), directory), 0, "a part of a file system has no type");
        assert_eq!(whats(&request("", &[], false), directory), 1, "it is for reading only");
        assert_eq!(whats(&request("", &["ro"], false), directory), 0);
    }

    #[test]
    fn a_request_is_for_the_access_type_that_it_names() {
        use config::AccessType::{Block, Mount};
        let device = v1::NodePublishVolumeRequest {
            volume_capability: Some(v1::VolumeCapability {
                access_type: Some(AccessType::Block(v1::volume_capability::BlockVolume {})),
                ..Default::default()
            }),
            ..Default::default()
        };
        let both = |request: &_| [is_for(Mount, request), is_for(Block, request)];
        assert_eq!(both(&request("", &[], false)), [true, false]);
        assert_eq!(both(&device), [false, true]);
        assert_eq!(both(&v1::NodePublishVolumeRequest::default()), [false, false]);
    }

    #[test]
    fn two_targets_differ_in_what_cannot_be_one() {
        let numbered = |major, minor, kind: &Kind| Shown {
            number: rustix::fs::makedev(major, minor),
            kind: kind.clone(),
        };
        let differ = |major, kind| is_another(&numbered(major, 3, &kind), &numbered(major, 4, &kind));
        let [ext4, nfs, tmpfs] = ["ext4", "nfs4", "tmpfs"].map(|name| Kind::FileSystem(name.to_owned()));
        let [device, readonly] = [false, true].map(|readonly| Kind::Device { readonly, file: None });
        let looped = |file: &str| Kind::Device { readonly: false, file: Some(file.to_owned()) };
        assert!(!differ(7, looped("/volumes/v.img from 0")), "both show one file");
        let parts = ["/volumes/v.img from 0", "/volumes/v.img from 4096"].map(looped);
        assert!(is_another(&numbered(7, 3, &parts[0]), &numbered(7, 4, &parts[1])));
        assert!(differ(7, ext4.clone()));
        assert!(is_another(&numbered(7, 3, &ext4), &numbered(0, 3, &tmpfs)));
        assert!(!differ(0, nfs), "a server's export");
        assert!(differ(7, device.clone()));
        assert!(!is_another(&numbered(7, 3, &device), &numbered(7, 3, &device)));
        assert!(!is_another(&numbered(7, 3, &device), &numbered(7, 4, &readonly)));
        assert!(!differ(7, readonly), "each target may have a device of its own that refuses writes");
    }

    #[test]
    fn missing_protection_is_a_finding_of_its_own() {
        let line = "30 22 7:0 / /t rw,relatime shared:1 - ext4 /dev/loop0 rw";
        let found = unlike(
            &request("", &["noatime", "noexec", "discard"], false),
            &Mount::read(line).unwrap(),
            false,
        );
        let whats: Vec<&str> = found.iter().map(|(_, what, ..)| *what).collect();
        assert_eq!(whats, [LACKS_PROTECTION, MISSES_FLAGS]);
        assert!(found[0].2.ends_with("noexec") && found[1].2.ends_with("noatime"), "{found:?}");
    }

    /// Publishes a volume with these paths, and looks at it.
    fn publish(read_back: &ReadBack, volume: &str, staging_target_path: &str, target_path: &str) {
        let request = v1::NodePublishVolumeRequest {
            target_path: target_path.to_owned(),
            staging_target_path: staging_target_path.to_owned(),
            ..request("", &[], true)
        };
        let call = read_back.begin(0, volume);
        read_back.published(&call, &request, true, "check", Vec::new);
        read_back.end(call);
    }

    fn found(read_back: &ReadBack) -> Vec<&'static str> {
        read_back.mismatches().into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn a_target_of_another_volume_is_not_compared() {
        let read_back = ReadBack::default();
        for (volume, path) in [("v", "/proc"), ("w", "/proc"), ("v", "/sys")] {
            publish(&read_back, volume, "", path);
        }
        assert_eq!(found(&read_back), [""; 0]);
        publish(&read_back, "v", "", "/proc");
        assert_eq!(found(&read_back), ["two targets of one volume show different devices or file systems"]);
    }

    #[test]
    fn a_bare_directory_accuses_a_driver_that_mounts() {
        let bare = tempfile::tempdir().unwrap();
        let bare = bare.path().to_str().unwrap();
        let read_back = ReadBack::default();
        publish(&read_back, "v", "", bare);
        assert_eq!(found(&read_back), [""; 0], "it may fill the directory itself");
        publish(&read_back, "w", "", "/proc");
        assert_eq!(found(&read_back), [BARE_TARGET]);
    }

    #[test]
    fn a_repeated_call_may_miss_that_a_mount_is_gone() {
        let target = tempfile::tempdir().unwrap();
        let target = target.path().to_str().unwrap();
        let read_back = ReadBack::default();
        publish(&read_back, "w", "", "/proc");
        let asked = (request("", &[], true).volume_capability, true);
        read_back.inner.lock().asked.insert((0, target.to_owned()), asked);
        publish(&read_back, "v", "", target);
        assert_eq!(found(&read_back), [""; 0]);
    }

    #[test]
    fn a_place_is_judged_by_the_call_that_published_there() {
        let read_back = ReadBack::default();
        let asked = |readonly| {
            let request = v1::NodePublishVolumeRequest {
                target_path: "/proc".to_owned(),
                ..request("", &["noatime"], readonly)
            };
            let call = read_back.begin(0, "v");
            read_back.published(&call, &request, true, "check", Vec::new);
            read_back.end(call);
            std::mem::take(&mut read_back.inner.lock().mismatches).len()
        };
        let found = asked(true);
        assert_eq!(asked(false), 0, "whether it may be asked for again, others judge");
        assert_eq!(asked(true), found);
        read_back.unpublished(0, "/proc");
        assert_eq!(asked(false), found, "now it is what was asked for");
    }

    #[test]
    fn a_call_that_has_no_answer_spoils_the_look() {
        let read_back = ReadBack::default();
        let first = read_back.begin(0, "v");
        assert_eq!(read_back.inner.lock().calls[&first.place], (1, 1));
        read_back.end(first);
        drop(read_back.begin(0, "v"));
        let third = read_back.begin(0, "v");
        assert_ne!(read_back.inner.lock().calls[&third.place], (1, third.number));
    }
}
