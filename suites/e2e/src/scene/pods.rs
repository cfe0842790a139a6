use std::time::Duration;

use csi_harness::prelude::Stop;
use futures_util::future::BoxFuture;

use super::{Scene, Seen, Volume, all, failed};
use crate::cluster::{Container, Done, Output, Pod, PodPhase, PodSpec, PodVolume, VolumeDevice, VolumeMount};

/// The container name of the common helper's pods.
pub(crate) const CONTAINER: &str = "write-pod";
/// The default group of volumes.
const FS_GROUP: u32 = 1000;
/// Limits one command in a pod.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Returns the path of the pod's volume with this index, which starts at 0.
pub(crate) fn path_of(index: usize) -> String {
    format!("/mnt/volume{}", index + 1)
}

/// The node of a later pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    SameNode,
    OtherNode,
}

impl Place {
    /// Chooses the node of the pod. `node` is that of the earlier pod.
    pub(crate) fn put(self, spec: &mut PodSpec, node: String) {
        match self {
            Place::SameNode => spec.node = Some(node),
            Place::OtherNode => spec.not_on = vec![node],
        }
    }
}

impl Scene {
    /// Describes a pod with volumes at [`path_of`], as the common helper does. Its container waits for commands.
    pub(crate) fn pod(&self, volumes: &[&Volume]) -> PodSpec {
        let at: Vec<(&Volume, String)> =
            volumes.iter().enumerate().map(|(index, volume)| (*volume, path_of(index))).collect();
        self.pod_at(&at)
    }

    /// Describes such a pod that must run on a node.
    pub(crate) fn pod_on(&self, node: &str, volumes: &[&Volume]) -> PodSpec {
        PodSpec { node: Some(node.to_owned()), ..self.pod(volumes) }
    }

    /// Describes a pod with volumes at paths of the test's choice.
    pub(crate) fn pod_at(&self, volumes: &[(&Volume, String)]) -> PodSpec {
        let mut container = Container { name: CONTAINER.to_owned(), ..Container::default() };
        let mut sources = Vec::new();
        for (index, (volume, path)) in volumes.iter().enumerate() {
            let (name, path) = (format!("volume{}", index + 1), path.clone());
            match volume.block {
                true => container.devices.push(VolumeDevice { volume: name.clone(), path }),
                false => {
                    container.mounts.push(VolumeMount {
                        volume: name.clone(),
                        path,
                        ..VolumeMount::default()
                    });
                }
            }
            sources.push(PodVolume { name, source: volume.source.clone() });
        }
        PodSpec {
            name: self.name("pod"),
            containers: vec![container],
            volumes: sources,
            fs_group: Some(FS_GROUP),
            restarts: true,
            ..PodSpec::default()
        }
    }

    /// Creates a pod and waits until it runs.
    pub(crate) async fn run(&self, spec: PodSpec) -> Done<RunningPod<'_>> {
        self.run_within(spec, self.timeouts().pod_start).await
    }

    /// Creates a pod and waits until it runs, with another limit.
    pub(crate) fn run_within(&self, spec: PodSpec, limit: Duration) -> BoxFuture<'_, Done<RunningPod<'_>>> {
        Box::pin(async move {
            self.cluster().create_pod(&spec).await?;
            self.running(spec, limit).await
        })
    }

    /// Waits until an existing pod runs.
    pub(crate) async fn running(&self, spec: PodSpec, limit: Duration) -> Done<RunningPod<'_>> {
        let what = format!("pod {} runs", spec.name);
        let found = self.until(&what, limit, || async {
            let pod = self.existing_pod(&spec.name).await?;
            Ok(match pod.phase {
                PodPhase::Running => Seen::There(pod),
                PodPhase::Pending => self.not_yet(&pod).await?,
                PodPhase::Succeeded | PodPhase::Failed => Seen::Never(ends(&pod)),
            })
        });
        let pod = match found.await {
            Err(why @ Stop::Violation(_)) => return Err(self.blamed(&spec.name, why).await?),
            found => found?,
        };
        let container = spec.containers.first().map(|first| first.name.clone()).unwrap_or_default();
        Ok(RunningPod {
            scene: self,
            name: spec.name,
            container,
            node: pod.node.unwrap_or_default(),
            uid: pod.uid,
        })
    }

    /// Waits until a restarted kubelet has mounted the volumes of a pod that kept running.
    pub(crate) async fn taken_up(&self, pod: &RunningPod<'_>) -> Done {
        let what = format!("kubelet starts pod {}", pod.name);
        self.until(&what, self.timeouts().pod_start, || async {
            let pod = self.existing_pod(&pod.name).await?;
            if pod.mounted { Ok(Seen::There(())) } else { self.not_yet(&pod).await }
        })
        .await
    }

    /// Creates a pod whose containers have scripts, and waits until they ended, successfully or not.
    pub(crate) async fn run_to_end(&self, spec: &PodSpec, limit: Duration) -> Done<Pod> {
        self.cluster().create_pod(spec).await?;
        self.until(&format!("pod {} ends", spec.name), limit, || async {
            let pod = self.existing_pod(&spec.name).await?;
            Ok(match pod.phase {
                PodPhase::Succeeded | PodPhase::Failed => Seen::There(pod),
                PodPhase::Pending => self.not_yet(&pod).await?,
                PodPhase::Running => Seen::NotYet("it runs".to_owned()),
            })
        })
        .await
    }

    /// Runs a pod whose containers all have to succeed.
    pub(crate) async fn succeeds(&self, spec: &PodSpec, limit: Duration) -> Done<Pod> {
        let pod = self.run_to_end(spec, limit).await?;
        match pod.phase {
            PodPhase::Succeeded => Ok(pod),
            _ => Err(failed("a container failed", "exit code 0", ends(&pod))),
        }
    }

    /// Explains why a pod does not run. The definition has to consider a node's volume limit.
    async fn blamed(&self, pod: &str, why: Stop) -> Done<Stop> {
        let waiting = self.existing_pod(pod).await?.waiting;
        let full = waiting.filter(|waiting| waiting.contains("max volume count"));
        Ok(full
            .map_or(why, |full| Stop::broken(format!("the test has more volumes than nodes take: {full}"))))
    }

    async fn not_yet<T>(&self, pod: &Pod) -> Done<Seen<T>> {
        let event = self.explaining_event(&pod.spec.name).await?;
        Ok(match (&pod.given_up, &pod.waiting) {
            (Some(why), _) => Seen::Never(why.clone()),
            (None, Some(why)) => Seen::NotYet(format!("{why}{event}")),
            (None, None) => Seen::NotYet(format!("it is {:?}{event}", pod.phase)),
        })
    }

    /// Returns a pod of the test.
    pub(crate) async fn existing_pod(&self, name: &str) -> Done<Pod> {
        self.cluster().pod(name).await?.ok_or_else(|| Stop::broken(format!("pod {name} is gone")))
    }

    /// Deletes a pod and waits until it is gone.
    pub(crate) fn delete_pod<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            self.cluster().delete_pod(name, false).await?;
            self.pod_gone(name).await
        })
    }

    /// Waits until a pod is gone.
    pub(crate) async fn pod_gone(&self, name: &str) -> Done {
        self.until(&format!("pod {name} is gone"), self.timeouts().pod_delete, || async {
            Ok(match self.cluster().pod(name).await? {
                None => Seen::There(()),
                Some(Pod { given_up: Some(why), .. }) => Seen::Never(why),
                Some(_) => Seen::NotYet(format!("it still exists{}", self.explaining_event(name).await?)),
            })
        })
        .await
    }
}

impl Scene {
    /// Returns what the pod's node has for its volumes.
    pub(crate) async fn paths_of_volumes(&self, pod: &RunningPod<'_>) -> Done<String> {
        Ok(self.cluster().paths_of_pod(&pod.node, &pod.uid).await?.join(", "))
    }

    /// Waits until the node has nothing left for the volumes of a pod.
    pub(crate) async fn nothing_left_of(&self, pod: &RunningPod<'_>) -> Done {
        let what = format!("nothing is left of pod {} on its node", pod.name);
        self.until(&what, self.timeouts().pod_delete, || async {
            let left = self.paths_of_volumes(pod).await?;
            Ok(if left.is_empty() { Seen::There(()) } else { Seen::NotYet(left) })
        })
        .await
    }

    /// Deletes pods and their claims concurrently.
    pub(crate) async fn release(&self, in_use: Vec<(String, RunningPod<'_>)>) -> Done {
        let limit = self.timeouts().pv_delete;
        let gone = in_use.into_iter().map(async |(claim, pod)| {
            pod.delete().await?;
            self.delete_pvc(&claim, limit).await
        });
        all(gone).await?;
        Ok(())
    }
}

/// Describes how the containers of a pod ended.
fn ends(pod: &Pod) -> String {
    let end = |ended: &crate::cluster::Ended| {
        let Output { code, stdout, stderr } = &ended.output;
        format!("{} ended with {code}: {}{}", ended.container, stdout, stderr)
    };
    let ends: Vec<String> = pod.ended.iter().map(end).collect();
    format!("{:?}; {}", pod.phase, ends.join("; "))
}

#[derive(Debug)]
pub(crate) struct RunningPod<'a> {
    pub(super) scene: &'a Scene,
    pub(crate) name: String,
    /// The container for commands.
    pub(crate) container: String,
    pub(crate) node: String,
    pub(crate) uid: String,
}

impl RunningPod<'_> {
    /// Runs a shell script, with any result.
    pub(crate) async fn output(&self, script: &str) -> Done<Output> {
        self.scene.cluster().exec(&self.name, &self.container, script, COMMAND_LIMIT).await
    }

    /// Runs a shell script that has to succeed, and returns its output without trailing white space.
    pub(crate) async fn sh(&self, script: &str) -> Done<String> {
        let output = self.output(script).await?;
        if output.code != 0 {
            let printed = format!("exit code {}: {}{}", output.code, output.stdout, output.stderr);
            return Err(failed(
                format!("a command failed in a pod: {script}"),
                "exit code 0",
                printed.trim_end(),
            ));
        }
        Ok(output.stdout.trim_end().to_owned())
    }

    /// Runs a shell script that has to fail.
    pub(crate) async fn sh_fails(&self, what: &str, script: &str) -> Done {
        let output = self.output(script).await?;
        match output.code {
            0 => Err(failed(what, format!("a failure of: {script}"), "exit code 0")),
            _ => Ok(()),
        }
    }

    /// Deletes the pod and waits until it is gone.
    pub(crate) async fn delete(self) -> Done {
        self.scene.delete_pod(&self.name).await
    }
}
