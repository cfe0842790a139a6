use std::sync::Arc;

use csi_harness::prelude::Cx;
use tonic::async_trait;

use super::{Local, Settings};
use crate::cluster::{Cluster, Done};
use crate::plan::Clusters;

/// Plays a cluster of its own for each test.
#[derive(Clone, Debug)]
pub struct LocalClusters {
    /// How each is played.
    pub settings: Settings,
    /// How many nodes the driver is on.
    pub nodes: usize,
}

#[async_trait]
impl Clusters for LocalClusters {
    fn nodes(&self) -> usize {
        self.nodes
    }

    async fn open(&self, cx: &Cx) -> Done<Arc<dyn Cluster>> {
        Ok(Arc::new(Local::open(cx, self.settings.clone()).await?))
    }
}
