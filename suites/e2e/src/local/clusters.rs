use std::sync::Arc;

use csi_harness::prelude::Cx;
use tonic::async_trait;

use super::{Local, Settings};
use crate::cluster::{Cluster, Done};
use crate::plan::Clusters;
use crate::room::Room;

/// Plays a cluster of its own for each test.
#[derive(Debug)]
pub struct LocalClusters {
    settings: Settings,
    nodes: usize,
    room: Room,
}

impl LocalClusters {
    /// Clusters that are played like this, with so many nodes that the driver is on.
    pub fn new(settings: Settings, nodes: usize) -> LocalClusters {
        LocalClusters { settings, nodes, room: Room::default() }
    }
}

#[async_trait]
impl Clusters for LocalClusters {
    fn nodes(&self) -> usize {
        self.nodes
    }

    async fn open(&self, cx: &Cx) -> Done<Arc<dyn Cluster>> {
        Ok(Arc::new(Local::open(cx, self.settings.clone(), &self.room).await?))
    }
}
