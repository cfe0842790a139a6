//! The tests run pods that use volumes.

use std::time::Duration;

use csi_harness::prelude::{CheckResult, Cx, Stop};
use csi_suite_e2e::cluster::{
    AccessMode, Cluster as _, Container, Output, PodPhase, PodSpec, PodVolume, PvcSpec, VolumeDevice,
    VolumeMode, VolumeMount, VolumeSource,
};
use csi_suite_e2e::emulated_cluster::EmulatedCluster;

use crate::stage::{FLAGS, Test, claim, claimed, class, delete_pod, on_hostpath, on_mock, start, started};

pub(crate) const TESTS: &[Test] = &[
    ("pods_share_a_directory", pods_share_a_directory),
    ("a_pod_sees_a_device", a_pod_sees_a_device),
    ("what_mounts_nothing_runs_no_command", what_mounts_nothing_runs_no_command),
];

const LIMIT: Duration = Duration::from_secs(30);

/// Returns a claim for a file system.
pub(crate) fn claim_spec(class: &str) -> PvcSpec {
    PvcSpec {
        name: "claim".to_owned(),
        class: class.to_owned(),
        access_modes: vec![AccessMode::ReadWriteOnce],
        request_bytes: 64 << 20,
        ..PvcSpec::default()
    }
}

/// Returns a pod with the claim for a file system.
pub(crate) fn pod_spec(name: &str) -> PodSpec {
    pod_of_mode(name, VolumeMode::Filesystem)
}

pub(crate) fn pod_of_mode(name: &str, mode: VolumeMode) -> PodSpec {
    let mut container = Container { name: "main".to_owned(), ..Container::default() };
    let (volume, path) = ("data".to_owned(), "/mnt/data".to_owned());
    match mode {
        VolumeMode::Filesystem => {
            container.mounts.push(VolumeMount { volume, path, ..VolumeMount::default() });
        }
        VolumeMode::Block => container.devices.push(VolumeDevice { volume, path }),
    }
    let source = claim_source("claim");
    PodSpec {
        name: name.to_owned(),
        containers: vec![container],
        volumes: vec![PodVolume { name: "data".to_owned(), source }],
        ..PodSpec::default()
    }
}

pub(crate) fn claim_source(name: &str) -> VolumeSource {
    VolumeSource::Claim { name: name.to_owned(), read_only: false }
}

pub(crate) async fn exec(local: &EmulatedCluster, pod: &str, script: &str) -> CheckResult<Output> {
    local.exec(pod, "main", script, LIMIT).await
}

fn pods_share_a_directory() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        let first = start(&local, &pod_spec("first")).await?;
        assert_eq!(first.phase, PodPhase::Running, "{first:?}");
        let written = exec(&local, "first", "echo hello > /mnt/data/file; id -u").await?;
        assert_eq!((written.code, written.stdout.as_str()), (0, "0\n"), "{written:?}");
        let mut second = pod_spec("second");
        second.volumes[0].source = VolumeSource::Claim { name: "claim".to_owned(), read_only: true };
        let second = start(&local, &second).await?;
        assert_eq!(second.phase, PodPhase::Running, "{second:?}");
        assert_eq!(exec(&local, "second", "cat /mnt/data/file").await?.stdout, "hello\n");
        let refused = exec(&local, "second", "echo no > /mnt/data/file").await?;
        assert!(refused.code != 0 && refused.stderr.contains("Read-only"), "{refused:?}");
        delete_pod(&local, "first").await?;
        delete_pod(&local, "second").await?;
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    let expected = [
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
    ];
    assert_eq!(played.passed().calls(), expected);
    let published = played.requests("NodePublishVolume");
    let read_only = r#""readonly":true"#;
    assert!(!published[0].contains(read_only) && published[1].contains(read_only), "{published:?}");
    assert!(published[0].contains("csi.storage.k8s.io/pod.uid") && published[0].contains("/globalmount"));
}

fn a_pod_sees_a_device() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        claim(&local, PvcSpec { mode: VolumeMode::Block, ..claim_spec(&class.name) }).await;
        let mut spec = pod_of_mode("pod", VolumeMode::Block);
        spec.containers[0].script = Some("test -b /mnt/data && blockdev --getsize64 /mnt/data".to_owned());
        local.create_pod(&spec).await?;
        loop {
            let pod = started(&local, "pod").await?;
            if pod.phase != PodPhase::Running {
                assert_eq!(pod.phase, PodPhase::Succeeded, "{pod:?}");
                assert_eq!(pod.ended[0].output.stdout, format!("{}\n", 64 << 20));
                break;
            }
            local.changed().await;
        }
        local.close().await
    }
    let Some(played) = on_hostpath(&FLAGS, body) else { return };
    played.passed();
    let published = &played.requests("NodePublishVolume")[0];
    assert!(
        published.contains("volumeDevices/staging/pvc-") && published.contains("volumeDevices/publish/pvc-")
    );
}

fn what_mounts_nothing_runs_no_command() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        assert_eq!(start(&local, &pod_spec("pod")).await?.phase, PodPhase::Running);
        let path = local.local_path("pod", "main", "/mnt/data").await;
        assert!(matches!(path, Err(Stop::Skip(_))), "{path:?}");
        let skipped = exec(&local, "pod", "true").await.map(|_| ());
        local.close().await?;
        skipped
    }
    on_mock(csi_mock_driver::Config::default(), body).skipped("the driver does not mount here");
}
