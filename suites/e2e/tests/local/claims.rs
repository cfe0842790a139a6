//! The tests make claims and their volumes on the driver in memory.

use csi_harness::prelude::{CheckResult, Cx};
use csi_harness::results::outcome::Halt;
use csi_mock_driver::Config;
use csi_proto::v1;
use csi_suite_e2e::cluster::{Cluster as _, PvcPhase, PvcSpec, VolumePhase};
use csi_suite_e2e::emulated_cluster::EmulatedCluster;
use tokio::sync::watch;

use crate::pods::{claim_spec, pod_spec};
use crate::stage::{Test, claim, class, on_mock, on_mock_interrupted, on_mock_paused, start};

pub(crate) const TESTS: &[Test] = &[
    ("a_claim_gets_a_volume_that_goes_with_it", a_claim_gets_a_volume_that_goes_with_it),
    ("names_of_volumes_are_unlike_their_handles", names_of_volumes_are_unlike_their_handles),
    ("a_driver_that_says_no_for_long_is_given_up", a_driver_that_says_no_for_long_is_given_up),
    ("what_is_asked_for_again_after_minutes_only_is_not_waited_for", what_is_asked_for_after_minutes_only),
    ("an_interruption_undoes_what_is_under_way", an_interruption_undoes_what_is_under_way),
];

fn spec(class: &str) -> PvcSpec {
    PvcSpec { request_bytes: 1 << 20, ..claim_spec(class) }
}

fn a_claim_gets_a_volume_that_goes_with_it() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let bound = claim(&local, spec(&class.name)).await;
        let volume = local.volume(bound.volume.as_deref().unwrap()).await?.unwrap();
        assert_eq!((bound.phase, volume.phase), (PvcPhase::Bound, VolumePhase::Bound));
        assert!(bound.capacity_bytes >= 1 << 20 && volume.capacity_bytes == bound.capacity_bytes);
        assert!(volume.attributes.contains_key("storage.kubernetes.io/csiProvisionerIdentity"));
        local.delete_pvc("claim").await?;
        while local.volume(&volume.name).await?.is_some() {
            local.changed().await;
        }
        local.close().await
    }
    let played = on_mock(Config::default(), body);
    assert_eq!(played.passed().calls(), ["CreateVolume", "DeleteVolume"]);
    let request = &played.requests("CreateVolume")[0];
    assert!(
        request.contains("pvc-") && request.contains(r#""capacity_range":{"required_bytes":1048576}"#),
        "{request}"
    );
}

/// With unlike names, a driver finds no volume if it takes the name of a PersistentVolume for its handle, or the other way round.
fn names_of_volumes_are_unlike_their_handles() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let bound = claim(&local, spec(&class.name)).await;
        let volume = local.volume(bound.volume.as_deref().unwrap()).await?.unwrap();
        let uuid = volume.name.strip_prefix("pvc-").unwrap();
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uuid}");
        start(&local, &pod_spec("pod")).await?;
        local.close().await
    }
    let played = on_mock(Config::default(), body);
    let created = &played.passed().requests("CreateVolume")[0];
    let published = &played.requests("NodePublishVolume")[0];
    let (name, handle) = (field(created, "name"), field(published, "volume_id"));
    assert!(!name.contains(handle) && !handle.contains(name), "{name} {handle}");
    let (staging, target) = (field(published, "staging_target_path"), field(published, "target_path"));
    assert!(target.ends_with(&format!("/volumes/kubernetes.io~csi/{name}/mount")), "{target}");
    for (path, part) in [(target, handle), (staging, handle), (staging, name)] {
        assert!(!path.contains(part), "{part} is in {path}");
    }
}

/// Returns the value of a text field in a printed request.
fn field<'a>(request: &'a str, name: &str) -> &'a str {
    let (_, rest) = request.split_once(&format!("\"{name}\":\"")).unwrap();
    rest.split('"').next().unwrap()
}

fn a_driver_that_says_no_for_long_is_given_up() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let no = claim(&local, PvcSpec { request_bytes: i64::MAX, ..spec(&class.name) }).await;
        let why = no.given_up.unwrap();
        assert!(why.contains("CreateVolume failed: OUT_OF_RANGE") && why.contains(" calls for "), "{why}");
        let events = local.events("claim").await?;
        assert!(events.iter().all(|event| event.reason == "ProvisioningFailed"), "{events:?}");
        local.close().await
    }
    let played = on_mock_paused(Config::default(), body);
    // Pauses double up to five minutes.
    assert_eq!(played.passed().calls(), ["CreateVolume"; 11]);
}

fn what_is_asked_for_after_minutes_only() {
    async fn body(local: EmulatedCluster, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let no = claim(&local, spec(&class.name)).await;
        assert!(no.given_up.is_some_and(|why| why.contains("CreateVolume failed: INVALID_ARGUMENT")));
        local.close().await
    }
    let mut config = Config::default();
    config.fail.insert("CreateVolume".parse().unwrap(), "INVALID_ARGUMENT".parse().unwrap());
    assert_eq!(on_mock(config, body).passed().calls(), ["CreateVolume"]);
}

/// This number of volumes are being made when the run is interrupted.
const UNDER_WAY: usize = 5;

fn an_interruption_undoes_what_is_under_way() {
    async fn body(local: EmulatedCluster, cx: Cx, interrupt: watch::Sender<Halt>) -> CheckResult {
        let class = class(&local, &cx).await;
        for number in 0..UNDER_WAY {
            local.create_pvc(&PvcSpec { name: format!("claim-{number}"), ..spec(&class.name) }).await?;
        }
        // They are created without a notification.
        while cx.call(v1::ListVolumesRequest::default()).setup("the volumes").await?.entries.len() < UNDER_WAY
        {
            tokio::task::yield_now().await;
        }
        interrupt.send_replace(Halt::Interrupted);
        std::future::pending().await
    }
    let mut config = Config::default();
    config.delay.insert("CreateVolume:before-answer".parse().unwrap(), "2s".parse().unwrap());
    let played = on_mock_interrupted(config, body);
    played.skipped("interrupted");
    assert_eq!(played.left(), &[""; 0], "{played:?}");
    assert!(played.requests("DeleteVolume").len() >= UNDER_WAY, "{played:?}");
}
