use std::collections::BTreeSet;
use std::time::Duration;

use csi_driver_definitions::Capability;

use crate::cluster::Pairs;
use crate::pattern;
use crate::scene::{Seen, failed};
use crate::test;
use crate::test::{Need, Suite};

/// Limits the appearance and removal of the objects.
const PUBLISHED: Duration = Duration::from_secs(60);

pub(crate) static SUITE: Suite = Suite {
    name: "capacity",
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    needs: &[Need::Can(Capability::Capacity)],
    tests: &[&PROVIDES],
    ..Suite::PLAIN
};

test! {
    /// The free space of a class is published for each topology segment if there is one key, and it is not negative,
    /// which upstream does not check. It is removed with the class.
    PROVIDES {
        name: "provides storage capacity information",
    }
    async |scene| {
        let class = scene.class().await?;
        let capacities = scene.until("the capacity of a class is published", PUBLISHED, || async {
            let found = scene.cluster().capacities(&class.name).await?;
            Ok(match found.is_empty() {
                true => Seen::NotYet(format!("there is none{}", scene.explaining_event(&class.name).await?)),
                false => Seen::There(found),
            })
        })
        .await?;
        if let Some(negative) = capacities.iter().find_map(|one| one.available_bytes.filter(|bytes| *bytes < 0)) {
            return Err(failed("the free space of a class is below zero", "0 bytes or more", negative));
        }
        if let [key] = &scene.driver().driver_info.topology_keys[..] {
            let nodes = scene.cluster().nodes().await?;
            let segments: BTreeSet<Pairs> = nodes
                .iter()
                .filter_map(|node| node.topology.get_key_value(key))
                .map(|(key, value)| Pairs::from([(key.clone(), value.clone())]))
                .collect();
            let published: BTreeSet<Pairs> = capacities.iter().map(|one| one.topology.clone()).collect();
            if published != segments || capacities.len() != segments.len() {
                return Err(failed(
                    "capacity is not published once for each segment",
                    format!("{segments:?}"),
                    format!("{published:?}"),
                ));
            }
        }
        scene.cluster().delete_storage_class(&class.name).await?;
        scene.until("the capacity of a class is gone with it", PUBLISHED, || async {
            Ok(match scene.cluster().capacities(&class.name).await?.len() {
                0 => Seen::There(()),
                left => Seen::NotYet(format!("{left} objects are left")),
            })
        })
        .await
    }
}
