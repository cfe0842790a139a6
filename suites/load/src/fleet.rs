//! The volumes that exist while the stages run.

mod keep;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use csi_harness::config::AccessType;
use csi_harness::prelude::*;
use csi_ops::lifecycle::Lifecycle;
use csi_ops::malformed::{Malformed, malformed};
use csi_ops::operation::Operation;
use csi_ops::volume::TrackedVolume;
use csi_proto::Service;
use csi_proto::lock::Mutex;

use crate::cycle::{Cycle, Held};
use crate::workload::Workload;

/// Volumes that are attached now and then, unless there are more callers.
const ATTACHABLE: usize = 64;
/// Operations whose malformed requests are sent. All of them are rejected before anything is made.
const MALFORMED: [Operation; 6] = [
    Operation::CreateVolume,
    Operation::ControllerPublishVolume,
    Operation::NodeStageVolume,
    Operation::NodePublishVolume,
    Operation::CreateSnapshot,
    Operation::DeleteSnapshot,
];

/// The volumes of a load, and what all requests have in common.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// A request to create a volume, apart from its name.
    pub(crate) create: v1::CreateVolumeRequest,
    /// Such a request for a block volume, if life cycles with block volumes are in the mix.
    pub(crate) create_block: v1::CreateVolumeRequest,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) node_id: String,
    /// The number of volumes that the node names as its limit; 0 if it names none.
    max_volumes_per_node: i64,
    idle: Mutex<Vec<Held>>,
    /// The volumes that are attached now and then, those under way apart.
    attachable: Mutex<Vec<Held>>,
    /// The largest number of them.
    attachable_max: usize,
    published: Mutex<Vec<Held>>,
    /// Ids of all volumes that are held and of which nothing is in doubt.
    ids: Mutex<BTreeSet<String>>,
    /// True until a group snapshot could not be made.
    pub(crate) groups: AtomicBool,
    malformed: Vec<Malformed>,
    accepted: Mutex<BTreeSet<usize>>,
}

impl Fleet {
    /// Finds out what the requests need. Is broken if the driver rejects calls that only ask, or a path cannot be made.
    pub(crate) async fn new(cx: &Cx, workload: &Workload) -> CheckResult<Fleet> {
        let create = cx.create_node_volume_request().await?;
        let (mut node_id, mut max_volumes_per_node) = Default::default();
        if cx.target().serves(Service::Node) {
            let info = cx.call(v1::NodeGetInfoRequest::default()).setup("the node").await?;
            (node_id, max_volumes_per_node) = (info.node_id, info.max_volumes_per_node);
        }
        let create_block = match workload.mix.contains_key(&Cycle::Block) {
            true => cx.with_access(AccessType::Block).create_node_volume_request().await?,
            false => create.clone(),
        };
        let rejects = workload.mix.contains_key(&Cycle::Rejection);
        let malformed = if rejects { malformed_requests(cx).await? } else { Vec::new() };
        Ok(Fleet {
            create,
            create_block,
            lifecycle: Lifecycle::of(cx),
            node_id,
            max_volumes_per_node,
            idle: Mutex::default(),
            attachable: Mutex::default(),
            attachable_max: match workload.mix.contains_key(&Cycle::Attachment) {
                true => ATTACHABLE.max(workload.callers as usize),
                false => 0,
            },
            published: Mutex::default(),
            ids: Mutex::default(),
            groups: AtomicBool::new(true),
            malformed,
            accepted: Mutex::default(),
        })
    }

    /// The number of volumes that may be published, of so many that the workload asks for.
    pub(crate) fn room(&self, wanted: u32) -> u32 {
        match u32::try_from(self.max_volumes_per_node) {
            Ok(limit) if limit > 0 => wanted.min(limit),
            _ => wanted,
        }
    }

    /// Ids of all volumes that are held and of which nothing is in doubt.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.ids.lock().clone()
    }

    /// A volume to attach, which no other life cycle uses until it is given back.
    pub(crate) fn take_attachable(&self, rng: &mut fastrand::Rng) -> Option<Held> {
        let mut attachable = self.attachable.lock();
        let number = (!attachable.is_empty()).then(|| rng.usize(..attachable.len()))?;
        Some(attachable.swap_remove(number))
    }

    pub(crate) fn give_back(&self, held: Held) {
        self.attachable.lock().push(held);
    }

    /// Takes in a volume that was created and is not published.
    fn keep(&self, held: Held) {
        let mut attachable = self.attachable.lock();
        match attachable.len() < self.attachable_max {
            true => attachable.push(held),
            false => self.idle.lock().push(held),
        }
    }

    /// A copy of what is known of a published volume.
    pub(crate) fn published(&self, rng: &mut fastrand::Rng) -> Option<Held> {
        choose(&self.published.lock(), rng)
    }

    /// Copies of what is known of all published volumes.
    pub(crate) fn all_published(&self) -> Vec<Held> {
        self.published.lock().clone()
    }

    /// A copy of what is known of any volume that is there.
    pub(crate) fn any(&self, rng: &mut fastrand::Rng) -> Option<Held> {
        let found = choose(&self.idle.lock(), rng).or_else(|| choose(&self.attachable.lock(), rng));
        found.or_else(|| self.published(rng))
    }

    /// The numbers of the requests that the driver must reject, and does.
    pub(crate) fn rejected(&self) -> Vec<usize> {
        let accepted = self.accepted.lock();
        (0..self.malformed.len()).filter(|number| !accepted.contains(number)).collect()
    }

    /// A request that the driver must reject, by its number.
    pub(crate) fn malformed(&self, number: usize) -> &Malformed {
        &self.malformed[number]
    }

    pub(crate) fn was_accepted(&self, number: usize) {
        self.accepted.lock().insert(number);
    }
}

fn choose(from: &[Held], rng: &mut fastrand::Rng) -> Option<Held> {
    rng.choice(from).cloned()
}

/// Malformed requests about a volume that was deleted.
async fn malformed_requests(cx: &Cx) -> CheckResult<Vec<Malformed>> {
    let mut deleted = TrackedVolume::deleted(cx).await?;
    let mut requests = Vec::new();
    for operation in MALFORMED.into_iter().filter(|operation| operation.is_offered(cx)) {
        let right = deleted.request(cx, operation).await?;
        let wrong = malformed(cx, &deleted, &right);
        requests.extend(wrong.into_iter().filter(|wrong| wrong.must_be_rejected));
    }
    Ok(requests)
}
