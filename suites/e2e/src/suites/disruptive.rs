use csi_harness::prelude::Stop;
use csi_workload::beside::Action;

use crate::cluster::{AccessMode, Done, Feature};
use crate::pattern;
use crate::scene::{Scene, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "disruptive",
    tags: &["Disruptive", "LinuxOnly"],
    patterns: &[&pattern::FS_MODE, &pattern::BLOCK],
    needs: &[Need::BlockIfAsked, Need::Offers(Feature::NodeAccess)],
    tests: &[
        &READABLE,
        &CLEANED_UP,
        &CLEANED_UP_BY_FORCE,
        &USABLE,
        &USABLE_BY_FORCE,
        &OTHER_CONTEXT,
        &OTHER_CONTEXT_BY_FORCE,
    ],
    ..Suite::PLAIN
};

/// kubelet mounts the volumes of running pods again.
const KUBELET_RESTART: Action = Action { name: "a restart of kubelet", rpcs: &[] };

test! {
    /// A pod keeps its volume when kubelet restarts, and its data are there.
    READABLE {
        name: "Should test that pv written before kubelet restart is readable after restart.",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let (path, content) = (path_of(0), scene.content());
        let pod = scene.run(scene.pod(&[&volume])).await?;
        pod.write(&path, volume.block, &content).await?;
        // In a cluster, the connection to a workload passes through kubelet.
        let user = match scene.cluster().offers(Feature::LocalPods) {
            Ok(()) => Some(pod.start_workload(&path).await),
            Err(_) => None,
        };
        let restarted = async {
            scene.cluster().stop_kubelet(&pod.node).await?;
            scene.cluster().start_kubelet(&pod.node).await?;
            scene.taken_up(&pod).await
        };
        scene.beside(KUBELET_RESTART, &user.iter().collect::<Vec<_>>(), restarted).await?;
        if let Some(user) = user {
            user.end(KUBELET_RESTART).await;
        }
        pod.holds(&path, volume.block, &content).await?;
        let next = scene.content();
        pod.write(&path, volume.block, &next).await?;
        pod.holds(&path, volume.block, &next).await?;
        pod.delete().await
    }
}

test! {
    /// Nothing is left of the block volume of a pod that was deleted while kubelet was down.
    CLEANED_UP {
        name: "Should test that pv used in a pod that is deleted while the kubelet is down cleans up when the kubelet returns.",
        exists: |pattern, _| pattern.is_block(),
    }
    async |scene| { cleans_up(scene, false).await }
}

test! {
    /// Nothing is left of the block volume of a pod that was deleted by force while kubelet was down.
    CLEANED_UP_BY_FORCE {
        name: "Should test that pv used in a pod that is force deleted while the kubelet is down cleans up when the kubelet returns.",
        exists: |pattern, _| pattern.is_block(),
    }
    async |scene| { cleans_up(scene, true).await }
}

test! {
    /// The next pod can use the volume of a pod that was deleted while kubelet was down.
    USABLE {
        name: "Should test that pv used in a pod that is deleted while the kubelet is down is usable by a new pod when kubelet returns",
        tags: ["Feature:SELinux"],
        exists: |pattern, _| !pattern.is_block(),
    }
    async |scene| { usable(scene, false, None).await }
}

test! {
    /// The next pod can use the volume of a pod that was deleted by force while kubelet was down.
    USABLE_BY_FORCE {
        name: "Should test that pv used in a pod that is force deleted while the kubelet is down is usable by a new pod when kubelet returns",
        tags: ["Feature:SELinux"],
        exists: |pattern, _| !pattern.is_block(),
    }
    async |scene| { usable(scene, true, None).await }
}

test! {
    /// The next pod has another SELinux context, for which the volume is staged again.
    OTHER_CONTEXT {
        name: "Should test that pv used in a pod that is deleted while the kubelet is down is usable by a new pod with a different SELinux context when kubelet returns",
        tags: ["Feature:SELinux"],
        exists: |pattern, _| !pattern.is_block(),
        needs: [Need::Offers(Feature::SeLinux)],
    }
    async |scene| { usable(scene, false, Some("s0:c98,c99")).await }
}

test! {
    /// The next pod has another SELinux context, for which the volume is staged again.
    OTHER_CONTEXT_BY_FORCE {
        name: "Should test that pv used in a pod that is force deleted while the kubelet is down is usable by a new pod with a different SELinux context when kubelet returns",
        tags: ["Feature:SELinux"],
        exists: |pattern, _| !pattern.is_block(),
        needs: [Need::Offers(Feature::SeLinux)],
    }
    async |scene| { usable(scene, true, Some("s0:c98,c99")).await }
}

async fn cleans_up(scene: &Scene, force: bool) -> Done {
    let volume = scene.volume().await?;
    let pod = scene.run(scene.pod(&[&volume])).await?;
    scene.cluster().stop_kubelet(&pod.node).await?;
    scene.cluster().delete_pod(&pod.name, force).await?;
    scene.cluster().start_kubelet(&pod.node).await?;
    scene.pod_gone(&pod.name).await?;
    scene.nothing_left_of(&pod).await
}

async fn usable(scene: &Scene, force: bool, context: Option<&str>) -> Done {
    let volume = scene.claim_with(|spec| spec.access_modes = vec![AccessMode::ReadWriteOncePod]).await?;
    let (path, content) = (path_of(0), scene.content());
    let mut first = scene.pod(&[&volume]);
    first.selinux_level = Some("s0:c0,c1".to_owned());
    let first = scene.run(first).await?;
    first.write(&path, volume.block, &content).await?;
    scene.cluster().stop_kubelet(&first.node).await?;
    scene.cluster().delete_pod(&first.name, force).await?;
    let mut second = scene.pod_on(&first.node, &[&volume]);
    second.selinux_level = Some(context.unwrap_or("s0:c0,c1").to_owned());
    scene.cluster().create_pod(&second).await?;
    scene.cluster().start_kubelet(&first.node).await?;
    let second = scene.running(second, scene.timeouts().pod_start).await?;
    scene.nothing_left_of(&first).await?;
    second.holds(&path, volume.block, &content).await?;
    if second.uid == first.uid {
        return Err(Stop::broken("the cluster gave the UID of a pod to another one"));
    }
    second.delete().await
}
