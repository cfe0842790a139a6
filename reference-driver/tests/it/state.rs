//! The tests open state that cannot be used, and the remains of a crash.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use csi_hostpath_driver::HostpathDriver;
use csi_proto::v1::controller_server::Controller;
use csi_proto::v1::*;
use tonic::Request;

use crate::support::*;

fn refusal(fixture: &Fixture) -> String {
    HostpathDriver::new(config(&fixture.root, &[])).unwrap_err().to_string()
}

/// Returns all files in the state directory with their content.
fn contents(fixture: &Fixture) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut directories = vec![fixture.root.join("state")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path)
            } else {
                found.push((path.clone(), fs::read(path).unwrap()))
            }
        }
    }
    found.sort();
    found
}

/// Returns a state directory that contains a volume and that no driver uses.
async fn used_fixture() -> Fixture {
    let rig = Rig::new(&["--backend=directory"]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    fs::write(rig.fixture.root.join("state/volumes").join(volume).join("file"), b"precious").unwrap();
    let Rig { driver, fixture } = rig;
    drop(driver);
    fixture
}

#[tokio::test]
async fn corrupt_state_is_refused_and_not_touched() {
    let fixture = used_fixture().await;
    let file = fixture.root.join("state/state.redb");
    let good = fs::read(&file).unwrap();
    for seed in 0..60 {
        let (mut bad, mut flips) = (good.clone(), Vec::new());
        match seed {
            0 => bad.clear(),
            1 => bad = b"not a database".to_vec(),
            2 => bad.truncate(good.len() / 2),
            _ => {
                let mut random = Random::new(seed);
                flips.extend((0..seed * 4).map(|_| random.below(good.len() as u64 * 8) as usize));
            }
        }
        for bit in &flips {
            bad[bit / 8] ^= 1 << (bit % 8);
        }
        fs::write(&file, &bad).unwrap();
        let before = contents(&fixture);
        match HostpathDriver::new(config(&fixture.root, &[])) {
            Err(error) => {
                assert!(error.to_string().contains("state.redb is corrupt"), "bits {flips:?}: {error}");
                assert_eq!(contents(&fixture), before, "something was touched; bits {flips:?}");
            }
            // The flipped bits may be in unused pages.
            Ok(driver) => {
                assert!(seed > 2);
                assert!(driver.ready().await, "bits {flips:?}");
                drop(driver);
                let kept = contents(&fixture).iter().any(|(_, bytes)| bytes == b"precious");
                assert!(kept, "data are gone; bits {flips:?}");
            }
        }
    }
}

#[tokio::test]
async fn state_of_a_newer_version_is_left_untouched() {
    let fixture = used_fixture().await;
    {
        let table = redb::TableDefinition::<&str, u64>::new("meta");
        let db = redb::Database::open(fixture.root.join("state/state.redb")).unwrap();
        let write = db.begin_write().unwrap();
        write.open_table(table).unwrap().insert("schema_version", 99).unwrap();
        write.commit().unwrap();
    }
    let before = contents(&fixture);
    assert!(refusal(&fixture).contains("99"));
    assert_eq!(contents(&fixture), before);
}

#[tokio::test]
async fn data_without_state_are_not_thrown_away() {
    let fixture = used_fixture().await;
    fs::remove_file(fixture.root.join("state/state.redb")).unwrap();
    let before = contents(&fixture);
    assert!(refusal(&fixture).contains("missing"));
    assert_eq!(contents(&fixture), before);
}

#[tokio::test]
async fn one_state_directory_has_one_driver() {
    let rig = Rig::new(&[]).await;
    assert!(refusal(&rig.fixture).contains("in use"));
    let mode = fs::metadata(rig.fixture.root.join("state")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn data_without_a_record_go_and_foreign_files_stay() {
    let rig = Rig::new(&[]).await;
    let volumes = rig.fixture.root.join("state/volumes");
    let orphan = volumes.join("vol-0123456789abcdef0123456789abcdef");
    fs::create_dir(&orphan).unwrap();
    fs::write(volumes.join("README"), b"mine").unwrap();
    let rig = rig.restart(&[]).await;
    assert!(!orphan.exists());
    assert!(rig.fixture.root.join("state/volumes/README").exists());
}

#[tokio::test]
async fn a_full_disk_is_survived() {
    needs_mounts!();
    let fixture = Fixture::new();
    let state = fixture.root.join("state");
    fs::create_dir(&state).unwrap();
    rustix::mount::mount("tmpfs", &state, "tmpfs", rustix::mount::MountFlags::empty(), c"size=16m").unwrap();
    let rig = Rig::on(fixture, &[]).await;
    let first = rig.create("first", MIB, mount("")).await;
    let filler = state.join("filler");
    fill(&filler);
    for number in 0..200 {
        match rig.try_create(create_request(&format!("v{number}"), 1, mount(""))).await {
            Ok(_) => {}
            Err(status) => assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}"),
        }
    }
    let mut listed = rig.driver.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap();
    let spare = listed.get_mut().entries.iter().filter_map(|entry| entry.volume.as_ref());
    let spare = spare.map(|volume| volume.volume_id.clone()).find(|id| *id != first.volume_id);
    if let Some(spare) = spare {
        rig.delete(&spare).await; // This frees the storage.
    }
    make_room(&filler);
    let second = rig.create("second", MIB, mount("")).await;
    assert_eq!(rig.create("first", MIB, mount("")).await, first);
    let rig = rig.restart(&[]).await;
    assert_eq!(rig.create("second", MIB, mount("")).await, second);
    let Rig { driver, fixture } = rig;
    drop(driver);
    unmount(fixture.root.join("state"));
}

#[tokio::test]
async fn volumes_are_known_again_in_a_new_container() {
    needs_mounts!();
    let fixture = Fixture::new();
    let (real, state) = (fixture.root.join("real"), fixture.root.join("state"));
    fs::create_dir(&real).unwrap();
    fs::create_dir(&state).unwrap();
    rustix::mount::mount_bind(&real, &state).unwrap();
    let rig = Rig::on(fixture, &["--backend=image"]).await;
    let image = rig.create("image", 16 * MIB, mount("")).await.volume_id;
    let raw = rig.create("raw", MIB, block()).await.volume_id;
    let (mounted, device) = (rig.bring(&image, mount("")).await, rig.bring(&raw, block()).await);
    write_synced(&mounted.join("file"), b"kept");
    write_synced(&device, b"kept");
    // The mount through which the images were opened is removed, as it is when the container of a driver ends.
    let Rig { driver, fixture } = rig;
    drop(driver);
    rustix::mount::unmount(&state, rustix::mount::UnmountFlags::DETACH).unwrap();
    rustix::mount::mount_bind(&real, &state).unwrap();
    let rig = Rig::on(fixture, &["--backend=image"]).await;
    assert_eq!(rig.fixture.loop_devices_by_name().len(), 2, "devices in use stay");
    rig.bring(&image, mount("")).await;
    rig.bring(&raw, block()).await;
    assert_eq!(rig.fixture.loop_devices_by_name().len(), 2, "and none is added");
    let snapshot = rig.snapshot("s", &image).await.snapshot_id;
    rig.delete_snapshot(&snapshot).await;
    assert_eq!(fs::read(mounted.join("file")).unwrap(), b"kept");
    for id in [&image, &raw] {
        rig.take(id).await;
        rig.delete(id).await;
    }
    assert!(unless_held(|| rig.fixture.loop_devices_by_name().is_empty().then_some(())).is_some());
    let Rig { driver, fixture: _ground } = rig;
    drop(driver);
    unmount(&state);
}

#[tokio::test]
async fn volume_lost_in_a_power_failure_is_created_again() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=directory"]).await;
    let untouched = rig.create("untouched", MIB, mount("")).await.volume_id;
    let staged = rig.create("staged", MIB, mount("")).await.volume_id;
    rig.bring(&staged, mount("")).await;
    rig.take(&staged).await;
    let path = |id: &str| rig.fixture.root.join("state/volumes").join(id);
    let (untouched_path, staged_path) = (path(&untouched), path(&staged));
    for path in [&untouched_path, &staged_path] {
        fs::remove_dir(path).unwrap();
    }
    let rig = rig.restart(&["--backend=directory"]).await;
    assert_eq!(fs::metadata(&untouched_path).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(!staged_path.exists(), "a volume that may have held data is not replaced by an empty one");
    rig.bring(&untouched, mount("")).await;
    rig.take(&untouched).await;
    rig.delete(&untouched).await;
    rig.delete(&staged).await;
}

/// Freezes or thaws a file system, and returns whether that changed anything.
fn fsfreeze(flag: &str, path: &std::path::Path) -> bool {
    std::process::Command::new("fsfreeze").arg(flag).arg(path).output().unwrap().status.success()
}

#[tokio::test]
async fn everything_frozen_is_thawed_at_the_start() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=image"]).await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        ids.push(rig.create(name, 16 * MIB, mount("")).await.volume_id);
    }
    ids.sort();
    let root = rig.fixture.root.clone();
    for (id, part) in ids.iter().zip(["one", "two"]) {
        let path = root.join(part).join("staging");
        fs::create_dir_all(&path).unwrap();
        rig.try_stage(id, path.to_str().unwrap(), mount("")).await.unwrap();
    }
    // The driver cannot access the first path, and still has to repair the second.
    fs::rename(root.join("one"), root.join("moved")).unwrap();
    std::os::unix::fs::symlink(root.join("moved"), root.join("one")).unwrap();
    std::os::unix::fs::lchown(root.join("one"), Some(65_534), None).unwrap();
    assert!(fsfreeze("-f", &root.join("two/staging")));
    let rig = rig.restart(&["--backend=image"]).await;
    assert!(!fsfreeze("-u", &root.join("two/staging")), "it was still frozen");
    fs::remove_file(root.join("one")).unwrap();
    fs::rename(root.join("moved"), root.join("one")).unwrap();
    for (id, part) in ids.iter().zip(["one", "two"]) {
        let staging_target_path = root.join(part).join("staging").to_str().unwrap().to_owned();
        let request = NodeUnstageVolumeRequest { volume_id: id.clone(), staging_target_path };
        node_server::Node::node_unstage_volume(&rig.driver, Request::new(request)).await.unwrap();
    }
    // A file system that is only mounted at a target is thawed there.
    let target = rig.bring(&ids[0], mount("")).await;
    unmount(rig.staging(&ids[0]));
    assert!(fsfreeze("-f", &target));
    let rig = rig.restart(&["--backend=image"]).await;
    assert!(!fsfreeze("-u", &target), "it was still frozen");
    rig.take(&ids[0]).await;
}

#[tokio::test]
async fn a_commit_that_fails_does_not_close_the_state() {
    needs_mounts!();
    let flags = ["--enable-controller-modify-volume", "--accepted-mutable-parameter-names=*"];
    let fixture = Fixture::new();
    let state = fixture.root.join("state");
    fs::create_dir(&state).unwrap();
    rustix::mount::mount("tmpfs", &state, "tmpfs", rustix::mount::MountFlags::empty(), c"size=16m").unwrap();
    let rig = Rig::on(fixture, &flags).await;
    let mut ids = Vec::new();
    for number in 0..100 {
        ids.push(rig.create(&format!("v{number}"), 1, mount("")).await.volume_id);
    }
    for id in &ids[..20] {
        rig.stage(id, mount("")).await;
    }
    let filler = state.join("filler");
    fill(&filler);
    let mut full = 0;
    for (number, id) in ids.iter().enumerate() {
        let request = ControllerModifyVolumeRequest {
            volume_id: id.clone(),
            mutable_parameters: map(&[("key", &"x".repeat(4000))]),
            ..ControllerModifyVolumeRequest::default()
        };
        if let Err(status) = rig.driver.controller_modify_volume(Request::new(request)).await {
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{number}: {status:?}");
            full += 1;
        }
        if number < 20 {
            continue;
        }
        if let Err(status) = rig.try_unstage(&ids[number % 20]).await {
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{number}: {status:?}");
        }
    }
    assert!(full > 0, "the state found room");
    make_room(&filler);
    for id in &ids {
        rig.try_unstage(id).await.unwrap();
        rig.delete(id).await;
    }
    rig.removed().await;
    let Rig { driver, fixture } = rig;
    drop(driver);
    unmount(fixture.root.join("state"));
}
