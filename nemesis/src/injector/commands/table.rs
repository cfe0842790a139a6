//! The failures of each command: exit codes and printed texts, by its manual page or its source.

use csi_harness::driver::Broken;

/// A way to break a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) how: Broken,
    /// The failure in words that read after the name of the command.
    means: &'static str,
}

impl Way {
    /// Its name in stored faults.
    pub(super) fn id(self) -> String {
        match self.how {
            Broken::Fails { code, .. } => format!("code-{code}"),
            Broken::Hangs => "hangs".to_owned(),
            Broken::Late => "late".to_owned(),
            Broken::DiesHalfWay => "dies-half-way".to_owned(),
            Broken::DiesAtTheEnd => "dies-at-the-end".to_owned(),
        }
    }

    /// True if every run breaks the command like this. A command that writes no file is killed midway by a clock, so each run would show
    /// something else.
    pub(super) fn is_plain(self, command: &str) -> bool {
        match self.how {
            Broken::Fails { .. } | Broken::DiesAtTheEnd => true,
            Broken::DiesHalfWay => WRITES.contains(&command),
            Broken::Hangs | Broken::Late => false,
        }
    }

    /// Reads after the name of the command.
    pub(super) fn described(self) -> &'static str {
        self.means
    }

    /// Returns true if the fault stays until it is healed. A command is killed or late only once.
    pub(super) fn lasts(self) -> bool {
        matches!(self.how, Broken::Fails { .. } | Broken::Hangs)
    }
}

const fn fails(code: u8, stderr: &'static str, means: &'static str) -> Way {
    Way { how: Broken::Fails { code, stdout: "", stderr }, means }
}

const HANGS: Way = Way { how: Broken::Hangs, means: "hangs until it is healed" };
const LATE: Way = Way { how: Broken::Late, means: "takes 300 ms longer" };
const DIES_HALF_WAY: Way = Way { how: Broken::DiesHalfWay, means: "is killed in the middle of its work" };
const DIES_AT_THE_END: Way =
    Way { how: Broken::DiesAtTheEnd, means: "is killed when its work is done, before it can say so" };

/// The ways that every command has.
const ALWAYS: &[Way] = &[HANGS, LATE];
/// The ways of commands that change something.
const CHANGES: &[Way] = &[DIES_HALF_WAY, DIES_AT_THE_END];
/// The ways of commands that leave damage which cannot be repaired without asking, if they are killed in the middle.
const MENDS: &[Way] = &[DIES_AT_THE_END];

/// Commands that write files. They are killed midway when they have written a certain amount.
const WRITES: &[&str] = &["tar", "rsync", "cp", "dd", "qemu-img", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"];

struct Row {
    commands: &'static [&'static str],
    ways: &'static [Way],
    dies: &'static [Way],
}

const fn changes(commands: &'static [&'static str], ways: &'static [Way]) -> Row {
    Row { commands, ways, dies: CHANGES }
}

const fn mends(commands: &'static [&'static str], ways: &'static [Way]) -> Row {
    Row { commands, ways, dies: MENDS }
}

const fn looks(commands: &'static [&'static str], ways: &'static [Way]) -> Row {
    Row { commands, ways, dies: &[] }
}

/// The first row with a command is its row. Sources: the manual pages named at each row, of util-linux 2.38, e2fsprogs 1.47,
/// xfsprogs 6.1, coreutils 9.1, tar 1.34, rsync 3.2, lvm2 2.03 and open-iscsi 2.1.
const ROWS: &[Row] = &[
    // blkid(8), EXIT STATUS: 2 for what is not found or cannot be identified, and for what it cannot open; 4 for usage and other
    // errors; 8 for an ambivalent probing result.
    looks(
        &["blkid"],
        &[
            fails(2, "", "ends with 2 and prints nothing, as for a device that it cannot read"),
            fails(4, "blkid: error: cannot probe", "ends with 4, which stands for other errors"),
            fails(
                8,
                "blkid: ambivalent result detected",
                "ends with 8, since more than one signature was found",
            ),
        ],
    ),
    // lsblk(8): 1 failure, 32 none of the devices found.
    looks(
        &["lsblk"],
        &[fails(1, "lsblk: failed to access sysfs directory", "fails"), fails(32, "", "finds no device")],
    ),
    // findmnt(8): 1 for nothing found and for errors alike.
    looks(&["findmnt"], &[fails(1, "", "ends with 1 and prints nothing")]),
    // mountpoint(1): 1 failure, 32 not a mount point.
    looks(
        &["mountpoint"],
        &[fails(1, "mountpoint: cannot stat", "fails"), fails(32, "", "reports that it is no mount point")],
    ),
    // mke2fs(8), mkfs.xfs(8), mkfs.btrfs(8): 1 on an error.
    changes(
        &["mkfs", "mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"],
        &[fails(
            1,
            "mkfs: Input/output error while writing out and closing file system",
            "fails with an error of the device",
        )],
    ),
    // fsck(8), e2fsck(8): 1 errors corrected, 4 errors left uncorrected, 8 operational error.
    mends(
        &["fsck", "e2fsck", "fsck.ext4"],
        &[
            fails(1, "", "ends with 1, since errors were corrected"),
            fails(4, "UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.", "ends with 4, since errors are left"),
            fails(8, "e2fsck: Input/output error while trying to open", "ends with 8, since it cannot work"),
        ],
    ),
    // xfs_repair(8): 1 corruption was found, or an error; 2 a dirty log.
    mends(
        &["fsck.xfs", "xfs_repair"],
        &[
            fails(1, "xfs_repair: cannot read superblock", "ends with 1"),
            fails(2, "ERROR: The log is dirty", "ends with 2, since the log is dirty"),
        ],
    ),
    // mount(8): 1 invocation or permissions, 2 system error such as no free loop device, 32 mount failure.
    changes(
        &["mount", "mount.nfs", "mount.nfs4", "mount.cifs"],
        &[
            fails(
                32,
                "mount: wrong fs type, bad option, bad superblock, or other error",
                "ends with 32, since mount(2) fails",
            ),
            fails(2, "mount: failed to setup loop device", "ends with 2, since the system lacks something"),
        ],
    ),
    // umount(8) has the codes of mount(8); bugs have let it end with 0 and the mount there.
    changes(
        &["umount"],
        &[
            fails(32, "umount: target is busy.", "ends with 32, since the target is busy"),
            fails(0, "", "ends with 0 and has unmounted nothing"),
        ],
    ),
    // losetup(8): 1 on failure.
    changes(
        &["losetup"],
        &[fails(1, "losetup: cannot find an unused loop device", "finds no free loop device")],
    ),
    // resize2fs(8), xfs_growfs(8): not 0 on an error.
    mends(
        &["resize2fs", "xfs_growfs", "btrfs", "tune2fs"],
        &[fails(1, "resize2fs: Permission denied to resize filesystem", "fails")],
    ),
    // dumpe2fs(8): 1 on an error.
    looks(&["dumpe2fs"], &[fails(1, "dumpe2fs: Bad magic number in super-block", "fails")]),
    // wipefs(8): 1 on failure.
    changes(
        &["wipefs"],
        &[fails(1, "wipefs: error: probing initialization failed: Device or resource busy", "fails")],
    ),
    // tar(1): 1 some files differ, 2 fatal error.
    changes(
        &["tar"],
        &[
            fails(2, "tar: Cannot write: No space left on device", "ends with 2, since there is no room"),
            fails(1, "tar: file changed as we read it", "ends with 1, since a file has changed"),
        ],
    ),
    // rsync(1): 11 error in file I/O, 23 partial transfer.
    changes(
        &["rsync"],
        &[
            fails(
                11,
                "rsync: write failed: No space left on device (28)",
                "ends with 11, since there is no room",
            ),
            fails(
                23,
                "rsync error: some files could not be transferred (code 23)",
                "ends with 23, since files are missing",
            ),
        ],
    ),
    // coreutils: 1 on failure, after a line with the reason.
    changes(
        &["cp", "dd", "mv", "ln", "fallocate", "truncate", "touch", "mkdir", "qemu-img"],
        &[fails(1, "error: No space left on device", "fails, since there is no room")],
    ),
    changes(
        &["rm", "rmdir", "chmod", "chown", "chgrp"],
        &[fails(1, "error: Device or resource busy", "fails, since something is in use")],
    ),
    looks(
        &["df", "du", "stat", "ls"],
        &[fails(1, "error: Input/output error", "fails with an error of the device")],
    ),
    // lvm(8): 5 ECMD_FAILED.
    changes(
        &["lvcreate", "lvextend", "lvremove"],
        &[fails(5, "  Volume group has insufficient free space", "ends with 5, since there is no room")],
    ),
    looks(&["lvs", "vgs"], &[fails(5, "  Volume group not found", "ends with 5")]),
    // iscsiadm(8): 15 session exists, 21 no objects found, 8 timeout.
    changes(
        &["iscsiadm"],
        &[
            fails(
                15,
                "iscsiadm: default: 1 session requested, but 1 already present.",
                "ends with 15, since there is a session",
            ),
            fails(21, "iscsiadm: No active sessions.", "ends with 21, since it finds nothing"),
            fails(8, "iscsiadm: connection login retries exceeded", "ends with 8, since nobody answers"),
        ],
    ),
    // cryptsetup(8): 4 wrong device, 5 device in use.
    changes(
        &["cryptsetup"],
        &[fails(5, "Device is still in use.", "ends with 5, since the device is in use")],
    ),
];

/// The ways of every other command.
const OTHER: &[Way] = &[fails(1, "error: Input/output error", "fails")];

/// The ways to break a command.
pub(super) fn ways(command: &str) -> impl Iterator<Item = Way> {
    let row = ROWS.iter().find(|row| row.commands.contains(&command));
    let own = row.map_or(OTHER, |row| row.ways);
    let dies = row.map_or(&[][..], |row| row.dies);
    own.iter().chain(dies).chain(ALWAYS).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_way_has_a_name_of_its_own() {
        for command in ROWS.iter().flat_map(|row| row.commands).chain(&["other"]) {
            let ids: Vec<String> = ways(command).map(Way::id).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{command}: {ids:?}");
            for way in ways(command) {
                if let Broken::Fails { stdout, stderr, .. } = way.how {
                    assert!(
                        !stdout.contains('\'') && !stderr.contains('\''),
                        "{command}: a quote ends the text"
                    );
                }
            }
        }
        let named: Vec<_> = ROWS.iter().flat_map(|row| row.commands).collect();
        assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len(), "a command stands in two rows");
    }
}
