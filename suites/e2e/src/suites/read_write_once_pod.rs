use std::time::Duration;

use csi_driver_definitions::Capability;
use csi_harness::prelude::Stop;

use crate::cluster::{AccessMode, Feature, PodPhase};
use crate::pattern;
use crate::scene::Seen;
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "read-write-once-pod",
    patterns: &[&pattern::DEFAULT_FS],
    needs: &[Need::Can(Capability::ReadWriteOncePod)],
    tests: &[&PREEMPTS, &BLOCKS],
    ..Suite::PLAIN
};

/// The time for which a pod that must not run is observed in a cluster.
const WATCH: Duration = Duration::from_secs(10);
/// This time without one: no scheduler or kubelet has to be caught that changes its mind, and the driver is not called.
const WATCH_EMULATED: Duration = Duration::from_secs(1);

/// The reason why the test of priorities does nothing.
const SCHEDULER: &str = "the scheduler chooses which pod is evicted; the driver is not involved";

test! {
    /// The scheduler evicts a pod for one of higher priority that needs its volume.
    PREEMPTS {
        name: "should preempt lower priority pods using ReadWriteOncePod volumes",
        tags: ["Serial"],
        needs: [Need::Never(SCHEDULER)],
    }
    async |_scene| {
        Err(Stop::skip(SCHEDULER))
    }
}

test! {
    /// A second pod on the node waits until the first has released a volume that only one pod may use.
    BLOCKS {
        name: "should block a second pod from using an in-use ReadWriteOncePod volume on the same node",
    }
    async |scene| {
        let volume = scene.claim_with(|spec| spec.access_modes = vec![AccessMode::ReadWriteOncePod]).await?;
        let first = scene.run(scene.pod(&[&volume])).await?;

        let second = scene.pod_on(&first.node, &[&volume]);
        scene.cluster().create_pod(&second).await?;
        scene.until("the second pod is kept from the volume", scene.timeouts().pod_start, || async {
            let pod = scene.existing_pod(&second.name).await?;
            let events = scene.cluster().events(&second.name).await?;
            let is_kept = pod.waiting.is_some() || events.iter().any(|event| event.reason == "FailedMount");
            Ok(match pod.phase {
                PodPhase::Pending if is_kept => Seen::There(()),
                PodPhase::Pending => Seen::NotYet("no event mentions it".to_owned()),
                phase => Seen::Never(format!("it is {phase:?}")),
            })
        })
        .await?;
        let watch = match scene.cluster().offers(Feature::Orchestrator) {
            Ok(()) => WATCH,
            Err(_) => WATCH_EMULATED,
        };
        scene.stays("the second pod is kept from the volume", watch, || async {
            let phase = scene.existing_pod(&second.name).await?.phase;
            Ok((phase != PodPhase::Pending).then(|| format!("it is {phase:?}")))
        })
        .await?;

        first.delete().await?;
        scene.running(second, scene.timeouts().pod_start).await?.delete().await
    }
}
