use std::time::{Duration, Instant};

use csi_driver_definitions::Capability;

use crate::cluster::VolumeMode;
use crate::pattern;
use crate::scene::{LOAD, all};
use crate::test;
use crate::test::Suite;

pub(crate) static SUITE: Suite = Suite {
    name: "pvc-deletion-performance",
    patterns: &[&pattern::BLOCK],
    needs: &[LOAD],
    tests: &[&DELETES],
    ..Suite::PLAIN
};

/// Limits the binding of all claims.
const BOUND_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Limits the deletion of all volumes.
const GONE_LIMIT: Duration = Duration::from_secs(100 * 60);

test! {
    /// Many volumes are deleted concurrently, and all are gone in the end. A definition has no limit for the speed,
    /// which is only reported.
    ///
    /// Upstream uses volumes with a file system despite the pattern, and pods without volumes. Here they are block
    /// volumes if the driver has these, and there are no pods.
    DELETES {
        name: "should delete volumes at scale within performance constraints",
        tags: ["Slow", "Serial"],
    }
    async |scene| {
        let mode = match scene.driver().can(Capability::Block) {
            true => VolumeMode::Block,
            false => VolumeMode::Filesystem,
        };
        let loaded = scene.load(mode, BOUND_LIMIT).await?;
        let since = Instant::now();
        all(loaded.iter().map(|one| scene.delete_pvc(&one.claim, GONE_LIMIT))).await?;
        let took_s = since.elapsed().as_secs_f64();
        scene.note(format!("{} volumes are deleted in {took_s:.3} s", loaded.len()));
        Ok(())
    }
}
