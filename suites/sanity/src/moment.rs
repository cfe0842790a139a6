//! Times in replies.

use csi_harness::prelude::*;
use csi_harness::requirements::Requirement;
use prost_types::Timestamp;

/// Whether two times mean the same moment: a driver may keep it in whole seconds and tell it more exactly at first.
pub(crate) fn same_moment(first: Option<&Timestamp>, again: Option<&Timestamp>) -> bool {
    let nanoseconds = |time: &Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    match (first, again) {
        (Some(first), Some(again)) => (nanoseconds(first) - nanoseconds(again)).abs() < 1_000_000_000,
        (first, again) => first == again,
    }
}

/// Warns of a creation_time that says nothing: it has to be set, but how exact it has to be is left open.
pub(crate) fn warn_if_unset(cx: &Cx, rule: &'static Requirement, created: Option<&Timestamp>) {
    if created.is_some_and(|time| time.seconds <= 0) {
        cx.warn(
            Violation::new("creation_time is the beginning of 1970, or before it")
                .of(rule)
                .expected("the moment at which it was cut")
                .actual(moment(created)),
        );
    }
}

/// A time as it is on the wire.
pub(crate) fn moment(time: Option<&Timestamp>) -> String {
    time.map_or_else(|| "none".to_owned(), |time| format!("{} s and {} ns", time.seconds, time.nanos))
}
