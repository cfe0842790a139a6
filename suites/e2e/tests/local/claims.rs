//! Claims and their volumes, on the driver in memory.

use csi_harness::prelude::{CheckResult, Cx};
use csi_mock_driver::Config;
use csi_suite_e2e::cluster::{AccessMode, ClaimPhase, ClaimSpec, Cluster as _, VolumePhase};
use csi_suite_e2e::local::Local;

use crate::stage::{Test, claim, class, on_mock};

pub(crate) const TESTS: &[Test] = &[
    ("a_claim_gets_a_volume_that_goes_with_it", a_claim_gets_a_volume_that_goes_with_it),
    ("a_driver_that_says_no_is_given_up", a_driver_that_says_no_is_given_up),
];

fn spec(class: &str) -> ClaimSpec {
    ClaimSpec {
        name: "claim".to_owned(),
        class: class.to_owned(),
        access_modes: vec![AccessMode::ReadWriteOnce],
        request_bytes: 1 << 20,
        ..ClaimSpec::default()
    }
}

fn a_claim_gets_a_volume_that_goes_with_it() {
    async fn body(local: Local, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let bound = claim(&local, spec(&class.name)).await;
        let volume = local.volume(bound.volume.as_deref().unwrap()).await?.unwrap();
        assert_eq!((bound.phase, volume.phase), (ClaimPhase::Bound, VolumePhase::Bound));
        assert!(bound.capacity_bytes >= 1 << 20 && volume.capacity_bytes == bound.capacity_bytes);
        assert!(volume.attributes.contains_key("storage.kubernetes.io/csiProvisionerIdentity"));
        local.delete_claim("claim").await?;
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

fn a_driver_that_says_no_is_given_up() {
    async fn body(local: Local, cx: Cx) -> CheckResult {
        let class = class(&local, &cx).await;
        let no = claim(&local, ClaimSpec { request_bytes: i64::MAX, ..spec(&class.name) }).await;
        assert!(no.given_up.is_some_and(|why| why.contains("CreateVolume failed: OUT_OF_RANGE")));
        let events = local.events("claim").await?;
        assert!(events.iter().all(|event| event.reason == "ProvisioningFailed"), "{events:?}");
        assert_eq!(events.len(), 4);
        local.close().await
    }
    let played = on_mock(Config::default(), body);
    assert_eq!(played.passed().calls(), ["CreateVolume"; 4]);
}
