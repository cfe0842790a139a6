//! The system calls without a safe wrapper: loop devices, freezing, block devices, extent maps, and project quotas. And the
//! capabilities of the process.
//!
//! This is the only module with `unsafe` code. Each wrapper passes an argument of the type and size that the kernel's
//! header names for the request code, so the kernel stays within the memory given to it.
#![expect(unsafe_code, reason = "ioctl and quotactl_fd take untyped pointers")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustix::ioctl::{Getter, IntegerSetter, NoArg, Opcode, Setter, Updater, ioctl};
use rustix::thread::{CapabilitySet, capabilities};

const LOOP_SET_CAPACITY: Opcode = 0x4c07;
const LOOP_CLR_FD: Opcode = 0x4c01;
const LOOP_GET_STATUS64: Opcode = 0x4c05;
const LOOP_CONFIGURE: Opcode = 0x4c0a;
const LOOP_CTL_GET_FREE: Opcode = 0x4c82;
const BLKROSET: Opcode = 0x125d;
const BLKFLSBUF: Opcode = 0x1261;
const BLKGETSIZE64: Opcode = 0x8008_1272;
const FIFREEZE: Opcode = 0xc004_5877;
const FITHAW: Opcode = 0xc004_5878;
const FS_IOC_FIEMAP: Opcode = 0xc020_660b;
const FS_IOC_FSGETXATTR: Opcode = 0x801c_581f;
const FS_IOC_FSSETXATTR: Opcode = 0x401c_5820;

/// New files and directories inherit the project of their directory.
const FS_XFLAG_PROJINHERIT: u32 = 0x200;
const PRJQUOTA: libc::c_int = 2;
const Q_GETQUOTA: libc::c_int = 0x80_0007;
const Q_SETQUOTA: libc::c_int = 0x80_0008;
const Q_XGETQSTAT: libc::c_int = 0x5805;
/// The bit of [`Dqblk::valid`] for the limits on blocks.
const QIF_BLIMITS: u32 = 1;
/// The file system enforces the limits of project quotas.
const FS_QUOTA_PDQ_ENFD: u16 = 0x20;
/// The unit of quota limits, in bytes.
const QIF_DQBLKSIZE: u64 = 1024;

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo64 {
    const ZERO: LoopInfo64 = LoopInfo64 {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoopBacking {
    /// The file system of the file, encoded as `st_dev`.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) readonly: bool,
    /// True if the kernel detaches the file when the last user closes the device.
    pub(crate) autoclear: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopSetup {
    pub(crate) readonly: bool,
    /// Detach automatically when nothing has the device open or mounted.
    pub(crate) autoclear: bool,
}

/// Asks `/dev/loop-control` for the number of a free device.
pub(crate) fn loop_get_free(control: BorrowedFd<'_>) -> io::Result<u32> {
    struct GetFree;
    // SAFETY: the request takes no argument; the kernel reads and writes none of this process's memory.
    unsafe impl rustix::ioctl::Ioctl for GetFree {
        type Output = u32;
        const IS_MUTATING: bool = false;
        fn opcode(&self) -> Opcode {
            LOOP_CTL_GET_FREE
        }
        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }
        unsafe fn output_from_ptr(
            output: rustix::ioctl::IoctlOutput,
            _: *mut std::ffi::c_void,
        ) -> rustix::io::Result<u32> {
            u32::try_from(output).map_err(|_| rustix::io::Errno::NODEV)
        }
    }
    // SAFETY: see the implementation above.
    Ok(unsafe { ioctl(control, GetFree) }?)
}

/// Attaches a file to a free loop device. Fails with `EBUSY` if another process was faster.
pub(crate) fn loop_configure(
    device: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    setup: LoopSetup,
) -> io::Result<()> {
    let raw: RawFd = file.as_raw_fd();
    let fd = u32::try_from(raw).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let flags = if setup.readonly { LO_FLAGS_READ_ONLY } else { 0 }
        | if setup.autoclear { LO_FLAGS_AUTOCLEAR } else { 0 };
    let info = LoopInfo64 { flags, ..LoopInfo64::ZERO };
    let config = LoopConfig { fd, block_size: 512, info, reserved: [0; 8] };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`.
    Ok(unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }?)
}

/// Lets a block device be written to. A flag that an earlier user has set outlives that use of the device.
pub(crate) fn allow_writes(device: BorrowedFd<'_>) -> io::Result<()> {
    let is_readonly: libc::c_int = 0;
    // SAFETY: BLKROSET reads one int.
    Ok(unsafe { ioctl(device, Setter::<BLKROSET, libc::c_int>::new(is_readonly)) }?)
}

/// Makes a loop device show the present size of its file.
pub(crate) fn loop_set_capacity(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    Ok(unsafe { ioctl(device, NoArg::<LOOP_SET_CAPACITY>::new()) }?)
}

/// Detaches a loop device, at once or as soon as its last user closes it.
pub(crate) fn loop_clear(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes no argument.
    Ok(unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }?)
}

/// Describes the file of a loop device; fails with `ENXIO` if nothing is attached.
pub(crate) fn loop_backing(device: BorrowedFd<'_>) -> io::Result<LoopBacking> {
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, of which every bit pattern is valid.
    let info = unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo64>::new()) }?;
    let readonly = info.flags & LO_FLAGS_READ_ONLY != 0;
    let autoclear = info.flags & LO_FLAGS_AUTOCLEAR != 0;
    Ok(LoopBacking { device: info.device, inode: info.inode, readonly, autoclear })
}

/// Flushes and drops the cache of a block device.
pub(crate) fn flush_device(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes an integer that it ignores.
    Ok(unsafe { ioctl(device, IntegerSetter::<BLKFLSBUF>::new_usize(0)) }?)
}

pub(crate) fn device_bytes(device: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: BLKGETSIZE64 writes one u64.
    Ok(unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }?)
}

/// Flushes a mounted file system and blocks its writers. Fails with `EBUSY` if it is already frozen.
pub(crate) fn freeze(mount_point: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes an integer that it ignores.
    Ok(unsafe { ioctl(mount_point, IntegerSetter::<FIFREEZE>::new_usize(0)) }?)
}

/// Unblocks the writers of a frozen file system. Fails with `EINVAL` if it is not frozen.
pub(crate) fn thaw(mount_point: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes an integer that it ignores.
    Ok(unsafe { ioctl(mount_point, IntegerSetter::<FITHAW>::new_usize(0)) }?)
}

/// The largest number of extents that one call returns.
pub(crate) const EXTENTS_PER_CALL: usize = 64;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FiemapExtent {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) length: u64,
    reserved64: [u64; 2],
    pub(crate) flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for the extents behind it.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS_PER_CALL],
}

/// Returns the extents of a file from an offset on, at most [`EXTENTS_PER_CALL`].
pub(crate) fn fiemap(file: impl AsFd, start: u64) -> io::Result<Vec<FiemapExtent>> {
    let extent_count = u32::try_from(EXTENTS_PER_CALL).unwrap_or(0);
    let extents = [FiemapExtent::default(); EXTENTS_PER_CALL];
    let length = u64::MAX - start;
    let mut map = Fiemap { start, length, flags: 0, mapped_extents: 0, extent_count, reserved: 0, extents };
    // SAFETY: FS_IOC_FIEMAP reads and writes one `struct fiemap` and at most `extent_count` extents behind it.
    unsafe { ioctl(file, Updater::<'_, FS_IOC_FIEMAP, Fiemap>::new(&mut map)) }?;
    Ok(map.extents.into_iter().take(map.mapped_extents as usize).collect())
}

/// `struct fsxattr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FsXattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

fn attributes_of(directory: BorrowedFd<'_>) -> io::Result<FsXattr> {
    // SAFETY: FS_IOC_FSGETXATTR writes one `struct fsxattr`, of which every bit pattern is valid.
    Ok(unsafe { ioctl(directory, Getter::<FS_IOC_FSGETXATTR, FsXattr>::new()) }?)
}

/// The project of a directory; zero if it has none.
pub(crate) fn project_of(directory: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(attributes_of(directory)?.project)
}

/// Adds a directory, and everything that is created in it later, to a project.
pub(crate) fn set_project(directory: BorrowedFd<'_>, project: u32) -> io::Result<()> {
    let mut attributes = attributes_of(directory)?;
    attributes.project = project;
    attributes.flags |= FS_XFLAG_PROJINHERIT;
    // SAFETY: FS_IOC_FSSETXATTR reads one `struct fsxattr`.
    Ok(unsafe { ioctl(directory, Setter::<FS_IOC_FSSETXATTR, FsXattr>::new(attributes)) }?)
}

/// `struct if_dqblk`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Dqblk {
    block_hard_limit: u64,
    block_soft_limit: u64,
    bytes: u64,
    inode_hard_limit: u64,
    inode_soft_limit: u64,
    inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectUsage {
    /// The hard limit in bytes; zero if there is none.
    pub(crate) limit_bytes: u64,
    pub(crate) bytes: u64,
    /// The number of files and directories.
    pub(crate) inodes: u64,
}

/// Returns whether the file system of an open file enforces project quotas.
pub(crate) fn enforces_project_limits(file: BorrowedFd<'_>) -> bool {
    /// `struct fs_quota_stat`, with more space than it needs. Only the flags are used.
    #[repr(C, align(8))]
    struct QuotaState {
        version: i8,
        flags: u16,
        rest: [u8; 124],
    }
    let mut state = QuotaState { version: 0, flags: 0, rest: [0; 124] };
    // SAFETY: Q_XGETQSTAT writes one `struct fs_quota_stat`, which has 80 bytes.
    let result = unsafe { quotactl(file, Q_XGETQSTAT, 0, &mut state) };
    result.is_ok() && state.flags & FS_QUOTA_PDQ_ENFD != 0
}

pub(crate) fn project_usage(file: BorrowedFd<'_>, project: u32) -> io::Result<ProjectUsage> {
    let mut quota = Dqblk::default();
    // SAFETY: Q_GETQUOTA writes one `struct if_dqblk`, of which every bit pattern is valid.
    match unsafe { quotactl(file, Q_GETQUOTA, project, &mut quota) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ProjectUsage::default()),
        result => result.map(|()| ProjectUsage {
            limit_bytes: quota.block_hard_limit.saturating_mul(QIF_DQBLKSIZE),
            bytes: quota.bytes,
            inodes: quota.inodes,
        }),
    }
}

/// Sets the limit of a project, rounded up to KiB; zero removes it.
pub(crate) fn limit_project(file: BorrowedFd<'_>, project: u32, limit_bytes: u64) -> io::Result<()> {
    let limit = limit_bytes.div_ceil(QIF_DQBLKSIZE);
    let mut quota = Dqblk { block_hard_limit: limit, valid: QIF_BLIMITS, ..Dqblk::default() };
    // SAFETY: Q_SETQUOTA reads one `struct if_dqblk`.
    unsafe { quotactl(file, Q_SETQUOTA, project, &mut quota) }
}

/// Calls quotactl_fd(2) for project quotas.
///
/// # Safety
/// The command must read or write no more than an argument of type `T`, and leave a valid `T`.
unsafe fn quotactl<T>(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    project: u32,
    argument: &mut T,
) -> io::Result<()> {
    let command = (command << 8) | PRJQUOTA;
    // SAFETY: the descriptor is open, and the caller vouches for the argument.
    let result = unsafe {
        libc::syscall(libc::SYS_quotactl_fd, file.as_raw_fd(), command, project, std::ptr::from_mut(argument))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether this thread may use a capability, such as CAP_SYS_ADMIN to mount or CAP_SYS_RESOURCE to grow a
/// mounted ext4 file system.
pub(crate) fn has_capability(capability: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(size_of::<FsXattr>(), 28);
        assert_eq!(size_of::<Dqblk>(), 72);
        assert_eq!(size_of::<Fiemap>(), 32 + 56 * EXTENTS_PER_CALL);
    }
}
