//! Makes many volumes concurrently, as the performance tests do.

use std::time::{Duration, Instant};

use csi_driver_definitions::{DriverDefinition, ProvisioningOptions};
use csi_harness::prelude::Stop;

use super::{Scene, all, positive};
use crate::cluster::{AccessMode, Done, PvcSpec, VolumeMode};
use crate::test::Need;

const MISSING: &str = "the definition has no PerformanceTestOptions.ProvisioningOptions";

/// The need without which performance tests skip.
pub(crate) const LOAD: Need = Need::Says(|definition| options(definition).is_some(), MISSING);

fn options(definition: &DriverDefinition) -> Option<&ProvisioningOptions> {
    definition.driver_info.performance_test_options.as_ref()?.provisioning_options.as_ref()
}

/// A claim, and the time until it was bound.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) claim: String,
    pub(crate) latency: Duration,
}

impl Scene {
    /// Returns the definition's options for the load.
    pub(crate) fn load_options(&self) -> Done<&ProvisioningOptions> {
        options(self.driver()).ok_or_else(|| Stop::skip(MISSING))
    }

    /// Creates as many claims as the definition says without waiting in between, and waits until all are bound.
    pub(crate) async fn load(&self, mode: VolumeMode, limit: Duration) -> Done<Vec<Loaded>> {
        let options = self.load_options()?;
        let field = |name| format!("PerformanceTestOptions.ProvisioningOptions.{name}");
        let count = positive(&field("Count"), options.count)?;
        let size_bytes = options.volume_size.and_then(|size| i64::try_from(size.bytes()).ok());
        let request_bytes = size_bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
            Stop::broken(format!("{} is no size of a volume; write for example 1Gi", field("VolumeSize")))
        })?;
        let class = self.class().await?;
        let mut asked = Vec::new();
        for _ in 0..count {
            let access_modes = vec![AccessMode::ReadWriteOnce];
            let spec = PvcSpec { access_modes, mode, request_bytes, ..self.claim_spec(&class) };
            let since = Instant::now();
            self.cluster().create_pvc(&spec).await?;
            asked.push((spec.name, since));
        }
        all(asked.into_iter().map(async |(claim, since)| {
            self.bound(&claim, limit).await?;
            Ok(Loaded { claim, latency: since.elapsed() })
        }))
        .await
    }
}
