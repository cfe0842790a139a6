//! Runs tests of Kubernetes on the reference driver or the driver in memory, right or with a defect.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_driver_definitions::{DriverDefinition, Objects};
use csi_faulty_driver::Defect;
use csi_harness::checks::filter::Filter;
use csi_harness::checks::registry::{Registry, Suite};
use csi_harness::client::target::Target;
use csi_harness::config::profile::Profile;
use csi_harness::config::{Config, HealthHooks, NodeConfig, PathLayout};
use csi_harness::driver::{Driver, Supervisor};
use csi_harness::results::outcome::{Finding, Outcome};
use csi_harness::run::runner::RunOptions;
use csi_mock_driver::{Capability, Defect as MockDefect, MockDriver};
use csi_proto::Endpoint;
use csi_suite_e2e::definition::Definition;
use csi_suite_e2e::emulated_cluster::{EmulatedClusters, Settings};
use csi_suite_e2e::plan;
use csi_suite_e2e::version::Version;
use csi_suite_e2e::volume_slots::VolumeSlots;
use csi_test_support::hostpath;
use csi_test_support::run::Run;

use crate::table::{On, ROWS, Row, Setup};

/// The definition needs a driver with these flags.
const FLAGS: [&str; 6] = [
    "--enable-attach",
    "--enable-topology",
    "--enable-snapshot-metadata",
    "--enable-volume-expansion",
    "--enable-controller-modify-volume",
    "--accepted-mutable-parameter-names=tier",
];

/// Makes the driver insist on the order of a volume's life.
const IN_ORDER: &str = "--check-volume-lifecycle";

/// The manifest asks kubelet to read limits again, and to pass tokens that the driver requests.
const CSI_DRIVER: &str = "kind: CSIDriver\nmetadata: {name: hostpath.csi.k8s.io}\n\
    spec: {nodeAllocatableUpdatePeriodSeconds: 10, serviceAccountTokenInSecrets: true, tokenRequests: [{audience: vault}]}\n";

/// The run waits this long for a pod or a copy whose start or removal a defect prevents.
const POD_LIMIT: Duration = Duration::from_secs(15);
/// A test with a defect has this time. It spends half of the rest on waiting for its objects to be removed.
const DEFECT_MS: u64 = 45_000;
/// The driver notices within this time that something is ill, or well again.
const SETTLE_MS: u64 = 2_000;
/// The limit is shorter than the time for which a defect freezes a file system, and much longer than a write on a busy machine.
const STALL_MS: u64 = 2_000;
/// A test without a defect has this time.
const RIGHT_MS: u64 = 600_000;

/// Every test of the table has to pass without a defect.
pub(crate) fn a_right_driver_passes() {
    for setup in Setup::ALL {
        passes(on_hostpath(None, setup, Version::default(), tests_on(Some(setup))));
    }
    passes(Some(on_mock(None, &[], tests_on(None))));
}

/// Returns the tests that find defects of the reference driver in one setup, or of the driver in memory.
fn tests_on(wanted: Option<Setup>) -> Vec<&'static str> {
    let setup_of = |row: &Row| match row.on {
        On::Hostpath(setup, _) => Some(setup),
        On::Mock(..) => None,
    };
    ROWS.iter().filter(|row| setup_of(row) == wanted).map(|row| row.test).collect()
}

fn passes(run: Option<Run>) {
    let Some(run) = run else { return };
    let bad: Vec<_> = run.reports.iter().filter(|report| report.outcome != Outcome::Passed).collect();
    assert!(!run.reports.is_empty() && bad.is_empty(), "{bad:#?}");
    let notes: Vec<_> = run.reports.iter().flat_map(|report| &report.notes).collect();
    assert!(!notes.iter().any(|note| note.contains("volumes in use are not judged")), "{notes:#?}");
}

/// A driver that cannot take a snapshot while its volume is written to passes, because upstream's test writes nothing at that time.
pub(crate) fn a_workload_does_not_keep_a_test_from_passing() {
    const TEST: &str = "snapshottable-stress/dynamic-snapshot-delete-policy:should-support-snapshotting-of-many-volumes-repeatedly";
    let Some(run) =
        on_hostpath(Some(Defect::SnapshotsNeedQuiet), Setup::InUse, Version::default(), vec![TEST])
    else {
        return;
    };
    let [report] = &run.reports[..] else { panic!("{:#?}", run.reports) };
    assert_eq!(report.outcome, Outcome::Passed);
    let is_named = |note: &String| note.starts_with("CreateSnapshot takes longer than 30 s");
    assert_eq!(report.notes.iter().filter(|note| is_named(note)).count(), 1, "{:#?}", report.notes);
}

/// The test has to fail on the defect, and its words have to say why. It only warns if the defect hurts a workload.
pub(crate) fn is_found(row: &Row) {
    let version = row.versions.map_or_else(Version::default, |(version, _)| version);
    let Some(run) = with_defect(row, version) else { return };
    let outcomes: Vec<&Outcome> = run.reports.iter().map(|report| &report.outcome).collect();
    let violation = match (outcomes[..].first(), row.is_warning()) {
        (Some(Outcome::Failed(Finding { violation, .. })), false) => violation,
        (Some(Outcome::Warned(Finding { violation, binds_from: Profile::Kubernetes, .. })), true) => {
            violation
        }
        _ => panic!("{row:#?} is not found: {outcomes:#?}"),
    };
    let text = format!("{}; {}; {}", violation.message, violation.expected, violation.actual);
    assert!(text.contains(row.says), "{row:#?} is found for another reason: {text}");
    let story = run.stories_of(row.test).join("\n");
    // A time line shows one volume, but a group whose members are of different moments is a finding about several volumes.
    let is_of_several = matches!(row.on, On::Hostpath(_, Defect::GroupsOneByOne));
    assert_eq!(story.contains("time line of"), row.is_warning() && !is_of_several, "{story}");
}

/// Returns the run of the test of a row on the driver with the defect.
fn with_defect(row: &Row, version: Version) -> Option<Run> {
    match row.on {
        On::Hostpath(setup, defect) => on_hostpath(Some(defect), setup, version, vec![row.test]),
        On::Mock(defect, without) => Some(on_mock(Some(defect), without, vec![row.test])),
    }
}

/// If a defect depends on the version of Kubernetes, the test must pass in a version in which it does no harm.
pub(crate) fn is_right_in_another_version(row: &Row) {
    let Some((_, harmless)) = row.versions else { return };
    let Some(run) = with_defect(row, harmless) else { return };
    let [report] = &run.reports[..] else { panic!("{:#?}", run.reports) };
    assert!(matches!(report.outcome, Outcome::Passed | Outcome::Skipped(_)), "{row:#?}: {report:#?}");
}

/// Runs tests on the reference driver. Without root, it prints that the test is skipped.
fn on_hostpath(defect: Option<Defect>, setup: Setup, version: Version, tests: Vec<&str>) -> Option<Run> {
    let ran = hostpath::in_directory(async |root| {
        let manifests = if setup == Setup::SmallNode { CSI_DRIVER } else { "" };
        let other_node = hostpath::other_node_flag(root);
        let own_flags: &[&str] = match setup {
            Setup::SmallNode => &[IN_ORDER, "--attach-limit=3"],
            // A node that is shut down cannot unpublish a volume before it is detached.
            Setup::TwoNodes => &[&other_node, "--enable-topology=false"],
            _ => &[IN_ORDER],
        };
        let flags = [&FLAGS, own_flags].concat();
        let (driver, promise) = match setup {
            Setup::Labelled if !hostpath::can_be_watched().await => return None,
            Setup::Labelled => {
                let driver = hostpath::child(root, &flags, defect).unwrap();
                driver.supervise(Some(Supervisor::of_mounts()));
                (driver, "seLinuxMount")
            }
            Setup::Upgraded => {
                (hostpath::child_with_next_version(root, &flags, defect).unwrap(), "snapshotMetadata")
            }
            _ => (hostpath::driver(root, &flags, defect), "snapshotMetadata"),
        };
        let definition = promised(root, "hostpath-image.yaml", &[promise]);
        let text = fs::read_to_string(&definition).unwrap();
        let capabilities = "\n  Capabilities:\n";
        assert!(text.contains(capabilities));
        let more = format!("{capabilities}    podDeleteAfterUmount: true\n");
        fs::write(&definition, text.replace(capabilities, &more)).unwrap();
        if setup == Setup::InUse {
            bind_late(&definition);
        }
        let mut endpoints = vec![hostpath::endpoint(root)];
        if setup == Setup::TwoNodes {
            reach_all_nodes(&definition);
            endpoints.push(hostpath::other_node(root));
        }
        // With this variant, the driver is right in the end.
        let is_faulty = defect.is_some_and(|defect| defect != Defect::SnapshotsNeedQuiet);
        let suite = suite(&definition, manifests, endpoints.len(), version, is_faulty);
        let mut config = config_of(root, &endpoints, is_faulty);
        if setup == Setup::Upgraded {
            // The driver of these tests has its own commands, so that these texts are never run.
            config.driver_command = Some("the driver".to_owned());
            config.next_driver_command = Some("its next version".to_owned());
            config.downgrade = true;
        }
        if setup == Setup::InUse && defect.is_some() {
            config.profile = Profile::Csi;
            config.time_limits.stall_ms = STALL_MS;
        }
        Some(run(driver, config, suite, &tests).await)
    });
    ran.flatten()
}

/// Lets the volumes of a definition be created when pods need them, and fewer of them be used at the same time.
fn bind_late(definition: &Path) {
    const CLASS: &str = "driver-definitions/classes/hostpath-image.yaml";
    let class = fs::read_to_string(definitions().join("..").join(CLASS)).unwrap();
    let late = class.replace("volumeBindingMode: Immediate", "volumeBindingMode: WaitForFirstConsumer");
    assert_ne!(late, class);
    let file = definition.with_file_name("class.yaml");
    fs::write(&file, late).unwrap();
    let text = fs::read_to_string(definition).unwrap();
    let named = text.lines().find(|line| line.ends_with(CLASS)).unwrap();
    let (few_pods, few_snapshots) = ("NumPods: 2", "NumSnapshots: 2");
    let text = text
        .replace(named, &format!("  FromFile: {}", file.display()))
        .replace("NumPods: 10", few_pods)
        .replace("NumSnapshots: 10", few_snapshots);
    assert!(text.contains(few_pods) && text.contains(few_snapshots));
    fs::write(definition, text).unwrap();
}

/// Lets every node reach the volumes of a definition.
fn reach_all_nodes(definition: &Path) {
    let text = fs::read_to_string(definition).unwrap();
    let promises =
        ["singleNodeVolume: true", "topology: true", "TopologyKeys:\n    - topology.hostpath.csi/node\n"];
    assert!(promises.iter().all(|promise| text.contains(promise)));
    let text = text
        .replace(promises[0], "singleNodeVolume: false")
        .replace(promises[1], "topology: false")
        .replace(promises[2], "TopologyKeys: []\n");
    fs::write(definition, text).unwrap();
}

/// Runs tests on all nodes of the driver in memory.
fn on_mock(defect: Option<MockDefect>, without: &[Capability], tests: Vec<&str>) -> Run {
    let directory = tempfile::Builder::new().prefix("e2e-refutation-").tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let config = csi_mock_driver::Config {
        defects: defect.into_iter().collect(),
        without: without.to_vec(),
        health_dir: Some(root.clone()),
        ..csi_mock_driver::Config::default()
    };
    let nodes = config.nodes.len();
    let endpoint = |node: usize| Endpoint::Unix(root.join(format!("csi-{node}.sock")));
    let endpoints: Vec<Endpoint> = (0..nodes).map(endpoint).collect();
    let driver = Driver::in_process({
        let endpoints = endpoints.clone();
        move || {
            let driver = MockDriver::new(config.clone())?;
            let nodes = (0..).map_while(|node| driver.at_node(node)).map(|driver| driver.routes());
            Ok(endpoints.iter().cloned().zip(nodes).collect())
        }
    });
    let definition = promised(&root, "mock.yaml", &["snapshotDataSource"]);
    let suite = suite(&definition, "", nodes, Version::default(), defect.is_some());
    let ran = run(driver, config_of(&root, &endpoints, defect.is_some()), suite, &tests);
    tokio::runtime::Runtime::new().unwrap().block_on(ran)
}

async fn run(driver: Driver, config: Config, suite: Suite, tests: &[&str]) -> Run {
    let target = Target::connect_to(driver.clone(), config).await.unwrap();
    let registry = Registry::new([suite]);
    let mut filter = Filter::default();
    tests.iter().for_each(|test| filter.add(test).unwrap());
    let plan = registry.select(&filter, &target.config().access_types);
    let run = Run::of(target, plan, options(registry)).await;
    driver.leave().await.unwrap();
    run.check_wording().unwrap_or_else(|failed| panic!("{failed:?}"))
}

fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions")
}

/// Writes a definition that promises more: features on which upstream's own tests crash, or that need no data.
fn promised(root: &Path, name: &str, promises: &[&str]) -> PathBuf {
    let repository = definitions().join("..").canonicalize().unwrap();
    let mut text = fs::read_to_string(definitions().join(name)).unwrap();
    for promise in promises {
        let (not, yes) = (format!(" {promise}: false\n"), format!(" {promise}: true\n"));
        assert!(text.contains(&not), "{name} has {promise}");
        text = text.replace(&not, &yes);
    }
    if !text.contains("\nSnapshotClass:") {
        text.insert_str(0, "SnapshotClass:\n  FromName: true\n");
    }
    let file = root.join("definition.yaml");
    fs::write(&file, text.replace("FromFile: ", &format!("FromFile: {}/", repository.display()))).unwrap();
    file
}

fn suite(definition: &Path, manifests: &str, nodes: usize, version: Version, is_faulty: bool) -> Suite {
    let mut loaded = DriverDefinition::load(definition).unwrap();
    if is_faulty {
        loaded.definition.timeouts.pod_start = POD_LIMIT;
        loaded.definition.timeouts.pod_delete = POD_LIMIT;
        loaded.definition.timeouts.data_source_provision = POD_LIMIT;
    }
    let file = definition.with_file_name("manifests.yaml");
    fs::write(&file, manifests).unwrap();
    let objects = Arc::new(Objects::read(&[file]).unwrap());
    let settings = Settings { objects, version, ..Settings::new(std::env::current_exe().unwrap()) };
    let definition = Arc::new(Definition::new(loaded, None).unwrap());
    let clusters = EmulatedClusters::new(settings, nodes, definition.clone(), VolumeSlots::default(), |_| {});
    plan::suite(&[(definition, Arc::new(clusters))], version)
}

fn config_of(root: &Path, endpoints: &[Endpoint], is_faulty: bool) -> Config {
    let node = |endpoint: &Endpoint| NodeConfig { endpoint: endpoint.to_string(), ..NodeConfig::default() };
    let mut config = Config {
        endpoint: endpoints.first().map(Endpoint::to_string),
        nodes: endpoints.iter().skip(1).map(node).collect(),
        mount_dir: Some(root.join("kubelet")),
        staging_dir: Some(root.join("kubelet")),
        path_layout: PathLayout::Kubelet,
        profile: Profile::Strict,
        health: health_files(root),
        ..Config::default()
    };
    config.time_limits.check_ms = if is_faulty { DEFECT_MS } else { RIGHT_MS };
    config.time_limits.settle_ms = Some(SETTLE_MS);
    config
}

/// Returns commands that make something ill and well again, through the files that the driver in memory reads.
fn health_files(root: &Path) -> HealthHooks {
    let root = root.display();
    let make_ill = format!(
        "cd {root} && case $1 in backend) s=STORAGE_UNREACHABLE f=storage ;; *) s=DEGRADED f=$1 ;; esac && \
         printf '{{\"status\":\"%s\",\"reason\":\"Broken\"}}' $s >.$f.new && mv .$f.new $f.health"
    );
    let make_well =
        format!("cd {root} && case $1 in backend) f=storage ;; *) f=$1 ;; esac && rm -f $f.health");
    HealthHooks { make_ill: Some(make_ill), make_well: Some(make_well), ..HealthHooks::default() }
}

fn options(registry: Registry) -> RunOptions {
    RunOptions { jobs: 4, seed: 1, leak_check: false, registry, ..RunOptions::default() }
}
