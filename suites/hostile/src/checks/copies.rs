//! Checks copies of volumes with hostile contents.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use csi_harness::prelude::*;

use crate::canary::Canary;
use crate::rules::HOSTILE_COPY_001;
use crate::scene::published;

/// The name of the link in the volume.
const LINK: &str = "csi-sanity-link";

check! {
    /// A workload can put links into its volume. A driver that copies files as root and follows links copies files of
    /// its host; one that unpacks an archive through them writes to its host.
    LINKS {
        id: "hostile/copies/links",
        title: "links in a volume are not followed when it is copied or restored",
        spec: [HOSTILE_COPY_001],
        needs: [NODE, CREATE_DELETE_VOLUME, any_of(&[Capability::CreateDeleteSnapshot, Capability::CloneVolume]), MOUNT_ACCESS],
        refuted_by: ["copies-follow-links"],
        runs: CrashProne,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let volume = cx.node_volume().await?;
        let first = published(cx, volume).await?;
        let link = Path::new(&first.target_path).join(LINK);
        if symlink(canary.file(), &link).is_err() {
            return Err(Stop::skip("the tests cannot write into the volume"));
        }
        let ended = copied(cx, &canary, &first).await;
        // A driver without a mount there need not remove the contents of the directory.
        let _ = fs::remove_file(&link);
        ended
    }
}

async fn copied(cx: &Cx, canary: &Canary, first: &Published) -> CheckResult {
    let id = first.staged.attached.volume.id.clone();
    let source = if cx.target().capabilities().has(Capability::CreateDeleteSnapshot) {
        let request = cx.create_snapshot_request(&id);
        let snapshot = cx.create_snapshot(request).await.or_skip("a volume in use may have no snapshots")?;
        v1::VolumeContentSource::snapshot(snapshot.snapshot_id)
    } else {
        v1::VolumeContentSource::volume(id)
    };
    let request = cx.create_node_volume_request().await?.copy_of(source, 0);
    let copy = cx.create_volume(request).await.or_skip("a volume in use may have no copies")?;
    let second = published(cx, copy.into()).await?;
    let link = Path::new(&second.target_path).join(LINK);
    let followed = fs::symlink_metadata(&link).is_ok_and(|found| found.is_file())
        && fs::read(&link).ok() == fs::read(canary.file()).ok();
    if !cx.is_mount_point(&second.target_path) {
        let _ = fs::remove_file(&link);
    }
    ensure!(
        !followed,
        "the copy of a volume holds a file of the driver's host";
        expected: "a symbolic link that is copied as one",
        actual: format!("{} has become a copy of {}", link.display(), canary.file().display()),
    );
    let changed = canary.changed();
    ensure!(
        changed.is_none(),
        "copying a volume changes files of the driver's host";
        expected: "the targets of links in a volume are unchanged",
        actual: changed.unwrap_or_default(),
    );
    Ok(())
}

pub(crate) static CHECKS: &[&Check] = &[&LINKS];
