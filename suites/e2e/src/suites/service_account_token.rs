use crate::cluster::Feature;
use crate::pattern;
use crate::test;
use crate::test::{Need, Suite};

/// Upstream has its tests among those of the driver in memory, which notes what it is called with.
pub(crate) static SUITE: Suite = Suite {
    name: "CSIServiceAccountToken",
    tags: &[],
    context: "",
    patterns: &[&pattern::FS_MODE],
    size_min_bytes: 0,
    data_bytes: 0,
    needs: &[Need::Offers(Feature::ServiceAccountTokens)],
    tests: &[&PLUMBED],
};

test! {
    /// The driver finds the tokens that its CSIDriver asks for where it asks for them: in `secrets` with
    /// `serviceAccountTokenInSecrets`, else in `volume_context`.
    PLUMBED {
        name: "token should be plumbed down when csiServiceAccountTokenEnabled=true",
    }
    async |scene| {
        let volume = scene.volume().await?;
        let pod = scene.run(scene.pod(&[&volume])).await?;
        pod.delete().await
    }
}
