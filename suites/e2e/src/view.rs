//! The known properties of a cluster: all of them once a test has one, and fewer before the driver was called.

use std::collections::BTreeMap;

use csi_harness::prelude::Capability;
use serde::Serialize;

use crate::cluster::{Cluster, Done, Feature, Node};

/// The known properties of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The number of nodes with the driver.
    pub nodes_count: usize,
    /// The nodes, if known.
    pub nodes: Option<Vec<Node>>,
    /// The features of the cluster, or the reasons for missing ones; only the driver knows those that are not listed.
    pub offers: BTreeMap<Feature, Result<(), String>>,
}

/// Decides that a test is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkippedBy {
    /// The definition of the driver, with its classes.
    Definition,
    /// The driver's capabilities, topology or limits.
    Driver,
    /// The cluster, or the one that is played.
    Cluster,
    /// This machine, or the nodes of a cluster.
    Machine,
}

impl SkippedBy {
    pub fn name(self) -> &'static str {
        match self {
            SkippedBy::Definition => "definition",
            SkippedBy::Driver => "driver",
            SkippedBy::Cluster => "cluster",
            SkippedBy::Machine => "machine",
        }
    }
}

impl View {
    /// Makes a view of a cluster of which everything is known.
    pub(crate) fn of(nodes: Vec<Node>, offers: impl Fn(Feature) -> Result<(), String>) -> View {
        let offers = Feature::ALL.iter().map(|feature| (*feature, offers(*feature))).collect();
        View { nodes_count: nodes.len(), nodes: Some(nodes), offers }
    }

    /// Adds what a driver advertises to what is known.
    pub fn with_driver(mut self, advertises: impl Fn(Capability) -> bool) -> View {
        for feature in Feature::ALL {
            let Some(capability) = feature.capability() else { continue };
            self.offers.entry(*feature).or_insert_with(|| match advertises(capability) {
                true => Ok(()),
                false => Err(lacks(capability)),
            });
        }
        self
    }

    /// Makes a view of a test's cluster.
    pub(crate) async fn of_cluster(cluster: &dyn Cluster) -> Done<View> {
        Ok(View::of(cluster.nodes().await?, |feature| cluster.offers(feature)))
    }
}

/// Says that a driver lacks a capability.
pub(crate) fn lacks(capability: Capability) -> String {
    format!("the driver does not have {}", capability.name())
}

/// Says why a test does not or may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The test skips.
    Skips(String),
    /// This is unknown before the driver is called.
    Depends(String),
}
