use std::sync::{Arc, Once};

use csi_driver_definitions::Capability as Can;

use csi_harness::prelude::Cx;
use tonic::async_trait;

use super::{EmulatedCluster, NEVER_OFFERED, NO_UPGRADE, Settings, Streaks};
use crate::cluster::Say;
use crate::cluster::{Cluster, Done, Feature};
use crate::definition::Definition;
use crate::plan::ClusterProvider;
use crate::promise::PROMISES;
use crate::view::View;
use crate::volume_slots::VolumeSlots;

/// Emulates a cluster for each test.
#[derive(Debug)]
pub struct EmulatedClusters {
    settings: Settings,
    nodes: usize,
    definition: Arc<Definition>,
    slots: VolumeSlots,
    say: Say,
    lack_is_said: Once,
}

impl EmulatedClusters {
    /// Makes clusters with these settings, and this number of nodes with the driver. `say` gets messages for the
    /// user. All definitions of a run share the room.
    pub fn new(
        mut settings: Settings,
        nodes: usize,
        definition: Arc<Definition>,
        slots: VolumeSlots,
        say: Say,
    ) -> EmulatedClusters {
        settings.se_linux_mount = definition.driver.can(Can::SeLinuxMount);
        // A call that always fails with the classes of one definition may succeed with those of another.
        settings.streaks = Arc::new(Streaks::default());
        EmulatedClusters { settings, nodes, definition, slots, say, lack_is_said: Once::new() }
    }

    /// Returns the properties of such a cluster that do not depend on the driver, other than that a next version of it may
    /// be known.
    pub fn view(nodes_count: usize, has_next_version: bool) -> View {
        let offer = |feature: &Feature| match NEVER_OFFERED.iter().find(|(never, _)| never == feature) {
            Some((_, why)) => Some((*feature, Err((*why).to_owned()))),
            // The driver reports its own features.
            None if feature.capability().is_some() => None,
            // These depend on the driver's process, and on the version of Kubernetes.
            None if matches!(feature, Feature::SeLinuxContexts | Feature::SeLinuxEveryMode) => None,
            None if replaces_driver(*feature) && !has_next_version => {
                Some((*feature, Err(NO_UPGRADE.to_owned())))
            }
            None => Some((*feature, Ok(()))),
        };
        View { nodes_count, nodes: None, offers: Feature::ALL.iter().filter_map(offer).collect() }
    }

    /// Reports once which capabilities of the definition the driver lacks: each test of them fails at once.
    fn say_what_is_lacked(&self, cx: &Cx) {
        let advertises = |one| cx.target().capabilities().has(one);
        for promise in PROMISES {
            if let Some(lacked) = promise.lacked(&self.definition.driver, advertises) {
                (self.say)(&format!(
                    "warning: {} has {}, but the driver does not advertise {lacked}, so its tests cannot pass",
                    self.definition.title(),
                    promise.text
                ));
            }
        }
    }
}

fn replaces_driver(feature: Feature) -> bool {
    matches!(feature, Feature::DriverUpgrade | Feature::DriverDowngrade)
}

#[async_trait]
impl ClusterProvider for EmulatedClusters {
    fn view(&self) -> View {
        // Each cluster knows whether its driver has a next version.
        EmulatedClusters::view(self.nodes, true)
    }

    fn say(&self) -> Say {
        self.say
    }

    async fn open(&self, cx: &Cx) -> Done<Arc<dyn Cluster>> {
        self.lack_is_said.call_once(|| self.say_what_is_lacked(cx));
        Ok(Arc::new(EmulatedCluster::open(cx, self.settings.clone(), &self.slots).await?))
    }
}
