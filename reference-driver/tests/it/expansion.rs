//! Growing volumes.

use std::fs;

use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::node_server::Node;
use csi_proto::v1::*;
use tonic::{Code, Request};

use crate::support::*;

async fn node_expand(rig: &Rig, id: &str, path: &str, bytes: i64) -> Result<i64, tonic::Status> {
    let request = NodeExpandVolumeRequest {
        volume_id: id.to_owned(),
        volume_path: path.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
        ..NodeExpandVolumeRequest::default()
    };
    Ok(rig.driver.node_expand_volume(Request::new(request)).await?.into_inner().capacity_bytes)
}

/// The kernel grows a mounted ext4 only with CAP_SYS_RESOURCE, which root lacks in some containers.
fn may_grow_mounted_ext4() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(bits.trim(), 16).unwrap() & (1 << 24) != 0
}

#[tokio::test]
async fn file_systems_grow_while_mounted() {
    needs_mounts!();
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let rig = Rig::new(&["--backend=image"]).await;
        let volume = rig.create("v", 320 * MIB, mount(fs_type)).await;
        let id = volume.volume_id.as_str();
        let target = rig.bring(id, mount(fs_type)).await;
        write_synced(&target.join("file"), b"kept");
        let before = file_system_bytes(&target);
        let expanded = rig.expand(id, 640 * MIB).await;
        assert!(expanded.node_expansion_required && expanded.capacity_bytes == 640 * MIB);
        let path = target.to_str().unwrap();
        if fs_type == "ext4" && !may_grow_mounted_ext4() {
            println!("without CAP_SYS_RESOURCE a mounted ext4 cannot grow; it grows at the next staging");
            let refused = node_expand(&rig, id, path, 640 * MIB).await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
            rig.take(id).await;
            rig.bring(id, mount(fs_type)).await;
        }
        assert_eq!(node_expand(&rig, id, path, 640 * MIB).await.unwrap(), 640 * MIB);
        assert_eq!(node_expand(&rig, id, path, 640 * MIB).await.unwrap(), 640 * MIB);
        let after = file_system_bytes(&target);
        assert!(after > before + 250 * MIB, "{fs_type}: {before} bytes have grown to {after} only");
        assert_eq!(fs::read(target.join("file")).unwrap(), b"kept");
        assert!(!rig.expand(id, 640 * MIB).await.node_expansion_required, "nothing is left to do");
        rig.take(id).await;
        rig.delete(id).await;
    }
}

#[tokio::test]
async fn a_read_only_file_system_grows_when_staged_next() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 320 * MIB, mount("xfs")).await;
    let id = volume.volume_id.as_str();
    rig.bring(id, mount("xfs")).await;
    rig.take(id).await;
    let target = rig.bring(id, mount_with_flag("xfs", "ro")).await;
    assert!(rig.expand(id, 640 * MIB).await.node_expansion_required);
    let refused = node_expand(&rig, id, target.to_str().unwrap(), 640 * MIB).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    rig.take(id).await;
    let target = rig.bring(id, mount("xfs")).await;
    assert!(file_system_bytes(&target) > 570 * MIB);
    rig.take(id).await;
    rig.delete(id).await;
}

#[tokio::test]
async fn a_volume_expanded_offline_grows_when_staged() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 32 * MIB, mount("ext4")).await;
    let id = volume.volume_id.as_str();
    let before = file_system_bytes(&rig.bring(id, mount("ext4")).await);
    rig.take(id).await;
    rig.expand(id, 128 * MIB).await;
    let after = file_system_bytes(&rig.bring(id, mount("ext4")).await);
    assert!(after > before + 64 * MIB, "{before} bytes have grown to {after} only");
    rig.take(id).await;
    rig.delete(id).await;
}

#[tokio::test]
async fn without_node_expansion_the_controller_does_all() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image", "--disable-node-expansion"]).await;
    let volume = rig.create("v", 320 * MIB, mount("xfs")).await;
    let id = volume.volume_id.as_str();
    let target = rig.bring(id, mount("xfs")).await;
    let before = file_system_bytes(&target);
    assert!(!rig.expand(id, 640 * MIB).await.node_expansion_required);
    assert!(file_system_bytes(&target) > before + 250 * MIB);
    rig.take(id).await;
    rig.delete(id).await;
}

#[tokio::test]
async fn block_devices_grow_in_use_and_nothing_shrinks() {
    needs_mounts!();
    let rig = Rig::new(&["--max-volume-size=1073741824"]).await;
    let volume = rig.create("v", MIB, block()).await;
    let id = volume.volume_id.as_str();
    let target = rig.bring(id, block()).await;
    let expanded = rig.expand(id, 2 * MIB).await;
    assert!(!expanded.node_expansion_required && expanded.capacity_bytes == 2 * MIB);
    let size = std::io::Seek::seek(&mut fs::File::open(&target).unwrap(), std::io::SeekFrom::End(0)).unwrap();
    assert_eq!(size, 2 * MIB as u64);
    assert_eq!(rig.expand(id, MIB).await.capacity_bytes, 2 * MIB, "already large enough");
    for (required_bytes, limit_bytes, code) in
        [(0, MIB, Code::OutOfRange), (1 << 31, 0, Code::OutOfRange), (-1, 0, Code::InvalidArgument)]
    {
        let request = ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
            ..ControllerExpandVolumeRequest::default()
        };
        let refused = rig.driver.controller_expand_volume(Request::new(request)).await.unwrap_err();
        assert_eq!(refused.code(), code, "{required_bytes} {limit_bytes}");
    }
    assert_eq!(node_expand(&rig, id, "/elsewhere", 3 * MIB).await.unwrap_err().code(), Code::NotFound);
    rig.take(id).await;
    rig.delete(id).await;
}

#[tokio::test]
async fn too_small_device_grows_at_start_or_repeat() {
    needs_mounts!();
    let mut rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, block()).await.volume_id;
    let target = rig.bring(&volume, block()).await;
    rig.expand(&volume, 2 * MIB).await;
    for restart in [true, false] {
        // A driver that is killed after the commit, and before the device shows the new size, leaves this state.
        let image = rig.fixture.root.join("state/volumes").join(&volume);
        let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.set_len(MIB as u64).unwrap();
        let taken =
            std::process::Command::new("losetup").arg("-c").arg(&rig.fixture.loop_devices()[0]).status();
        assert!(taken.unwrap().success());
        file.set_len(2 * MIB as u64).unwrap();
        assert_eq!(std::fs::read(&target).unwrap().len(), MIB as usize);
        if restart {
            rig = rig.restart(&[]).await;
        } else {
            rig.expand(&volume, 2 * MIB).await;
        }
        assert_eq!(std::fs::read(&target).unwrap().len(), 2 * MIB as usize, "restart: {restart}");
    }
    rig.take(&volume).await;
    rig.delete(&volume).await;
}
