//! Measures snapshots of used volumes that contain data, with the state directory on several file systems.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use crate::client::{Client, Kind, Paths, Volume};
use crate::disk::Disk;
use crate::error::{IoContext, Result};
use crate::peers::{Peers, Samples};
use crate::table::{Table, Unit};
use crate::{Plan, progress};

const VOLUME_BYTES: i64 = 1 << 30;
/// The number of bytes written to the volume. They are random, so that they compress as little as real data might.
const DATA_BYTES: u64 = 100 << 20;
/// The file systems of state directories; the first two share blocks between files.
const FS_TYPES: [&str; 3] = ["btrfs", "xfs", "ext4"];

/// Measures how long CreateSnapshot takes until the snapshot is ready.
pub(crate) async fn measure(
    other: Option<&Path>,
    plan: Plan,
    directory: &Path,
    table: &mut Table,
) -> Result<()> {
    for fs_type in FS_TYPES {
        progress(&format!("snapshots with the state directory on {fs_type}"));
        let disk = Disk::make(fs_type, directory)?;
        let peers = Peers::start(other, disk.path()).await?;
        for (kind, what) in [(Kind::Image, "file system"), (Kind::Block, "block")] {
            let place = directory.join(format!("{fs_type}-{kind:?}"));
            let samples = snapshots(&peers, plan, kind, &place).await?;
            let name = format!("snapshot of a 1 GiB {what} volume with 100 MiB, state on {fs_type}");
            table.row(name, Unit::Milliseconds, samples);
        }
        peers.stop().await?;
        disk.unmount()?;
    }
    Ok(())
}

/// A volume in use.
struct InUse {
    client: Client,
    volume: Volume,
    paths: Paths,
}

async fn snapshots(peers: &Peers, plan: Plan, kind: Kind, place: &Path) -> Result<Samples> {
    let mut volumes = Vec::new();
    let measured = take_turns(peers, plan, kind, place, &mut volumes).await;
    // Clean up even after a failure, because loop devices and mounts would outlive the drivers.
    let mut cleared = Ok(());
    for InUse { mut client, volume, paths } in volumes {
        cleared = cleared.and(client.unmount(&volume, &paths).await);
        cleared = cleared.and(client.delete_volume(volume.id).await);
    }
    measured.and_then(|samples| cleared.map(|()| samples))
}

async fn take_turns(
    peers: &Peers,
    plan: Plan,
    kind: Kind,
    place: &Path,
    volumes: &mut Vec<InUse>,
) -> Result<Samples> {
    for process in peers.each() {
        let mut client = process.client();
        let paths = Paths::make(&place.join(process.driver()))?;
        let volume = client.create_volume(kind, VOLUME_BYTES).await?;
        volumes.push(InUse { client: client.clone(), volume: volume.clone(), paths: paths.clone() });
        client.mount(&volume, &paths).await?;
        let file = if kind == Kind::Block { paths.target } else { paths.target.join("data") };
        write_data(&file)?;
    }
    let mut samples = Samples::default();
    for _ in 0..plan.rounds {
        for (place, in_use) in volumes.iter_mut().enumerate() {
            samples.add(place, milliseconds(&mut in_use.client, &in_use.volume).await?);
        }
    }
    Ok(samples)
}

async fn milliseconds(client: &mut Client, volume: &Volume) -> Result<f64> {
    let start = Instant::now();
    let snapshot = client.create_snapshot(volume).await?;
    let elapsed = start.elapsed();
    client.delete_snapshot(snapshot).await?;
    Ok(elapsed.as_secs_f64() * 1000.0)
}

fn write_data(path: &Path) -> Result<()> {
    let random = Path::new("/dev/urandom");
    let mut source = File::open(random).on("open", random)?.take(DATA_BYTES);
    let mut target =
        OpenOptions::new().write(true).create(true).truncate(false).open(path).on("open", path)?;
    std::io::copy(&mut source, &mut target).on("write to", path)?;
    target.flush().and_then(|()| target.sync_all()).on("flush", path)
}
