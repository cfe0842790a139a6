use std::sync::Arc;
use std::time::Duration;

use csi_harness::prelude::Cx;
use tonic::async_trait;

use super::discovery::Discovered;
use super::marks::Marks;
use super::pods::PodDefaults;
use super::{KubeCluster, Settings};
use crate::cluster::Say;
use crate::cluster::{Cluster, Done};
use crate::plan::ClusterProvider;
use crate::view::View;
use crate::volume_slots::{SlotPermit, VolumeSlots};

/// A real cluster, in which each test has its own namespace.
#[derive(Debug)]
pub struct KubeClusters {
    found: Arc<Discovered>,
    settings: Settings,
    /// The time after which the run is over in any case.
    limit: Duration,
    slots: VolumeSlots,
    say: Say,
}

impl KubeClusters {
    /// Makes namespaces in a cluster for a run that is over after `limit`. All definitions of a run share the
    /// room. `say` gets messages for the user.
    pub fn new(
        found: Discovered,
        settings: Settings,
        slots: VolumeSlots,
        limit: Duration,
        say: Say,
    ) -> KubeClusters {
        KubeClusters { found: Arc::new(found), settings, limit, slots, say }
    }

    /// Returns the known properties of a cluster for tests with these settings.
    pub fn view(found: &Discovered, settings: &Settings) -> View {
        let nodes = found.nodes.iter().map(|node| node.node.clone()).collect();
        View::of(nodes, |feature| found.offers(settings, feature))
    }

    /// Returns a namespace for a test of a run. It is created with the first object in it.
    pub fn namespace(&self, run: &str, name: &str) -> KubeCluster {
        self.namespace_with(run, name, None)
    }

    fn namespace_with(&self, run: &str, name: &str, permit: Option<SlotPermit>) -> KubeCluster {
        let marks = Marks::new(run, self.limit);
        let (found, settings) = (self.found.clone(), self.settings.clone());
        KubeCluster::new(found, settings, self.pod_defaults(), marks, name, permit, self.say)
    }

    /// Returns the placement of pods: on the nodes with the driver, if other nodes lack it.
    fn pod_defaults(&self) -> PodDefaults {
        let hostnames = match self.found.others.is_empty() {
            true => Vec::new(),
            false => self.found.nodes.iter().map(|node| node.hostname.clone()).collect(),
        };
        let Settings { image, client_node, .. } = self.settings.clone();
        PodDefaults { image, hostnames, client_node }
    }
}

#[async_trait]
impl ClusterProvider for KubeClusters {
    fn view(&self) -> View {
        KubeClusters::view(&self.found, &self.settings)
    }

    fn say(&self) -> Say {
        self.say
    }

    async fn open(&self, cx: &Cx) -> Done<Arc<dyn Cluster>> {
        let nodes = self.found.nodes.iter().map(|node| &node.node);
        let permit = self.slots.share(nodes, cx.remaining() / 2).await?;
        let real = Arc::new(self.namespace_with(cx.target().run_prefix(), &cx.unique_name(), permit));
        cx.removes(real.clone());
        Ok(real)
    }
}
