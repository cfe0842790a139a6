//! The tests make requests that try to lead the driver out of the paths that it is allowed to use.

use std::fs;
use std::os::unix::fs::{lchown, symlink};

use csi_proto::v1::node_server::Node;
use csi_proto::v1::*;
use tonic::{Code, Request};

use crate::support::*;

const NOBODY: u32 = 65_534;
const ODD_IDS: [&str; 7] =
    ["../../x", "..", "/etc/passwd", "vol-../../../../../../../../../../../etc", "a\0b", "\u{202e}", "vol-"];

#[tokio::test]
async fn odd_identifiers_are_unknown_and_touch_nothing() {
    let rig = Rig::new(&[]).await;
    let bystander = rig.fixture.root.join("x");
    fs::write(&bystander, b"precious").unwrap();
    for id in ODD_IDS {
        rig.delete(id).await;
        rig.delete_snapshot(id).await;
        rig.try_unpublish(id, &rig.target("t")).await.unwrap();
        let path = rig.fixture.root.to_str().unwrap();
        assert_eq!(rig.try_stage(id, path, mount("")).await.unwrap_err().code(), Code::NotFound, "{id:?}");
        assert_eq!(rig.stats(id, path).await.unwrap_err().code(), Code::NotFound, "{id:?}");
    }
    assert_eq!(fs::read(&bystander).unwrap(), b"precious");
}

#[tokio::test]
async fn odd_names_are_only_names() {
    let rig = Rig::new(&[]).await;
    let long = "ü".repeat(64);
    for name in ["../../x", "/etc/passwd", "a/b", "  ", "\u{202e}", long.as_str()] {
        let volume = rig.create(name, MIB, mount("")).await;
        assert_eq!(rig.create(name, MIB, mount("")).await, volume);
        rig.delete(&volume.volume_id).await;
    }
    for name in ["", "a\0b", &"x".repeat(129)] {
        let refused = rig.try_create(create_request(name, MIB, mount(""))).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{name:?}");
    }
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    let id = volume.volume_id.as_str();
    rig.stage(id, mount("")).await;
    let root = rig.fixture.root.to_str().unwrap().to_owned();
    let victim = format!("{root}/victim");
    fs::create_dir(&victim).unwrap();
    symlink(&victim, format!("{root}/link")).unwrap();
    lchown(format!("{root}/link"), Some(NOBODY), Some(NOBODY)).unwrap();
    let through_link = rig.try_publish(id, &format!("{root}/link/t"), mount(""), false).await.unwrap_err();
    assert_eq!(through_link.code(), Code::InvalidArgument, "{through_link:?}");
    let malformed = [
        format!("{root}/targets/../victim/t"),
        "relative/t".to_owned(),
        "/".to_owned(),
        format!("{root}/{}", "x".repeat(300)),
    ];
    for target in &malformed {
        let refused = rig.try_publish(id, target, mount(""), false).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{target}: {refused:?}");
        let refused = rig.try_unpublish(id, target).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{target}");
    }
    // A target that is itself a link is neither followed nor removed.
    let onto = format!("{root}/link");
    assert!(rig.try_publish(id, &onto, mount(""), false).await.is_err());
    assert!(fs::symlink_metadata(&onto).unwrap().is_symlink());
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    let missing_parent = format!("{root}/no/such/t");
    let refused = rig.try_publish(id, &missing_parent, mount(""), false).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(!fs::exists(format!("{root}/no")).unwrap(), "parents are for the CO to make");
    rig.take(id).await;
    rig.delete(id).await;
}

#[tokio::test]
async fn a_target_swapped_for_a_link_is_not_followed() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    let target = rig.bring(&volume.volume_id, mount("")).await;
    let victim = rig.fixture.root.join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), b"precious").unwrap();
    unmount(&target);
    fs::remove_dir(&target).unwrap();
    symlink(&victim, &target).unwrap();
    rig.take(&volume.volume_id).await;
    assert_eq!(fs::read(victim.join("file")).unwrap(), b"precious");
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn foreign_mounts_are_left_alone() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await;
    let target = rig.bring(&volume.volume_id, mount("")).await;
    let other = rig.fixture.root.join("other");
    fs::create_dir(&other).unwrap();
    // A shared mount would show the foreign one at the volume itself, too.
    rustix::mount::mount_change(&target, rustix::mount::MountPropagationFlags::PRIVATE).unwrap();
    rustix::mount::mount_bind(&other, &target).unwrap();
    let refused = rig.try_unpublish(&volume.volume_id, target.to_str().unwrap()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    unmount(&target);
    rig.take(&volume.volume_id).await;
    rig.delete(&volume.volume_id).await;
}

#[tokio::test]
async fn secrets_and_odd_fields_are_neither_shown_nor_fatal() {
    let rig = Rig::new(&[]).await;
    let secret = "correct-horse-battery-staple";
    let mut request = create_request("v", -1, mount("no such\0type"));
    request.secrets = map(&[("password", secret)]);
    let refused = rig.try_create(request).await.unwrap_err();
    assert!(!format!("{refused:?}").contains(secret));
    let mut large = create_request("w", MIB, mount(""));
    large.parameters.insert("key".to_owned(), "x".repeat(5000));
    assert_eq!(rig.try_create(large).await.unwrap_err().code(), Code::InvalidArgument);
    let empty = rig.driver.node_publish_volume(Request::new(NodePublishVolumeRequest::default())).await;
    assert_eq!(empty.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn target_replaced_while_mounting_is_not_followed() {
    needs_mounts!();
    use std::sync::atomic::{AtomicBool, Ordering};
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    rig.stage(&volume, mount("")).await;
    let (victim, target, link) =
        (rig.fixture.root.join("victim"), rig.target(&volume), rig.fixture.root.join("targets/link"));
    fs::create_dir(&victim).unwrap();
    fs::create_dir(&target).unwrap();
    symlink(&victim, &link).unwrap();
    let stop = AtomicBool::new(false);
    let swap = || {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let _ = renameat_with(CWD, &target, CWD, &link, RenameFlags::EXCHANGE);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap();
            }
        });
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            for _ in 0..600 {
                let _ = runtime.block_on(rig.try_publish(&volume, &target, mount(""), false));
                let astray = rig.fixture.mount_points().contains(&victim);
                let _ = runtime.block_on(rig.try_unpublish(&volume, &target));
                // The mount may move along with the renamed directory. That is allowed, because the driver was not
                // redirected.
                let _ = rustix::mount::unmount(&link, rustix::mount::UnmountFlags::NOFOLLOW);
                if astray {
                    stop.store(true, Ordering::Relaxed);
                    panic!("mounted where the link leads");
                }
            }
        });
        stop.store(true, Ordering::Relaxed);
    });
    if fs::symlink_metadata(&target).unwrap().is_symlink() {
        swap();
    }
    rig.take(&volume).await;
    rig.delete(&volume).await;
}

#[tokio::test]
async fn the_state_directory_is_no_place_for_volumes() {
    needs_mounts!();
    let rig = Rig::new(&[]).await;
    let volume = rig.create("v", MIB, mount("")).await.volume_id;
    let other = rig.create("w", MIB, mount("")).await.volume_id;
    let raw = rig.create("raw", MIB, block()).await.volume_id;
    let state = rig.fixture.root.join("state");
    let data = state.join("volumes").join(&other);
    rig.stage(&volume, mount("")).await;
    rig.stage(&raw, block()).await;
    let refusals = [
        rig.try_stage(&volume, data.to_str().unwrap(), mount("")).await,
        rig.try_publish(&volume, data.to_str().unwrap(), mount(""), false).await,
        rig.try_publish(&raw, state.join("state.redb").to_str().unwrap(), block(), false).await,
    ];
    assert_eq!(codes(&refusals), [Code::InvalidArgument; 3]);
    for id in [&volume, &raw] {
        rig.try_unstage(id).await.unwrap();
    }
}
