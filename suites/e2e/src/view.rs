//! What is known of a cluster: all of it once a test has one, and less before the driver was asked.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, Done, Feature, Node};

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// How many nodes have the driver.
    pub nodes_count: usize,
    /// These nodes, where somebody has told of them.
    pub nodes: Option<Vec<Node>>,
    /// Whether the cluster has this, or why not; what is not in here, only the driver knows.
    pub offers: BTreeMap<Feature, Result<(), String>>,
}

impl View {
    /// A cluster of which everything is known.
    pub(crate) fn of(nodes: Vec<Node>, offers: impl Fn(Feature) -> Result<(), String>) -> View {
        let offers = Feature::ALL.iter().map(|feature| (*feature, offers(*feature))).collect();
        View { nodes_count: nodes.len(), nodes: Some(nodes), offers }
    }

    /// The cluster that a test has.
    pub(crate) async fn of_cluster(cluster: &dyn Cluster) -> Done<View> {
        Ok(View::of(cluster.nodes().await?, |feature| cluster.offers(feature)))
    }
}

/// Why a test does not run, or may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// It skips.
    Skips(String),
    /// That cannot be known before the driver was asked.
    Depends(String),
}
