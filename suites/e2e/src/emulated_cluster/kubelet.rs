//! Emulates kubelet on one node, which mounts the volumes of the node's pods, runs their containers, and removes both
//! again.

pub(super) mod attach_limit;
mod containers;
mod expansion;
mod fs_group;
pub(super) mod health;
mod pod;
mod reconstruction;
mod republish;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use csi_harness::prelude::Cx;
use csi_proto::lock::Mutex;
use csi_proto::v1;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::failure::Failure;
use super::shared::Shared;
use volumes::Device;

/// A capability of the Node service.
type NodeCapability = v1::node_service_capability::rpc::Type;

/// Kubelet on one node, and its memory.
#[derive(Debug)]
pub(super) struct Kubelet {
    shared: Arc<Shared>,
    node: usize,
    /// The context for calls to this node and for its paths.
    cx: Cx,
    /// Volumes that are or were staged here, by the keys of their staging paths.
    devices: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Device>>>>,
    /// All tasks of this kubelet hold a clone. Nothing is sent: the channel closes when the last task ends.
    _live: mpsc::Sender<Infallible>,
}

impl Kubelet {
    /// Runs kubelet on a node without end.
    pub(super) async fn run(shared: Arc<Shared>, node: usize, sync_pod: mpsc::Sender<Infallible>) {
        let cx = shared.cx.at_node(node);
        let store = shared.store.clone();
        let kubelet = Arc::new(Kubelet { shared, node, cx, devices: Mutex::default(), _live: sync_pod });
        let orphans = kubelet.reconstruct().await;
        let mut changes = store.subscribe();
        let mut pods = JoinSet::new();
        let watching = kubelet.clone();
        pods.spawn(async move { watching.watch_health().await });
        let reading = kubelet.clone();
        pods.spawn(async move { reading.keep_limit_read().await });
        let mut known = BTreeSet::new();
        for orphan in orphans {
            let kubelet = kubelet.clone();
            pods.spawn(async move { kubelet.cleanup_orphan(orphan).await });
        }
        loop {
            changes.borrow_and_update();
            let here = store.look(|objects| {
                let here = objects.pods.values().filter(|pod| pod.node == Some(node));
                here.map(|pod| pod.pod.clone()).collect::<Vec<_>>()
            });
            for pod in here {
                if known.insert(pod.uid.clone()) {
                    let kubelet = kubelet.clone();
                    pods.spawn(async move { kubelet.sync_pod(pod).await });
                }
            }
            tokio::select! {
                Some(_) = pods.join_next() => {}
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Asks the driver for a capability, and repeats this on errors, as kubelet does.
    async fn can(&self, capability: NodeCapability) -> Result<bool, Failure> {
        can(&self.shared, &self.cx, capability).await
    }

    /// Returns the state of the volume with this key.
    fn device(&self, key: &str) -> Arc<tokio::sync::Mutex<Device>> {
        let mut devices = self.devices.lock();
        let scope = || self.shared.scope(self.node, format!("device {key}"));
        let new = || Arc::new(tokio::sync::Mutex::new(Device::new(scope())));
        devices.entry(key.to_owned()).or_insert_with(new).clone()
    }
}

async fn can(shared: &Shared, node: &Cx, capability: NodeCapability) -> Result<bool, Failure> {
    use v1::node_service_capability::Type;
    let reply = node.call(v1::NodeGetCapabilitiesRequest {}).once().await;
    let response = shared.heard(&reply)?;
    let has = |found: v1::NodeServiceCapability| match found.r#type {
        Some(Type::Rpc(rpc)) => rpc.r#type() == capability,
        None => false,
    };
    Ok(response.capabilities.into_iter().any(has))
}
