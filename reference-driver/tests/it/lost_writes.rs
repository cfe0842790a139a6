//! The disk is full for a moment, and reports it only when it is flushed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::*;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mount::MountFlags;
use tonic::{Code, Request};

use crate::support::*;

const DISK_BYTES: u64 = 320 << 20;

/// This disk is an XFS at `state` that has no storage for its free blocks: its storage is a tmpfs that can be filled.
struct ThinDisk {
    lower: PathBuf,
    mount_point: PathBuf,
}

impl ThinDisk {
    fn new(fixture: &Fixture) -> ThinDisk {
        let (lower, mount_point) = (fixture.root.join("lower"), fixture.root.join("state"));
        fs::create_dir(&lower).unwrap();
        fs::create_dir(&mount_point).unwrap();
        rustix::mount::mount("tmpfs", &lower, "tmpfs", MountFlags::empty(), c"size=328m").unwrap();
        let disk = ThinDisk { lower, mount_point };
        let image = File::create(disk.image()).unwrap();
        fallocate(image, FallocateFlags::empty(), 0, DISK_BYTES).unwrap();
        run(Command::new("mkfs.xfs").args(["-q", "-K"]).arg(disk.image()));
        disk.mount();
        run(Command::new("fstrim").arg(&disk.mount_point));
        disk
    }

    fn image(&self) -> PathBuf {
        self.lower.join("image")
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).args([self.image(), self.mount_point.clone()]));
    }

    /// Unmounts the file system, which drops everything that is cached.
    fn unmount(&self) {
        unmount(&self.mount_point);
    }

    fn fill(&self) {
        fill(&self.lower.join("filler"));
    }

    fn make_room(&self) {
        make_room(&self.lower.join("filler"));
    }

    /// Shares the blocks of a file with a copy, so that each write needs a new block.
    fn share_blocks_of(&self, name: &str) {
        let file = self.mount_point.join(name);
        run(Command::new("cp").arg("--reflink=always").args([&file, &file.with_extension("shared")]));
        run(Command::new("sync").arg("-f").arg(&self.mount_point));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn sizes(rig: &Rig) -> Vec<(String, i64)> {
    let listed = rig.driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap();
    let volumes = listed.into_inner().entries.into_iter().map(|entry| entry.volume.unwrap());
    volumes.map(|volume| (volume.volume_id, volume.capacity_bytes)).collect()
}

/// The kernel may report once more that it could not write something while the disk was full.
async fn unpublish_in_the_end(rig: &Rig, volume: &str) {
    for _ in 0..10 {
        match rig.try_unpublish(volume, &rig.target(volume)).await {
            Ok(()) => return,
            Err(refused) => assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}"),
        }
    }
    panic!("the disk has room, and the driver finds none");
}

#[tokio::test]
async fn what_could_not_be_flushed_is_not_built_upon() {
    needs_mounts!();
    let fixture = Fixture::new();
    let disk = ThinDisk::new(&fixture);
    let rig = Rig::on(fixture, &[]).await;
    let volume = rig.create("v", MIB, block()).await.volume_id;
    let other = rig.create("other", MIB, mount("")).await.volume_id;
    rig.bring(&other, mount("")).await;
    disk.share_blocks_of("state.redb");
    disk.fill();
    let request = ControllerExpandVolumeRequest {
        volume_id: volume.clone(),
        capacity_range: Some(CapacityRange { required_bytes: 2 * MIB, limit_bytes: 0 }),
        ..Default::default()
    };
    let refused = rig.driver.controller_expand_volume(Request::new(request)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    disk.make_room();
    unpublish_in_the_end(&rig, &other).await; // Its commit is in another part of the file.
    rig.try_unstage(&other).await.unwrap();
    let Rig { driver, fixture } = rig;
    drop(driver);
    disk.unmount();
    disk.mount();
    let rig = Rig::on(fixture, &[]).await;
    let image = fs::metadata(disk.mount_point.join("volumes").join(&volume)).unwrap().len();
    let mut expected = [(volume, i64::try_from(image).unwrap()), (other, MIB)];
    expected.sort();
    assert_eq!(sizes(&rig).await, expected);
    let Rig { driver, fixture: _ground } = rig;
    drop(driver);
    disk.unmount();
    unmount(&disk.lower);
}
