//! Compares times in replies.

use std::time::{SystemTime, UNIX_EPOCH};

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;
use csi_harness::text::encoding::moment;
use prost_types::Timestamp;

/// Returns whether two times mean one moment: a driver may store whole seconds, and report a more precise time at
/// first.
pub(crate) fn same_moment(first: Option<&Timestamp>, again: Option<&Timestamp>) -> bool {
    let nanoseconds = |time: &Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    match (first, again) {
        (Some(first), Some(again)) => (nanoseconds(first) - nanoseconds(again)).abs() < 1_000_000_000,
        (first, again) => first == again,
    }
}

/// Two consecutive calls may get one time from a clock that is not finer than this.
const COARSE_NANOSECONDS: i32 = 1_000_000;

/// Waits until the current time is distinguishable, unless the two answers already show that they do not contain it.
/// Returns whether it waited, so that asking again is useful.
pub(crate) async fn another_moment(cx: &Cx, first: Option<&Timestamp>, again: Option<&Timestamp>) -> bool {
    let is_kept = first == again && first.is_none_or(|time| time.nanos % COARSE_NANOSECONDS != 0);
    if !is_kept {
        cx.wait_for_next_second().await;
    }
    !is_kept
}

/// The permitted difference between the clocks of the driver's back end and of this machine.
const CLOCKS_APART_SECONDS: u64 = 24 * 60 * 60;

/// Reports the creation_time of a new object that is far from now, such as one that was never set or has another
/// unit. The specification leaves open which clock sets it.
pub(crate) fn is_of_these_days(cx: &Cx, rule: &'static Requirement, created: Option<&Timestamp>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let apart = |time: &Timestamp| now.abs_diff(u64::try_from(time.seconds).unwrap_or(0));
    if created.is_some_and(|time| apart(time) > CLOCKS_APART_SECONDS) {
        cx.blame(
            Violation::new("creation_time is more than a day away from now")
                .of(rule)
                .expected(format!(
                    "the time at which the snapshot was taken, about {}",
                    moment(Some(&SystemTime::now().into()))
                ))
                .actual(moment(created)),
        );
    }
}
