//! A check: one declaration that the list, the filter, the coverage table, the documentation and the self-test read.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::config::AccessType;
use crate::lifecycle::cx::Cx;
use crate::spec::need::Need;
use crate::spec::requirements::Requirement;
use crate::spec::verdict::CheckResult;

/// The body of a check at work.
pub type CheckFuture<'a> = BoxFuture<'a, CheckResult>;

/// The body of a check.
#[derive(Clone)]
pub enum Body {
    /// The body of a check that is declared in this program.
    Declared(for<'a> fn(&'a Cx) -> CheckFuture<'a>),
    /// The body of a check that is made at run time, with what the user has described in its closure.
    Made(Arc<dyn for<'a> Fn(&'a Cx) -> CheckFuture<'a> + Send + Sync>),
}

impl Body {
    /// The body of a check that is made while the program runs.
    pub fn made(body: impl for<'a> Fn(&'a Cx) -> CheckFuture<'a> + Send + Sync + 'static) -> Body {
        Body::Made(Arc::new(body))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::Declared(_) => "Declared",
            Body::Made(_) => "Made",
        })
    }
}

/// The value of [`Check::duplicate_of`] for a check that judges many things at once.
pub const SAME_RULE: &str = "*";

/// One check, declared with [`check!`](crate::check!) or made at run time.
#[derive(Clone)]
pub struct Check {
    /// Stable path of the check, such as `controller/create-volume/no-name`; never reused for something else.
    pub id: Cow<'static, str>,
    /// The version of csi-sanity that had it first.
    pub since: &'static str,
    /// The behaviour of a right driver, as one sentence.
    pub title: Cow<'static, str>,
    /// The reason why it matters, for the catalogue.
    pub doc: &'static str,
    /// The requirements it tests; a violation is of the first one unless it names another.
    pub requirements: &'static [&'static Requirement],
    /// The conditions under which it makes sense to run it.
    pub needs: &'static [Need],
    /// Defects of the mock driver that make it fail.
    pub refuted_by: &'static [&'static str],
    /// Full titles of the specs of the Go csi-sanity that it covers, so that `-ginkgo.focus` and `-ginkgo.skip` select
    /// it as well.
    pub replaces: &'static [&'static str],
    /// The name of the test in other tools and their dashboards, if it is a port of one of their tests.
    pub known_as: Option<Cow<'static, str>>,
    /// RPCs whose plain call it judges. While that is refused, no other check holds a refusal of the RPC against the driver.
    pub plain: &'static [&'static str],
    /// The RPC that returns the ids of which it judges that no two objects share one. If two do, other checks that fail because of that refer
    /// to this check.
    pub judges_ids_of: Option<&'static str>,
    /// A check that shows an equal fault: when that one accuses the driver, this one does not. [`SAME_RULE`] stands for
    /// any check that accuses the driver by this check's rule.
    pub duplicate_of: Option<&'static str>,
    /// States which other checks may run beside it.
    pub runs: Runs,
    /// The configured access types for which it runs.
    pub access: Variants,
    /// True if its outcome depends on time, chance or several callers. A failure is then confirmed before it counts.
    pub varies: bool,
    /// The code that runs.
    pub body: Body,
}

impl Check {
    /// A check that needs nothing, runs with any other for the first access type, and is there since 0.1.0.
    pub const fn new(id: Cow<'static, str>, title: Cow<'static, str>, body: Body) -> Check {
        Check {
            id,
            since: "0.1.0",
            title,
            doc: "",
            requirements: &[],
            needs: &[],
            refuted_by: &[],
            replaces: &[],
            known_as: None,
            plain: &[],
            judges_ids_of: None,
            duplicate_of: None,
            runs: Runs::Parallel,
            access: Variants::First,
            varies: false,
            body,
        }
    }

    /// Does what it does.
    pub fn run<'a>(&self, cx: &'a Cx) -> CheckFuture<'a> {
        match &self.body {
            Body::Declared(body) => body(cx),
            Body::Made(body) => body(cx),
        }
    }

    /// The place of the check in the order of a run. A check that ends the driver cannot choose it.
    pub fn course(&self) -> Runs {
        let restarts = self.needs.iter().any(|need| matches!(need, Need::Restarts));
        if restarts { self.runs.max(Runs::Restarts) } else { self.runs }
    }

    /// The part of the id before the last slash: the area a report sums up.
    pub fn area(&self) -> &str {
        self.id.rsplit_once('/').map_or(&self.id, |(area, _)| area)
    }

    /// The id without the label of a DriverDefinition, which stands behind an `@` if a run has several.
    pub fn id_of_all_definitions(&self) -> &str {
        self.id.split_once('@').map_or(&self.id, |(id, _)| id)
    }

    /// The check that reports this check's faults in full, for catalogues.
    pub fn leader(&self) -> Option<&'static str> {
        self.duplicate_of
            .map(|leader| if leader == SAME_RULE { "any check, by the same rule" } else { leader })
    }

    /// The name of its run for one access type: the id, with `@block` behind it for block access.
    pub fn label(&self, access: AccessType) -> String {
        match access {
            AccessType::Block => format!("{}@block", self.id),
            AccessType::Mount => self.id.to_string(),
        }
    }

    /// The id of the check in the name of one of its runs.
    pub fn id_of(label: &str) -> &str {
        label.strip_suffix("@block").unwrap_or(label)
    }

    /// The access type in the name of one of its runs.
    pub fn access_of(label: &str) -> AccessType {
        if label.ends_with("@block") { AccessType::Block } else { AccessType::Mount }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Check({})", self.id)
    }
}

/// States when a check runs and which checks may run beside it. Kinds are sorted by the harm they may do to later
/// checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    /// It runs beside any other check of this kind.
    Parallel,
    /// It runs alone, because it looks at the driver as a whole.
    Serial,
    /// It runs alone, after those above. Its requests are allowed, but unusual, and some drivers do not recover from
    /// them.
    UnusualInput,
    /// It runs alone, after those above. Some drivers crash on it.
    CrashProne,
    /// It runs alone, after those above, and ends the driver. Every check that needs restarts does so.
    Restarts,
    /// It runs alone, after those above. Some drivers lose everything over it, by a request that names nothing, or by a
    /// fault while they write.
    LosesData,
    /// It runs alone, after those above, and ends the driver in the middle of its work. Some drivers never start again.
    KillsUnderLoad,
    /// After everything else: it judges what was seen in the whole run.
    Finally,
}

impl Runs {
    /// Returns true if calls after it may fail because of it.
    pub fn may_harm(self) -> bool {
        matches!(
            self,
            Runs::UnusualInput | Runs::CrashProne | Runs::Restarts | Runs::LosesData | Runs::KillsUnderLoad
        )
    }
}

/// The configured access types for which a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variants {
    /// Only the first one: the access type does not matter to the rule.
    First,
    /// Each one.
    Each,
}

/// A check chosen to run, for one access type.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The check.
    pub check: Check,
    /// The access type it runs for.
    pub access: AccessType,
    /// Its place among all runs of checks, chosen or not. Names of its objects contain this number.
    pub number: usize,
}

impl Planned {
    /// The name of this run: the check's id, with `@block` behind it where it runs for block access.
    pub fn label(&self) -> String {
        self.check.label(self.access)
    }
}

/// Declares a [`Check`](crate::checks::check::Check).
///
/// ```
/// use csi_harness::prelude::*;
/// use csi_proto::v1;
///
/// check! {
///     /// Every orchestrator asks this first.
///     pub ANSWERS {
///         id: "identity/get-plugin-info/answers",
///         title: "GetPluginInfo is answered",
///         spec: [req::ID_INFO_001],
///         refuted_by: ["get-plugin-info-unimplemented"],
///     }
///     async |cx| {
///         cx.call(v1::GetPluginInfoRequest {}).await.must("answer")?;
///         Ok(())
///     }
/// }
/// ```
///
/// In place of the list in brackets, `spec` can be the name of one: `&'static [&'static Requirement]`.
///
/// Optional keys, in this order: `since` (after `id`; without it, the check is there since 0.1.0), `needs`, `refuted_by`,
/// `replaces`, `plain` (names of RPCs), `judges_ids_of` (the name of an RPC), `duplicate_of` (the id of a check), `runs` (`Serial`, `UnusualInput`, `CrashProne`, `LosesData`, `KillsUnderLoad`, `Finally`), `access` (`Each`),
/// `varies` (`true`).
#[macro_export]
macro_rules! check {
    (
        $(#[doc = $doc:literal])*
        $vis:vis $name:ident {
            id: $id:expr,
            $(since: $since:literal,)?
            title: $title:expr,
            spec: $spec:tt,
            $(needs: [$($need:expr),* $(,)?],)?
            refuted_by: [$($defect:literal),+ $(,)?],
            $(replaces: [$($replaced:literal),+ $(,)?],)?
            $(plain: [$($plain:literal),+ $(,)?],)?
            $(judges_ids_of: $judges_ids_of:literal,)?
            $(duplicate_of: $duplicate_of:expr,)?
            $(runs: $runs:ident,)?
            $(access: $access:ident,)?
            $(varies: $varies:literal,)?
        }
        async |$cx:ident| $body:block
    ) => {
        $(#[doc = $doc])*
        $vis static $name: $crate::checks::check::Check = {
            fn body($cx: &$crate::lifecycle::cx::Cx) -> $crate::checks::check::CheckFuture<'_> {
                ::std::boxed::Box::pin(async move { $body })
            }
            $crate::checks::check::Check {
                id: ::std::borrow::Cow::Borrowed($id),
                since: $crate::check!(@Since $($since)?),
                title: ::std::borrow::Cow::Borrowed($title),
                doc: ::core::concat!($($doc, "\n"),*),
                requirements: $crate::check!(@Spec $spec),
                needs: const { &[$($($need),*)?] },
                refuted_by: &[$($defect),+],
                replaces: &[$($($replaced),+)?],
                known_as: ::core::option::Option::None,
                plain: &[$($($plain),+)?],
                judges_ids_of: $crate::check!(@Optional $($judges_ids_of)?),
                duplicate_of: $crate::check!(@Optional $($duplicate_of)?),
                runs: $crate::check!(@Runs $($runs)?),
                access: $crate::check!(@Variants $($access)?),
                varies: $crate::check!(@Varies $($varies)?),
                body: $crate::checks::check::Body::Declared(body),
            }
        };
    };
    (@Spec [$($spec:path),+ $(,)?]) => { const { &[$(&$spec),+] } };
    (@Spec $list:ident) => { $list };
    (@Since) => { "0.1.0" };
    (@Since $since:literal) => { $since };
    (@Optional) => { ::core::option::Option::None };
    (@Optional $value:expr) => { ::core::option::Option::Some($value) };
    (@Runs) => { $crate::checks::check::Runs::Parallel };
    (@Runs $runs:ident) => { $crate::checks::check::Runs::$runs };
    (@Varies) => { false };
    (@Varies $varies:literal) => { $varies };
    (@Variants) => { $crate::checks::check::Variants::First };
    (@Variants $access:ident) => { $crate::checks::check::Variants::$access };
}
