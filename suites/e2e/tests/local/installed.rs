//! Checks the objects of a driver's installation: Secrets that its classes name, and its CSIDriver.

use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use csi_harness::prelude::{CheckResult, Cx, Stop};
use csi_mock_driver::{Config, Defect};
use csi_proto::hidden::STRIPPED;
use csi_suite_e2e::cluster::{Cluster as _, Pairs, PodPhase, PvcSpec, SeLinuxChangePolicy, StorageClass};
use csi_suite_e2e::emulated_cluster::{EmulatedCluster, machine_has_selinux};

use crate::pods::{claim_source, claim_spec, pod_spec};
use crate::stage::{
    Played, Test, attributes_class, claim, claimed, class_with, delete_pod, grown, on_hostpath, on_mock,
    on_mock_installed_with, snapshot_class, start, take_groups, take_snapshots,
};

pub(crate) const TESTS: &[Test] = &[
    ("each_call_has_the_secret_that_its_class_names", each_call_has_the_secret_that_its_class_names),
    ("groups_have_the_secret_that_their_class_names", groups_have_the_secret_that_their_class_names),
    ("a_secret_that_is_missing_is_not_the_drivers_fault", a_secret_that_is_missing_is_not_the_drivers_fault),
    ("a_template_without_meaning_accuses_no_driver", a_template_without_meaning_accuses_no_driver),
    ("volumes_are_published_again_with_fresh_tokens", volumes_are_published_again_with_fresh_tokens),
    ("tokens_in_secrets_are_nowhere_to_be_seen", tokens_in_secrets_are_nowhere_to_be_seen),
    ("a_secret_that_a_driver_sends_back_is_not_told", a_secret_that_a_driver_sends_back_is_not_told),
    ("limits_are_read_again", limits_are_read_again),
    ("a_pod_fails_on_a_node_that_is_full", a_pod_fails_on_a_node_that_is_full),
    ("a_node_that_changes_is_told", a_node_that_changes_is_told),
    ("the_csi_driver_says_what_calls_have", the_csi_driver_says_what_calls_have),
    ("volumes_get_the_selinux_context_of_their_pod", volumes_get_the_selinux_context_of_their_pod),
    ("kinds_of_volumes_that_are_not_listed_are_refused", kinds_of_volumes_that_are_not_listed_are_refused),
];

const SECRETS: &str = "kind: Secret\nmetadata: {name: claim-creds}\nstringData: {password: hunter2}\n---\n\
                       kind: Secret\nmetadata: {name: creds, namespace: storage}\ndata: {password: aHVudGVyMg==}\n";

/// Returns class parameters that name a Secret for these uses.
fn naming(secrets: &[&str], namespace: &str, name: &str) -> Pairs {
    let keys = secrets.iter().flat_map(|secret| {
        [
            (format!("csi.storage.k8s.io/{secret}-name"), name),
            (format!("csi.storage.k8s.io/{secret}-namespace"), namespace),
        ]
    });
    keys.map(|(key, value)| (key, value.to_owned())).collect()
}

fn each_call_has_the_secret_that_its_class_names() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let secret = naming(&["secret"], "${pvc.namespace}", "${pvc.name}-creds");
        let class = class_with(&local, &cx, secret).await;
        attributes_class(&local, &cx, "gold").await?;
        claim(&local, claim_spec(&class.name)).await;
        start(&local, &pod_spec("pod")).await?;
        local.set_attributes_class("claim", "gold").await?;
        local.resize_pvc("claim", 128 << 20).await?;
        grown(&local, 128 << 20).await?;
        delete_pod(&local, "pod").await?;
        let parameters = naming(&["snapshotter-secret", "snapshotter-list-secret"], "storage", "creds");
        local.create_snapshot_class(&snapshot_class(&cx, parameters)).await?;
        take_snapshots(&local, "snapshots").await?;
        local.close().await
    }
    let methods = [
        "CreateVolume",
        "DeleteVolume",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "ControllerExpandVolume",
        "NodeExpandVolume",
        "ControllerModifyVolume",
        "CreateSnapshot",
        "DeleteSnapshot",
        "ListSnapshots",
    ];
    have_secrets(&on_mock_installed_with(SECRETS, strict(), body), &methods);
}

/// Returns the settings of a driver that demands the secret.
fn strict() -> Config {
    let mut config = Config::default();
    config.required_secrets.0.insert("password".to_owned(), "hunter2".to_owned());
    config
}

/// Asserts that these calls were made with the secret, which the driver demands, and that no request shows it.
fn have_secrets(played: &Played, methods: &[&str]) {
    let calls = played.passed().calls();
    for method in methods {
        assert!(calls.contains(method), "{method}: {calls:?}");
        for request in played.requests(method) {
            assert!(!request.contains("hunter2") && !request.contains("secret-name"), "{request}");
        }
    }
}

fn groups_have_the_secret_that_their_class_names() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let name = "${pvc.annotations['example.com/secret']}";
        let class = class_with(&local, &cx, naming(&["provisioner-secret"], "storage", name)).await;
        let labels: Pairs = [("app".to_owned(), "one".to_owned())].into();
        let spec = PvcSpec { labels: labels.clone(), ..claim_spec(&class.name) };
        claim(&local, spec).await;
        let secrets = ["group-snapshotter-secret", "group-snapshotter-get-secret"];
        let parameters = naming(&secrets, "storage", "creds");
        let class = snapshot_class(&cx, parameters);
        local.create_group_snapshot_class(&class).await?;
        take_groups(&local, &class.name, labels).await?;
        local.close().await
    }
    // Calls about a member have no secret, because a member has no class.
    let config = Config { without: vec!["LIST_SNAPSHOTS".parse().unwrap()], ..strict() };
    let methods = ["CreateVolumeGroupSnapshot", "GetVolumeGroupSnapshot", "DeleteVolumeGroupSnapshot"];
    have_secrets(&on_mock_installed_with(SECRETS, config, body), &methods);
}

/// Creates a claim of an invalid class, and waits until that is reported.
async fn refused(local: &EmulatedCluster, class: &StorageClass) -> CheckResult<String> {
    local.create_pvc(&claim_spec(&class.name)).await?;
    loop {
        match local.claim("claim").await {
            Err(Stop::Broken(why)) => return Ok(why),
            other => other?,
        };
        local.changed().await;
    }
}

fn a_secret_that_is_missing_is_not_the_drivers_fault() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class_with(&local, &cx, naming(&["provisioner-secret"], "storage", "creds")).await;
        let why = refused(&local, &class).await?;
        assert!(why.contains("there is no Secret storage/creds") && why.contains("--manifest"), "{why}");
        let events = local.events("claim").await?;
        assert!(events.iter().all(|event| event.reason == "ProvisioningFailed"), "{events:?}");
        local.close().await
    }
    let played = on_mock(Config::default(), body);
    assert!(played.passed().calls().is_empty(), "no call is made without the Secret");
}

fn a_template_without_meaning_accuses_no_driver() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let name = "${pvc.annotations['team']}";
        let class = class_with(&local, &cx, naming(&["node-stage-secret"], "default", name)).await;
        let why = refused(&local, &class).await?;
        assert!(why.contains("StorageClass class") && why.contains("annotations"), "{why}");
        local.close().await
    }
    assert!(on_mock(Config::default(), body).passed().calls().is_empty());
}

/// Returns the CSIDriver of the mock driver, with this text in its spec.
fn csi_driver(spec: &str) -> String {
    let name = Config::default().driver_name;
    format!("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

/// Returns the file in which the driver records its calls, so that a test sees them at once.
fn call_log() -> PathBuf {
    std::env::temp_dir().join(format!("local-test-{}.calls", std::process::id()))
}

fn volumes_are_published_again_with_fresh_tokens() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        start(&local, &pod_spec("pod")).await?;
        while std::fs::read_to_string(call_log()).unwrap().matches("NodePublishVolume").count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        delete_pod(&local, "pod").await?;
        local.close().await
    }
    let manifest =
        csi_driver("requiresRepublish: true, tokenRequests: [{audience: vault, expirationSeconds: 600}]");
    let config = Config { call_log: Some(call_log()), ..Config::default() };
    let played = on_mock_installed_with(&manifest, config, body);
    std::fs::remove_file(call_log()).unwrap();
    let published = played.passed().requests("NodePublishVolume");
    assert_eq!(published.len(), 2, "{published:?}");
    for request in &published {
        assert!(request.contains("csi.storage.k8s.io/serviceAccount.tokens"), "{request}");
        assert!(request.contains("vault") && request.contains("expirationTimestamp"), "{request}");
    }
    assert_ne!(published[0], published[1], "the tokens are fresh");
}

async fn pod_comes_and_goes(local: EmulatedCluster, cx: Cx) -> CheckResult {
    claimed(&local, &cx).await;
    start(&local, &pod_spec("pod")).await?;
    delete_pod(&local, "pod").await?;
    local.close().await
}

fn tokens_in_secrets_are_nowhere_to_be_seen() {
    let tokens = "tokenRequests: [{audience: vault}]";
    let published = |spec: &str| {
        let played = on_mock_installed_with(&csi_driver(spec), Config::default(), pod_comes_and_goes);
        played.passed().requests("NodePublishVolume").remove(0)
    };
    assert!(published(tokens).contains("expirationTimestamp"));
    let request = published(&format!("{tokens}, serviceAccountTokenInSecrets: true"));
    assert!(!request.contains("expirationTimestamp") && !request.contains("vault"), "{request}");
    assert!(request.contains("secrets") && request.contains(STRIPPED), "{request}");
}

fn a_secret_that_a_driver_sends_back_is_not_told() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class_with(&local, &cx, naming(&["secret"], "default", "wrong")).await;
        local.create_pvc(&claim_spec(&class.name)).await?;
        let text = loop {
            if let Some(event) = local.events("claim").await?.pop() {
                break event.message;
            }
            local.changed().await;
        };
        assert!(text.contains(STRIPPED) && !text.contains("opensesame"), "{text}");
        local.close().await
    }
    let secret = "kind: Secret\nmetadata: {name: wrong}\nstringData: {password: opensesame-1}\n";
    let config = Config { defects: [Defect::SecretsInErrors].into(), ..strict() };
    on_mock_installed_with(secret, config, body).passed();
}

fn limits_are_read_again() {
    async fn body(local: EmulatedCluster, _: Cx) -> CheckResult {
        let limit = async || CheckResult::Ok(local.nodes().await?.remove(0).volume_limit);
        let first = limit().await?;
        // Each answer of the driver has another limit.
        while limit().await? == first {
            local.read_limits_again().await?;
        }
        local.close().await
    }
    let Some(played) = on_hostpath(&["--attach-limit=-1"], body) else { return };
    played.passed();
}

const READS_LIMITS: &str = "nodeAllocatableUpdatePeriodSeconds: 10";

fn a_pod_fails_on_a_node_that_is_full() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        start(&local, &pod_spec("pod")).await?;
        // The count is the driver's reported limit, which exceeds its actual one.
        let spec = PvcSpec { name: "other".to_owned(), ..claim_spec("class") };
        claim(&local, spec).await;
        let mut pod = pod_spec("other");
        pod.volumes[0].source = claim_source("other");
        pod.node = Some("node-1".to_owned());
        local.create_pod(&pod).await?;
        loop {
            let pod = local.pod("other").await?.unwrap();
            assert_ne!(pod.phase, PodPhase::Running, "the node is full");
            if pod.phase == PodPhase::Failed {
                let why = pod.waiting.unwrap();
                assert!(
                    why.contains("VolumeAttachmentLimitExceeded") && why.contains("RESOURCE_EXHAUSTED"),
                    "{why}"
                );
                break;
            }
            local.changed().await;
        }
        delete_pod(&local, "other").await?;
        delete_pod(&local, "pod").await?;
        local.close().await
    }
    let defaults = Config::default();
    // With a single node, every volume can be reached from it.
    let nodes = defaults.nodes.iter().take(1).cloned().collect();
    let config = Config { attach_limit: Some(1), nodes, ..defaults };
    type Body = fn(EmulatedCluster, Cx) -> Pin<Box<dyn Future<Output = CheckResult> + Send>>;
    let asked = |body: Body| {
        let played = on_mock_installed_with(&csi_driver(READS_LIMITS), config.clone(), body);
        played.passed().times("NodeGetInfo")
    };
    let never_full = asked(|local, cx| Box::pin(pod_comes_and_goes(local, cx)));
    assert_eq!(asked(|local, cx| Box::pin(body(local, cx))), never_full + 1, "once more when it is full");
}

fn a_node_that_changes_is_told() {
    async fn body(local: EmulatedCluster, _: Cx) -> CheckResult {
        local.read_limits_again().await?;
        local.close().await
    }
    let config = Config { defects: [Defect::NodeGetInfoIdChanges].into(), ..Config::default() };
    on_mock_installed_with(&csi_driver(READS_LIMITS), config, body).failed("another node_id");
}

fn the_csi_driver_says_what_calls_have() {
    let is_with = |spec: &str| {
        let played = on_mock_installed_with(&csi_driver(spec), Config::default(), pod_comes_and_goes);
        let published = played.passed().requests("NodePublishVolume").remove(0);
        (
            played.calls().contains(&"ControllerPublishVolume"),
            published.contains("csi.storage.k8s.io/pod.name"),
        )
    };
    assert_eq!(is_with(""), (true, false));
    assert_eq!(is_with("podInfoOnMount: true"), (true, true));
}

fn volumes_get_the_selinux_context_of_their_pod() {
    async fn with(
        local: EmulatedCluster,
        cx: Cx,
        policy: Option<SeLinuxChangePolicy>,
        assumes: bool,
    ) -> CheckResult {
        if assumes {
            local.assume_selinux();
        }
        claimed(&local, &cx).await;
        let mut pod = pod_spec("pod");
        (pod.selinux_level, pod.selinux_policy) = (Some("s0:c0,c1".to_owned()), policy);
        start(&local, &pod).await?;
        delete_pod(&local, "pod").await?;
        local.close().await
    }
    const FLAG: &str = r#"context=\"system_u:object_r:container_file_t:s0:c0,c1\""#;
    type Body = fn(EmulatedCluster, Cx) -> Pin<Box<dyn Future<Output = CheckResult> + Send>>;
    let gets = |spec: &str, body: Body| {
        let played = on_mock_installed_with(&csi_driver(spec), Config::default(), body);
        played.passed();
        ["NodeStageVolume", "NodePublishVolume"].map(|rpc| played.requests(rpc)[0].contains(FLAG))
    };
    const LABELS: &str = "seLinuxMount: true";
    assert_eq!(gets(LABELS, |local, cx| Box::pin(with(local, cx, None, true))), [true, true]);
    assert_eq!(gets("", |local, cx| Box::pin(with(local, cx, None, true))), [false, false]);
    let relabelled: Body = |local, cx| Box::pin(with(local, cx, Some(SeLinuxChangePolicy::Recursive), true));
    assert_eq!(gets(LABELS, relabelled), [false, false]);
    if !machine_has_selinux() {
        assert_eq!(gets(LABELS, |local, cx| Box::pin(with(local, cx, None, false))), [false, false]);
    }
}

fn kinds_of_volumes_that_are_not_listed_are_refused() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        claimed(&local, &cx).await;
        local.create_pod(&pod_spec("pod")).await?;
        let why = loop {
            if let Some(why) = local.pod("pod").await?.unwrap().waiting {
                break why;
            }
            local.changed().await;
        };
        assert!(why.contains("does not list Persistent in volumeLifecycleModes"), "{why}");
        local.close().await
    }
    let manifest = csi_driver("attachRequired: false, volumeLifecycleModes: [Ephemeral]");
    let calls = on_mock_installed_with(&manifest, Config::default(), body);
    assert_eq!(calls.passed().calls(), ["CreateVolume", "DeleteVolume"]);
}
