//! Declares a suite and its tests once, for the plan, the list and the run.

use std::collections::BTreeSet;

use csi_driver_definitions::{Capability, DriverDefinition, Quantity, StorageClass};
use csi_harness::checks::check::CheckFuture;

use crate::cluster::{Feature, Node, Pairs, VolumeBindingMode};
use crate::pattern::{Pattern, VolumeType};
use crate::scene::Scene;
use crate::view::{SkippedBy, Unmet, View, lacks};

/// A suite of tests that run over patterns.
#[derive(Debug)]
pub struct Suite {
    /// Upstream's name.
    pub name: &'static str,
    /// The labels behind the name.
    pub tags: &'static [&'static str],
    /// The text between the name with its labels and that of each test.
    pub context: &'static str,
    /// The patterns of the suite that a definition can reach.
    pub patterns: &'static [&'static Pattern],
    /// The smallest size of its volumes in bytes; 0 means any.
    pub size_min_bytes: u64,
    /// The size of its volumes in bytes if the driver supports it, for the data of tests; 0 means the default.
    pub data_bytes: u64,
    /// The needs of all its tests.
    pub needs: &'static [Need],
    pub tests: &'static [&'static Test],
}

impl Suite {
    pub(crate) const PLAIN: Suite = Suite {
        name: "",
        tags: &[],
        context: "",
        patterns: &[],
        size_min_bytes: 0,
        data_bytes: 0,
        needs: &[],
        tests: &[],
    };
}

/// The size of volumes in suites with large files.
pub(crate) const LARGE_DATA_BYTES: u64 = 160 << 20;

/// A test, declared with [`test!`](crate::test!).
pub struct Test {
    /// Upstream's text.
    pub name: &'static str,
    /// The labels behind the text.
    pub tags: &'static [&'static str],
    /// True if it must run alone even without such a label, because it has many volumes.
    pub alone: bool,
    /// The description for the documentation.
    pub doc: &'static str,
    /// Returns whether the test exists for a pattern and a driver.
    pub exists: fn(&Pattern, &DriverDefinition) -> bool,
    /// The needs of the test.
    pub needs: &'static [Need],
    /// The body of the test.
    pub body: fn(&Scene) -> CheckFuture<'_>,
}

impl std::fmt::Debug for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Test({:?})", self.name)
    }
}

impl Test {
    /// Returns whether it must run alone.
    pub fn is_serial(&self, suite: &Suite) -> bool {
        self.alone || self.tags.iter().chain(suite.tags).any(|tag| matches!(*tag, "Serial" | "Disruptive"))
    }
}

/// A need without which a test skips.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The definition promises the capability.
    Can(Capability),
    /// The definition does not promise the capability.
    Cannot(Capability),
    /// The cluster has the feature.
    Offers(Feature),
    /// Pods see a directory.
    FileSystem,
    /// The definition promises block volumes, if the pattern has them.
    BlockIfAsked,
    /// The definition names the source of a class of snapshots.
    SnapshotClass,
    /// The definition names the source of a class of group snapshots.
    GroupSnapshotClass,
    /// The definition names the source of a VolumeAttributesClass.
    AttributesClass,
    /// Another property of the definition, with the reason if it is missing.
    Says(fn(&DriverDefinition) -> bool, &'static str),
    /// The test supports the pattern with this driver, with the reason if it does not.
    Fits(fn(&Pattern, &DriverDefinition) -> bool, &'static str),
    /// There are two nodes, and no `ClientNodeName` that would keep all pods on one.
    TwoNodes,
    /// There are this number of topology segments beyond `NumAllowedTopologies`.
    SpareSegments(usize),
    /// The first node has at most this volume limit, if it reports one.
    NodeLimit(u64),
    /// The class makes volumes immediately.
    VolumesAtOnce,
    /// There is no such test here, for this reason.
    Never(&'static str),
}

/// The environment of a test.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) definition: &'a DriverDefinition,
    /// The class of the definition, if known.
    pub(crate) storage: Option<&'a StorageClass>,
    pub(crate) pattern: &'static Pattern,
    pub(crate) view: &'a View,
}

impl Need {
    /// Returns why the need is not met, as far as known; `None` if it is.
    pub(crate) fn unmet(&self, at: &Situation<'_>) -> Option<Unmet> {
        match self {
            Need::Offers(feature) => match at.view.offers.get(feature) {
                None => Some(Unmet::Depends(match feature.capability() {
                    Some(_) => "depends on what the driver advertises".to_owned(),
                    None => "depends on how the driver is started and installed".to_owned(),
                })),
                Some(offered) => offered.clone().err().map(Unmet::Skips),
            },
            Need::SpareSegments(spare) => too_few_segments(at, *spare),
            Need::NodeLimit(max) => limit_above(at.view.nodes.as_deref(), *max),
            _ => self.unpromised(at).map(Unmet::Skips),
        }
    }

    /// Returns what decides that the need is not met, if it is not.
    pub(crate) fn unmet_by(&self, at: &Situation<'_>) -> SkippedBy {
        match self {
            Need::Offers(Feature::SeLinux | Feature::SeLinuxContexts) => SkippedBy::Machine,
            Need::Offers(feature) => match feature.capability() {
                // A cluster decides about everything that it has to have installed.
                Some(capability) if at.view.offers.get(feature) == Some(&Err(lacks(capability))) => {
                    SkippedBy::Driver
                }
                Some(_) if !at.view.offers.contains_key(feature) => SkippedBy::Driver,
                _ => SkippedBy::Cluster,
            },
            Need::SpareSegments(_) | Need::NodeLimit(_) => SkippedBy::Driver,
            Need::TwoNodes if at.definition.client_node_name.is_empty() => SkippedBy::Cluster,
            Need::Never(_) => SkippedBy::Cluster,
            _ => SkippedBy::Definition,
        }
    }

    /// Returns whether the definition does not meet the need, wherever the test runs.
    pub(crate) fn is_ruled_out(&self, at: &Situation<'_>) -> bool {
        self.unmet_by(at) == SkippedBy::Definition && self.unpromised(at).is_some()
    }

    /// Returns why the definition does not meet the need.
    fn unpromised(&self, at: &Situation<'_>) -> Option<String> {
        let definition = at.definition;
        let missing = |holds: bool, reason: &str| (!holds).then(|| reason.to_owned());
        match self {
            Need::Can(one) if definition.can(*one) => None,
            Need::Can(one) => Some(match definition.driver_info.capabilities.sets(*one) {
                true => format!("the definition says {one}: false"),
                false => format!("the definition does not mention {one}"),
            }),
            Need::Cannot(one) => definition.can(*one).then(|| format!("the definition says {one}: true")),
            Need::Offers(_) | Need::SpareSegments(_) | Need::NodeLimit(_) => None,
            Need::FileSystem => missing(!at.pattern.is_block(), "only for volumes with a file system"),
            Need::BlockIfAsked => match at.pattern.is_block() {
                true => Need::Can(Capability::Block).unpromised(at),
                false => None,
            },
            Need::SnapshotClass => {
                missing(definition.snapshot_class.source().is_some(), "the definition has no SnapshotClass")
            }
            Need::GroupSnapshotClass => missing(
                definition.group_snapshot_class.source().is_some(),
                "the definition has no GroupSnapshotClass",
            ),
            Need::AttributesClass => missing(
                definition.volume_attributes_class.source().is_some(),
                "the definition has no VolumeAttributesClass",
            ),
            Need::Says(holds, reason) => missing(holds(definition), reason),
            Need::Fits(holds, reason) => missing(holds(at.pattern, definition), reason),
            Need::TwoNodes => match definition.client_node_name.is_empty() {
                true => missing(
                    at.view.nodes_count > 1,
                    "needs a second node; without a cluster --node-endpoint names it",
                ),
                false => Some("ClientNodeName keeps all pods on one node".to_owned()),
            },
            Need::VolumesAtOnce => {
                let of_class = at.storage.is_some_and(|class| {
                    class.volume_binding_mode == VolumeBindingMode::WaitForFirstConsumer
                });
                let waits = at
                    .pattern
                    .binding
                    .map_or(of_class, |mode| mode == VolumeBindingMode::WaitForFirstConsumer);
                missing(!waits, "the StorageClass creates no volume before a pod needs it")
            }
            Need::Never(reason) => Some((*reason).to_owned()),
        }
    }
}

/// Returns whether there are too few segments. The test reports a node without labels.
fn too_few_segments(at: &Situation<'_>, spare: usize) -> Option<Unmet> {
    let Some(nodes) = &at.view.nodes else {
        return Some(Unmet::Depends("depends on the topology that the driver reports".to_owned()));
    };
    let there = segments(at.definition, nodes).ok()?.len();
    let wanted = allowed_segments(at.definition) + spare;
    (there < wanted).then(|| {
        Unmet::Skips(format!("needs {wanted} segments of the topology, and the nodes are in {there}"))
    })
}

fn limit_above(nodes: Option<&[Node]>, max: u64) -> Option<Unmet> {
    let Some(nodes) = nodes else {
        return Some(Unmet::Depends("depends on the limit that the driver reports".to_owned()));
    };
    let limit = nodes.first()?.volume_limit?;
    (limit > max)
        .then(|| Unmet::Skips(format!("the limit is {limit}, and no more than {max} volumes are tried")))
}

/// Returns the number of segments that a class permits.
pub(crate) fn allowed_segments(definition: &DriverDefinition) -> usize {
    usize::try_from(definition.driver_info.num_allowed_topologies).unwrap_or(usize::MAX).max(1)
}

/// Returns the segments of the nodes.
///
/// # Errors
/// Fails with a node and its segment, which lacks one of the definition's keys.
pub(crate) fn segments<'a>(
    definition: &DriverDefinition,
    nodes: &'a [Node],
) -> Result<BTreeSet<Pairs>, (&'a Node, Pairs)> {
    let keys = &definition.driver_info.topology_keys;
    let of = |node: &'a Node| {
        let labels = node.topology.iter().filter(|(key, _)| keys.contains(key));
        let segment: Pairs = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
        if segment.len() == keys.len() { Ok(segment) } else { Err((node, segment)) }
    };
    nodes.iter().map(of).collect()
}

/// Returns why no test of a pattern runs for a driver, for any suite; in upstream's order.
pub(crate) fn unreachable(definition: &DriverDefinition, pattern: &Pattern) -> Option<String> {
    let has_source = match pattern.volume {
        VolumeType::Dynamic | VolumeType::GenericEphemeral => definition.storage_class.source().is_some(),
        VolumeType::Inline => !definition.inline_volumes.is_empty(),
    };
    if !has_source {
        return Some(match pattern.volume {
            VolumeType::Inline => "the definition has no InlineVolumes".to_owned(),
            _ => "the definition has no StorageClass".to_owned(),
        });
    }
    if !definition.driver_info.supports_fs_type(pattern.fs_type) {
        return Some(format!("SupportedFsType does not have {}", pattern.fs_type));
    }
    (pattern.fs_type == "ntfs").then(|| "needs nodes that run Windows".to_owned())
}

/// Returns the size of a claim: the size that the suite needs, or the driver's smallest if that is larger.
///
/// # Errors
/// Fails if the driver's volumes cannot be that large.
pub(crate) fn claim_bytes(definition: &DriverDefinition, suite: &Suite) -> Result<i64, String> {
    let range = &definition.driver_info.supported_size_range;
    // Upstream's rule if neither names a smallest size.
    let least = range.min.bytes().max(suite.size_min_bytes).max(1 << 10);
    let fits = range.max.as_ref().is_none_or(|max| suite.data_bytes <= max.bytes());
    let size = if fits { least.max(suite.data_bytes) } else { least };
    if let Some(max) = &range.max
        && max.bytes() < size
    {
        let size = Quantity::from_bytes(size);
        return Err(format!("volumes of {size} are needed, and SupportedSizeRange.Max is {max}"));
    }
    i64::try_from(size).map_err(|_| format!("SupportedSizeRange.Min is more than {} bytes", i64::MAX))
}

/// Declares a [`Test`](crate::test::Test).
///
/// Optional keys, in this order: `tags`, `alone`, `exists` (a function of pattern and definition), `needs`.
#[macro_export]
macro_rules! test {
    (
        $(#[doc = $doc:literal])*
        $vis:vis $name:ident {
            name: $text:literal,
            $(tags: [$($tag:literal),* $(,)?],)?
            $(alone: $alone:literal,)?
            $(exists: $exists:expr,)?
            $(needs: [$($need:expr),* $(,)?],)?
        }
        async |$scene:ident| $body:block
    ) => {
        $(#[doc = $doc])*
        $vis static $name: $crate::test::Test = {
            fn body($scene: &$crate::scene::Scene) -> ::csi_harness::checks::check::CheckFuture<'_> {
                ::std::boxed::Box::pin(async move { $body })
            }
            $crate::test::Test {
                name: $text,
                tags: &[$($($tag),*)?],
                alone: false $(|| $alone)?,
                doc: ::core::concat!($($doc, "\n"),*),
                exists: $crate::test!(@Exists $($exists)?),
                needs: &[$($($need),*)?],
                body,
            }
        };
    };
    (@Exists) => { |_, _| true };
    (@Exists $exists:expr) => { $exists };
}
