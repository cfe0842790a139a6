//! Tests where volumes may be published, and how they can be used there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use csi_proto::v1::node_server::Node;
use csi_proto::v1::volume_capability::AccessType;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::*;
use tonic::{Code, Request};

use crate::support::*;

#[tokio::test]
async fn directory_volume_appears_at_staging_and_target() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    assert_eq!(volume.capacity_bytes, MIB);
    let target = rig.bring(&volume.volume_id, mount("")).await;
    fs::write(target.join("file"), b"x").unwrap();
    assert_eq!(fs::read_dir(rig.staging(&volume.volume_id)).unwrap().count(), 1);
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
    rig.removed().await;
}

#[tokio::test]
async fn readonly_targets_refuse_writes() {
    needs_mounts!();
    for backend in ["--backend=directory", "--backend=image"] {
        let rig = Rig::new(&[backend]).await;
        let mode = mount_mode("", Mode::MultiNodeMultiWriter);
        let volume = rig.create("v", 16 * MIB, mode.clone()).await;
        rig.stage(&volume.volume_id, mode.clone()).await;
        let writable = rig.publish(&volume.volume_id, mode.clone(), false).await;
        write_synced(&writable.join("file"), b"x");
        let second = rig.target("second");
        rig.try_publish(&volume.volume_id, &second, mode.clone(), true).await.unwrap();
        let refused = fs::write(format!("{second}/other"), b"y").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{backend}");
        assert_eq!(fs::read(format!("{second}/file")).unwrap(), b"x");
        fs::write(writable.join("more"), b"z").unwrap();
        let other_way = rig.try_publish(&volume.volume_id, &second, mode, false).await.unwrap_err();
        assert_eq!(other_way.code(), Code::AlreadyExists);
        rig.try_unpublish(&volume.volume_id, &second).await.unwrap();
        rig.take(&volume.volume_id).await;
        rig.delete(&volume.volume_id).await;
    }
}

#[tokio::test]
async fn block_volumes_have_exact_sizes_and_readonly_works() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB + 1, block()).await;
    assert_eq!(volume.capacity_bytes, MIB + 512);
    let target = rig.bring(&volume.volume_id, block()).await;
    let device = fs::OpenOptions::new().read(true).write(true).open(&target).unwrap();
    let size = std::io::Seek::seek(&mut &device, std::io::SeekFrom::End(0)).unwrap();
    assert_eq!(size, (MIB + 512) as u64);
    std::os::unix::fs::FileExt::write_all_at(&device, b"data", MIB as u64).unwrap();
    device.sync_all().unwrap();
    drop(device);
    let stats = rig.stats(&volume.volume_id, target.to_str().unwrap()).await.unwrap();
    assert_eq!(stats.usage[0].total, MIB + 512);
    assert!(stats.usage[0].used > 0 && !stats.volume_condition.unwrap().abnormal);
    rig.try_unpublish(&volume.volume_id, target.to_str().unwrap()).await.unwrap();
    assert!(!target.exists());

    let target = rig.publish(&volume.volume_id, block(), true).await;
    let device = fs::OpenOptions::new().write(true).open(&target);
    let refused = device.and_then(|device| std::os::unix::fs::FileExt::write_all_at(&device, b"x", 0));
    assert!(refused.is_err(), "a read-only device takes a write");
    let mut found = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&fs::File::open(&target).unwrap(), &mut found, MIB as u64)
        .unwrap();
    assert_eq!(&found, b"data");
    assert_eq!(rig.fixture.loop_devices().len(), 2);
    rig.take(&volume.volume_id).await;
    assert!(rig.fixture.has_no_loop_devices());
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn repeated_calls_succeed_and_conflicts_fail() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 16 * MIB, mount("")).await;
    let id = volume.volume_id.as_str();
    let target = rig.target(id);
    let unstaged = rig.try_publish(id, &target, mount(""), false).await.unwrap_err();
    assert_eq!(unstaged.code(), Code::FailedPrecondition);
    let staging = rig.stage(id, mount("")).await;
    rig.try_stage(id, &staging, mount("")).await.unwrap();
    let other = mount_mode("", Mode::MultiNodeMultiWriter);
    assert_eq!(rig.try_stage(id, &staging, other).await.unwrap_err().code(), Code::AlreadyExists);
    rig.publish(id, mount(""), false).await;
    let before = rig.fixture.mount_points().len();
    rig.publish(id, mount(""), false).await;
    assert_eq!(rig.fixture.mount_points().len(), before, "a repeated publish stacks no mount");
    let second = rig.try_publish(id, &rig.target("second"), mount(""), false).await.unwrap_err();
    assert_eq!(second.code(), Code::FailedPrecondition, "one writer has one target");
    assert_eq!(rig.try_unstage(id).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(rig.try_delete(id).await.unwrap_err().code(), Code::FailedPrecondition);
    rig.take(id).await;
    rig.take(id).await;
    rig.delete(id).await;
    rig.delete(id).await;
}

#[tokio::test]
async fn a_group_can_use_what_is_mounted_for_it() {
    needs_mounts!();
    for backend in ["--backend=directory", "--backend=image"] {
        let rig = Rig::new(&[backend]).await;
        let mut capability = mount("");
        let Some(AccessType::Mount(fields)) = &mut capability.access_type else { panic!() };
        fields.volume_mount_group = "4321".to_owned();
        let volume = rig.create("v", 16 * MIB, capability.clone()).await;
        let target = rig.bring(&volume.volume_id, capability).await;
        fs::write(target.join("file"), b"x").unwrap();
        let root = fs::metadata(&target).unwrap();
        assert_eq!(root.gid(), 4321);
        assert_eq!(root.permissions().mode() & 0o2070, 0o2070);
        assert_eq!(fs::metadata(target.join("file")).unwrap().gid(), 4321, "new files inherit the group");
        rig.take(&volume.volume_id).await;
        rig.delete(&volume.volume_id).await;
    }
}

#[tokio::test]
async fn lost_mounts_are_abnormal_and_come_back() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 16 * MIB, mount("")).await;
    let target = rig.bring(&volume.volume_id, mount("")).await;
    write_synced(&target.join("file"), b"kept");
    unmount(&target);
    let stats = rig.stats(&volume.volume_id, target.to_str().unwrap()).await.unwrap();
    assert!(stats.volume_condition.unwrap().abnormal);
    // This is the state after a reboot: the records say that the volume is staged and published, but nothing is mounted.
    unmount(rig.staging(&volume.volume_id));
    let rig = rig.restart(&["--backend=image"]).await;
    let target = rig.bring(&volume.volume_id, mount("")).await;
    assert_eq!(fs::read(target.join("file")).unwrap(), b"kept");
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn missing_data_are_abnormal_and_not_made_up() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    fs::remove_dir(rig.fixture.root.join("state/volumes").join(&volume.volume_id)).unwrap();
    let request = ControllerGetVolumeRequest { volume_id: volume.volume_id.clone() };
    let found =
        controller_server::Controller::controller_get_volume(&rig.driver, Request::new(request)).await;
    assert!(found.unwrap().into_inner().status.unwrap().volume_condition.unwrap().abnormal);
    let path = rig.staging("v");
    assert_eq!(
        rig.try_stage(&volume.volume_id, &path, mount("")).await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn statistics_exist_only_where_the_volume_is() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let volume = rig.create("v", 16 * MIB, mount("")).await;
    let target = rig.bring(&volume.volume_id, mount("")).await;
    let stats = rig.stats(&volume.volume_id, target.to_str().unwrap()).await.unwrap();
    assert_eq!(stats.usage.len(), 2);
    assert!(stats.usage.iter().all(|usage| usage.total > 0 && usage.used + usage.available <= usage.total));
    for path in ["/etc", "relative", "/no/such"] {
        assert_eq!(rig.stats(&volume.volume_id, path).await.unwrap_err().code(), Code::NotFound, "{path}");
    }
    let info =
        rig.driver.node_get_info(Request::new(NodeGetInfoRequest::default())).await.unwrap().into_inner();
    assert_eq!(info.node_id, "node1");
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn what_has_lost_its_data_can_be_taken_away() {
    needs_mounts!();
    for (backend, capability) in [("directory", mount("")), ("image", mount("")), ("directory", block())] {
        let rig = Rig::new(&[&format!("--backend={backend}")]).await;
        let volume = rig.create("v", 16 * MIB, capability.clone()).await.volume_id;
        let target = rig.bring(&volume, capability).await;
        let data = rig.fixture.root.join("state/volumes").join(&volume);
        if data.is_dir() { fs::remove_dir(&data) } else { fs::remove_file(&data) }.unwrap();
        let stats = rig.stats(&volume, target.to_str().unwrap()).await.unwrap();
        assert!(stats.volume_condition.unwrap().abnormal);
        rig.take(&volume).await;
        assert!(rig.fixture.mount_points().is_empty() && rig.fixture.has_no_loop_devices());
        rig.delete(&volume).await;
    }
}

#[tokio::test]
async fn an_autoclear_device_of_others_is_not_reused() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, block()).await.volume_id;
    rig.stage(&volume, block()).await;
    // Another program, such as udev, has the device open while the volume is unstaged and staged again.
    let user = fs::File::open(&rig.fixture.loop_devices()[0]).unwrap();
    rig.try_unstage(&volume).await.unwrap();
    rig.stage(&volume, block()).await;
    let target = rig.publish(&volume, block(), false).await;
    drop(user);
    write_synced(&target, b"data");
    assert!(fs::read(&target).unwrap().starts_with(b"data"));
    rig.take(&volume).await;
    rig.delete(&volume).await;
}

#[tokio::test]
async fn a_read_only_target_is_no_laxer_than_the_host() {
    needs_mounts!();
    let fixture = Fixture::new();
    let state = fixture.root.join("state");
    fs::create_dir(&state).unwrap();
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("tmpfs", &state, "tmpfs", flags, c"size=32m").unwrap();
    let rig = Rig::on(fixture, &["--backend=directory"]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    rig.stage(&volume, mount("")).await;
    let target = rig.publish(&volume, mount(""), true).await;
    for option in ["ro", "nosuid", "nodev"] {
        assert!(has_option(&target, option), "{option}");
    }
    rig.take(&volume).await;
    let Rig { driver, fixture: _ground } = rig;
    drop(driver);
    unmount(&state);
}

/// Returns whether the mount at a path has an option.
fn has_option(path: &std::path::Path, option: &str) -> bool {
    let entry = csi_hostpath_driver::mount::mounts().unwrap().into_iter().find(|m| m.mount_point == path);
    entry.unwrap().options.split(',').any(|one| one == option)
}

#[tokio::test]
async fn a_staging_that_was_asked_to_be_read_only_is_well() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let readonly = mount_with_flag("", "ro");
    let volume = rig.create("v", 16 * MIB, readonly.clone()).await.volume_id;
    let path = rig.stage(&volume, readonly).await;
    let condition = rig.stats(&volume, &path).await.unwrap().volume_condition.unwrap();
    assert!(!condition.abnormal, "{condition:?}");
    rig.try_unstage(&volume).await.unwrap();
}

#[tokio::test]
async fn a_place_with_another_mount_is_refused() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let one = rig.create("v", MIB, mount("")).await.volume_id;
    let other = rig.create("w", MIB, mount("")).await.volume_id;
    let target = rig.bring(&one, mount("")).await;
    let staging = rig.stage(&other, mount("")).await;
    let refused = rig.try_publish(&other, target.to_str().unwrap(), mount(""), false).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    let refused = rig.try_stage(&one, &staging, mount("")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert_eq!(rig.fixture.mount_points().len(), 3, "nothing was stacked");
    rig.take(&one).await;
    rig.take(&other).await;
}

#[tokio::test]
async fn a_block_target_that_is_lost_is_abnormal() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, block()).await.volume_id;
    let target = rig.bring(&volume, block()).await;
    let staging = rig.staging(&volume);
    let abnormal =
        async |path: &str| rig.stats(&volume, path).await.unwrap().volume_condition.unwrap().abnormal;
    let target = target.to_str().unwrap();
    assert!(!abnormal(target).await && !abnormal(&staging).await);
    unmount(target);
    assert!(abnormal(target).await && !abnormal(&staging).await);
    rig.take(&volume).await;
    rig.delete(&volume).await;
}

/// Some nodes have a link to a larger disk in place of kubelet's directory.
#[tokio::test]
async fn only_links_of_root_are_followed() {
    needs_mounts!();
    use std::os::unix::fs::{lchown, symlink};
    let fixture = Fixture::new();
    let link = fixture.root.join("targets");
    for part in ["staging", "targets"] {
        fs::create_dir_all(fixture.root.join("disk").join(part)).unwrap();
        symlink(fixture.root.join("disk").join(part), fixture.root.join(part)).unwrap();
    }
    let mut rig = Rig::on(fixture, &["--backend=image"]).await;
    for (name, capability) in
        [("directory", mount("")), ("xfs", mount("xfs")), ("btrfs", mount("btrfs")), ("block", block())]
    {
        let mut request = create_request(name, 320 * MIB, capability.clone());
        if name == "directory" {
            request.parameters = map(&[("backend", "directory")]);
        }
        let volume = rig.try_create(request).await.unwrap().volume_id;
        let target = rig.bring(&volume, capability.clone()).await;
        assert_eq!(target, link.join(&volume));
        let stats = rig.stats(&volume, target.to_str().unwrap()).await.unwrap();
        assert!(!stats.volume_condition.unwrap().abnormal, "{name}");
        let request = NodeExpandVolumeRequest {
            volume_id: volume.clone(),
            volume_path: target.to_str().unwrap().to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: 400 * MIB, limit_bytes: 0 }),
            ..Default::default()
        };
        rig.driver.node_expand_volume(Request::new(request)).await.unwrap();
        rig = rig.restart(&["--backend=image"]).await;
        lchown(&link, Some(65_534), None).unwrap();
        let refusals = [
            rig.try_publish(&volume, target.to_str().unwrap(), capability, false).await,
            rig.try_unpublish(&volume, target.to_str().unwrap()).await,
        ];
        assert_eq!(codes(&refusals), [Code::InvalidArgument; 2], "{name}");
        lchown(&link, Some(0), None).unwrap();
        rig.take(&volume).await;
        assert!(rig.fixture.mount_points().is_empty() && rig.fixture.has_no_loop_devices(), "{name}");
        rig.delete(&volume).await;
    }
}
