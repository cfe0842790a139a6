use std::time::{Duration, Instant};

use csi_driver_definitions::Capability;

use crate::cluster::VolumeMode;
use crate::pattern;
use crate::scene::{LOAD, all};
use crate::test;
use crate::test::Suite;

pub(crate) static SUITE: Suite = Suite {
    name: "pvc-deletion-performance",
    tags: &[],
    context: "",
    patterns: &[&pattern::BLOCK],
    size_min_bytes: 0,
    data_bytes: 0,
    needs: &[LOAD],
    tests: &[&DELETES],
};

/// Time for all claims to be bound.
const BOUND_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Time for all volumes to be gone.
const GONE_LIMIT: Duration = Duration::from_secs(100 * 60);

test! {
    /// Many volumes are deleted at the same time, and all are gone in the end. A definition has no limit for how fast: the
    /// speed is told only.
    ///
    /// Upstream has volumes with a file system in spite of the pattern, and pods without volumes. Here the volumes are
    /// block volumes where the driver has these, and there are no pods.
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
