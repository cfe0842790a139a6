//! The known properties of a cluster: all of them once a test has one, and fewer before the driver was called.

use std::collections::BTreeMap;

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

impl View {
    /// Makes a view of a cluster of which everything is known.
    pub(crate) fn of(nodes: Vec<Node>, offers: impl Fn(Feature) -> Result<(), String>) -> View {
        let offers = Feature::ALL.iter().map(|feature| (*feature, offers(*feature))).collect();
        View { nodes_count: nodes.len(), nodes: Some(nodes), offers }
    }

    /// Makes a view of a test's cluster.
    pub(crate) async fn of_cluster(cluster: &dyn Cluster) -> Done<View> {
        Ok(View::of(cluster.nodes().await?, |feature| cluster.offers(feature)))
    }
}

/// Says why a test does not or may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The test skips.
    Skips(String),
    /// This is unknown before the driver is called.
    Depends(String),
}
