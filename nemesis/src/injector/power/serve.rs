//! A disk as a file system of the kernel's (FUSE): each request is handed on to the store.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use csi_proto::lock::Mutex;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{SeekFrom, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags};

use super::store::{Asker, Store};
use super::tree::{Entry, MadeKind};

/// The time for which the kernel may cache attributes: nothing else changes the files.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Largest extended attribute, in bytes, and largest list of them.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

pub(super) struct Served(pub(super) Arc<Mutex<Store>>);

fn asker(request: &Request) -> Asker {
    Asker { process: request.pid(), user: request.uid(), group: request.gid() }
}

fn attributes(node: u64, found: &Metadata) -> FileAttr {
    let time = |seconds: i64, nanoseconds: i64| {
        let since = Duration::new(
            u64::try_from(seconds).unwrap_or_default(),
            u32::try_from(nanoseconds).unwrap_or_default(),
        );
        UNIX_EPOCH + since
    };
    FileAttr {
        ino: INodeNo(node),
        size: found.len(),
        blocks: found.blocks(),
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(found.file_type()).unwrap_or(FileType::RegularFile),
        perm: u16::try_from(found.mode() & 0o7777).unwrap_or_default(),
        nlink: u32::try_from(found.nlink()).unwrap_or(u32::MAX),
        uid: found.uid(),
        gid: found.gid(),
        rdev: u32::try_from(found.rdev()).unwrap_or_default(),
        blksize: 4096,
        flags: 0,
    }
}

fn entry(found: io::Result<(u64, Metadata)>, reply: ReplyEntry) {
    match found {
        Ok((node, found)) => reply.entry(&KNOWN_FOR, &attributes(node, &found), Generation(0)),
        Err(error) => reply.error(error.into()),
    }
}

fn empty(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

fn attribute(found: io::Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match found {
        Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error.into()),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            Timespec {
                tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: since.subsec_nanos().into(),
            }
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.0.lock().look(parent.0, name), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.lock().metadata(ino.0, fh.map(|fh| fh.0)) {
            Ok(found) => reply.attr(&KNOWN_FOR, &attributes(ino.0, &found)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut store = self.0.lock();
        let fh = fh.map(|fh| fh.0);
        let mut set = || {
            if let Some(size) = size {
                store.truncate(asker(request), ino.0, fh, size)?;
            }
            if uid.is_some() || gid.is_some() {
                store.set_owner(ino.0, uid, gid)?;
            }
            if let Some(mode) = mode {
                store.set_mode(ino.0, mode)?;
            }
            if atime.is_some() || mtime.is_some() {
                let times = Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) };
                // A file without a name keeps its times.
                let _ = store.set_times(ino.0, &times);
            }
            store.metadata(ino.0, fh)
        };
        match set() {
            Ok(found) => reply.attr(&KNOWN_FOR, &attributes(ino.0, &found)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        use std::os::unix::ffi::OsStrExt as _;
        match self.0.lock().path(ino.0).and_then(std::fs::read_link) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match rustix::fs::FileType::from_raw_mode(mode) {
            rustix::fs::FileType::RegularFile => MadeKind::File(None),
            kind => MadeKind::Special(kind, rdev.into()),
        };
        entry(self.0.lock().make(asker(request), parent.0, name, kind, mode), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entry(self.0.lock().make(asker(request), parent.0, name, MadeKind::Directory, mode), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let kind = MadeKind::Symlink(target.to_owned());
        entry(self.0.lock().make(asker(request), parent.0, name, kind, 0o777), reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.0.lock().link(asker(request), ino.0, parent.0, name);
        entry(linked.map(|found| (ino.0, found)), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.0.lock().remove(asker(request), parent.0, name), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.0.lock().remove(asker(request), parent.0, name), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut store = self.0.lock();
        if flags.contains(RenameFlags::RENAME_NOREPLACE) && store.look(newparent.0, newname).is_ok() {
            return reply.error(Errno::EEXIST);
        }
        if !flags.difference(RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let of = |parent: INodeNo, name: &OsStr| Entry { parent: parent.0, name: name.to_owned() };
        empty(store.rename(asker(request), of(parent, name), of(newparent, newname)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        match self.0.lock().open_file(ino.0, writes) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut store = self.0.lock();
        let made = store.make(asker(request), parent.0, name, MadeKind::File(None), mode);
        match made.and_then(|(node, found)| Ok((node, found, store.open_file(node, true)?))) {
            Ok((node, found, handle)) => reply.created(
                &KNOWN_FOR,
                &attributes(node, &found),
                Generation(0),
                FileHandle(handle),
                FopenFlags::empty(),
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.lock().read(fh.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.lock().write(asker(request), ino.0, fh.0, offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().close_file(fh.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.0.lock().sync(ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.0.lock().sync(ino.0), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.lock().list(ino.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let store = self.0.lock();
        let own = [".", ".."].map(|name| (ino.0, FileType::Directory, OsStr::new(name)));
        let listed = store.listed(fh.0).iter().map(|(node, kind, name)| {
            (*node, FileType::from_std(*kind).unwrap_or(FileType::RegularFile), name.as_os_str())
        });
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (node, kind, name)) in own.into_iter().chain(listed).enumerate().skip(first) {
            if reply.add(INodeNo(node), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.lock().end_list(fh.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let path = self.0.lock().path(super::tree::ROOT);
        match path.and_then(|path| Ok(rustix::fs::statvfs(path)?)) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                u32::try_from(found.f_bsize).unwrap_or(4096),
                u32::try_from(found.f_namemax).unwrap_or(255),
                u32::try_from(found.f_frsize).unwrap_or(4096),
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut bytes = vec![0; ATTRIBUTE_BYTES_MAX];
        let path = self.0.lock().path(ino.0);
        let found = path.and_then(|path| Ok(rustix::fs::lgetxattr(path, name, bytes.as_mut_slice())?));
        attribute(found.map(|length| bytes[..length].to_vec()), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let mut bytes = vec![0; ATTRIBUTE_BYTES_MAX];
        let path = self.0.lock().path(ino.0);
        let found = path.and_then(|path| Ok(rustix::fs::llistxattr(path, bytes.as_mut_slice())?));
        attribute(found.map(|length| bytes[..length].to_vec()), size, reply);
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(u32::try_from(flags).unwrap_or_default());
        let path = self.0.lock().path(ino.0);
        empty(path.and_then(|path| Ok(rustix::fs::lsetxattr(path, name, value, flags)?)), reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let path = self.0.lock().path(ino.0);
        empty(path.and_then(|path| Ok(rustix::fs::lremovexattr(path, name)?)), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = u32::try_from(mode).unwrap_or_default();
        empty(self.0.lock().allocate(fh.0, mode, offset, length), reply);
    }

    fn lseek(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        /// `SEEK_DATA` and `SEEK_HOLE`; the kernel does the others itself.
        const DATA: i32 = 3;
        const HOLE: i32 = 4;
        let at = u64::try_from(offset).unwrap_or_default();
        let store = self.0.lock();
        let found = store.file(fh.0).and_then(|file| {
            let to = match whence {
                DATA => SeekFrom::Data(at),
                HOLE => SeekFrom::Hole(at),
                _ => return Err(rustix::io::Errno::INVAL.into()),
            };
            Ok(rustix::fs::seek(file, to)?)
        });
        match found {
            Ok(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error.into()),
        }
    }
}
