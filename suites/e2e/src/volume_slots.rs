//! Divides the volume limit of the nodes among concurrent tests.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use csi_harness::prelude::Stop;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cluster::{Done, Node};

/// The limit on a test's volumes on a node. Tests with more run alone.
const VOLUMES_OF_A_TEST: u64 = 6;

/// The volumes that nodes with a limit have for the tests of a run. An emulated cluster has a scheduler for each test, and in a real one,
/// tests would wait for each other that each keep what the other needs.
///
/// A test holds its slots from the beginning to the end, so that none waits for slots while others wait for its own.
#[derive(Clone, Debug, Default)]
pub struct VolumeSlots {
    shares: Arc<OnceLock<Option<Arc<Semaphore>>>>,
}

/// The slots of one test, which are free again when this is dropped.
pub(crate) type SlotPermit = OwnedSemaphorePermit;

impl VolumeSlots {
    /// Waits for the slots of a test; none are needed if nodes have no limit.
    ///
    /// # Errors
    /// Broken if earlier tests keep theirs for too long.
    pub(crate) async fn share<'a>(
        &self,
        nodes: impl Iterator<Item = &'a Node>,
        limit: Duration,
    ) -> Done<Option<SlotPermit>> {
        let Some(shares) =
            self.shares.get_or_init(|| shares(nodes).map(|shares| Arc::new(Semaphore::new(shares))))
        else {
            return Ok(None);
        };
        match tokio::time::timeout(limit, shares.clone().acquire_owned()).await {
            Ok(permit) => Ok(permit.ok()),
            Err(_) => {
                let waited_s = limit.as_secs();
                Err(Stop::broken(format!(
                    "waited {waited_s} s for other tests to free room on the nodes; see --jobs"
                )))
            }
        }
    }
}

/// Returns the number of shares on each of the nodes.
fn shares<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<usize> {
    let smallest = nodes.filter_map(|node| node.volume_limit).min()?;
    let shares = usize::try_from(smallest / VOLUMES_OF_A_TEST).unwrap_or(usize::MAX);
    Some(shares.clamp(1, Semaphore::MAX_PERMITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(volume_limit: Option<u64>) -> Node {
        Node { name: "node".to_owned(), topology: Default::default(), volume_limit }
    }

    #[tokio::test]
    async fn tests_wait_where_nodes_take_few_volumes() {
        let (slots, nodes) = (VolumeSlots::default(), [node(None), node(Some(VOLUMES_OF_A_TEST * 2 + 1))]);
        let of_another_definition = slots.clone();
        let share = || slots.share(nodes.iter(), Duration::from_millis(10));
        let first = share().await.unwrap();
        let second = of_another_definition.share(nodes.iter(), Duration::from_millis(10)).await.unwrap();
        assert!(first.is_some() && second.is_some());
        assert!(matches!(share().await, Err(Stop::Broken(why)) if why.contains("room")));
        drop(first);
        assert!(share().await.unwrap().is_some());
    }

    #[test]
    fn the_smallest_node_counts_and_one_test_always_runs() {
        let shares = |limits: &[Option<u64>]| {
            let nodes: Vec<Node> = limits.iter().copied().map(node).collect();
            super::shares(nodes.iter())
        };
        assert_eq!(shares(&[None, None]), None);
        assert_eq!(shares(&[Some(64), Some(16), None]), Some(2));
        assert_eq!(shares(&[Some(1)]), Some(1));
        assert!(shares(&[Some(u64::MAX)]).is_some());
    }
}
