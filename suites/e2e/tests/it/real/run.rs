//! Runs one test without a driver, and checks the report of a failure, and the cleanup after an interruption.

use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::DriverDefinition;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::Registry;
use csi_harness::client::target::Target;
use csi_harness::config::{Config, Elsewhere};
use csi_harness::results::outcome::{Finding, Halt, Outcome, Summary};
use csi_harness::run::runner::RunOptions;
use csi_suite_e2e::definition::Definition;
use csi_suite_e2e::plan;
use csi_suite_e2e::version::Version;
use csi_test_support::run::Run;
use serde_json::json;
use tokio::sync::watch;

use super::api::{Api, Happening};
use super::controllers::{self, DRIVER};
use super::{cluster, clusters};

/// This test needs no command in a pod.
const TEST: &str = "capacity/dynamic-pv-default-fs:provides-storage-capacity-information";

/// The result of each test, with the objects that it left.
type Reports = Vec<(Outcome, Vec<String>)>;

/// Runs a test to its end.
async fn run(api: &Api, test: &str) -> (Reports, Summary) {
    let (_never, signal) = watch::channel(Halt::None);
    run_until(api, test, signal).await
}

/// Runs a test until it ends, or the signal is raised.
async fn run_until(api: &Api, test: &str, signal: watch::Receiver<Halt>) -> (Reports, Summary) {
    let folder = tempfile::tempdir().unwrap();
    let class = format!(
        "kind: VolumeAttributesClass\napiVersion: storage.k8s.io/v1\nmetadata: {{name: gold}}\ndriverName: {DRIVER}\n\
         parameters: {{tier: gold}}\n"
    );
    std::fs::write(folder.path().join("gold.yaml"), class).unwrap();
    let text = format!(
        "StorageClass: {{FromName: true}}\nVolumeAttributesClass: {{FromFile: gold.yaml}}\nDriverInfo:\n  Name: {DRIVER}\n  \
         SupportedFsType: {{\"\": {{}}}}\n  TopologyKeys: [disk.example/zone]\n  \
         Capabilities: {{capacity: true, block: true, controllerExpansion: true}}\n"
    );
    let file = folder.path().join("driver.yaml");
    std::fs::write(&file, text).unwrap();
    let definition = Definition::new(DriverDefinition::load(&file).unwrap(), None).unwrap();
    let suite = plan::suite(&[(Arc::new(definition), Arc::new(clusters(api).await))], Version::default());
    let elsewhere = Elsewhere { driver: DRIVER.to_owned(), place: "in a cluster".to_owned() };
    let target = Target::connect(Config { elsewhere: Some(elsewhere), ..Config::default() }).await.unwrap();
    assert_eq!((target.info().name.as_str(), target.place().as_str()), (DRIVER, "in a cluster"));
    let registry = Registry::new([suite]);
    let mut filter = Filter::default();
    filter.add(test).unwrap();
    let planned = registry.select(&filter, &target.config().access_types);
    let options = RunOptions { jobs: 1, seed: 1, report_each: true, registry, ..RunOptions::default() };
    let run = Run::until(signal, target, planned, options).await;
    let reports = run.reports.into_iter().map(|report| (report.outcome, report.leftovers)).collect();
    (reports, run.summary)
}

#[tokio::test]
async fn a_failure_shows_events_and_leaves_no_objects() {
    let api = cluster();
    api.store(|store| store.capacity_of = Some("elsewhere"));
    let (reports, summary) = run(&api, TEST).await;
    let [(Outcome::Failed(Finding { violation, .. }), left)] = &reports[..] else { panic!("{:?}", reports) };
    assert_eq!(violation.message, "capacity is not published once for each segment");
    assert!(
        violation.transcript.iter().any(|line| line.starts_with("events in namespace sanity-")),
        "{violation:?}"
    );
    assert_eq!(left, &[""; 0]);
    assert_eq!(summary.counts.failed, 1);
    assert_eq!(api.names("namespaces"), [""; 0]);
    assert_eq!(api.names("storageclasses"), [""; 0]);
}

/// These tests are about Kubernetes alone, and this run tries them on a cluster.
#[tokio::test(start_paused = true)]
async fn what_is_about_kubernetes_alone_runs_in_a_cluster() {
    const MISMATCHED: &str = ":should-fail-to-use-a-volume-in-a-pod-with-mismatched-mode";
    const FIXED: &str = ":should-not-allow-expansion-of-pvcs-without-allowvolumeexpansion-property";
    const PROTECTED: &str = ":should-be-protected-by-vac-protection-finalizer";
    for (test, refused) in [
        (format!("volumemode/dynamic-pv-filesystem-volmode{MISMATCHED}"), None),
        (format!("volumemode/dynamic-pv-block-volmode{MISMATCHED}"), None),
        (format!("volume-expand/dynamic-pv-default-fs{FIXED}"), Some("PATCH persistentvolumeclaims")),
        (format!("volume-expand/dynamic-pv-block-volmode{FIXED}"), Some("PATCH persistentvolumeclaims")),
        (format!("volume-modify/dynamic-pv-default-fs{PROTECTED}"), None),
        (format!("volume-modify/dynamic-pv-block-volmode{PROTECTED}"), None),
    ] {
        let api = cluster();
        api.store(|store| store.refused.extend(refused.map(str::to_owned)));
        let (reports, _) = run(&api, &test).await;
        assert!(
            matches!(&reports[..], [(Outcome::Passed, left)] if left.is_empty()),
            "{test}: {:?}",
            reports
        );
        assert_eq!(api.names("namespaces"), [""; 0]);
        assert_eq!(api.names("volumeattributesclasses"), [""; 0]);
    }
    // The test must find that a claim grows although its class does not allow that.
    let (reports, _) = run(&cluster(), &format!("volume-expand/dynamic-pv-default-fs{FIXED}")).await;
    assert!(
        matches!(&reports[..], [(Outcome::Failed(found), _)] if found.violation.message.contains("does not allow")),
        "{:?}",
        reports
    );
}

/// Claims and pods come at a rate in a cluster too, and each claim has a volume of its own.
#[tokio::test(start_paused = true)]
async fn claims_come_at_a_rate_in_a_cluster() {
    const TEST: &str = "claims-at-a-rate/dynamic-pv-default-fs:should-give-each-claim-a-volume-of-its-own-and-keep-its-data-when-its-pod-is-rescheduled";
    let api = cluster();
    let (reports, _) = run(&api, TEST).await;
    assert!(matches!(&reports[..], [(Outcome::Passed, left)] if left.is_empty()), "{reports:?}");
    for kind in ["namespaces", "storageclasses", "persistentvolumes"] {
        assert_eq!(api.names(kind), [""; 0], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_interruption_leaves_is_told_as_an_error() {
    let api = cluster();
    let (raise, signal) = watch::channel(Halt::None);
    let interrupting = async {
        while api.names("storageclasses").is_empty() {
            tokio::task::yield_now().await;
        }
        api.store(|store| store.refused.insert("DELETE storageclasses".to_owned()));
        raise.send(Halt::Interrupted).unwrap();
    };
    let ((reports, summary), ()) = tokio::join!(run_until(&api, TEST, signal), interrupting);
    let [(Outcome::Broken(why), left)] = &reports[..] else { panic!("{:?}", reports) };
    assert!(why.starts_with("interrupted; could not undo: namespace sanity-"), "{why}");
    assert_eq!((left.len(), summary.halt), (1, Halt::Interrupted));
}

#[tokio::test]
async fn an_interruption_leaves_nothing() {
    let api = cluster();
    let (raise, signal) = watch::channel(Halt::None);
    let interrupting = async {
        // No sidecar publishes a capacity, so that the test waits for one.
        while api.names("storageclasses").is_empty() {
            tokio::task::yield_now().await;
        }
        raise.send(Halt::Interrupted).unwrap();
    };
    let ((reports, summary), ()) = tokio::join!(run_until(&api, TEST, signal), interrupting);
    let [(Outcome::Skipped(why), left)] = &reports[..] else { panic!("{:?}", reports) };
    assert_eq!((why.as_str(), left.len()), ("interrupted", 0));
    assert_eq!(summary.halt, Halt::Interrupted);
    assert_eq!(api.names("namespaces"), [""; 0]);
    assert_eq!(api.names("storageclasses"), [""; 0]);
}

#[tokio::test]
async fn a_test_passes_when_the_cluster_does_as_it_should() {
    let api = cluster();
    api.store(|store| store.capacity_of = Some("a"));
    let (reports, _) = run(&api, TEST).await;
    assert!(matches!(&reports[..], [(Outcome::Passed, left)] if left.is_empty()), "{:?}", reports);
    let made =
        api.store(|store| store.sent.iter().find(|one| one["kind"] == "StorageClass").cloned()).unwrap();
    assert_eq!(made["provisioner"], json!(DRIVER));
}

#[tokio::test(start_paused = true)]
async fn what_comes_behind_a_look_is_seen_at_once() {
    const LOOK: &str = "GET csistoragecapacities";
    let api = cluster();
    let publish: Happening = |store| {
        store.capacity_of = Some("a");
        controllers::work(store);
    };
    // The first read may precede the watch. The second one ends with nothing found when something changes.
    api.store(|store| store.then.extend([(LOOK, (|_| ()) as Happening), (LOOK, publish)]));
    let since = tokio::time::Instant::now();
    let (reports, _) = run(&api, TEST).await;
    assert!(matches!(&reports[..], [(Outcome::Passed, _)]), "{:?}", reports);
    assert_eq!(since.elapsed(), Duration::ZERO, "on a clock that moves when nobody has anything to do");
}
