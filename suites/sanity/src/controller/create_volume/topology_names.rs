//! The keys and values of a volume's accessible_topology.

use std::collections::BTreeSet;

use csi_harness::prelude::*;

/// Characters of each part of a topology key, and of a value, at the most.
const PART_CHARS_MAX: usize = 63;

/// The segments of a new volume and, where there is one, of the node.
async fn segments(cx: &Cx) -> CheckResult<Vec<csi_harness::config::Pairs>> {
    let volume = cx.new_volume().await?;
    let mut all: Vec<_> = volume.accessible_topology.into_iter().map(|topology| topology.segments).collect();
    if all.is_empty() {
        return Err(Stop::skip("the volume can be reached from everywhere"));
    }
    if NODE.unmet(cx.target(), cx.access()).is_none()
        && let Some(node) = cx.call(v1::NodeGetInfoRequest {}).await.ok()
    {
        all.extend(node.accessible_topology.map(|topology| topology.segments));
    }
    Ok(all)
}

/// Letters and digits at both ends, and between them also the extra characters.
fn is_name(text: &str, extra: &[char]) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.chars().count() <= PART_CHARS_MAX
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(&c))
}

fn is_domain(text: &str) -> bool {
    is_name(text, &['-', '.'])
        && !text.chars().any(|c| c.is_ascii_uppercase())
        && text.split('.').all(|label| is_name(label, &['-']))
}

fn prefix(key: &str) -> Option<&str> {
    key.split_once('/').map(|(prefix, _)| prefix)
}

check! {
    /// Kubernetes makes labels of them, and refuses the whole node if one does not fit.
    KEYS {
        id: "controller/create-volume/topology-keys",
        title: "the topology keys of a volume are names with a domain before them",
        spec: [req::MSG_TOPOLOGY_001, req::MSG_TOPOLOGY_002, req::MSG_TOPOLOGY_004],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-key-invalid", "volume-topology-key-prefix-upper-case"],
    }
    async |cx| {
        for key in segments(cx).await?.iter().flat_map(|segments| segments.keys()) {
            let (prefix, name) = match key.split_once('/') {
                Some((prefix, name)) => (Some(prefix), name),
                None => (None, key.as_str()),
            };
            ensure!(
                !name.contains('/'),
                "a topology key has more than one slash";
                of: &req::MSG_TOPOLOGY_001,
                expected: "a name, or a prefix, a slash and a name",
                actual: format!("{key:?}")
            );
            ensure!(
                is_name(name, &['-', '_', '.']),
                "the name in a topology key has not the form of one";
                of: &req::MSG_TOPOLOGY_002,
                expected: "at most 63 letters, digits, dashes, underscores and dots, a letter or digit at both ends",
                actual: format!("{key:?}")
            );
            ensure!(
                prefix.is_none_or(is_domain),
                "the prefix of a topology key is not a domain name in lower case";
                of: &req::MSG_TOPOLOGY_004,
                expected: "a domain name in lower case with at most 63 characters",
                actual: format!("{key:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// Label values, too.
    VALUES {
        id: "controller/create-volume/topology-values",
        title: "the topology values of a volume are short names",
        spec: [req::MSG_TOPOLOGY_009, req::MSG_TOPOLOGY_008],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-value-empty", "volume-topology-value-too-long"],
    }
    async |cx| {
        for (key, value) in segments(cx).await?.iter().flatten() {
            ensure!(
                !value.is_empty(),
                "a topology value is empty";
                of: &req::MSG_TOPOLOGY_008,
                expected: "a value",
                actual: format!("{key:?} without value")
            );
            ensure!(
                is_name(value, &['-', '_', '.']),
                "a topology value has not the form of one";
                expected: "at most 63 letters, digits, dashes, underscores and dots, a letter or digit at both ends",
                actual: format!("{key:?} {value:?}")
            );
        }
        Ok(())
    }
}

check! {
    /// Keys are compared without case, so that two spellings are one key with two values.
    KEYS_DIFFER {
        id: "controller/create-volume/topology-keys-differ",
        title: "no two topology keys of a volume differ in case only",
        spec: [req::MSG_TOPOLOGY_007],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-keys-differ-in-case"],
    }
    async |cx| {
        let all = segments(cx).await?;
        let keys: BTreeSet<_> = all.iter().flat_map(|segments| segments.keys()).collect();
        let folded: BTreeSet<_> = keys.iter().map(|key| key.to_lowercase()).collect();
        ensure!(
            folded.len() == keys.len(),
            "topology keys differ in case only";
            expected: "keys that differ regardless of case",
            actual: format!("{keys:?}")
        );
        Ok(())
    }
}

check! {
    /// The prefix tells an orchestrator which keys belong to which driver.
    ONE_PREFIX {
        id: "controller/create-volume/one-topology-prefix",
        title: "all topology keys of a plugin have the same prefix",
        spec: [req::MSG_TOPOLOGY_006],
        needs: [CREATE_DELETE_VOLUME, VOLUME_ACCESSIBILITY_CONSTRAINTS],
        refuted_by: ["volume-topology-key-prefix-differs"],
    }
    async |cx| {
        let all = segments(cx).await?;
        let prefixes: BTreeSet<_> =
            all.iter().flat_map(|segments| segments.keys()).filter_map(|key| prefix(key)).collect();
        ensure!(
            prefixes.len() <= 1,
            "the plugin uses several prefixes in topology keys";
            expected: "one and the same prefix everywhere",
            actual: format!("{prefixes:?}")
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&KEYS, &VALUES, &KEYS_DIFFER, &ONE_PREFIX];
