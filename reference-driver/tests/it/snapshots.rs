//! Snapshots, restores and clones.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use tonic::Code;

use crate::support::*;

#[tokio::test]
async fn a_snapshot_keeps_its_data_and_outlives_its_volume() {
    needs_mounts!();
    for (backend, fs_type) in
        [("--backend=directory", ""), ("--backend=image", "ext4"), ("--backend=image", "btrfs")]
    {
        let rig = Rig::new(&[backend]).await;
        let volume = rig.create("v", 160 * MIB, mount(fs_type)).await;
        let target = rig.bring(&volume.volume_id, mount(fs_type)).await;
        write_synced(&target.join("file"), b"before");
        let snapshot = rig.snapshot("s", &volume.volume_id).await;
        assert!(snapshot.ready_to_use && snapshot.size_bytes == volume.capacity_bytes);
        write_synced(&target.join("file"), b"later!");
        assert_eq!(
            rig.snapshot("s", &volume.volume_id).await,
            snapshot,
            "the same name is the same snapshot"
        );
        let copy = rig.copy("c", 160 * MIB, mount(fs_type), Source::snapshot(&snapshot.snapshot_id)).await;
        let copied = rig.bring(&copy.volume_id, mount(fs_type)).await;
        assert_eq!(
            fs::read(copied.join("file")).unwrap(),
            b"before",
            "{backend} {fs_type}, beside its original"
        );
        assert_eq!(fs::read(target.join("file")).unwrap(), b"later!");
        rig.take(&copy.volume_id).await;
        rig.take(&volume.volume_id).await;
        rig.delete(&volume.volume_id).await;
        let again = rig.copy("d", 160 * MIB, mount(fs_type), Source::snapshot(&snapshot.snapshot_id)).await;
        let restored = rig.bring(&again.volume_id, mount(fs_type)).await;
        assert_eq!(fs::read(restored.join("file")).unwrap(), b"before", "{backend} {fs_type}");
        rig.take(&again.volume_id).await;
        for id in [&copy.volume_id, &again.volume_id] {
            rig.delete(id).await;
        }
        rig.delete_snapshot(&snapshot.snapshot_id).await;
        rig.removed().await;
    }
}

#[tokio::test]
async fn larger_copies_have_a_larger_file_system() {
    needs_mounts!();
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let rig = Rig::new(&["--backend=image"]).await;
        let volume = rig.create("v", 320 * MIB, mount(fs_type)).await;
        let target = rig.bring(&volume.volume_id, mount(fs_type)).await;
        write_synced(&target.join("file"), b"data");
        let before = file_system_bytes(&target);
        let clone = rig.copy("c", 640 * MIB, mount(fs_type), Source::volume(&volume.volume_id)).await;
        assert_eq!(clone.capacity_bytes, 640 * MIB);
        let cloned = rig.bring(&clone.volume_id, mount(fs_type)).await;
        assert_eq!(fs::read(cloned.join("file")).unwrap(), b"data");
        let after = file_system_bytes(&cloned);
        assert!(after > before + 250 * MIB, "{fs_type}: {before} bytes have grown to {after} only");
        rig.take(&clone.volume_id).await;
        rig.take(&volume.volume_id).await;
        rig.delete(&clone.volume_id).await;
        rig.delete(&volume.volume_id).await;
    }
}

#[tokio::test]
async fn sources_that_do_not_fit_are_refused() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", 2 * MIB, block()).await;
    let snapshot = rig.snapshot("s", &volume.volume_id).await;
    let mut small = create_request("c", MIB, block());
    small.capacity_range.as_mut().unwrap().limit_bytes = MIB;
    let source = Some(Source::snapshot(&snapshot.snapshot_id));
    small.volume_content_source = source.clone();
    assert_eq!(rig.try_create(small).await.unwrap_err().code(), Code::OutOfRange);
    let mut directory = create_request("c", 2 * MIB, mount(""));
    directory.parameters = map(&[("backend", "directory")]);
    directory.volume_content_source = source;
    assert_eq!(rig.try_create(directory).await.unwrap_err().code(), Code::InvalidArgument);
    let default = rig.copy("c", 1, block(), Source::snapshot(&snapshot.snapshot_id)).await;
    assert_eq!(default.capacity_bytes, 2 * MIB, "never smaller than the source");
    let mut request = create_request("m", MIB, block());
    request.volume_content_source = Some(Source::snapshot("snap-00000000000000000000000000000000"));
    assert_eq!(rig.try_create(request).await.unwrap_err().code(), Code::NotFound);
    rig.delete(&default.volume_id).await;
    rig.delete(&volume.volume_id).await;
    rig.delete_snapshot(&snapshot.snapshot_id).await;
}

#[tokio::test]
async fn copies_of_directories_are_faithful() {
    needs_mounts!();
    let rig = Rig::new(&["--backend=directory"]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    let source = rig.fixture.root.join("state/volumes").join(&volume.volume_id);
    fs::create_dir(source.join("sub")).unwrap();
    fs::write(source.join("sub/.hidden"), b"hidden").unwrap();
    fs::set_permissions(source.join("sub/.hidden"), fs::Permissions::from_mode(0o4751)).unwrap();
    std::os::unix::fs::chown(source.join("sub"), Some(1234), Some(4321)).unwrap();
    symlink("/etc/passwd", source.join("link")).unwrap();
    fs::hard_link(source.join("sub/.hidden"), source.join("hard")).unwrap();
    let sparse = fs::File::create(source.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    let clone = rig.copy("c", MIB, mount(""), Source::volume(&volume.volume_id)).await;
    let copy = rig.fixture.root.join("state/volumes").join(&clone.volume_id);
    let hidden = fs::metadata(copy.join("sub/.hidden")).unwrap();
    assert_eq!(fs::read(copy.join("sub/.hidden")).unwrap(), b"hidden");
    assert_eq!(hidden.permissions().mode() & 0o7777, 0o4751);
    assert_eq!(hidden.ino(), fs::metadata(copy.join("hard")).unwrap().ino());
    assert_eq!(fs::metadata(copy.join("sub")).unwrap().uid(), 1234);
    assert_eq!(
        fs::metadata(copy.join("sub")).unwrap().mtime_nsec(),
        fs::metadata(source.join("sub")).unwrap().mtime_nsec()
    );
    assert_eq!(fs::read_link(copy.join("link")).unwrap().to_str(), Some("/etc/passwd"));
    let sparse = fs::metadata(copy.join("sparse")).unwrap();
    assert!(sparse.len() == 64 << 20 && sparse.blocks() == 0);
    rig.delete(&clone.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn hard_links_are_kept_wherever_they_are() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let rig = Rig::new(&["--backend=directory"]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    let data = rig.fixture.root.join("state/volumes").join(&volume);
    let odd = std::path::Path::new(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(data.join(odd)).unwrap();
    fs::write(data.join(odd).join("one"), b"linked").unwrap();
    fs::hard_link(data.join(odd).join("one"), data.join(odd).join("two")).unwrap();
    // The directories are deeper than a single path can reach.
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let mut here = openat(CWD, &data, OFlags::PATH, Mode::empty()).unwrap();
    let long = "d".repeat(250);
    for _ in 0..20 {
        mkdirat(&here, &long, Mode::RWXU).unwrap();
        here = openat(&here, &long, OFlags::PATH, Mode::empty()).unwrap();
    }
    openat(&here, "one", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    rustix::fs::linkat(&here, "one", &here, "two", rustix::fs::AtFlags::empty()).unwrap();
    drop(here);
    let snapshot = rig.snapshot("s", &volume).await.snapshot_id;
    let copy = rig.fixture.root.join("state/snapshots").join(&snapshot).join(odd);
    for name in ["one", "two"] {
        assert_eq!(fs::read(copy.join(name)).unwrap(), b"linked", "{name}");
        assert_eq!(fs::metadata(copy.join(name)).unwrap().nlink(), 2);
    }
    rig.delete_snapshot(&snapshot).await;
    rig.delete(&volume).await;
    rig.removed().await;
}
