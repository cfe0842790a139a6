use csi_driver_definitions::Capability;

use crate::cluster::{AccessMode, Done, Feature, PodSpec, PvcSpec, SeLinuxChangePolicy};
use crate::pattern;
use crate::scene::{Scene, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "seLinuxMount",
    tags: &["Feature:SELinux", "FeatureGate:SELinuxMountReadWriteOncePod", "FeatureGate:SELinuxChangePolicy"],
    context: "",
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    data_bytes: 0,
    needs: &[Need::Can(Capability::SeLinuxMount), Need::Offers(Feature::SeLinux)],
    tests: &[&ONE_POD_DEFAULT, &MOUNT_POLICY, &ONE_POD_RECURSIVE, &RECURSIVE],
};

test! {
    /// A volume for one pod is mounted with the SELinux context of the pod.
    ONE_POD_DEFAULT {
        name: "Pod with RWOP volume and the default policy should mount volumes with SELinux mount option",
    }
    async |scene| {
        has_context(scene, AccessMode::ReadWriteOncePod, None, true).await
    }
}

test! {
    /// A volume is mounted with the SELinux context of the pod, if the pod requests that.
    MOUNT_POLICY {
        name: "Pod with RWO volume and mount policy should mount volumes with SELinux mount option",
        tags: ["FeatureGate:SELinuxMount", "Beta", "Feature:OffByDefault"],
    }
    async |scene| {
        let policy = Some(SeLinuxChangePolicy::MountOption);
        has_context(scene, AccessMode::ReadWriteOnce, policy, true).await
    }
}

test! {
    /// A volume for one pod is mounted without a context if the pod requests that each file is relabelled.
    ONE_POD_RECURSIVE {
        name: "Pod with RWOP volume and recursive policy should mount volumes without SELinux mount option",
    }
    async |scene| {
        let policy = Some(SeLinuxChangePolicy::Recursive);
        has_context(scene, AccessMode::ReadWriteOncePod, policy, false).await
    }
}

test! {
    /// A volume is mounted without a context if the pod requests that each file is relabelled.
    RECURSIVE {
        name: "Pod with RWO and recursive policy should mount volumes without SELinux mount option",
    }
    async |scene| {
        let policy = Some(SeLinuxChangePolicy::Recursive);
        has_context(scene, AccessMode::ReadWriteOnce, policy, false).await
    }
}

/// The level of the pod.
const LEVEL: &str = "s0:c0,c1";

async fn has_context(
    scene: &Scene,
    access_mode: AccessMode,
    policy: Option<SeLinuxChangePolicy>,
    expected: bool,
) -> Done {
    let class = scene.class().await?;
    let spec = PvcSpec { access_modes: vec![access_mode], ..scene.claim_spec(&class) };
    let volume = scene.claim(&spec, &class).await?;
    let level = Some(LEVEL.to_owned());
    let pod = PodSpec { selinux_level: level, selinux_policy: policy, ..scene.pod(&[&volume]) };
    let pod = scene.run(pod).await?;
    let options = pod.mount_options(&path_of(0)).await?;
    if has_context_option(&options) != expected {
        let context = format!("context=\"system_u:object_r:…:{LEVEL}\"");
        let (what, expected) = match expected {
            true => ("a volume is mounted without the SELinux context of its pod", context),
            false => ("a volume is mounted with an SELinux context", format!("options without {context}")),
        };
        return Err(failed(what, expected, options));
    }
    pod.delete().await
}

/// Returns whether mount options contain the context of the pod. The type differs between distributions.
fn has_context_option(options: &str) -> bool {
    options.split("context=\"system_u:object_r:").skip(1).any(|rest| {
        let level = rest.split_once(':').map(|(_, level)| level);
        level.and_then(|level| level.strip_prefix(LEVEL)).is_some_and(|rest| rest.starts_with('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_told_from_others_by_user_role_and_level() {
        let with = |context: &str| has_context_option(&format!("rw,context=\"{context}\",noatime"));
        assert!(with("system_u:object_r:container_file_t:s0:c0,c1"));
        assert!(with("system_u:object_r:svirt_lxc_net_t:s0:c0,c1"));
        assert!(!with("system_u:object_r:container_file_t:s0:c0,c10"));
        assert!(!with("system_u:object_r:container_file_t:s0"));
        assert!(!with("user_u:object_r:container_file_t:s0:c0,c1"));
        assert!(!has_context_option("rw,noatime"));
    }
}
