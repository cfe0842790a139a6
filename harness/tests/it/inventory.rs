//! The harness finds objects and mounts after a run that were not there before.

use std::path::PathBuf;
use std::sync::OnceLock;

use csi_harness::config::Config;
use csi_harness::prelude::*;
use csi_harness::results::outcome::Leak;
use csi_mock_driver::{Capability, Defect};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;

use crate::bench::{Bench, config};

check! {
    /// Makes a volume and a snapshot, both to be deleted by the harness.
    MAKES {
        id: "inventory/makes",
        title: "makes a volume and a snapshot",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        cx.new_snapshot(&volume.volume_id).await?;
        Ok(())
    }
}

check! {
    /// Plays somebody else, who makes a volume meanwhile: a request that the harness knows nothing of.
    SOMEBODY_ELSE {
        id: "inventory/somebody-else",
        title: "makes a volume under a name of another run",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: "theirs".to_owned(), ..cx.create_volume_request() };
        let request = v1::CreateVolumeRequest { parameters: Default::default(), ..request };
        let channel = csi_proto::dial(cx.target().endpoint(), std::time::Duration::from_secs(60)).await;
        let channel = channel.map_err(|error| Stop::broken(error.to_string()))?;
        let made = v1::controller_client::ControllerClient::new(channel).create_volume(request).await;
        made.map_err(|status| Stop::broken(status.to_string()))?;
        Ok(())
    }
}

/// Runs the checks, and returns the leaks that were found afterwards.
async fn leaks(mock: csi_mock_driver::Config, config: Config, checks: &[&'static Check]) -> Vec<Leak> {
    Bench::start(mock, config).await.run(checks).await.summary.leaks
}

fn with(defect: Defect) -> csi_mock_driver::Config {
    csi_mock_driver::Config { defects: vec![defect], ..Default::default() }
}

fn kinds(leaks: &[Leak]) -> Vec<(&str, bool)> {
    leaks.iter().map(|leak| (leak.kind.as_str(), leak.ours)).collect()
}

#[tokio::test]
async fn nothing_is_found_where_nothing_stays() {
    assert_eq!(leaks(Default::default(), config(), &[&MAKES]).await, []);
}

#[tokio::test]
async fn what_the_driver_does_not_delete_is_found() {
    let found = leaks(with(Defect::DeleteVolumeKeepsVolume), config(), &[&MAKES]).await;
    assert_eq!(kinds(&found), [("volume", true)]);
    let found = leaks(with(Defect::DeleteSnapshotKeepsSnapshot), config(), &[&MAKES]).await;
    assert_eq!(kinds(&found), [("snapshot", true)]);
}

#[tokio::test]
async fn what_others_make_is_theirs() {
    let found = leaks(Default::default(), config(), &[&SOMEBODY_ELSE]).await;
    assert_eq!(kinds(&found), [("volume", false)]);
}

check! {
    /// Sends a request that is refused.
    IS_REFUSED {
        id: "inventory/is-refused",
        title: "a volume without a name is rejected",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: Serial,
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: String::new(), ..cx.create_volume_request() };
        cx.create_volume(request).await.any_answer()?.err().ok_or_else(|| Stop::broken("it was not rejected"))?;
        Ok(())
    }
}

#[tokio::test]
async fn leftovers_of_rejected_calls_are_found_alone() {
    let mock = || with(Defect::CreateVolumeLeaksOnError);
    let found = leaks(mock(), config(), &[&IS_REFUSED]).await;
    assert_eq!(kinds(&found), [("volume", false)]);
    let found = leaks(mock(), Config { exclusive: true, ..config() }, &[&IS_REFUSED]).await;
    assert_eq!(kinds(&found), [("volume", true)]);
    assert_eq!(found[0].check.as_deref(), Some("inventory/is-refused"));
}

check! {
    /// The same, beside other checks.
    IS_REFUSED_BESIDE_OTHERS {
        id: "inventory/is-refused-beside-others",
        title: "a volume without a name is refused",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: String::new(), ..cx.create_volume_request() };
        cx.create_volume(request).await.any_answer()?.err().ok_or_else(|| Stop::broken("it was not refused"))?;
        Ok(())
    }
}

check! {
    /// Runs alone, and leaves nothing.
    IS_CLEAN {
        id: "inventory/is-clean",
        title: "a volume can be made",
        spec: [req::GEN_ERR_001],
        refuted_by: ["none"],
        runs: Serial,
    }
    async |cx| {
        cx.new_volume().await?;
        Ok(())
    }
}

#[tokio::test]
async fn leftovers_of_parallel_checks_blame_no_later_check() {
    let config = Config { exclusive: true, ..config() };
    let found =
        leaks(with(Defect::CreateVolumeLeaksOnError), config, &[&IS_REFUSED_BESIDE_OTHERS, &IS_CLEAN]).await;
    assert_eq!(kinds(&found), [("volume", true)]);
    assert_eq!(found[0].check, None);
}

#[tokio::test]
async fn lists_that_are_not_offered_are_not_asked_for() {
    let mock = csi_mock_driver::Config {
        without: vec![
            Capability::Controller(ControllerType::ListVolumes),
            Capability::Controller(ControllerType::ListSnapshots),
        ],
        ..with(Defect::DeleteVolumeKeepsVolume)
    };
    assert_eq!(leaks(mock, config(), &[&MAKES]).await, []);
}

/// The check below puts its mount at this path.
static MOUNTED: OnceLock<PathBuf> = OnceLock::new();

check! {
    /// Plays a driver that mounts a volume and forgets it.
    FORGETS_A_MOUNT {
        id: "inventory/forgets-a-mount",
        title: "a mount stays at the target path",
        spec: [req::GEN_ERR_001],
        needs: [ROOT],
        refuted_by: ["none"],
    }
    async |cx| {
        let path = PathBuf::from(cx.target_path().await?);
        let mounted = std::fs::create_dir(&path).and_then(|()| Ok(mount(&path)?));
        mounted.map_err(|error| Stop::broken(error.to_string()))?;
        MOUNTED.set(path).map_err(|_| Stop::broken("it runs once"))?;
        Ok(())
    }
}

fn mount(path: &std::path::Path) -> rustix::io::Result<()> {
    rustix::mount::mount("tmpfs", path, "tmpfs", rustix::mount::MountFlags::empty(), None::<&std::ffi::CStr>)
}

#[tokio::test]
async fn as_root_a_mount_that_stays_is_undone_and_reported() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can mount");
    }
    let directory = tempfile::tempdir().expect("a directory");
    // The table of mounts writes a space in another way.
    let config = Config { mount_dir: Some(directory.path().join("two words")), ..config() };
    let ran = Bench::start(Default::default(), config).await.run(&[&FORGETS_A_MOUNT]).await;
    let path = MOUNTED.get().expect("something was mounted").display();
    let id = &*FORGETS_A_MOUNT.id;
    let remark = format!("unmounted \"{path}\", which the driver had left mounted after {id}");
    assert!(ran.remarks.contains(&remark), "{:?}", ran.remarks);
    assert_eq!(ran.summary.leaks, []);
    assert_eq!(ran.summary.left_behind, [], "the directory is gone with its mount");
}
