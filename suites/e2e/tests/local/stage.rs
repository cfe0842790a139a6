//! The tests emulate a cluster in a check that runs against a driver, and look at the calls that it made.

use std::path::Path;
use std::sync::Arc;

use csi_driver_definitions::{DriverDefinition, Objects};
use csi_harness::checks::check::{Body, Check};
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::{Checks, Registry, Suite};
use csi_harness::client::record::CallRecord;
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::config::{Config, NodeConfig, PathLayout};
use csi_harness::prelude::{CheckResult, Cx};
use csi_harness::results::outcome::{CheckReport, Halt, Outcome};
use csi_harness::run::runner::RunOptions;
use csi_hostpath_driver::HostpathDriver;
use csi_mock_driver::MockDriver;
use csi_proto::{Endpoint, Listener};
use csi_suite_e2e::cluster::{
    AttributesClass, Cluster, GroupSnapshot, GroupSnapshotOrigin, GroupSnapshotSpec, Pairs, Pod, PodPhase,
    PodSpec, Pvc, PvcPhase, PvcSpec, Snapshot, SnapshotClass, SnapshotOrigin, SnapshotSpec, StorageClass,
};
use csi_suite_e2e::definition::Definition;
use csi_suite_e2e::emulated_cluster::{EmulatedCluster, EmulatedClusters, Settings};
use csi_suite_e2e::plan;
use csi_suite_e2e::version::Version;
use csi_suite_e2e::volume_slots::VolumeSlots;
use csi_test_support::run::Run;
use csi_test_support::{hostpath, machine};
use tokio::sync::{oneshot, watch};
use tonic::service::Routes;

use crate::pods::claim_spec;

/// A test of this program has a name and a function.
pub(crate) type Test = (&'static str, fn());

/// These flags switch on all features and strict rules of the reference driver.
pub(crate) const FLAGS: [&str; 7] = [
    "--enable-attach",
    "--check-volume-lifecycle",
    "--enable-topology",
    "--enable-list-snapshots",
    "--enable-volume-expansion",
    "--enable-controller-modify-volume",
    "--accepted-mutable-parameter-names=tier",
];

/// This is the result of a check.
#[derive(Debug)]
pub(crate) struct Played {
    label: String,
    outcome: Outcome,
    calls: Vec<CallRecord>,
    /// These incidents happened between the calls.
    pub(crate) incidents: Vec<String>,
    /// The check left these objects behind.
    left: Vec<String>,
}

impl Played {
    fn of(report: CheckReport) -> Played {
        let label = report.label();
        let incidents = report.incidents.into_iter().map(|(_, what)| what).collect();
        Played { label, outcome: report.outcome, calls: report.calls, incidents, left: report.leftovers }
    }

    /// Returns the calls, without those that only ask for the driver's name and capabilities and for the state of its volumes.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.calls
            .iter()
            .map(|call| call.rpc.method)
            .filter(|method| !method.starts_with("NodeGet") && !method.ends_with("VolumeHealth"))
            .collect()
    }

    /// Asserts that the check passed, left nothing, and that nothing had to be undone for it.
    pub(crate) fn passed(&self) -> &Played {
        assert!(matches!(self.outcome, Outcome::Passed) && self.left.is_empty(), "{self:#?}");
        assert!(!self.calls.iter().any(|call| call.cleanup), "{self:#?}");
        self
    }

    /// Returns the number of calls of kubelet and the sidecars, without the cleanup after the check.
    pub(crate) fn times(&self, method: &str) -> usize {
        self.calls.iter().filter(|call| call.rpc.method == method && !call.cleanup).count()
    }

    /// Asserts that the check failed for this reason, and that everything it left could be undone.
    pub(crate) fn failed(&self, because: &str) {
        let failed =
            matches!(&self.outcome, Outcome::Failed(found) if found.violation.message.contains(because));
        assert!(failed && self.left.is_empty(), "{self:#?}");
    }

    /// Asserts that the check was skipped for this reason.
    pub(crate) fn skipped(&self, because: &str) {
        assert!(matches!(&self.outcome, Outcome::Skipped(why) if why.contains(because)), "{self:#?}");
    }

    /// Returns the objects that the check left behind.
    pub(crate) fn left(&self) -> &[String] {
        &self.left
    }

    /// Returns the requests of one RPC as text.
    pub(crate) fn requests(&self, method: &str) -> Vec<String> {
        let calls = self.calls.iter().filter(|call| call.rpc.method == method);
        calls.map(|call| format!("{:?}", call.request)).collect()
    }
}

/// The body of a check returns such a future.
pub(crate) trait Playing: Future<Output = CheckResult> + Send + 'static {}

impl<F: Future<Output = CheckResult> + Send + 'static> Playing for F {}

/// This is the time limit of a check.
const CHECK_MS: u64 = 600_000;

/// Runs a check on the reference driver. Without root, it prints that the test is skipped.
pub(crate) fn on_hostpath<F: Playing>(flags: &[&str], body: fn(EmulatedCluster, Cx) -> F) -> Option<Played> {
    on_hostpath_within(CHECK_MS, flags, body)
}

/// Runs a check with this time limit.
pub(crate) fn on_hostpath_within<F: Playing>(
    check_ms: u64,
    flags: &[&str],
    body: fn(EmulatedCluster, Cx) -> F,
) -> Option<Played> {
    with_hostpath(flags, async |root, driver| play(root, vec![driver.routes()], "", check_ms, body).await)
}

/// Runs tests of Kubernetes on the reference driver, and returns those that failed.
pub(crate) fn upstream_on_hostpath(definition: &Path, flags: &[&str], filter: &str) -> Option<Vec<String>> {
    let loaded = DriverDefinition::load(definition).unwrap();
    let definition = Arc::new(Definition::new(loaded, None).unwrap());
    let clusters = EmulatedClusters::new(settings(""), 1, definition.clone(), VolumeSlots::default(), |_| {});
    let suite = plan::suite(&[(definition, Arc::new(clusters))], Version::default());
    let mut only = Filter::default();
    only.focus(filter).unwrap();
    let (played, mut bad) = with_hostpath(flags, async |root, driver| {
        let (_never, signal) = watch::channel(Halt::None);
        run(root, vec![driver.routes()], suite, &only, CHECK_MS, signal).await
    })?;
    if !played.iter().any(|played| matches!(played.outcome, Outcome::Passed)) {
        let outcomes: Vec<&Outcome> = played.iter().map(|played| &played.outcome).collect();
        bad.push(format!("no test that is called {filter} passes: {outcomes:?}"));
    }
    let bad_ones =
        played.iter().filter(|played| !matches!(played.outcome, Outcome::Passed | Outcome::Skipped(_)));
    bad.extend(bad_ones.map(|played| format!("{}: {:?} {:?}", played.label, played.outcome, played.left)));
    Some(bad)
}

/// Starts the reference driver in a directory below which no mounts may be left in the end.
fn with_hostpath<T>(flags: &[&str], play: impl AsyncFnOnce(&Path, &HostpathDriver) -> T) -> Option<T> {
    if !machine::can_mount() {
        return None;
    }
    let ground = tempfile::Builder::new().prefix("local-test-").tempdir().unwrap();
    let root = ground.path().canonicalize().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let played = runtime.block_on(async {
        let driver = HostpathDriver::new(hostpath::config(&root, flags)).unwrap();
        assert!(driver.ready().await);
        play(&root, &driver).await
    });
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root.to_str().unwrap()), "mounts are left: {mounts}");
    Some(played)
}

/// Runs a check on the in-memory driver with two nodes.
pub(crate) fn on_mock<F: Playing>(
    config: csi_mock_driver::Config,
    body: fn(EmulatedCluster, Cx) -> F,
) -> Played {
    on_mock_installed_with("", config, body)
}

/// Runs a check with manifests of the driver's installation.
pub(crate) fn on_mock_installed_with<F: Playing>(
    manifests: &str,
    config: csi_mock_driver::Config,
    body: fn(EmulatedCluster, Cx) -> F,
) -> Played {
    on_mock_in(&tokio::runtime::Runtime::new().unwrap(), manifests, config, CHECK_MS, body)
}

/// Runs a check on the in-memory driver, with a clock that only moves when all tasks wait.
pub(crate) fn on_mock_paused<F: Playing>(
    config: csi_mock_driver::Config,
    body: fn(EmulatedCluster, Cx) -> F,
) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    // The limit is ten times as long, because time on this clock costs nothing.
    on_mock_in(&runtime.unwrap(), "", config, CHECK_MS * 10, body)
}

fn on_mock_in<F: Playing>(
    runtime: &tokio::runtime::Runtime,
    manifests: &str,
    config: csi_mock_driver::Config,
    check_ms: u64,
    body: fn(EmulatedCluster, Cx) -> F,
) -> Played {
    let ground = tempfile::Builder::new().prefix("local-test-").tempdir().unwrap();
    runtime.block_on(async {
        let driver = MockDriver::new(config).unwrap();
        let nodes = (0..).map_while(|node| driver.at_node(node)).map(|driver| driver.routes());
        play(ground.path(), nodes.collect(), manifests, check_ms, body).await
    })
}

/// Runs a check on the in-memory driver, in a run that the body can interrupt.
pub(crate) fn on_mock_interrupted<F: Playing>(
    config: csi_mock_driver::Config,
    body: fn(EmulatedCluster, Cx, watch::Sender<Halt>) -> F,
) -> Played {
    let ground = tempfile::Builder::new().prefix("local-test-").tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let driver = MockDriver::new(config).unwrap();
        let nodes = (0..).map_while(|node| driver.at_node(node)).map(|driver| driver.routes());
        let (interrupt, signal) = watch::channel(Halt::None);
        let body = move |local, cx| body(local, cx, interrupt.clone());
        play_until(ground.path(), nodes.collect(), "", CHECK_MS, signal, body).await
    })
}

/// Returns the settings of an emulated cluster with manifests of the driver's installation.
fn settings(manifests: &str) -> Settings {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifests).unwrap();
    let objects = Arc::new(Objects::read(&[file.path().to_owned()]).unwrap());
    let claim_annotations = [("example.com/secret".to_owned(), "creds".to_owned())].into();
    Settings { objects, claim_annotations, ..Settings::new(std::env::current_exe().unwrap()) }
}

async fn play<F: Playing>(
    root: &Path,
    nodes: Vec<Routes>,
    manifests: &str,
    check_ms: u64,
    body: fn(EmulatedCluster, Cx) -> F,
) -> Played {
    let (_never, signal) = watch::channel(Halt::None);
    play_until(root, nodes, manifests, check_ms, signal, body).await
}

/// Runs the check until its body ends, or the signal is raised.
async fn play_until<F: Playing>(
    root: &Path,
    nodes: Vec<Routes>,
    manifests: &str,
    check_ms: u64,
    signal: watch::Receiver<Halt>,
    body: impl Fn(EmulatedCluster, Cx) -> F + Send + Sync + 'static,
) -> Played {
    let check = check(settings(manifests), body);
    let suite = Suite { name: "local", checks: Checks::made([check]), retired: &[] };
    let (mut played, leaks) = run(root, nodes, suite, &Filter::default(), check_ms, signal).await;
    let mut played = played.remove(0);
    played.left.extend(leaks);
    played
}

/// Runs a suite, and returns the result of each check and the objects that all of them left.
async fn run(
    root: &Path,
    nodes: Vec<Routes>,
    suite: Suite,
    filter: &Filter,
    check_ms: u64,
    signal: watch::Receiver<Halt>,
) -> (Vec<Played>, Vec<String>) {
    let mut stops = Vec::new();
    let mut serving = Vec::new();
    let mut endpoints = Vec::new();
    for (number, routes) in nodes.into_iter().enumerate() {
        let endpoint = Endpoint::Unix(root.join(format!("csi-{number}.sock")));
        let listener = Listener::bind(&endpoint).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        stops.push(stop);
        serving.push(tokio::spawn(listener.serve(routes, async {
            let _ = stopped.await;
        })));
        endpoints.push(endpoint.to_string());
    }
    let node = |endpoint: &String| NodeConfig { endpoint: endpoint.clone(), ..NodeConfig::default() };
    let mut config = Config {
        endpoint: endpoints.first().cloned(),
        nodes: endpoints[1..].iter().map(node).collect(),
        mount_dir: Some(root.join("kubelet")),
        staging_dir: Some(root.join("kubelet")),
        path_layout: PathLayout::Kubelet,
        profile: Profile::Strict,
        ..Config::default()
    };
    config.time_limits.check_ms = check_ms;
    let target = Target::connect(config).await.unwrap();
    let registry = Registry::new([suite]);
    let plan = registry.select(filter, &target.config().access_types);
    let options = RunOptions {
        jobs: 4,
        seed: 1,
        keep_calls: true,
        report_each: true,
        registry,
        ..RunOptions::default()
    };
    let run = Run::until(signal, target, plan, options).await;
    drop(stops);
    for serving in serving {
        serving.await.unwrap().unwrap();
    }
    let leaks = run.summary.leaks.iter().map(|leak| format!("{leak:?}")).collect();
    (run.reports.into_iter().map(Played::of).collect(), leaks)
}

/// Makes a check that has a cluster of its own.
fn check<F: Playing>(
    settings: Settings,
    body: impl Fn(EmulatedCluster, Cx) -> F + Send + Sync + 'static,
) -> Check {
    let body = Arc::new(body);
    let body = Body::made(move |cx: &Cx| {
        let (cx, settings, body) = (cx.clone(), settings.clone(), body.clone());
        Box::pin(async move {
            let local = EmulatedCluster::open(&cx, settings, &VolumeSlots::default()).await?;
            let ended = body(local, cx);
            drop(body);
            ended.await
        })
    });
    Check {
        requirements: const { &[&csi_harness::spec::requirements::req::ID_PROBE_001] },
        refuted_by: &["none"],
        ..Check::new("local/plays".into(), "plays".into(), body)
    }
}

/// Creates a class of the driver.
pub(crate) async fn class(local: &EmulatedCluster, cx: &Cx) -> StorageClass {
    class_with(local, cx, Pairs::new()).await
}

/// Creates a class of the driver with these parameters.
pub(crate) async fn class_with(local: &EmulatedCluster, cx: &Cx, parameters: Pairs) -> StorageClass {
    let class = StorageClass {
        name: "class".to_owned(),
        provisioner: cx.target().info().name.clone(),
        parameters,
        allow_volume_expansion: true,
        ..StorageClass::default()
    };
    local.create_storage_class(&class).await.unwrap();
    class
}

/// Returns a class of snapshots or of group snapshots.
pub(crate) fn snapshot_class(cx: &Cx, parameters: Pairs) -> SnapshotClass {
    let driver = cx.target().info().name.clone();
    SnapshotClass { name: "snapshots".to_owned(), driver, parameters, ..SnapshotClass::default() }
}

/// Creates a class of attributes with this tier, which is also its name.
pub(crate) async fn attributes_class(local: &EmulatedCluster, cx: &Cx, tier: &str) -> CheckResult {
    let parameters = [("tier".to_owned(), tier.to_owned())].into();
    let (name, driver) = (tier.to_owned(), cx.target().info().name.clone());
    local.create_attributes_class(&AttributesClass { name, driver, parameters }).await
}

/// Creates a class and a claim for a file system, and waits until the claim is bound, or has failed.
pub(crate) async fn claimed(local: &EmulatedCluster, cx: &Cx) -> Pvc {
    let class = class(local, cx).await;
    claim(local, claim_spec(&class.name)).await
}

/// Creates a claim and waits until it is bound, or has failed.
pub(crate) async fn claim(local: &EmulatedCluster, spec: PvcSpec) -> Pvc {
    local.create_pvc(&spec).await.unwrap();
    loop {
        let claim = local.claim(&spec.name).await.unwrap().unwrap();
        if claim.phase == PvcPhase::Bound || claim.given_up.is_some() {
            return claim;
        }
        local.changed().await;
    }
}

/// Creates a pod, and waits until it has started, or has failed to start.
pub(crate) async fn start(local: &EmulatedCluster, spec: &PodSpec) -> CheckResult<Pod> {
    local.create_pod(spec).await?;
    started(local, &spec.name).await
}

/// Waits until a pod has started, or has failed to start.
pub(crate) async fn started(local: &EmulatedCluster, name: &str) -> CheckResult<Pod> {
    loop {
        let pod = local.pod(name).await?.unwrap();
        if pod.phase != PodPhase::Pending || pod.given_up.is_some() {
            return Ok(pod);
        }
        local.changed().await;
    }
}

/// Deletes a pod and waits until it is gone.
pub(crate) async fn delete_pod(local: &EmulatedCluster, name: &str) -> CheckResult {
    local.delete_pod(name, false).await?;
    while local.pod(name).await?.is_some() {
        local.changed().await;
    }
    Ok(())
}

/// Waits until the claim has this number of bytes and the attributes that were requested.
pub(crate) async fn grown(local: &EmulatedCluster, bytes: i64) -> CheckResult {
    loop {
        let claim = local.claim("claim").await?.unwrap();
        if claim.capacity_bytes >= bytes && claim.attributes_class == claim.spec.attributes_class {
            return Ok(());
        }
        assert_eq!(claim.given_up, None);
        local.changed().await;
    }
}

/// Takes a snapshot of the claim, and imports it again by its id.
pub(crate) async fn take_snapshots(local: &EmulatedCluster, class: &str) -> CheckResult {
    let mut origin = SnapshotOrigin::Claim("claim".to_owned());
    for name in ["taken", "found"] {
        let ready = take_snapshot(local, name, class, origin).await?;
        origin = SnapshotOrigin::Handle(ready.handle.unwrap());
    }
    Ok(())
}

/// Creates a snapshot and waits until it is ready.
pub(crate) async fn take_snapshot(
    local: &EmulatedCluster,
    name: &str,
    class: &str,
    origin: SnapshotOrigin,
) -> CheckResult<Snapshot> {
    let spec = SnapshotSpec { name: name.to_owned(), class: class.to_owned(), origin };
    local.create_snapshot(&spec).await?;
    loop {
        let snapshot = local.snapshot(name).await?.unwrap();
        assert_eq!(snapshot.given_up, None);
        if snapshot.ready {
            return Ok(snapshot);
        }
        local.changed().await;
    }
}

/// Takes a group snapshot of the claims with these labels, and imports it again by its id.
pub(crate) async fn take_groups(local: &EmulatedCluster, class: &str, labels: Pairs) -> CheckResult {
    let mut origin = GroupSnapshotOrigin::Labels(labels);
    for name in ["group", "found-group"] {
        let ready = take_group(local, name, class, origin).await?;
        let member = local.snapshot(&ready.members[0].0).await?.unwrap();
        let snapshots = vec![member.handle.unwrap()];
        origin = GroupSnapshotOrigin::Handles { group: ready.handle.unwrap(), snapshots };
    }
    Ok(())
}

/// Creates a group snapshot and waits until it is ready.
pub(crate) async fn take_group(
    local: &EmulatedCluster,
    name: &str,
    class: &str,
    origin: GroupSnapshotOrigin,
) -> CheckResult<GroupSnapshot> {
    let spec = GroupSnapshotSpec { name: name.to_owned(), class: class.to_owned(), origin };
    local.create_group_snapshot(&spec).await?;
    loop {
        let group = local.group_snapshot(name).await?.unwrap();
        assert_eq!(group.given_up, None);
        if group.ready {
            return Ok(group);
        }
        local.changed().await;
    }
}
