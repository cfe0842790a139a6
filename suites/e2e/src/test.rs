//! A suite and its tests: one declaration each, which the plan, the list and the run read.

use std::collections::BTreeSet;

use csi_driver_definitions::{Capability, DriverDefinition, Quantity, StorageClass, VolumeBindingMode};
use csi_harness::checks::check::CheckFuture;

use crate::cluster::{BindingMode, Feature, Node, Pairs};
use crate::pattern::{Pattern, VolumeType};
use crate::scene::Scene;
use crate::view::{Unmet, View};

/// A suite: tests that run over patterns.
#[derive(Debug)]
pub struct Suite {
    /// Upstream's name.
    pub name: &'static str,
    /// Labels behind the name.
    pub tags: &'static [&'static str],
    /// Text between the name with its labels and that of each test.
    pub context: &'static str,
    /// The patterns that it goes through and a definition can reach.
    pub patterns: &'static [&'static Pattern],
    /// Bytes that its volumes have at the least; 0: as the driver likes.
    pub size_min_bytes: u64,
    /// Bytes that they have where the driver's can be that large, for what tests write; 0: whatever they have else.
    pub data_bytes: u64,
    /// What all its tests need.
    pub needs: &'static [Need],
    /// Its tests.
    pub tests: &'static [&'static Test],
}

/// Room for what is written into volumes of suites that look at large files.
pub(crate) const LARGE_DATA_BYTES: u64 = 160 << 20;

/// A test, declared with [`test!`](crate::test!).
pub struct Test {
    /// Upstream's text.
    pub name: &'static str,
    /// Labels behind the text.
    pub tags: &'static [&'static str],
    /// Whether it must not run beside others even if no label says so: it has many volumes at a time.
    pub alone: bool,
    /// What it finds out, for the documentation.
    pub doc: &'static str,
    /// For which patterns and drivers there is such a test at all.
    pub exists: fn(&Pattern, &DriverDefinition) -> bool,
    /// What it needs.
    pub needs: &'static [Need],
    /// What it does.
    pub body: fn(&Scene) -> CheckFuture<'_>,
}

impl std::fmt::Debug for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Test({:?})", self.name)
    }
}

impl Test {
    /// Whether it must not run beside others.
    pub fn is_serial(&self, suite: &Suite) -> bool {
        self.alone || self.tags.iter().chain(suite.tags).any(|tag| matches!(*tag, "Serial" | "Disruptive"))
    }
}

/// Something without which a test skips.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// The definition promises it.
    Can(Capability),
    /// The definition does not promise it.
    Cannot(Capability),
    /// The cluster has it.
    Offers(Feature),
    /// Pods see a directory.
    FileSystem,
    /// The definition promises block volumes, where the pattern has them.
    BlockIfAsked,
    /// The definition names the source of a class of snapshots.
    SnapshotClass,
    /// The definition names the source of a class of group snapshots.
    GroupSnapshotClass,
    /// The definition names the source of a VolumeAttributesClass.
    AttributesClass,
    /// Something else that the definition says, with the reason where it does not.
    Says(fn(&DriverDefinition) -> bool, &'static str),
    /// The pattern is one that the test can have with this driver, with the reason where it is not.
    Fits(fn(&Pattern, &DriverDefinition) -> bool, &'static str),
    /// Two nodes, and no `ClientNodeName` that would keep all pods on one.
    TwoNodes,
    /// So many segments of the topology more than `NumAllowedTopologies`.
    SpareSegments(usize),
    /// The first node takes no more volumes than this, where it says how many.
    NodeLimit(u64),
    /// The class makes volumes before a pod wants them.
    VolumesAtOnce,
    /// Nobody has written such a test here, because.
    Never(&'static str),
}

/// Where a test would run.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) definition: &'a DriverDefinition,
    /// The class of the definition, where it is known.
    pub(crate) storage: Option<&'a StorageClass>,
    pub(crate) pattern: &'static Pattern,
    pub(crate) view: &'a View,
}

impl Need {
    /// Why it is not met, as far as that is known; `None` if it is.
    pub(crate) fn unmet(&self, at: &Situation<'_>) -> Option<Unmet> {
        match self {
            Need::Offers(feature) => match at.view.offers.get(feature) {
                None => Some(Unmet::Depends("depends on what the driver advertises".to_owned())),
                Some(offered) => offered.clone().err().map(Unmet::Skips),
            },
            Need::SpareSegments(spare) => too_few_segments(at, *spare),
            Need::NodeLimit(max) => limit_above(at.view.nodes.as_deref(), *max),
            _ => self.unpromised(at).map(Unmet::Skips),
        }
    }

    /// Why it is not met, as the definition says.
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
                let waits =
                    at.pattern.binding.map_or(of_class, |mode| mode == BindingMode::WaitForFirstConsumer);
                missing(!waits, "the StorageClass creates no volume before a pod needs it")
            }
            Need::Never(reason) => Some((*reason).to_owned()),
        }
    }
}

/// Whether there are too few segments. That a node lacks labels is for the test to tell.
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

/// How many segments a class is to allow.
pub(crate) fn allowed_segments(definition: &DriverDefinition) -> usize {
    usize::try_from(definition.driver_info.num_allowed_topologies).unwrap_or(usize::MAX).max(1)
}

/// The segments that nodes are in.
///
/// # Errors
/// A node, and its segment, that lacks one of the definition's keys.
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

/// Why no test of a pattern runs for a driver, whatever the suite; in upstream's order.
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

/// The size of a claim: what the suite needs, or the driver's smallest if that is more.
///
/// # Errors
/// The driver has no volumes that large.
pub(crate) fn claim_bytes(definition: &DriverDefinition, suite: &Suite) -> Result<i64, String> {
    let range = &definition.driver_info.supported_size_range;
    // Upstream's rule where neither names a smallest size.
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
