use crate::cluster::Feature;
use crate::pattern;
use crate::test;
use crate::test::{Need, Suite};

/// Upstream's tests belong to its in-memory driver, which records its calls.
pub(crate) static SUITE: Suite = Suite {
    name: "CSIServiceAccountToken",
    patterns: &[&pattern::FS_MODE],
    needs: &[Need::Offers(Feature::ServiceAccountTokens)],
    tests: &[&PLUMBED],
    ..Suite::PLAIN
};

test! {
    /// The driver gets the tokens that its CSIDriver requests at the requested place: in `secrets` with
    /// `serviceAccountTokenInSecrets`, otherwise in `volume_context`.
    PLUMBED {
        name: "token should be plumbed down when csiServiceAccountTokenEnabled=true",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        pod.delete().await
    }
}
