//! The resources that a driver uses: its process and the children of that, as `/proc` shows them, the machine that it
//! runs on, and its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::resources::{attachments, mounts};

/// Largest number of entries of the driver's directory that are counted.
const ENTRIES_MAX: usize = 200_000;
/// The unit of a line of `/proc/PID/status`, in bytes.
const KIB: u64 = 1 << 10;
/// The unit in which `stat` counts blocks, in bytes.
const BLOCK_BYTES: u64 = 512;

/// A resource of which a driver can use more and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// Its own memory, in bytes, without that of mapped files.
    Memory,
    /// Open files, sockets among them.
    Files,
    /// Open sockets.
    Sockets,
    /// Threads of its processes.
    Threads,
    /// Child processes that run, and those of these.
    Children,
    /// Child processes that have ended and were not waited for.
    Zombies,
    /// Mounts that it sees.
    Mounts,
    /// Loop devices in use: those on files of its directory where that is known, otherwise all of the machine.
    Loops,
    /// Disks of the machine, including those that other programs have attached.
    Disks,
    /// Sessions of the machine with iSCSI targets and NVMe subsystems, and devices that are mapped onto others.
    Sessions,
    /// File systems on devices of the machine, also those that are frozen and mounted nowhere.
    FileSystems,
    /// Files and directories below its directory.
    Entries,
    /// The disk space of the files below its directory, in bytes.
    Storage,
}

impl Resource {
    /// All of them.
    pub const ALL: [Resource; 13] = {
        use Resource::*;
        [
            Memory,
            Files,
            Sockets,
            Threads,
            Children,
            Zombies,
            Mounts,
            Loops,
            Disks,
            Sessions,
            FileSystems,
            Entries,
            Storage,
        ]
    };

    /// Returns true if it is counted in bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Resource::Memory | Resource::Storage)
    }

    /// Its name in the singular or plural, for people.
    pub fn name(self, is_one: bool) -> &'static str {
        match (self, is_one) {
            (Resource::Memory, _) => "of memory",
            (Resource::Storage, _) => "in the driver's directory",
            (Resource::Files, true) => "open file",
            (Resource::Files, false) => "open files",
            (Resource::Sockets, true) => "socket",
            (Resource::Sockets, false) => "sockets",
            (Resource::Threads, true) => "thread",
            (Resource::Threads, false) => "threads",
            (Resource::Children, true) => "child process",
            (Resource::Children, false) => "child processes",
            (Resource::Zombies, true) => "zombie",
            (Resource::Zombies, false) => "zombies",
            (Resource::Mounts, true) => "mount",
            (Resource::Mounts, false) => "mounts",
            (Resource::Loops, true) => "loop device",
            (Resource::Loops, false) => "loop devices",
            (Resource::Disks, true) => "disk",
            (Resource::Disks, false) => "disks",
            (Resource::Sessions, true) => "storage session or mapped device",
            (Resource::Sessions, false) => "storage sessions and mapped devices",
            (Resource::FileSystems, true) => "file system in use",
            (Resource::FileSystems, false) => "file systems in use",
            (Resource::Entries, true) => "file or directory of the driver",
            (Resource::Entries, false) => "files and directories of the driver",
        }
    }

    /// An amount of this resource, which displays itself with its unit.
    pub fn amount(self, amount: f64) -> Amount {
        Amount { resource: self, amount }
    }
}

/// So much of something.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    resource: Resource,
    amount: f64,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount { resource, amount } = *self;
        let number = |number: f64| {
            let digits = if number >= 9.995 || number.fract().abs() < 0.005 { 0 } else { 2 };
            format!("{number:.digits$}")
        };
        let bytes = |unit: &str, of: u64| format!("{} {unit}", number(amount / of as f64));
        let amount = match resource.is_bytes() {
            true if amount >= 100.0 * KIB as f64 => bytes("MiB", KIB * KIB),
            true if amount >= KIB as f64 => bytes("KiB", KIB),
            true => bytes("bytes", 1),
            false => number(amount),
        };
        write!(f, "{amount} {}", resource.name(amount == "1"))
    }
}

/// The resources that a driver uses at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    process: u32,
    amounts: BTreeMap<Resource, u64>,
}

impl Usage {
    /// Looks at the driver with this process, and with this directory if one is known; `None` where the process cannot be seen.
    pub fn of(process: u32, directory: Option<&Path>) -> Option<Usage> {
        let mut usage = Usage { process, ..Usage::default() };
        usage.add(Resource::Mounts, lines(&proc(process).join("mountinfo"))?);
        // If the driver's directory is known, loop devices on other files belong to other programs.
        let is_its = |file: &String| directory.is_none_or(|directory| Path::new(file).starts_with(directory));
        usage.add(Resource::Loops, mounts::loops().values().filter(|file| is_its(file)).count() as u64);
        usage.add(Resource::Disks, attachments::disks());
        usage.add(Resource::Sessions, attachments::attachments().len() as u64);
        usage.add(Resource::FileSystems, attachments::file_systems().len() as u64);
        let mut is_seen = false;
        for one in tree(process) {
            is_seen |= usage.count(&one, one.id == process);
        }
        if let Some(directory) = directory {
            usage.count_directory(directory, &logs(process));
        }
        is_seen.then_some(usage)
    }

    /// A usage that was measured elsewhere.
    pub fn from_amounts(amounts: impl IntoIterator<Item = (Resource, u64)>) -> Usage {
        Usage { process: 0, amounts: amounts.into_iter().collect() }
    }

    /// The process that was looked at.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// The amount of a resource; `None` if it was not measured.
    pub fn get(&self, resource: Resource) -> Option<u64> {
        self.amounts.get(&resource).copied()
    }

    fn add(&mut self, resource: Resource, amount: u64) {
        *self.amounts.entry(resource).or_default() += amount;
    }

    /// Adds a process. Returns false if its files could not be listed.
    fn count(&mut self, one: &Process, is_driver: bool) -> bool {
        self.add(Resource::Zombies, u64::from(one.is_zombie && !is_driver));
        self.add(Resource::Children, u64::from(!one.is_zombie && !is_driver));
        let status = fs::read_to_string(proc(one.id).join("status")).unwrap_or_default();
        let Ok(files) = fs::read_dir(proc(one.id).join("fd")) else { return false };
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let is_socket = |link: PathBuf| link.to_string_lossy().starts_with("socket:");
        for file in files.flatten() {
            self.add(Resource::Files, 1);
            self.add(Resource::Sockets, u64::from(fs::read_link(file.path()).is_ok_and(is_socket)));
        }
        self.add(Resource::Threads, number("Threads").unwrap_or_default());
        // Pages of files come and go as the kernel likes.
        let memory = number("RssAnon").or_else(|| number("VmRSS"));
        self.add(Resource::Memory, memory.unwrap_or_default() * KIB);
        true
    }

    /// Adds everything in a directory but the logs.
    fn count_directory(&mut self, directory: &Path, logs: &BTreeSet<(u64, u64)>) {
        if !directory.is_dir() {
            return;
        }
        let (mut entries, mut bytes) = (0, 0);
        let is_complete = each_entry(directory, |_, found| {
            if !logs.contains(&(found.dev(), found.ino())) {
                entries += 1;
                bytes += found.blocks() * BLOCK_BYTES;
            }
        });
        // A part of a directory shows no growth.
        if is_complete {
            self.add(Resource::Entries, entries);
            self.add(Resource::Storage, bytes);
        }
    }
}

/// The files, by device and inode, into which a driver prints, and those that this process has open, such as reports: a user may have put
/// them beside the socket of the driver.
fn logs(process: u32) -> BTreeSet<(u64, u64)> {
    let mut open: Vec<PathBuf> = [1, 2].map(|number| proc(process).join(format!("fd/{number}"))).into();
    if process != std::process::id() {
        let own = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        open.extend(own.map(|file| file.path()));
    }
    let files = open.into_iter().filter_map(|path| fs::metadata(path).ok()).filter(Metadata::is_file);
    files.map(|file| (file.dev(), file.ino())).collect()
}

/// Counts the established TCP connections of a process, such as those to a back end.
pub fn connections_to_others(process: u32) -> u64 {
    /// The code of this state in `/proc/PID/net/tcp`.
    const ESTABLISHED: &str = "01";
    let tables =
        ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(proc(process).join(name)).unwrap_or_default());
    let of_table = |line: &str| -> Option<String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (*fields.get(3)? == ESTABLISHED).then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
    };
    let established: BTreeSet<String> =
        tables.iter().flat_map(|table| table.lines().filter_map(of_table)).collect();
    let open = fs::read_dir(proc(process).join("fd")).into_iter().flatten().flatten();
    let links = open.filter_map(|file| fs::read_link(file.path()).ok());
    links.filter(|link| established.contains(&*link.to_string_lossy())).count() as u64
}

/// Files and directories below a directory, without those in mounts; `None` if there are more than 200,000.
pub fn entries_below(directory: &Path) -> Option<BTreeSet<PathBuf>> {
    let mut entries = BTreeSet::new();
    let is_complete = each_entry(directory, |path, _| {
        entries.insert(path);
    });
    is_complete.then_some(entries)
}

/// Files and directories below a directory with their inodes, by which a file that replaces another one differs from it.
pub(crate) fn inodes_below(directory: &Path) -> BTreeSet<(PathBuf, u64)> {
    let mut inodes = BTreeSet::new();
    each_entry(directory, |path, found| {
        inodes.insert((path, found.ino()));
    });
    inodes
}

/// Visits files and directories below a directory, without those in mounts. Returns false if there are too many.
fn each_entry(directory: &Path, mut look: impl FnMut(PathBuf, &Metadata)) -> bool {
    let Ok(device) = fs::metadata(directory).map(|found| found.dev()) else { return true };
    let mut entries = 0;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.dev() != device {
                continue;
            }
            if entries == ENTRIES_MAX {
                return false;
            }
            entries += 1;
            if found.is_dir() {
                open.push(entry.path());
            }
            look(entry.path(), &found);
        }
    }
    true
}

#[derive(Debug)]
struct Process {
    id: u32,
    is_zombie: bool,
}

fn proc(process: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}"))
}

fn lines(path: &Path) -> Option<u64> {
    Some(fs::read(path).ok()?.iter().filter(|byte| **byte == b'\n').count() as u64)
}

/// A process and all that come from it.
fn tree(root: u32) -> Vec<Process> {
    let mut children = BTreeMap::<u32, Vec<Process>>::new();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    for id in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some((parent, is_zombie)) = parent(id) {
            children.entry(parent).or_default().push(Process { id, is_zombie });
        }
    }
    let mut found = vec![Process { id: root, is_zombie: false }];
    let mut seen = BTreeSet::from([root]);
    let mut at = 0;
    while let Some(one) = found.get(at) {
        let new = children.remove(&one.id).unwrap_or_default();
        found.extend(new.into_iter().filter(|child| seen.insert(child.id)));
        at += 1;
    }
    found
}

/// The parent of a process, and whether the process has ended.
fn parent(process: u32) -> Option<(u32, bool)> {
    let stat = fs::read_to_string(proc(process).join("stat")).ok()?;
    // The name in brackets may have anything in it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_zombie = fields.next()? == "Z";
    Some((fields.next()?.parse().ok()?, is_zombie))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_and_its_children_can_be_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("inner/file"), "x").unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let usage = Usage::of(std::process::id(), Some(dir.path())).unwrap();
        let found = |resource| usage.get(resource).unwrap();
        assert!(found(Resource::Children) >= 1 && found(Resource::Files) > 4, "{usage:?}");
        assert!(found(Resource::Memory) > 0 && found(Resource::Mounts) > 0, "{usage:?}");
        assert_eq!(found(Resource::Entries), 2);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(Usage::of(u32::MAX, None), None);
    }

    #[test]
    fn a_log_in_the_directory_of_a_driver_is_not_counted() {
        let directory = tempfile::tempdir().unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        let mut child = Command::new("sleep").arg("60").stdout(log).spawn().unwrap();
        std::fs::write(directory.path().join("record"), "state").unwrap();
        let usage = Usage::of(child.id(), Some(directory.path()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(usage.unwrap().get(Resource::Entries), Some(1));
    }

    #[test]
    fn established_connections_of_a_process_are_counted() {
        let before = connections_to_others(std::process::id());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        // Both ends are of this process; other tests may have more.
        assert!(connections_to_others(std::process::id()) >= before + 2);
        drop((client, server));
        assert_eq!(connections_to_others(u32::MAX), 0);
    }

    #[test]
    fn amounts_are_written_as_people_say_them() {
        for (amount, expected) in [
            (Resource::Threads.amount(1.0), "1 thread"),
            (Resource::Files.amount(0.5), "0.50 open files"),
            (Resource::Memory.amount(262_144.0), "0.25 MiB of memory"),
            (Resource::Memory.amount(4_096.0), "4 KiB of memory"),
            (Resource::Storage.amount(12.0), "12 bytes in the driver's directory"),
            (Resource::Zombies.amount(40.2), "40 zombies"),
        ] {
            assert_eq!(amount.to_string(), expected);
        }
    }
}
