use csi_harness::prelude::Stop;

use crate::pattern;
use crate::scene::{all, path_of, positive};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volume-stress",
    patterns: &[&pattern::DEFAULT_FS, &pattern::BLOCK],
    needs: &[
        Need::Says(
            |definition| definition.driver_info.stress_test_options.is_some(),
            "the definition has no StressTestOptions",
        ),
        Need::BlockIfAsked,
    ],
    tests: &[&REPEATEDLY],
    ..Suite::PLAIN
};

test! {
    /// Many pods, each with its own volume, are started and deleted repeatedly. All later pods find the data of the
    /// first, which upstream does not check.
    REPEATEDLY {
        name: "multiple pods should access different volumes repeatedly",
        tags: ["Slow", "Serial"],
    }
    async |scene| {
        let options = scene.driver().driver_info.stress_test_options.clone().unwrap_or_default();
        let pods = positive("StressTestOptions.NumPods", options.num_pods)?;
        let restarts = positive("StressTestOptions.NumRestarts", options.num_restarts)?;
        let lives = (0..pods).map(|_| async {
            let volume = scene.volume().await?;
            let (content, path) = (scene.content(), path_of(0));
            for round in 0..restarts {
                let pod = scene.run(scene.pod(&[&volume])).await?;
                match round {
                    0 => pod.write(&path, volume.block, &content).await?,
                    _ => pod.holds(&path, volume.block, &content).await?,
                }
                pod.delete().await?;
            }
            Ok::<(), Stop>(())
        });
        all(lives).await?;
        Ok(())
    }
}
