//! The tests make directory volumes on file systems with project quotas, which limit their sizes.

use std::path::Path;
use std::process::Command;

use csi_proto::v1::volume_usage::Unit;

use crate::support::*;

/// Creates and mounts a file system with project quotas; fails if the kernel does not support them.
fn mount_disk(fs_type: &str, image: &Path, mount_point: &Path) -> Result<(), String> {
    std::fs::File::create_new(image).unwrap().set_len(512 * MIB as u64).unwrap();
    std::fs::create_dir(mount_point).unwrap();
    let features: &[&str] = if fs_type == "ext4" { &["-O", "quota,project"] } else { &[] };
    run(Command::new(format!("mkfs.{fs_type}")).arg("-q").args(features).arg(image)).unwrap();
    run(Command::new("mount").args(["-o", "loop,prjquota"]).arg(image).arg(mount_point))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Writes to a file in a process without CAP_SYS_RESOURCE, which would exempt it from quotas.
fn fill(file: &Path, mib: i64) -> Result<(), String> {
    let mut dd = Command::new("setpriv");
    dd.args(["--bounding-set", "-sys_resource", "dd", "if=/dev/zero", "bs=1M", "conv=fsync"]);
    run(dd.arg(format!("count={mib}")).arg(format!("of={}", file.display())))
}

fn is_over_quota(result: &Result<(), String>) -> bool {
    let texts = ["Disk quota exceeded", "No space left on device"];
    result.as_ref().is_err_and(|error| texts.iter().any(|text| error.contains(text)))
}

#[tokio::test]
async fn directories_are_limited_to_their_sizes() {
    needs_mounts!();
    for fs_type in ["ext4", "xfs"] {
        let fixture = Fixture::new();
        let state = fixture.root.join("state");
        if let Err(error) = mount_disk(fs_type, &fixture.root.join("image"), &state) {
            println!("skipped {fs_type}: this kernel does not mount it with project quotas: {error}");
            continue;
        }
        let Rig { driver, fixture } = limits_hold(Rig::on(fixture, &[]).await, fs_type).await;
        drop(driver);
        unmount(&state);
        drop(fixture);
    }
}

async fn limits_hold(rig: Rig, fs_type: &str) -> Rig {
    let volume = rig.create("v", 16 * MIB, mount("")).await;
    let other = rig.create("w", 16 * MIB, mount("")).await;
    let (id, other_id) = (volume.volume_id.as_str(), other.volume_id.as_str());
    let (target, other_target) = (rig.bring(id, mount("")).await, rig.bring(other_id, mount("")).await);
    fill(&target.join("fits"), 12).unwrap();
    let over = fill(&target.join("too-much"), 8);
    assert!(is_over_quota(&over), "{fs_type}: {over:?}");
    fill(&other_target.join("fits"), 12).expect("the other volume has its own limit");
    std::fs::remove_file(target.join("too-much")).unwrap();

    let stats = rig.stats(id, target.to_str().unwrap()).await.unwrap();
    let bytes = stats.usage.iter().find(|usage| usage.unit() == Unit::Bytes).unwrap();
    assert_eq!(bytes.total, 16 * MIB, "{fs_type}: usage is that of the volume, not of the host");

    rig.expand(id, 32 * MIB).await;
    fill(&target.join("more"), 12).expect("an expanded volume takes more");
    let rig = rig.restart(&[]).await;
    let over = fill(&target.join("too-much"), 12);
    assert!(is_over_quota(&over), "{fs_type}: the limit holds after a restart: {over:?}");
    std::fs::remove_file(target.join("too-much")).unwrap();

    let snapshot = rig.snapshot("s", id).await;
    let restored = rig.copy("r", 36 * MIB, mount(""), Source::snapshot(&snapshot.snapshot_id)).await;
    let restored_target = rig.bring(&restored.volume_id, mount("")).await;
    assert_eq!(std::fs::metadata(restored_target.join("more")).unwrap().len(), 12 << 20);
    fill(&restored_target.join("little"), 8).expect("24 of 36 MiB are used");
    let over = fill(&restored_target.join("too-much"), 8);
    assert!(is_over_quota(&over), "{fs_type}: the copy has a limit of its own: {over:?}");

    for id in [id, other_id, &restored.volume_id] {
        rig.take(id).await;
        rig.delete(id).await;
    }
    rig.delete_snapshot(&snapshot.snapshot_id).await;
    rig.removed().await;
    rig
}
