//! Runs the containers of a pod after its volumes are mounted.

use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::{AccessType, PathKind};
use futures_util::future::join_all;

use super::Kubelet;
use super::volumes::PodMount;
use crate::cluster::{Container, Ended, Output, Pod, PodPhase, VolumeSource};
use crate::emulated_cluster::sandbox::{Sandbox, Volume};

/// The pauses before a container is restarted: the first and the longest one.
const RESTART_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

impl Kubelet {
    /// Runs the containers of a pod until all have ended. If the driver mounts nothing, containers cannot run, and
    /// this only ends with the pod.
    pub(super) async fn run_containers(&self, pod: &Pod, mounts: &[PodMount]) {
        // The pod was running before kubelet started, so the results of its scripts are lost.
        if self.shared.sandbox(&pod.uid).is_some() {
            return std::future::pending().await;
        }
        if let Err(why) = self.start(pod, mounts).await {
            self.change_pod(pod, |object| {
                object.pod.phase = PodPhase::Running;
                object.unmounted = Some(why);
            });
            return std::future::pending().await;
        }
        let Some(sandbox) = self.shared.sandbox(&pod.uid) else { return };
        for container in &pod.spec.init_containers {
            self.make(pod, &sandbox, container).await;
            if self.run_to_end(pod, &sandbox, container).await.code != 0 {
                return self.change_pod(pod, |object| object.pod.phase = PodPhase::Failed);
            }
        }
        for container in &pod.spec.containers {
            self.make(pod, &sandbox, container).await;
        }
        self.change_pod(pod, |object| object.pod.phase = PodPhase::Running);
        let containers = pod.spec.containers.iter();
        let ends = join_all(containers.map(|container| self.run_to_end(pod, &sandbox, container))).await;
        let phase = match ends.iter().all(|end| end.code == 0) {
            true => PodPhase::Succeeded,
            false => PodPhase::Failed,
        };
        self.change_pod(pod, |object| object.pod.phase = phase);
    }

    async fn start(&self, pod: &Pod, mounts: &[PodMount]) -> Result<(), String> {
        let mut volumes = Vec::new();
        for mount in mounts {
            let kind = self.cx.path_kind(&mount.target).await;
            let there = match mount.access() {
                AccessType::Mount => self.cx.is_mount_point(&mount.target),
                AccessType::Block => matches!(kind, Ok(PathKind::Device)),
            };
            if !there {
                let what = if mount.access() == AccessType::Block { "a block device" } else { "a mount" };
                return Err(format!("the driver does not mount here: {} is not {what}", mount.target));
            }
            volumes.push(Volume { name: mount.name.clone(), source: Some(mount.target.clone().into()) });
        }
        let empty = pod.spec.volumes.iter().filter(|volume| volume.source == VolumeSource::EmptyDir);
        volumes.extend(empty.map(|volume| Volume { name: volume.name.clone(), source: None }));
        let program = &self.shared.settings.program;
        let sandbox = Sandbox::start(program, volumes, pod.spec.fs_group).await?;
        self.shared.keep(&pod.uid, Arc::new(sandbox));
        Ok(())
    }

    /// Creates a container, and repeats this on errors.
    async fn make(&self, pod: &Pod, sandbox: &Sandbox, container: &Container) {
        while let Err(why) = sandbox.make(container).await {
            self.shared.store.event(&pod.spec.name, "Failed", why.clone());
            self.change_pod(pod, |object| object.pod.waiting = Some(why));
            tokio::time::sleep(RESTART_PAUSES[0]).await;
        }
        self.change_pod(pod, |object| object.pod.waiting = None);
    }

    /// Runs a container's script, and restarts it after a failure if the pod requests that. Without a script it never
    /// ends.
    async fn run_to_end(&self, pod: &Pod, sandbox: &Sandbox, container: &Container) -> Output {
        let Some(script) = &container.script else { return std::future::pending().await };
        let mut pause = RESTART_PAUSES[0];
        loop {
            let ended = sandbox.run(&container.name, script, None).await;
            let output = ended.unwrap_or_else(|why| Output { code: 128, stdout: String::new(), stderr: why });
            let again = pod.spec.restarts && output.code != 0;
            self.change_pod(pod, |object| {
                object.pod.ended.retain(|ended| ended.container != container.name);
                object.pod.ended.push(Ended { container: container.name.clone(), output: output.clone() });
                object.pod.restarts += u32::from(again);
            });
            if !again {
                return output;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RESTART_PAUSES[1]);
            self.make(pod, sandbox, container).await;
        }
    }
}
