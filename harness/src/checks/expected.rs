//! Checks that a driver advertises the capabilities that its user expects. When a capability disappears, failing checks
//! turn into skipped ones; this check fails instead, and is reported, listed as known and compared as any other.

use std::borrow::Cow;

use crate::checks::check::{Body, Check, CheckFuture};
use crate::checks::registry::{Checks, Suite};
use crate::config::Config;
use crate::lifecycle::cx::Cx;
use crate::protocol::capability::Capability;
use crate::spec::verdict::{CheckResult, Stop, Violation};

/// This is no rule of the specification, so the check has no requirement, and is in no list of checks.
static ADVERTISED: Check = Check::new(
    Cow::Borrowed("expected/capabilities"),
    Cow::Borrowed("the driver advertises what is expected of it"),
    Body::Declared(body),
);

/// The name of the area that its check belongs to.
pub const AREA: &str = "expected";

static FILES: &[&[&Check]] = &[&[&ADVERTISED]];

/// The suite of a run for which `expect-capabilities` names any. A driver that is not dialled is not asked.
pub fn suite(config: &Config) -> Option<Suite> {
    let is_asked = config.elsewhere.is_none() && !config.expect_capabilities.is_empty();
    is_asked.then_some(Suite { name: AREA, checks: Checks::Declared(FILES), retired: &[] })
}

/// Returns true if a check belongs to that suite, which runs whichever other checks are chosen.
pub fn is_expectation(check: &Check) -> bool {
    check.id == ADVERTISED.id
}

fn body(cx: &Cx) -> CheckFuture<'_> {
    Box::pin(async move { judge(cx) })
}

fn judge(cx: &Cx) -> CheckResult {
    let target = cx.target();
    let (expected, advertised) = (&target.config().expect_capabilities, target.capabilities());
    let missing: Vec<Capability> = expected.iter().copied().filter(|one| !advertised.has(*one)).collect();
    if missing.is_empty() {
        // The check has tested nothing: a run in which all others are skipped has no verdict, and no badge counts this
        // one.
        return Err(Stop::skip("the driver advertises all that is expected of it"));
    }
    let violation = Violation::new(format!("the driver does not advertise {}", names(missing)))
        .expected(format!("{} (--expect-capability, expect-capabilities)", names(expected.iter().copied())))
        .actual(names(advertised.iter()));
    Err(violation.into())
}

fn names(capabilities: impl IntoIterator<Item = Capability>) -> String {
    let names: Vec<&str> = capabilities.into_iter().map(Capability::name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
