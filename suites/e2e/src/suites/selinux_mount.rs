use csi_driver_definitions::Capability;
use csi_harness::prelude::{Stop, Violation};

use crate::cluster::{AccessMode, Done, Feature, MountCalls, PodPhase, PodSpec, SeLinuxChangePolicy};
use crate::pattern;
use crate::scene::{RunningPod, Scene, Seen, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

/// Without SELinux, the mount calls of the driver are judged, so these tests run alone.
pub(crate) static SUITE: Suite = Suite {
    name: "seLinuxMount",
    tags: &["Feature:SELinux", "FeatureGate:SELinuxMountReadWriteOncePod", "FeatureGate:SELinuxChangePolicy"],
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    needs: &[Need::Can(Capability::SeLinuxMount), Need::Offers(Feature::SeLinuxContexts)],
    tests: &[&ONE_POD_DEFAULT, &MOUNT_POLICY, &ONE_POD_RECURSIVE, &RECURSIVE],
    ..Suite::PLAIN
};

/// Upstream has no test in which contexts differ. Volumes that share a superblock cannot have different ones.
pub(crate) static DIFFERENT: Suite = Suite {
    name: "seLinuxMountDifferent",
    tags: &["Feature:SELinux", "FeatureGate:SELinuxMount"],
    tests: &[&EACH_ITS_OWN],
    ..SUITE
};

test! {
    /// A volume for one pod is mounted with the SELinux context of the pod.
    ONE_POD_DEFAULT {
        name: "Pod with RWOP volume and the default policy should mount volumes with SELinux mount option",
        alone: true,
    }
    async |scene| {
        has_context(scene, AccessMode::ReadWriteOncePod, None).await
    }
}

test! {
    /// A volume is mounted with the SELinux context of the pod, if the pod requests that.
    MOUNT_POLICY {
        name: "Pod with RWO volume and mount policy should mount volumes with SELinux mount option",
        tags: ["FeatureGate:SELinuxMount"],
        alone: true,
        needs: [Need::Offers(Feature::SeLinuxEveryMode)],
    }
    async |scene| {
        let policy = Some(SeLinuxChangePolicy::MountOption);
        has_context(scene, AccessMode::ReadWriteOnce, policy).await
    }
}

test! {
    /// A volume for one pod is mounted without a context if the pod requests that each file is relabelled.
    ONE_POD_RECURSIVE {
        name: "Pod with RWOP volume and recursive policy should mount volumes without SELinux mount option",
        alone: true,
    }
    async |scene| {
        let policy = Some(SeLinuxChangePolicy::Recursive);
        has_no_context(scene, AccessMode::ReadWriteOncePod, policy).await
    }
}

test! {
    /// A volume is mounted without a context if the pod requests that each file is relabelled.
    RECURSIVE {
        name: "Pod with RWO and recursive policy should mount volumes without SELinux mount option",
        alone: true,
    }
    async |scene| {
        let policy = Some(SeLinuxChangePolicy::Recursive);
        has_no_context(scene, AccessMode::ReadWriteOnce, policy).await
    }
}

test! {
    /// While the volume of one pod is in use, that of another pod is mounted with the context of its own pod.
    EACH_ITS_OWN {
        name: "Pods with different levels should each mount their volume with their own SELinux mount option",
        alone: true,
    }
    async |scene| {
        let calls = scene.cluster().assume_selinux();
        let mut pods = Vec::new();
        for level in [LEVEL, OTHER_LEVEL] {
            let pod = pod_spec(scene, AccessMode::ReadWriteOnce, None, level).await?;
            pods.extend(mounts_with(scene, calls.as_ref(), pod, level).await?);
        }
        for pod in pods {
            pod.delete().await?;
        }
        Ok(())
    }
}

/// The levels of pods.
const LEVEL: &str = "s0:c0,c1";
const OTHER_LEVEL: &str = "s0:c98,c99";

/// Describes a pod with a new volume.
async fn pod_spec(
    scene: &Scene,
    access_mode: AccessMode,
    policy: Option<SeLinuxChangePolicy>,
    level: &str,
) -> Done<PodSpec> {
    let volume = scene.claim_with(|spec| spec.access_modes = vec![access_mode]).await?;
    let level = Some(level.to_owned());
    Ok(PodSpec { selinux_level: level, selinux_policy: policy, ..scene.pod(&[&volume]) })
}

async fn has_context(scene: &Scene, access_mode: AccessMode, policy: Option<SeLinuxChangePolicy>) -> Done {
    let calls = scene.cluster().assume_selinux();
    let pod = pod_spec(scene, access_mode, policy, LEVEL).await?;
    match mounts_with(scene, calls.as_ref(), pod, LEVEL).await? {
        Some(pod) => pod.delete().await,
        None => Ok(()),
    }
}

async fn has_no_context(scene: &Scene, access_mode: AccessMode, policy: Option<SeLinuxChangePolicy>) -> Done {
    let calls = scene.cluster().assume_selinux();
    let pod = pod_spec(scene, access_mode, policy, LEVEL).await?;
    let pod = scene.run(pod).await?;
    let contexts = calls.map(|calls| contexts_in(&calls)).unwrap_or_default();
    let options = pod.mount_options(&path_of(0)).await?;
    if has_context_option(&options, LEVEL) || !contexts.is_empty() {
        return Err(failed(
            "a volume is mounted with an SELinux context, and kubelet relabels each of its files",
            "options without a context",
            if contexts.is_empty() { options } else { contexts.join("; ") },
        ));
    }
    pod.delete().await
}

/// Checks that the volume of a pod is mounted with the context of the pod. Returns the pod if it runs.
async fn mounts_with<'a>(
    scene: &'a Scene,
    calls: Option<&MountCalls>,
    pod: PodSpec,
    level: &str,
) -> Done<Option<RunningPod<'a>>> {
    if let Some(calls) = calls {
        return asks_for(scene, calls, pod, level).await;
    }
    let pod = scene.run(pod).await?;
    let options = pod.mount_options(&path_of(0)).await?;
    match has_context_option(&options, level) {
        true => Ok(Some(pod)),
        false => {
            let context = format!("context=\"system_u:object_r:…:{level}\"");
            Err(failed("a volume is mounted without the SELinux context of its pod", context, options))
        }
    }
}

/// Checks the mount calls for a pod. A kernel without SELinux rejects the option, and mount(8) leaves it out there, so that the pod
/// need not run.
///
/// On such a machine a driver may even reject the option, or leave it out by itself: kubelet passes it to no node without SELinux.
/// Therefore this is a warning. A context that differs from the requested one is wrong everywhere.
async fn asks_for<'a>(
    scene: &'a Scene,
    calls: &MountCalls,
    pod: PodSpec,
    level: &str,
) -> Done<Option<RunningPod<'a>>> {
    // Earlier calls are not about this pod.
    calls();
    scene.cluster().create_pod(&pod).await?;
    let mut contexts = Vec::new();
    let (what, name) = (format!("pod {} runs, or its volume is mounted with a context", pod.name), &pod.name);
    let waited = scene.until(&what, scene.timeouts().pod_start, || {
        contexts.extend(contexts_in(calls));
        let is_seen = !contexts.is_empty();
        async move {
            let pod = scene.existing_pod(name).await?;
            Ok(match (pod.phase, pod.waiting) {
                (PodPhase::Pending, Some(_)) if is_seen => Seen::There(false),
                (PodPhase::Pending, why) => match pod.given_up {
                    Some(why) => Seen::Never(why),
                    None => Seen::NotYet(why.unwrap_or_else(|| "it is waiting".to_owned())),
                },
                _ => Seen::There(true),
            })
        }
    });
    let waited = waited.await;
    contexts.extend(contexts_in(calls));
    let wanted = pod_context(level);
    let others: Vec<String> = contexts.iter().filter(|context| **context != wanted).cloned().collect();
    if !others.is_empty() {
        let what = "a mount call has another SELinux context than the one in mount_flags";
        return Err(failed(what, wanted, others.join("; ")));
    }
    let runs = match waited {
        Ok(runs) => runs,
        Err(Stop::Violation(violation)) if contexts.is_empty() => {
            warn(
                scene,
                "the driver does not take the SELinux context in mount_flags",
                &wanted,
                &violation.actual,
            );
            false
        }
        Err(other) => return Err(other),
    };
    if runs && contexts.is_empty() {
        let why = "the pod runs, and no mount call of the driver has a context";
        warn(scene, "the driver leaves out the SELinux context in mount_flags", &wanted, why);
    }
    match runs {
        true => Ok(Some(scene.running(pod, scene.timeouts().pod_start).await?)),
        false => {
            scene.delete_pod(&pod.name).await?;
            Ok(None)
        }
    }
}

fn warn(scene: &Scene, what: &str, wanted: &str, actual: &str) {
    let expected = format!(
        "a mount call with context=\"{wanted}\": the driver promises seLinuxMount. It is only a warning because this machine has no \
         SELinux, where kubelet passes no context"
    );
    scene.cx.warn(Violation::new(what).expected(expected).actual(actual));
}

/// Returns the contexts in the driver's mount calls since the last time.
fn contexts_in(calls: &MountCalls) -> Vec<String> {
    calls().iter().flat_map(|call| call.values("context")).collect()
}

/// Returns the context that kubelet makes for a pod with this level where nothing else is known.
fn pod_context(level: &str) -> String {
    format!("system_u:object_r:container_file_t:{level}")
}

/// Returns whether mount options contain the context of the pod. The type differs between distributions.
fn has_context_option(options: &str, level: &str) -> bool {
    options.split("context=\"system_u:object_r:").skip(1).any(|rest| {
        let found = rest.split_once(':').map(|(_, found)| found);
        found.and_then(|found| found.strip_prefix(level)).is_some_and(|rest| rest.starts_with('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_differ_by_user_role_and_level() {
        let with = |context: &str| has_context_option(&format!("rw,context=\"{context}\",noatime"), LEVEL);
        assert!(with("system_u:object_r:container_file_t:s0:c0,c1"));
        assert!(with("system_u:object_r:svirt_lxc_net_t:s0:c0,c1"));
        assert!(!with("system_u:object_r:container_file_t:s0:c0,c10"));
        assert!(!with("system_u:object_r:container_file_t:s0"));
        assert!(!with("user_u:object_r:container_file_t:s0:c0,c1"));
        assert!(!has_context_option("rw,noatime", LEVEL));
    }
}
