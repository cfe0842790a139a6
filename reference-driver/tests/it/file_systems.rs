//! The tests use images with real file systems.

use std::fs;
use std::io::Write;
use std::process::Command;

use tonic::Code;

use crate::support::*;

#[tokio::test]
async fn data_survive_restaging_and_restart() {
    needs_mounts!();
    for fs_type in ["ext3", "ext4", "xfs", "btrfs"] {
        let rig = Rig::new(&["--backend=image"]).await;
        let volume = rig.create("v", 320 * MIB, mount(fs_type)).await;
        let target = rig.bring(&volume.volume_id, mount(fs_type)).await;
        write_synced(&target.join("file"), b"kept");
        let rig = rig.restart(&["--backend=image"]).await;
        assert_eq!(
            fs::read(target.join("file")).unwrap(),
            b"kept",
            "{fs_type}: the mount survives the driver"
        );
        rig.take(&volume.volume_id).await;
        assert!(!target.exists(), "{fs_type}: the target goes with the publication");
        let target = rig.bring(&volume.volume_id, mount(fs_type)).await;
        assert_eq!(fs::read(target.join("file")).unwrap(), b"kept", "{fs_type}");
        rig.take(&volume.volume_id).await;
        rig.delete(&volume.volume_id).await;
    }
}

#[tokio::test]
async fn a_volume_is_full_at_its_size() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 16 * MIB, mount("ext4")).await;
    let target = rig.bring(&volume.volume_id, mount("ext4")).await;
    let mut file = fs::File::create(target.join("big")).unwrap();
    let chunk = vec![7; 1 << 20];
    let mut written = 0;
    let error = loop {
        match file.write(&chunk) {
            Ok(count) => written += count as i64,
            Err(error) => break error,
        }
        assert!(written < 32 * MIB, "more fits than the volume has");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(written > 8 * MIB, "only {written} bytes fit");
    let stats = rig.stats(&volume.volume_id, target.to_str().unwrap()).await.unwrap();
    let condition = stats.volume_condition.unwrap();
    assert!(condition.abnormal, "a full file system is abnormal: {condition:?}");
    drop(file);
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn a_damaged_file_system_is_repaired() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 32 * MIB, mount("ext4")).await;
    let target = rig.bring(&volume.volume_id, mount("ext4")).await;
    write_synced(&target.join("file"), b"kept");
    rig.take(&volume.volume_id).await;
    let image = rig.fixture.root.join("state/volumes").join(&volume.volume_id);
    let script = rig.fixture.root.join("damage");
    fs::write(&script, "set_super_value state 2\nclri <11>\n").unwrap(); // Marks the file system as damaged, and damages it.
    Command::new("debugfs").arg("-w").arg("-f").arg(&script).arg(&image).output().unwrap();
    let before = Command::new("e2fsck").arg("-fn").arg(&image).output().unwrap();
    assert!(!before.status.success(), "the file system has been damaged");
    let target = rig.bring(&volume.volume_id, mount("ext4")).await;
    assert_eq!(fs::read(target.join("file")).unwrap(), b"kept");
    rig.take(&volume.volume_id).await;
    let after = Command::new("e2fsck").arg("-fn").arg(&image).output().unwrap();
    assert!(after.status.success(), "still damaged: {}", String::from_utf8_lossy(&after.stdout));
    rig.delete(&volume.volume_id).await;
}

/// XFS shuts down after an error of its device, and kubelet must still be able to remove the pod.
#[tokio::test]
async fn a_file_system_that_has_shut_down_is_unmounted() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 320 * MIB, mount("xfs")).await;
    let target = rig.bring(&volume.volume_id, mount("xfs")).await;
    let shut_down = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&target).output().unwrap();
    assert!(shut_down.status.success(), "{}", String::from_utf8_lossy(&shut_down.stderr));
    assert!(fs::metadata(&target).is_err(), "the file system has failed");
    rig.take(&volume.volume_id).await;
    assert!(rig.fixture.mount_points().is_empty() && rig.fixture.has_no_loop_devices());
    rig.bring(&volume.volume_id, mount("xfs")).await;
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn data_that_are_no_file_system_are_never_formatted() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 16 * MIB, mount("ext4")).await;
    let image = rig.fixture.root.join("state/volumes").join(&volume.volume_id);
    let precious = vec![42; 4096];
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &precious, 5 << 20).unwrap();
    let path = rig.staging("v");
    let refused = rig.try_stage(&volume.volume_id, &path, mount("ext4")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert_eq!(&fs::read(&image).unwrap()[5 << 20..(5 << 20) + 4096], precious);
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn another_file_system_type_is_rejected() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 320 * MIB, mount("ext4")).await;
    let path = rig.staging("v");
    let refused = rig.try_stage(&volume.volume_id, &path, mount("xfs")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let unknown = rig.try_create(create_request("w", MIB, mount("ntfs"))).await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidArgument);
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn volumes_are_as_large_as_their_file_system_needs() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", MIB, mount("xfs")).await;
    assert!(volume.capacity_bytes >= 300 * MIB);
    let mut limited = create_request("w", MIB, mount("xfs"));
    limited.capacity_range.as_mut().unwrap().limit_bytes = 2 * MIB;
    assert_eq!(rig.try_create(limited).await.unwrap_err().code(), Code::OutOfRange);
    rig.bring(&volume.volume_id, mount("xfs")).await;
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn a_broken_off_formatting_is_begun_anew() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image", "--fs-type=ext4"]).await;
    let volume = rig.create("v", 16 * MIB, mount("")).await;
    // ext4 does not know this flag, so the mount fails after formatting.
    let odd = mount_with_flag("", "no-such-option");
    let path = rig.staging("v");
    assert_eq!(
        rig.try_stage(&volume.volume_id, &path, odd).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    assert!(rig.fixture.mount_points().is_empty() && rig.fixture.has_no_loop_devices());
    rig.bring(&volume.volume_id, mount("")).await;
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn a_foreign_file_system_type_selects_an_image() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=directory"]).await;
    let volume = rig.create("v", 320 * MIB, mount("btrfs")).await;
    assert_eq!(volume.volume_context["backend"], "image");
    let target = rig.bring(&volume.volume_id, mount("btrfs")).await;
    let found =
        csi_hostpath_driver::mount::mounts().unwrap().into_iter().find(|entry| entry.mount_point == target);
    assert_eq!(found.unwrap().fs_type, "btrfs");
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
    let mut request = create_request("w", MIB, mount("btrfs"));
    request.parameters = map(&[("backend", "directory")]);
    assert_eq!(rig.try_create(request).await.unwrap_err().code(), Code::InvalidArgument);
}
