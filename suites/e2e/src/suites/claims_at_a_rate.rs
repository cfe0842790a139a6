use std::time::Duration;

use csi_driver_definitions::Capability;
use csi_harness::client::tally::Times;
use csi_harness::prelude::Stop;
use csi_proto::lock::Mutex;
use futures_util::future::try_join;
use tokio::time::{Instant, sleep_until};

use super::topology::is_in;
use crate::cluster::{Done, PersistentVolume, StorageClass};
use crate::pattern;
use crate::scene::{RunningPod, Scene, Volume, all, distinct, failed, path_of, positive};
use crate::test;
use crate::test::Suite;

/// The number of claims if the definition does not say how many pods with volumes the driver takes: as many as other tests
/// have.
const CLAIMS: u32 = 6;
/// Claims that are created each second, and pods that are rescheduled.
const RATE_PER_S: u32 = 5;

/// Upstream creates claims as fast as it can, or waits for one before it creates the next.
pub(crate) static SUITE: Suite = Suite {
    name: "claims-at-a-rate",
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    tests: &[&RESCHEDULED],
    ..Suite::PLAIN
};

test! {
    /// Claims and their pods are created at an even rate, whether or not earlier ones are ready, and the pods are
    /// rescheduled at the same rate, as those of a StatefulSet are. Each claim has a volume of its own, and each new pod
    /// finds what the one before it wrote. A definition has no limit for the times, which are only reported.
    RESCHEDULED {
        name: "should give each claim a volume of its own and keep its data when its pod is rescheduled",
        alone: true,
    }
    async |scene| {
        let replicas = Replicas::new(scene).await?;
        let lives = all((0..replicas.count).map(|number| replicas.live(number))).await;
        // A volume that two claims share also explains what else goes wrong with them.
        let handles = replicas.measured.lock().handles.clone();
        distinct("volume handle", handles.iter().map(String::as_str))?;
        let in_use = lives?;
        scene.note(replicas.report());
        scene.release(in_use).await
    }
}

/// Pods with a claim each, as those of a StatefulSet.
struct Replicas<'a> {
    scene: &'a Scene,
    class: StorageClass,
    count: u32,
    began: Instant,
    measured: Mutex<Measured>,
}

/// The volumes of the claims, and times since each step was due.
#[derive(Default)]
struct Measured {
    handles: Vec<String>,
    bound: Times,
    running: Times,
    rescheduled: Times,
}

impl<'a> Replicas<'a> {
    async fn new(scene: &'a Scene) -> Done<Replicas<'a>> {
        let count = match &scene.driver().driver_info.stress_test_options {
            Some(options) => positive("StressTestOptions.NumPods", options.num_pods)?,
            None => CLAIMS,
        };
        // Every node has room for all of the volumes, so that none keeps a pod from moving.
        let nodes = scene.cluster().nodes().await?;
        let slots = nodes.iter().filter_map(|node| node.volume_limit).min();
        let slots = slots.map_or(u32::MAX, |slots| u32::try_from(slots).unwrap_or(u32::MAX));
        let (class, count) = (scene.class().await?, count.min(slots).max(1));
        Ok(Replicas { scene, class, count, began: Instant::now(), measured: Mutex::default() })
    }

    /// Returns when a step is due, of which there is one after the other at the rate.
    fn due(&self, step: u32) -> Instant {
        self.began + Duration::from_secs(1) * step / RATE_PER_S
    }

    /// Creates a claim and its pod when they are due, and reschedules the pod half of the claims later. Returns the claim
    /// and the pod that has it then.
    async fn live(&self, number: u32) -> Done<(String, RunningPod<'a>)> {
        let (scene, due) = (self.scene, self.due(number));
        sleep_until(due).await;
        let spec = scene.claim_spec(&self.class);
        let claim = spec.name.as_str();
        scene.cluster().create_pvc(&spec).await?;
        let volume = Volume::of_claim(claim, false);
        // A StatefulSet does not wait for the claim either.
        let bound = async {
            let (_, volume) = scene.bound(claim, scene.timeouts().claim_provision).await?;
            let mut measured = self.measured.lock();
            measured.bound.add(due.elapsed());
            measured.handles.push(volume.handle.clone());
            Ok::<_, Stop>(volume)
        };
        let running = async {
            let pod = scene.run(scene.pod(&[&volume])).await?;
            self.measured.lock().running.add(due.elapsed());
            Ok(pod)
        };
        let (persistent, pod) = try_join(bound, running).await?;

        // A driver in memory keeps nothing.
        let keeps = scene.driver().can(Capability::Persistence);
        let (path, content) = (path_of(0), scene.content());
        if keeps {
            pod.write(&path, volume.block, &content).await?;
        }
        let turn = number + self.count / 2 + 1;
        sleep_until(self.due(turn - 1)).await;
        if keeps {
            // Since the first write, other volumes have come to the node.
            pod.sh(&format!("echo {claim} > {path}/claim && sync")).await?;
        }
        sleep_until(self.due(turn)).await;
        let due = self.due(turn).max(Instant::now());
        let mut next = scene.pod(&[&volume]);
        if self.can_move(&persistent, &pod.node).await? {
            next.not_on = vec![pod.node.clone()];
        }
        pod.delete().await?;
        let pod = scene.run(next).await?;
        self.measured.lock().rescheduled.add(due.elapsed());
        if keeps {
            pod.holds(&path, volume.block, &content).await?;
            let found = pod.sh(&format!("cat {path}/claim")).await?;
            if found != claim {
                return Err(failed("the volume holds other data than was written", claim, found));
            }
        }
        Ok((spec.name, pod))
    }

    /// Returns whether a volume can be used on another node.
    async fn can_move(&self, volume: &PersistentVolume, from: &str) -> Done<bool> {
        let driver = self.scene.driver();
        if driver.can(Capability::SingleNodeVolume) || !driver.client_node_name.is_empty() {
            return Ok(false);
        }
        let nodes = self.scene.cluster().nodes().await?;
        let places = &volume.topology;
        Ok(nodes
            .iter()
            .filter(|node| node.name != from)
            .any(|node| places.is_empty() || places.iter().any(|segment| is_in(&node.topology, segment))))
    }

    fn report(&self) -> String {
        let measured = self.measured.lock();
        let of = |times: &Times| {
            let [p50_s, p99_s, max_s] =
                [times.percentile(50), times.percentile(99), times.longest()].map(|time| time.as_secs_f64());
            format!("p50 {p50_s:.3} s, p99 {p99_s:.3} s, at most {max_s:.3} s")
        };
        format!(
            "{} claims, {RATE_PER_S} a second: bound {}; their pods ran {}; rescheduled pods ran {}",
            self.count,
            of(&measured.bound),
            of(&measured.running),
            of(&measured.rescheduled)
        )
    }
}
