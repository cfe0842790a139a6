//! Marks the objects of a run with labels, names, and the time until which the run may need them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::MANAGER;
use super::api::{pairs, text};

/// The label for the author of an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label for the run of an object.
pub(crate) const RUN: &str = "csi-sanity/run";
/// The annotation with the seconds since 1970 after which the run is over.
const ENDS_BY: &str = "csi-sanity/ends-by-seconds";
/// The annotation with the process of the run.
const PROCESS: &str = "csi-sanity/process";
/// The pod security level of test namespaces, which has to permit SELinux levels and inline volumes.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// The marks of all objects of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    run: String,
    ends_by_seconds: u64,
    process: String,
}

impl Marks {
    /// Returns the marks of a run of this process that is over after `limit`.
    pub(crate) fn new(run: &str, limit: Duration) -> Marks {
        let ends_by_seconds = now_seconds().saturating_add(limit.as_secs());
        Marks { run: run.to_owned(), ends_by_seconds, process: this_process() }
    }

    /// Returns the metadata of an object outside of namespaces.
    pub(crate) fn metadata(&self, name: &str) -> Value {
        json!({
            "name": name,
            "labels": { MANAGED_BY: MANAGER, RUN: self.run },
            "annotations": { ENDS_BY: self.ends_by_seconds.to_string(), PROCESS: self.process },
        })
    }

    /// Returns the manifest of a test's namespace.
    pub(crate) fn namespace(&self, name: &str) -> Value {
        let mut metadata = self.metadata(name);
        metadata["labels"][POD_SECURITY] = "privileged".into();
        json!({ "metadata": metadata })
    }
}

/// Returns the selector of the objects of all runs.
pub(crate) fn selector() -> String {
    format!("{MANAGED_BY}={MANAGER},{RUN}")
}

/// Returns the run of an object.
pub(crate) fn run_of(object: &Value) -> &str {
    text(object, "/metadata/labels/csi-sanity~1run")
}

/// Returns whether the run of an object may still need it: its time is not over, and it is not a process of this
/// machine that has ended.
pub(crate) fn may_be_wanted(object: &Value) -> bool {
    let annotations = pairs(object, "/metadata/annotations");
    let ends_by = annotations.get(ENDS_BY).and_then(|seconds| seconds.parse::<u64>().ok());
    let has_ended = annotations.get(PROCESS).is_some_and(|process| has_ended_here(process));
    ends_by.is_some_and(|seconds| seconds > now_seconds()) && !has_ended
}

fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns `BOOT PID START`, which is unique across machines.
fn this_process() -> String {
    let pid = std::process::id();
    format!("{} {pid} {}", boot_id(), started(pid).unwrap_or_default())
}

/// Returns whether it is a process of this machine that has ended.
fn has_ended_here(process: &str) -> bool {
    let mut words = process.split(' ');
    let (Some(boot), Some(pid), Some(start)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let boot_here = boot_id();
    let runs = || pid.parse().ok().and_then(started).is_some_and(|here| here == start);
    !boot_here.is_empty() && boot == boot_here && !runs()
}

fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    // The PID namespace is included, because containers on one machine have their own numbers.
    let pids =
        std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default();
    let boot = read.unwrap_or_default();
    if boot.trim().is_empty() { String::new() } else { format!("{}/{pids}", boot.trim()) }
}

/// Returns the start of a running process, in ticks since boot.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces; the fields behind it start with the third one.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A killed process exists until its parent waits for it.
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    fields.nth(18).filter(|_| !has_ended).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(annotations: Value) -> Value {
        json!({ "metadata": { "annotations": annotations } })
    }

    #[test]
    fn a_run_ends_with_its_time_or_its_process() {
        let marks = Marks::new("sanity-abc", Duration::from_secs(600));
        assert!(may_be_wanted(&json!({ "metadata": marks.metadata("one") })));
        let over = Marks { ends_by_seconds: now_seconds() - 1, ..marks.clone() };
        assert!(!may_be_wanted(&json!({ "metadata": over.metadata("one") })));
        let process = format!("{} {} 0", boot_id(), std::process::id());
        assert!(!may_be_wanted(&json!({ "metadata": Marks { process, ..marks.clone() }.metadata("one") })));
        let elsewhere = Marks { process: "other-boot/pid:[1] 1 1".to_owned(), ..marks };
        assert!(may_be_wanted(&json!({ "metadata": elsewhere.metadata("one") })), "it is unknown here");
        assert!(!may_be_wanted(&with(json!({}))), "nobody says until when");
    }
}
