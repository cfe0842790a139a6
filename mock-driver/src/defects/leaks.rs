//! Defects that take something up with each call, and never give it back.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use csi_proto::ConnectionNumber;
use csi_proto::v1::volume_content_source::Type as SourceType;

use crate::defect::Defect;
use crate::driver::MockDriver;

/// What a leaking call takes of memory.
const BYTES: usize = 32 << 10;
/// Of threads and processes, one call in so many leaves one: a machine has room for fewer of them.
const SELDOM: u32 = 8;
/// More is not kept, so that tests of this driver do not take the machine along.
const KEPT_MAX: usize = 20_000;

/// Something that nobody gives back.
#[derive(Debug)]
pub(crate) enum Kept {
    Memory(#[expect(dead_code, reason = "it is there for what it takes up")] Vec<u8>),
    File(#[expect(dead_code, reason = "it is there for being open")] File),
    Socket(#[expect(dead_code, reason = "it is there for being open")] UnixStream),
    /// A thread that ends when this does.
    Thread(#[expect(dead_code, reason = "the thread waits for its end")] Sender<()>),
    /// A child that runs, and ends with the driver.
    Child(Child),
    /// One that has ended.
    Zombie(#[expect(dead_code, reason = "nobody asks how it has ended")] Child),
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Kept::Child(child) = self {
            // Whatever fails, it ends by itself.
            let _ = child.kill().and_then(|()| child.wait().map(drop));
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Refused,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Memory,
    File,
    Socket,
    Thread,
    Child,
    Zombie,
    /// A file beside the one with the driver's state.
    Entry,
}

/// Which defect leaves what, after which calls.
const TABLE: &[(Defect, &str, End, What)] = &[
    (Defect::ControllerExpandLeavesFile, "ControllerExpandVolume", End::Done, What::Entry),
    (Defect::ControllerPublishKeepsSocket, "ControllerPublishVolume", End::Done, What::Socket),
    (Defect::ControllerPublishRefusalKeepsSocket, "ControllerPublishVolume", End::Refused, What::Socket),
    (Defect::CreateGroupSnapshotKeepsMemory, "CreateVolumeGroupSnapshot", End::Done, What::Memory),
    (Defect::CreateSnapshotKeepsThread, "CreateSnapshot", End::Done, What::Thread),
    (Defect::CreateSnapshotRefusalKeepsThread, "CreateSnapshot", End::Refused, What::Thread),
    (Defect::CreateVolumeGivenUpKeepsFile, "CreateVolume", End::GivenUp, What::File),
    (Defect::CreateVolumeKeepsMemory, "CreateVolume", End::Done, What::Memory),
    (Defect::CreateVolumeRefusalKeepsMemory, "CreateVolume", End::Refused, What::Memory),
    (Defect::DeleteVolumeKeepsFile, "DeleteVolume", End::Done, What::File),
    (Defect::ListVolumesKeepsMemory, "ListVolumes", End::Done, What::Memory),
    (Defect::NodeGetVolumeStatsKeepsThread, "NodeGetVolumeStats", End::Done, What::Thread),
    (Defect::NodePublishRefusalKeepsFile, "NodePublishVolume", End::Refused, What::File),
    (Defect::NodeStageKeepsChild, "NodeStageVolume", End::Done, What::Child),
    (Defect::NodeStageRefusalLeavesZombie, "NodeStageVolume", End::Refused, What::Zombie),
    (Defect::NodeUnpublishLeavesZombie, "NodeUnpublishVolume", End::Done, What::Zombie),
];

/// Keeps what the driver forgets to give back after such a call.
pub(crate) fn keep_after(driver: &MockDriver, method: &str, end: End) {
    let row =
        TABLE.iter().find(|(defect, rpc, after, _)| *rpc == method && *after == end && driver.has(*defect));
    if let Some((_, _, _, what)) = row {
        keep(driver, *what);
    }
}

/// Keeps a file open for each connection that it sees for the first time.
pub(crate) fn keep_for_connection(driver: &MockDriver, connection: Option<ConnectionNumber>) {
    if driver.has(Defect::ConnectionKeepsFile)
        && let Some(connection) = connection
        && driver.connections.lock().insert(connection)
    {
        keep(driver, What::File);
    }
}

/// Keeps a file for each copy that was made or refused: open, or left behind.
pub(crate) fn keep_for_copy(driver: &MockDriver, source: &SourceType, is_made: bool) {
    let is_clone = matches!(source, SourceType::Volume(_));
    if is_made && driver.has(Defect::CreateVolumeFromSourceKeepsFile) {
        keep(driver, What::File);
    }
    let leaves = match is_made {
        true => is_clone && driver.has(Defect::CreateVolumeFromVolumeLeavesFile),
        false => driver.has(Defect::CreateVolumeRefusedCopyLeavesFile),
    };
    if leaves {
        keep(driver, What::Entry);
    }
}

fn keep(driver: &MockDriver, what: What) {
    let is_seldom = matches!(what, What::Thread | What::Child | What::Zombie);
    let mut kept = driver.kept.lock();
    if kept.len() >= KEPT_MAX || (is_seldom && !driver.another_number().is_multiple_of(SELDOM)) {
        return;
    }
    // What cannot be had is not kept.
    kept.extend(match what {
        What::Memory => Some(Kept::Memory(vec![1; BYTES])),
        What::File => File::open("/dev/null").ok().map(Kept::File),
        What::Socket => UnixStream::pair().ok().map(|(one, _)| Kept::Socket(one)),
        What::Thread => thread(),
        What::Child => command("sleep", "600").map(Kept::Child),
        What::Zombie => command("true", "").map(Kept::Zombie),
        What::Entry => entry(driver).map(Kept::File),
    });
}

fn entry(driver: &MockDriver) -> Option<File> {
    let name = format!("left-{}", driver.another_number());
    // Without a file for its state, the driver has a directory for what it shows of itself.
    let of_state = driver.config.state.as_deref().and_then(Path::parent);
    File::create(of_state.or(driver.config.inspect_dir.as_deref())?.join(name)).ok()
}

fn thread() -> Option<Kept> {
    let (end, ended) = channel::<()>();
    // Nobody sends anything: it ends when nobody can.
    let run = move || ended.iter().for_each(drop);
    Builder::new().spawn(run).ok().map(|_| Kept::Thread(end))
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
