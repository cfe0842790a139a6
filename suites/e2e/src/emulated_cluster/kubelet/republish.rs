//! Publishes volumes again while their pod runs, with fresh tokens for the driver.

use std::time::{Duration, SystemTime};

use csi_harness::prelude::{AccessType, Violation};
use csi_proto::hidden;
use serde_json::{Map, json};

use super::Kubelet;
use super::volumes::PodMount;
use crate::cluster::{Pod, PodPhase};

/// The period in which kubelet checks each pod.
const POD_SYNC: Duration = Duration::from_secs(60);
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

impl Kubelet {
    /// Publishes the volumes of a pod again as soon as it runs and every minute after that, if the CSIDriver requests
    /// it. A failure changes nothing for the pod.
    pub(super) async fn keep_republished(&self, pod: &Pod, mounts: &[PodMount]) {
        if !self.shared.csi_driver.requires_republish {
            return;
        }
        self.until_phase(pod, |phase| phase != PodPhase::Pending).await;
        loop {
            for mount in mounts.iter().filter(|mount| mount.access() == AccessType::Mount) {
                if self.pod(pod, |object| object.deleting).unwrap_or(true) {
                    return;
                }
                let Err(failure) = self.republish(pod, mount).await else { continue };
                self.shared.store.event(&pod.spec.name, "FailedMount", failure.to_string());
                self.cx.warn(
                    Violation::new("a volume cannot be published again while its pod runs")
                        .expected("the CSIDriver has requiresRepublish, so NodePublishVolume can be repeated")
                        .actual(failure.to_string()),
                );
            }
            let over = self.until_phase(pod, |phase| matches!(phase, PodPhase::Succeeded | PodPhase::Failed));
            tokio::select! {
                () = tokio::time::sleep(POD_SYNC) => {}
                () = over => return,
            }
        }
    }

    /// Waits for a phase of a pod, or until it is deleted.
    async fn until_phase(&self, pod: &Pod, is_it: impl Fn(PodPhase) -> bool) {
        let found = self.shared.store.until(|objects| {
            let object = objects.pods.get(&pod.spec.name).filter(|object| object.pod.uid == pod.uid);
            object.is_none_or(|object| object.deleting || is_it(object.pod.phase)).then_some(())
        });
        found.await;
    }

    /// Returns whether the driver gets tokens in secrets. Older kubelets do not know the field, and put them into `volume_context`.
    pub(super) fn puts_tokens_in_secrets(&self) -> bool {
        self.shared.settings.version.has_tokens_in_secrets()
            && self.shared.csi_driver.service_account_token_in_secrets
    }

    /// Returns new tokens of the pod's service account, if the CSIDriver requests some. They are invented and not
    /// signed.
    pub(super) fn tokens(&self) -> Option<(String, String)> {
        let requests = &self.shared.csi_driver.token_requests;
        let tokens = requests.iter().map(|request| {
            let lifetime = Duration::from_secs(request.expiration_seconds.into());
            let expires = prost_types::Timestamp::from(SystemTime::now() + lifetime);
            let expires = prost_types::Timestamp { nanos: 0, ..expires }.to_string();
            let token = format!("token-{}", self.shared.uid());
            if self.puts_tokens_in_secrets() {
                hidden::hide(&token);
            }
            (request.audience.clone(), json!({ "token": token, "expirationTimestamp": expires }))
        });
        let tokens: Map<_, _> = tokens.collect();
        (!tokens.is_empty()).then(|| (TOKENS.to_owned(), serde_json::Value::from(tokens).to_string()))
    }
}
