//! Checks the reported health of volumes. A healthy back end shows little, so commands in `health` of the
//! configuration damage volumes.

pub(crate) mod changes;

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::message::entries;
use v1::VolumeHealthErrorType as Status;
use v1::volume_health::VolumeHealthEntry;

/// Limits the pages of one reading.
const PAGES_MAX: usize = 10_000;

/// The reported problems of a volume: status and reason of each entry.
pub(crate) type Problems = BTreeSet<(i32, String)>;

pub(crate) fn problems(entries: &[VolumeHealthEntry]) -> Problems {
    entries.iter().map(|entry| (entry.status, entry.reason.clone())).collect()
}

pub(crate) fn get<'a>(cx: &'a Cx, volume_id: &str) -> PendingCall<'a, v1::ControllerGetVolumeHealthResponse> {
    cx.call(v1::ControllerGetVolumeHealthRequest { volume_id: volume_id.to_owned(), ..Default::default() })
}

/// Returns the problems of an existing volume, as ControllerGetVolumeHealth reports them.
pub(crate) async fn problems_of(cx: &Cx, volume_id: &str) -> CheckResult<Problems> {
    let response = get(cx, volume_id).setup("the health of a volume").await?;
    Ok(problems(&response.volume_health.unwrap_or_default().health_statuses))
}

pub(crate) fn page<'a>(
    cx: &'a Cx,
    max_entries: i32,
    starting_token: &str,
) -> PendingCall<'a, v1::ControllerListVolumeHealthResponse> {
    let starting_token = starting_token.to_owned();
    cx.call(v1::ControllerListVolumeHealthRequest { max_entries, starting_token, ..Default::default() })
}

/// Returns all entries of the list for each volume.
pub(crate) async fn walk(cx: &Cx, max_entries: i32) -> CheckResult<BTreeMap<String, Vec<Problems>>> {
    let mut found = BTreeMap::<String, Vec<Problems>>::new();
    let mut tokens = BTreeSet::new();
    let mut token = String::new();
    for _ in 0..PAGES_MAX {
        let call = page(cx, max_entries, &token);
        let page = if tokens.is_empty() {
            call.setup("the list of unhealthy volumes").await?
        } else {
            call.await.must("accept its own next_token").map_err(|stop| stop.of(&req::CTRL_LISTHEALTH_012))?
        };
        ensure!(
            usize::try_from(max_entries).is_ok_and(|most| most == 0 || page.entries.len() <= most),
            "a page has more entries than requested";
            of: &req::CTRL_LISTHEALTH_007,
            expected: format!("at most max_entries {max_entries} entries"),
            actual: entries(page.entries.len())
        );
        for entry in page.entries {
            found.entry(entry.volume_id).or_default().push(self::problems(&entry.health_statuses));
        }
        if page.next_token.is_empty() {
            return Ok(found);
        }
        ensure!(
            tokens.insert(page.next_token.clone()),
            "next_token leads back to an earlier page, so the list never ends";
            of: &req::CTRL_LISTHEALTH_013,
            expected: "an empty next_token on the last page",
            actual: format!("next_token {:?} twice", page.next_token)
        );
        token = page.next_token;
    }
    Err(Stop::broken(format!("ControllerListVolumeHealth has not ended after {PAGES_MAX} pages")))
}

/// Checks that the reply is about the requested volume.
pub(crate) fn is_about(
    health: Option<v1::VolumeHealth>,
    volume_id: &str,
    absent: &'static Requirement,
    other: &'static Requirement,
) -> CheckResult<v1::VolumeHealth> {
    let Some(health) = health else {
        return Err(Violation::new("the answer has no volume_health, which callers read as healthy")
            .of(absent)
            .expected("volume_health, without health_statuses if the volume is healthy")
            .actual("none")
            .into());
    };
    ensure!(
        health.volume_id == volume_id,
        "the answer is about another volume than the requested one";
        of: other,
        expected: format!("volume_id {volume_id:?}"),
        actual: format!("volume_id {:?}", health.volume_id)
    );
    Ok(health)
}

/// Checks that a new or working volume has lost no data and can be reached. It may be degraded, for example while a
/// replica is made, which is only a remark.
pub(crate) fn is_well(cx: &Cx, problems: &Problems, rule: &'static Requirement, what: &str) -> CheckResult {
    let is_all_clear = |(_, reason): &&(i32, String)| {
        ["healthy", "ok", "normal", "none", "good"].contains(&reason.to_ascii_lowercase().as_str())
    };
    let is_grave = |(status, _): &&(i32, String)| {
        [Status::Inaccessible as i32, Status::DataLoss as i32].contains(status)
    };
    let Some(worst) =
        problems.iter().find(is_grave).or_else(|| problems.iter().find(is_all_clear)).or(problems.first())
    else {
        return Ok(());
    };
    let violation = Violation::new(format!("the driver reports a problem with {what}"))
        .of(rule)
        .expected("no health_statuses")
        .actual(format!("{problems:?}"));
    if is_grave(&worst) || is_all_clear(&worst) {
        return Err(violation.into());
    }
    cx.warn(violation);
    Ok(())
}

pub(crate) const CHECKS: &[&[&Check]] = &[changes::CHECKS];
