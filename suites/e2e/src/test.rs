//! A suite and its tests: one declaration each, which the plan, the list and the run read.

use csi_driver_definitions::{Capability, DriverDefinition, Quantity};
use csi_harness::check::CheckFuture;

use crate::cluster::{Cluster, Feature};
use crate::pattern::{Pattern, VolumeType};
use crate::scene::Scene;

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
    /// What all its tests need.
    pub needs: &'static [Need],
    /// Its tests.
    pub tests: &'static [&'static Test],
}

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
}

/// Where a test would run.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) definition: &'a DriverDefinition,
    pub(crate) pattern: &'static Pattern,
    /// The nodes that the cluster has.
    pub(crate) nodes: usize,
}

impl Need {
    /// Why it is not met, as far as the definition says; `None` if it is.
    pub(crate) fn unmet(&self, at: &Situation<'_>) -> Option<String> {
        let definition = at.definition;
        let missing = |holds: bool, reason: &str| (!holds).then(|| reason.to_owned());
        match self {
            Need::Can(one) => (!definition.can(*one)).then(|| format!("the definition says {one}: false")),
            Need::Cannot(one) => definition.can(*one).then(|| format!("the definition says {one}: true")),
            Need::Offers(_) => None,
            Need::FileSystem => missing(!at.pattern.is_block(), "for volumes with a file system"),
            Need::BlockIfAsked => match at.pattern.is_block() {
                true => Need::Can(Capability::Block).unmet(at),
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
                true => {
                    missing(at.nodes > 1, "needs a second node; without a cluster --node-endpoint names it")
                }
                false => Some("ClientNodeName keeps all pods on one node".to_owned()),
            },
        }
    }

    /// Why the cluster does not meet it.
    pub(crate) fn unmet_by(&self, cluster: &dyn Cluster) -> Option<String> {
        match self {
            Need::Offers(feature) => cluster.offers(*feature).err(),
            _ => None,
        }
    }
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
pub(crate) fn claim_bytes(definition: &DriverDefinition, suite_min_bytes: u64) -> Result<i64, String> {
    let range = &definition.driver_info.supported_size_range;
    // Upstream's rule where neither names a smallest size.
    let size = range.min.bytes().max(suite_min_bytes).max(1 << 10);
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
            fn body($scene: &$crate::scene::Scene) -> ::csi_harness::check::CheckFuture<'_> {
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
