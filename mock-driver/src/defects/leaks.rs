//! Defects that allocate a resource with each call and never release it.

use std::fmt::Debug;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use csi_proto::ConnectionNumber;
use csi_proto::v1::volume_content_source::Type as SourceType;

use crate::defect::Defect;
use crate::driver::{Leak, MockDriver};

/// The memory that a leaking call allocates, and that which any call allocates that is rejected.
const BYTES: usize = 32 << 10;
const BYTES_OF_A_REJECTION: usize = 1 << 10;
/// Only one in this many calls leaks a thread or process, because a machine has room for fewer of them.
const LEAK_EVERY: u32 = 8;
/// The limit of leaked resources, so that tests of this driver do not exhaust the machine.
const LEAKS_MAX: usize = 20_000;
/// The limit of leaks of a kilobyte, of which more fit into the machine.
const SMALL_LEAKS_MAX: usize = 200_000;

/// A child process that ends with the driver.
#[derive(Debug)]
struct KilledChild(Child);

impl Drop for KilledChild {
    fn drop(&mut self) {
        // Errors do not matter, because the child ends on its own.
        let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Rejected,
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
enum Resource {
    Memory,
    File,
    Socket,
    Thread,
    Child,
    Zombie,
    /// A file next to the driver's state file.
    Entry,
}

/// The resource that each defect leaks, and the calls that leak it.
const TABLE: &[(Defect, &str, End, Resource)] = &[
    (Defect::ControllerExpandLeavesFile, "ControllerExpandVolume", End::Done, Resource::Entry),
    (Defect::ControllerPublishKeepsSocket, "ControllerPublishVolume", End::Done, Resource::Socket),
    (Defect::ControllerPublishRefusalKeepsSocket, "ControllerPublishVolume", End::Rejected, Resource::Socket),
    (Defect::CreateGroupSnapshotKeepsMemory, "CreateVolumeGroupSnapshot", End::Done, Resource::Memory),
    (Defect::CreateSnapshotKeepsThread, "CreateSnapshot", End::Done, Resource::Thread),
    (Defect::CreateSnapshotRefusalKeepsThread, "CreateSnapshot", End::Rejected, Resource::Thread),
    (Defect::CreateVolumeGivenUpKeepsFile, "CreateVolume", End::Abandoned, Resource::File),
    (Defect::CreateVolumeKeepsMemory, "CreateVolume", End::Done, Resource::Memory),
    (Defect::CreateVolumeRefusalKeepsMemory, "CreateVolume", End::Rejected, Resource::Memory),
    (Defect::DeleteVolumeKeepsFile, "DeleteVolume", End::Done, Resource::File),
    (Defect::ListVolumesKeepsMemory, "ListVolumes", End::Done, Resource::Memory),
    (Defect::NodeGetVolumeStatsKeepsThread, "NodeGetVolumeStats", End::Done, Resource::Thread),
    (Defect::NodePublishKeepsMemory, "NodePublishVolume", End::Done, Resource::Memory),
    (Defect::NodePublishRefusalKeepsFile, "NodePublishVolume", End::Rejected, Resource::File),
    (Defect::NodeStageKeepsChild, "NodeStageVolume", End::Done, Resource::Child),
    (Defect::NodeStageRefusalLeavesZombie, "NodeStageVolume", End::Rejected, Resource::Zombie),
    (Defect::NodeUnpublishLeavesZombie, "NodeUnpublishVolume", End::Done, Resource::Zombie),
];

/// Leaks a resource after a call, if a defect does so.
pub(crate) fn leak_after(driver: &MockDriver, method: &str, end: End) {
    let row =
        TABLE.iter().find(|(defect, rpc, after, _)| *rpc == method && *after == end && driver.has(*defect));
    if let Some((_, _, _, what)) = row {
        leak(driver, *what);
    }
    if end == End::Rejected && driver.has(Defect::RejectionsKeepMemory) {
        let mut leaks = driver.leaks.lock();
        if leaks.len() < SMALL_LEAKS_MAX {
            leaks.push(Box::new(vec![1u8; BYTES_OF_A_REJECTION]));
        }
    }
}

/// Leaks an open file for each new connection.
pub(crate) fn leak_for_connection(driver: &MockDriver, connection: Option<ConnectionNumber>) {
    if driver.has(Defect::ConnectionKeepsFile)
        && let Some(connection) = connection
        && driver.connections.lock().insert(connection)
    {
        leak(driver, Resource::File);
    }
}

/// Leaks a file for each copy that was created or rejected; the file is open or left in a directory.
pub(crate) fn leak_for_copy(driver: &MockDriver, source: &SourceType, is_made: bool) {
    let is_clone = matches!(source, SourceType::Volume(_));
    if is_made && driver.has(Defect::CreateVolumeFromSourceKeepsFile) {
        leak(driver, Resource::File);
    }
    let leaves = match is_made {
        true => is_clone && driver.has(Defect::CreateVolumeFromVolumeLeavesFile),
        false => driver.has(Defect::CreateVolumeRefusedCopyLeavesFile),
    };
    if leaves {
        leak(driver, Resource::Entry);
    }
}

/// Leaks an open file for each name under which CreateVolume was rejected, the first time.
pub(crate) fn leak_for_rejected_name(driver: &MockDriver, name: &str) {
    if driver.has(Defect::CreateVolumeKeepsRejectedNames)
        && driver.rejected_names.lock().insert(name.to_owned())
    {
        leak(driver, Resource::File);
    }
}

fn leak(driver: &MockDriver, what: Resource) {
    let is_rare = matches!(what, Resource::Thread | Resource::Child | Resource::Zombie);
    let mut leaks = driver.leaks.lock();
    if leaks.len() >= LEAKS_MAX || (is_rare && !driver.next_number().is_multiple_of(LEAK_EVERY)) {
        return;
    }
    // A resource that cannot be allocated is not leaked.
    leaks.extend(match what {
        Resource::Memory => kept(Some(vec![1u8; BYTES])),
        Resource::File => kept(File::open("/dev/null").ok()),
        Resource::Socket => kept(UnixStream::pair().ok().map(|(one, _)| one)),
        Resource::Thread => kept(thread()),
        Resource::Child => kept(command("sleep", "600").map(KilledChild)),
        // It is never waited for.
        Resource::Zombie => kept(command("true", "")),
        Resource::Entry => kept(entry(driver)),
    });
}

fn kept<T: Debug + Send + 'static>(resource: Option<T>) -> Option<Leak> {
    resource.map(|resource| Box::new(resource) as Leak)
}

fn entry(driver: &MockDriver) -> Option<File> {
    let name = format!("left-{}", driver.next_number());
    // Without a state file, the driver uses the directory in which it shows its back end.
    let of_state = driver.config.state.as_deref().and_then(Path::parent);
    File::create(of_state.or(driver.config.inspect_dir.as_deref())?.join(name)).ok()
}

/// A thread that ends when the sender is dropped.
fn thread() -> Option<Sender<()>> {
    let (end, ended) = channel::<()>();
    let run = move || ended.iter().for_each(drop);
    Builder::new().spawn(run).ok().map(|_| end)
}

fn command(name: &str, argument: &str) -> Option<Child> {
    Command::new(name)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}
