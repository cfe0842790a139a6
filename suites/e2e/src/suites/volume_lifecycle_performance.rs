use std::time::Duration;

use csi_harness::prelude::Stop;

use crate::cluster::VolumeMode;
use crate::pattern;
use crate::scene::LOAD;
use crate::test;
use crate::test::Suite;

pub(crate) static SUITE: Suite = Suite {
    name: "volume-lifecycle-performance",
    patterns: &[&pattern::FS_MODE],
    needs: &[LOAD],
    tests: &[&PROVISIONS],
    ..Suite::PLAIN
};

/// Limits the binding of all claims.
const BOUND_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Limits the deletion of one volume.
const GONE_LIMIT: Duration = Duration::from_secs(5 * 60);

test! {
    /// Many volumes are made concurrently, with the average time and the rate of the definition; then they are
    /// deleted one after the other.
    PROVISIONS {
        name: "should provision volumes at scale within performance constraints",
        tags: ["Slow", "Serial"],
    }
    async |scene| {
        let limits = scene.load_options()?.expected_metrics.as_ref();
        let limits = limits.ok_or_else(|| {
            Stop::broken("PerformanceTestOptions.ProvisioningOptions has no ExpectedMetrics to compare with")
        })?;
        let loaded = scene.load(VolumeMode::Filesystem, BOUND_LIMIT).await?;
        let latencies = || loaded.iter().map(|one| one.latency.as_secs_f64());
        let count = loaded.len() as f64;
        let average_s = latencies().sum::<f64>() / count;
        let throughput = count / latencies().fold(f64::MIN_POSITIVE, f64::max);
        scene.note(format!("a volume is created in {average_s:.3} s on average, {throughput:.1} volumes a second"));

        let limit_s = Duration::from_nanos(limits.average_latency_ns).as_secs_f64();
        csi_harness::ensure!(
            average_s <= limit_s,
            "volumes are created more slowly than ExpectedMetrics.AvgLatency";
            expected: format!("at most {limit_s:.3} s on average"),
            actual: format!("{average_s:.3} s"),
        );
        csi_harness::ensure!(
            throughput >= limits.throughput,
            "fewer volumes are created than ExpectedMetrics.Throughput";
            expected: format!("{} volumes a second", limits.throughput),
            actual: format!("{throughput:.3}"),
        );
        for one in &loaded {
            scene.delete_pvc(&one.claim, GONE_LIMIT).await?;
        }
        Ok(())
    }
}
