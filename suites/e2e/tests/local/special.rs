//! Checks special uses of volumes by pods: parts of them, a group, volumes of a pod's own; and a restarted kubelet.

use std::path::Path;

use csi_harness::prelude::{CheckResult, Cx, Stop, Violation};
use csi_suite_e2e::cluster::{
    AccessMode, Cluster as _, Pairs, PodPhase, PodVolume, PvcSpec, StorageClass, VolumeBindingMode,
    VolumeMode, VolumeMount, VolumeSource,
};
use csi_suite_e2e::emulated_cluster::EmulatedCluster;

use crate::pods::{claim_spec, exec, pod_of_mode, pod_spec};
use crate::stage::{FLAGS, Test, claim, claimed, class, delete_pod, on_hostpath, on_hostpath_within, start};

pub(crate) const TESTS: &[Test] = &[
    ("sub_paths_stay_in_the_volume", sub_paths_stay_in_the_volume),
    ("files_are_handed_over_to_the_group", files_are_handed_over_to_the_group),
    ("files_that_are_not_handed_over_have_a_reason", files_that_are_not_handed_over_have_a_reason),
    ("volumes_live_as_long_as_their_pod", volumes_live_as_long_as_their_pod),
    ("kubelet_takes_up_what_it_finds", kubelet_takes_up_what_it_finds),
    ("kubelet_takes_down_devices_that_it_finds", kubelet_takes_down_devices_that_it_finds),
    ("kubelet_makes_no_call_for_what_it_cannot_read", kubelet_makes_no_call_for_what_it_cannot_read),
];

fn sub_paths_stay_in_the_volume() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        let mut pod = pod_spec("pod");
        let part = |sub_path: &str| VolumeMount {
            volume: "data".to_owned(),
            path: "/mnt/part".to_owned(),
            read_only: false,
            sub_path: Some(sub_path.to_owned()),
        };
        pod.containers[0].mounts.push(part("a/b"));
        start(&local, &pod).await?;
        let script = "echo hello > /mnt/part/file && cat /mnt/data/a/b/file && ln -s /etc /mnt/data/out";
        assert_eq!(exec(&local, "pod", script).await?.stdout, "hello\n");
        let mut escaping = pod_spec("escaping");
        escaping.containers[0].mounts.push(part("out"));
        local.create_pod(&escaping).await?;
        loop {
            let pod = local.pod("escaping").await?.unwrap();
            assert_eq!(pod.phase, PodPhase::Pending);
            if pod
                .waiting
                .is_some_and(|why| why.contains("CreateContainerConfigError") && why.contains("subPath"))
            {
                break;
            }
            local.changed().await;
        }
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    played.passed();
}

fn files_are_handed_over_to_the_group() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let mut class = class(&local, &cx).await;
        class.name = "typed".to_owned();
        class.parameters = [("csi.storage.k8s.io/fstype".to_owned(), "ext4".to_owned())].into();
        local.create_storage_class(&class).await?;
        claim(&local, claim_spec(&class.name)).await;
        let mut pod = pod_spec("pod");
        pod.fs_group = Some(4321);
        start(&local, &pod).await?;
        let seen = exec(
            &local,
            "pod",
            "stat -c '%g %a' /mnt/data; touch /mnt/data/f; stat -c %g /mnt/data/f; id -G",
        );
        let seen = seen.await?.stdout;
        let lines: Vec<&str> = seen.lines().collect();
        assert!(lines[0].starts_with("4321 2") && lines[1] == "4321" && lines[2].contains("4321"), "{seen}");
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    played.passed();
}

/// Without a CSIDriver object and a file system type, kubelet does not change the group of the files, which the failure has to say.
fn files_that_are_not_handed_over_have_a_reason() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        let mut pod = pod_spec("pod");
        pod.fs_group = Some(4321);
        start(&local, &pod).await?;
        local.close().await?;
        Err(Violation::new("the group was not changed").into())
    }
    // With VOLUME_MOUNT_GROUP, the driver would set the group itself.
    let flags: Vec<&str> = FLAGS.into_iter().chain(["--enable-volume-mount-group=false"]).collect();
    let Some(played) = on_hostpath(&flags, body) else { return };
    let incidents = &played.incidents;
    let reason =
        "no --manifest has a CSIDriver object of this driver, so fsGroupPolicy is ReadWriteOnceWithFSType";
    assert!(incidents.iter().any(|what| what.contains(reason)), "{incidents:?}");
}

fn volumes_live_as_long_as_their_pod() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let late = StorageClass {
            name: "late".to_owned(),
            provisioner: cx.target().info().name.clone(),
            volume_binding_mode: VolumeBindingMode::WaitForFirstConsumer,
            ..StorageClass::default()
        };
        local.create_storage_class(&late).await?;
        let mut pod = pod_spec("pod");
        let claim = claim_spec("late");
        pod.volumes[0].source = VolumeSource::Ephemeral(Box::new(claim));
        pod.volumes.push(PodVolume {
            name: "inline".to_owned(),
            source: VolumeSource::Inline {
                driver: late.provisioner.clone(),
                attributes: Pairs::new(),
                fs_type: String::new(),
                read_only: false,
            },
        });
        pod.volumes.push(PodVolume { name: "empty".to_owned(), source: VolumeSource::EmptyDir });
        for (volume, path) in [("inline", "/mnt/inline"), ("empty", "/mnt/empty")] {
            let mount =
                VolumeMount { volume: volume.to_owned(), path: path.to_owned(), ..VolumeMount::default() };
            pod.containers[0].mounts.push(mount);
        }
        assert_eq!(start(&local, &pod).await?.phase, PodPhase::Running);
        let script = "for place in data inline empty; do touch /mnt/$place/file || exit 1; done";
        assert_eq!(exec(&local, "pod", script).await?.code, 0);
        assert_eq!(local.claim("pod-data").await?.unwrap().spec.access_modes, [AccessMode::ReadWriteOnce]);
        delete_pod(&local, "pod").await?;
        while local.claim("pod-data").await?.is_some() {
            local.changed().await;
        }
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    let published = played.passed().requests("NodePublishVolume");
    let inline = published.iter().find(|request| request.contains(r#"ephemeral":"true""#)).unwrap();
    assert!(inline.contains(r#""volume_id":"csi-"#) && !inline.contains("staging_target_path"), "{inline}");
    assert_eq!((published.len(), played.requests("NodeStageVolume").len()), (2, 1));
}

fn kubelet_takes_up_what_it_finds() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        for name in ["stays", "goes"] {
            start(&local, &pod_spec(name)).await?;
        }
        let uid = local.pod("goes").await?.unwrap().uid;
        local.stop_kubelet("node-1").await?;
        local.delete_pod("goes", true).await?;
        assert_eq!(exec(&local, "stays", "touch /mnt/data/file").await?.code, 0);
        local.start_kubelet("node-1").await?;
        while !local.paths_of_pod("node-1", &uid).await?.is_empty() {
            local.changed().await;
        }
        while !local.pod("stays").await?.unwrap().mounted {
            local.changed().await;
        }
        assert_eq!(exec(&local, "stays", "cat /mnt/data/file").await?.code, 0);
        delete_pod(&local, "stays").await?;
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    // The volume is published once more for the pod that stays, and each of the two calls is repeated while the driver is busy with the
    // other.
    let unpublished = played.passed().requests("NodeUnpublishVolume").len();
    let published = played.requests("NodePublishVolume").len();
    assert!(unpublished >= 2 && published >= 3, "{unpublished}, {published}");
    assert_eq!(played.requests("NodeUnstageVolume").len(), 1);
}

/// Deletes a pod by force while kubelet is stopped, changes the file that kubelet would read, and starts kubelet.
async fn orphaned(
    local: &EmulatedCluster,
    cx: &Cx,
    mode: VolumeMode,
    spoil: fn(&Path),
) -> CheckResult<String> {
    let class = class(local, cx).await;
    claim(local, PvcSpec { mode, ..claim_spec(&class.name) }).await;
    let uid = start(local, &pod_of_mode("pod", mode)).await?.uid;
    let target = local.paths_of_pod("node-1", &uid).await?.remove(0);
    local.stop_kubelet("node-1").await?;
    local.delete_pod("pod", true).await?;
    let data = match mode {
        VolumeMode::Filesystem => Path::new(&target).with_file_name("vol_data.json"),
        VolumeMode::Block => {
            let name = local.claim("claim").await?.unwrap().volume.unwrap();
            let devices = cx.kubelet_dir().join("plugins/kubernetes.io/csi/volumeDevices");
            devices.join(name).join("data/vol_data.json")
        }
    };
    assert!(std::fs::read_to_string(&data).unwrap().contains("specVolID"));
    spoil(&data);
    local.start_kubelet("node-1").await?;
    while !local.paths_of_pod("node-1", &uid).await?.is_empty() {
        local.changed().await;
    }
    Ok(target)
}

fn kubelet_takes_down_devices_that_it_finds() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        orphaned(&local, &cx, VolumeMode::Block, |_| ()).await?;
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    assert_eq!(played.passed().requests("NodeUnpublishVolume").len(), 1);
    assert_eq!(played.requests("NodeUnstageVolume").len(), 1);
}

fn kubelet_makes_no_call_for_what_it_cannot_read() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let target = orphaned(&local, &cx, VolumeMode::Filesystem, |data| {
            std::fs::write(data, "{\"specVolID\":").unwrap();
        });
        let target = target.await?;
        assert!(!cx.is_mount_point(&target), "it is unmounted all the same");
        // The driver still counts the volume as published, and refuses to detach it.
        let Err(Stop::Violation(why)) = local.close().await else { panic!("the driver was not asked") };
        assert!(format!("{why:?}").contains("still staged or published"), "{why:?}");
        Ok(())
    }
    // Half of this time is spent on waiting for objects that stay.
    let Some(played) = on_hostpath_within(20_000, &FLAGS, body) else { return };
    played.failed("kubelet cannot read what it wrote beside a volume");
    assert_eq!(
        (played.times("NodeUnpublishVolume"), played.times("NodeUnstageVolume")),
        (0, 0),
        "{played:?}"
    );
}
