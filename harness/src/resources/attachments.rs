//! Storage that is attached to this machine: disks, device-mapper devices, the sessions with the storage servers that they come from, and the
//! devices with a file system in use. The kernel reports each of them below `/sys`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::text::encoding::shell_word;
use crate::text::shorten::named;

/// The names of block devices that are no disks: loop devices are counted for themselves, and the others are in memory.
const NO_DISKS: [&str; 4] = ["loop", "ram", "zram", "dm-"];

/// The directories of `/sys/fs` in which the kernel has an entry for each file system in use, by the name of its device.
const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "f2fs"];

/// Something that connects volumes to this machine, and that the driver has to undo when they are given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attachment {
    /// A session with an iSCSI target.
    Iscsi {
        /// The kernel's name of the session, such as `session3`.
        session: String,
        /// The qualified name of the target.
        target: String,
    },
    /// A connection to an NVMe subsystem over a network.
    Nvme {
        /// The qualified name of the subsystem.
        subsystem: String,
    },
    /// A device that the kernel maps onto others: multipath, encryption, logical volumes.
    Mapped {
        /// The name below `/dev/mapper`.
        name: String,
        /// True if all reads and writes of it wait until it is resumed.
        is_suspended: bool,
    },
}

impl Attachment {
    /// The name under which the driver made it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Attachment::Iscsi { target, .. } => target,
            Attachment::Nvme { subsystem } => subsystem,
            Attachment::Mapped { name, .. } => name,
        }
    }

    pub(crate) fn describe(&self) -> String {
        let name = named(self.name());
        match self {
            Attachment::Iscsi { session, .. } => format!("iSCSI {session} with {name}"),
            Attachment::Nvme { .. } => format!("NVMe connection to {name}"),
            Attachment::Mapped { is_suspended: false, .. } => format!("device-mapper device {name}"),
            Attachment::Mapped { is_suspended: true, .. } => {
                format!("device-mapper device {name}, which is suspended, so all reads and writes wait")
            }
        }
    }

    /// The command that undoes it.
    pub(crate) fn remove(&self) -> String {
        let name = shell_word(self.name());
        match self {
            Attachment::Iscsi { .. } => format!("iscsiadm --mode node --targetname {name} --logout"),
            Attachment::Nvme { .. } => format!("nvme disconnect --nqn {name}"),
            Attachment::Mapped { is_suspended: false, .. } => format!("dmsetup remove {name}"),
            Attachment::Mapped { is_suspended: true, .. } => format!("dmsetup resume {name}"),
        }
    }
}

/// Everything that is attached now.
pub(crate) fn attachments() -> BTreeSet<Attachment> {
    attachments_in(Path::new("/sys"))
}

/// The number of disks of this machine that have a medium.
pub(crate) fn disks() -> u64 {
    disks_in(Path::new("/sys"))
}

/// The block devices with a file system that is in use. If none of them is mounted here, it is mounted in another mount namespace, or it was
/// frozen when it was unmounted, and stays in use until it is mounted again and thawed.
pub(crate) fn file_systems() -> BTreeSet<PathBuf> {
    file_systems_in(Path::new("/sys"))
}

fn file_systems_in(sys: &Path) -> BTreeSet<PathBuf> {
    let used = FILE_SYSTEMS.iter().flat_map(|type_| entries(sys.join("fs").join(type_)));
    // Beside the devices, there are entries for the type as a whole.
    let devices = used.filter(|(name, _)| sys.join("class/block").join(name).exists());
    devices.map(|(name, _)| Path::new("/dev").join(name)).collect()
}

fn attachments_in(sys: &Path) -> BTreeSet<Attachment> {
    let sessions = entries(sys.join("class/iscsi_session"));
    let iscsi = sessions.filter_map(|(session, path)| {
        Some(Attachment::Iscsi { session, target: line(&path.join("targetname"))? })
    });
    let controllers = entries(sys.join("class/nvme"));
    let nvme = controllers.filter_map(|(_, path)| {
        let is_of_network = line(&path.join("transport")).is_some_and(|transport| transport != "pcie");
        let subsystem = line(&path.join("subsysnqn")).filter(|_| is_of_network)?;
        Some(Attachment::Nvme { subsystem })
    });
    let mapped = entries(sys.join("block")).filter_map(|(_, path)| {
        let is_suspended = line(&path.join("dm/suspended")).is_some_and(|flag| flag == "1");
        Some(Attachment::Mapped { name: line(&path.join("dm/name"))?, is_suspended })
    });
    iscsi.chain(nvme).chain(mapped).collect()
}

fn disks_in(sys: &Path) -> u64 {
    let disks = entries(sys.join("block")).filter(|(name, path)| {
        let has_medium = line(&path.join("size")).is_some_and(|sectors| sectors != "0");
        has_medium && !NO_DISKS.iter().any(|other| name.starts_with(other))
    });
    disks.count() as u64
}

/// The entries of a directory of `/sys`, which may not be there.
fn entries(directory: PathBuf) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

/// The only line of a file of `/sys`.
fn line(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/sys` with these files.
    fn sys(files: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        sys
    }

    #[test]
    fn sessions_and_mapped_devices_are_seen_by_name() {
        let sys = sys(&[
            ("class/iscsi_session/session3/targetname", "iqn.2003-01.org.example:vol-1"),
            ("class/nvme/nvme0/transport", "pcie"),
            ("class/nvme/nvme0/subsysnqn", "nqn.2019-08.org.example:of-the-machine"),
            ("class/nvme/nvme1/transport", "tcp"),
            ("class/nvme/nvme1/subsysnqn", "nqn.2014-08.org.example:vol-2"),
            ("block/dm-0/dm/name", "luks-vol-3"),
            ("block/dm-0/dm/suspended", "0"),
            ("block/dm-1/dm/name", "pool-vol-4"),
            ("block/dm-1/dm/suspended", "1"),
        ]);
        let seen: Vec<String> = attachments_in(sys.path()).iter().map(Attachment::describe).collect();
        assert_eq!(
            seen,
            [
                "iSCSI session3 with iqn.2003-01.org.example:vol-1",
                "NVMe connection to nqn.2014-08.org.example:vol-2",
                "device-mapper device luks-vol-3",
                "device-mapper device pool-vol-4, which is suspended, so all reads and writes wait",
            ]
        );
    }

    #[test]
    fn file_systems_are_seen_by_their_devices() {
        let sys = sys(&[
            ("fs/ext4/loop3/errors_count", "0"),
            ("fs/ext4/features/lazy_itable_init", "supported"),
            ("fs/xfs/stats/stats", ""),
            ("fs/xfs/dm-0/error/fail_at_unmount", "1"),
            ("class/block/loop3/size", "2097152"),
            ("class/block/dm-0/size", "2097152"),
            ("class/block/sda/size", "2097152"),
        ]);
        let devices = ["/dev/dm-0", "/dev/loop3"].map(PathBuf::from);
        assert_eq!(file_systems_in(sys.path()), BTreeSet::from(devices));
    }

    #[test]
    fn disks_are_counted_without_loops_and_empty_drives() {
        let sys = sys(&[
            ("block/sda/size", "2097152"),
            ("block/nvme1n1/size", "2097152"),
            ("block/sr0/size", "0"),
            ("block/loop0/size", "2097152"),
            ("block/zram0/size", "2097152"),
            ("block/dm-0/size", "2097152"),
        ]);
        assert_eq!(disks_in(sys.path()), 2);
        assert_eq!(disks_in(&sys.path().join("nothing")), 0);
    }
}
