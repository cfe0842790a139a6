//! Where volumes may be: what CreateVolume is told, and which nodes can use a volume.

use csi_proto::v1;
use sha2::{Digest as _, Sha256};

use super::shared::Shared;
use crate::cluster::{Pairs, PersistentVolume, StorageClass};

/// accessibility_requirements for a claim: all places, or those that the class allows; those preferred begin with the
/// place of the node that was chosen, or with one that depends on the claim's name.
///
/// # Errors
/// No node tells where it is.
pub(super) fn requirement(
    shared: &Shared,
    claim: &str,
    class: &StorageClass,
    selected: Option<usize>,
) -> Result<v1::TopologyRequirement, String> {
    let mut places: Vec<Pairs> = Vec::new();
    let known = shared.nodes.iter().map(|node| node.node.topology.clone());
    for place in
        class.allowed_topologies.iter().cloned().chain(known.filter(|_| class.allowed_topologies.is_empty()))
    {
        if !place.is_empty() && !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() {
        return Err("no node tells its topology".to_owned());
    }
    places.sort();
    let own = selected.and_then(|node| shared.nodes.get(node)).map(|node| &node.node.topology);
    let start = match own {
        Some(own) => places.iter().position(|place| within(place, own)),
        None => Some(start_for(claim, places.len())),
    };
    let message = |segments: &Pairs| v1::Topology { segments: segments.clone() };
    let start = start.ok_or("the class does not allow the place of the node")?;
    let preferred = places[start..].iter().chain(&places[..start]).map(message).collect();
    Ok(v1::TopologyRequirement { requisite: places.iter().map(message).collect(), preferred })
}

/// Which of so many places comes first for a claim.
fn start_for(claim: &str, places: usize) -> usize {
    let hash = Sha256::digest(claim);
    usize::from(hash[0]) % places.max(1)
}

/// Whether a node of this place can use a volume.
pub(super) fn reaches(volume: &PersistentVolume, node: &Pairs) -> bool {
    volume.topology.is_empty() || volume.topology.iter().any(|place| within(place, node))
}

/// Whether volumes of a class may be made for a node of this place.
pub(super) fn allows(class: &StorageClass, node: &Pairs) -> bool {
    class.allowed_topologies.is_empty() || class.allowed_topologies.iter().any(|place| within(place, node))
}

/// Whether a node of this place is in another.
fn within(place: &Pairs, node: &Pairs) -> bool {
    place.iter().all(|(key, value)| node.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_begin_at_different_places() {
        let starts: std::collections::BTreeSet<usize> =
            (0..50).map(|number| start_for(&format!("claim-{number}"), 3)).collect();
        assert_eq!(starts, [0, 1, 2].into());
        assert_eq!(start_for("claim", 3), start_for("claim", 3));
    }
}
