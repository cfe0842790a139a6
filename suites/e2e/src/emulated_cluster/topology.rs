//! Computes the topology of volumes: the accessibility_requirements of CreateVolume, and the nodes that can use a
//! volume.

use csi_proto::v1;
use sha2::{Digest as _, Sha256};

use super::shared::Shared;
use crate::cluster::{Pairs, PersistentVolume, StorageClass};

/// Returns the accessibility_requirements for a claim: all topologies, or those that the class permits. The preferred ones
/// start with that of the chosen node, or with one that depends on the claim's name. Without a chosen node, only those in
/// which the source is `usable` are included; otherwise the scheduler ensures that.
///
/// # Errors
/// Fails if no node has a topology, or if no topology is left.
pub(super) fn requirement(
    shared: &Shared,
    claim: &str,
    class: &StorageClass,
    selected: Option<usize>,
    usable: &[Pairs],
) -> Result<v1::TopologyRequirement, String> {
    let mut places: Vec<Pairs> = if selected.is_none() && !usable.is_empty() {
        joined(&class.allowed_topologies, usable)
            .ok_or("the class allows no topology from which the snapshot can be used")?
    } else if class.allowed_topologies.is_empty() {
        shared.nodes.iter().map(|node| node.node.topology.clone()).collect()
    } else {
        class.allowed_topologies.clone()
    };
    places.retain(|place| !place.is_empty());
    if places.is_empty() {
        return Err("no node reports its topology".to_owned());
    }
    places.sort();
    places.dedup();
    let own = selected.and_then(|node| shared.nodes.get(node)).map(|node| &node.node.topology);
    let start = match own {
        Some(own) => places.iter().position(|place| within(place, own)),
        None => Some(start_for(claim, places.len())),
    };
    let message = |segments: &Pairs| v1::Topology { segments: segments.clone() };
    let start = start.ok_or("the class does not allow the topology of the node")?;
    let preferred = places[start..].iter().chain(&places[..start]).map(message).collect();
    Ok(v1::TopologyRequirement { requisite: places.iter().map(message).collect(), preferred })
}

/// Returns the topologies that the class permits, if it lists any, and in which the snapshot can be used. Topologies
/// with different keys are joined, whether the result exists or not.
fn joined(allowed: &[Pairs], usable: &[Pairs]) -> Option<Vec<Pairs>> {
    if allowed.is_empty() {
        return Some(usable.to_vec());
    }
    let agree = |one: &Pairs, other: &Pairs| {
        one.iter().all(|(key, value)| other.get(key).is_none_or(|same| same == value))
    };
    let pairs = allowed.iter().flat_map(|one| usable.iter().map(move |other| (one, other)));
    let joined = pairs.filter(|(one, other)| agree(one, other)).map(|(one, other)| {
        let mut place = one.clone();
        place.extend(other.clone());
        place
    });
    let joined: Vec<Pairs> = joined.collect();
    (!joined.is_empty()).then_some(joined)
}

/// Returns the index of the topology that comes first for a claim.
fn start_for(claim: &str, places: usize) -> usize {
    let hash = Sha256::digest(claim);
    usize::from(hash[0]) % places.max(1)
}

/// Returns whether a node of this topology can use a volume.
pub(super) fn reaches(volume: &PersistentVolume, node: &Pairs) -> bool {
    volume.topology.is_empty() || volume.topology.iter().any(|place| within(place, node))
}

/// Returns whether volumes of a class may be made for a node of this topology.
pub(super) fn allows(class: &StorageClass, node: &Pairs) -> bool {
    class.allowed_topologies.is_empty() || class.allowed_topologies.iter().any(|place| within(place, node))
}

/// Returns whether a node's topology is within another.
fn within(place: &Pairs, node: &Pairs) -> bool {
    place.iter().all(|(key, value)| node.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_class_and_snapshot() {
        let place = |pairs: &[(&str, &str)]| -> Pairs {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let (a, b, east) = (place(&[("zone", "a")]), place(&[("zone", "b")]), place(&[("region", "east")]));
        let join = |allowed: &[&Pairs], usable: &[&Pairs]| {
            let owned = |places: &[&Pairs]| places.iter().map(|place| (*place).clone()).collect::<Vec<_>>();
            joined(&owned(allowed), &owned(usable))
        };
        assert_eq!(join(&[], &[&a]), Some(vec![a.clone()]));
        assert_eq!(join(&[&a, &b], &[&b]), Some(vec![b.clone()]));
        assert_eq!(join(&[&a], &[&b]), None);
        assert_eq!(join(&[&a], &[&east]), Some(vec![place(&[("region", "east"), ("zone", "a")])]));
    }

    #[test]
    fn claims_begin_at_different_places() {
        let starts: std::collections::BTreeSet<usize> =
            (0..50).map(|number| start_for(&format!("claim-{number}"), 3)).collect();
        assert_eq!(starts, [0, 1, 2].into());
        assert_eq!(start_for("claim", 3), start_for("claim", 3));
    }
}
