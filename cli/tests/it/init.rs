//! `init` writes files for a driver after it has tried the driver.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use csi_driver_definitions::{Capability, DriverDefinition};
use csi_harness::config::{AccessType, Config as Settings};
use csi_harness::protocol::capability::Capability as Advertised;
use csi_mock_driver::{Config, Defect};

use crate::driver::Driver;
use crate::program::{Said, check, program};

fn init(driver: &Driver, code: i32, more: &[&str]) -> Said {
    let directory = driver.directory().to_str().unwrap();
    check(&[&["init", "--endpoint", &driver.endpoint, "--output", directory], more].concat(), code, &[])
}

fn settings(directory: &Path) -> Settings {
    Settings::load(&directory.join("csi-sanity.yaml")).unwrap()
}

fn read(directory: &Path) -> DriverDefinition {
    let loaded = DriverDefinition::load(&directory.join("driver-definition.yaml")).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    loaded.storage_class().unwrap();
    loaded.definition
}

#[test]
fn what_was_tried_is_written_and_a_run_with_it_passes() {
    let driver = Driver::start(Config::default());
    let said = init(&driver, 0, &[]);
    assert!(said.stdout.contains("next: csi-sanity --config"), "{}", said.stdout);
    let settings = settings(driver.directory());
    assert_eq!(settings.endpoint, Some(driver.endpoint.clone()));
    assert_eq!(settings.access_types, [AccessType::Mount, AccessType::Block]);
    let definition = read(driver.directory());
    assert_eq!(definition.driver_info.name, "mock.csi-sanity.example");
    assert!(definition.can(Capability::PvcDataSource) && definition.can(Capability::Multipods));
    assert!(!definition.can(Capability::Rwx), "that nodes share data was not seen");
    assert_eq!(driver.volumes(), Vec::<String>::new());
    let config = driver.folder.path("csi-sanity.yaml");
    let said = check(&["--config", &config, "--filter", "controller/create-volume/*"], 0, &[]);
    assert!(said.stdout.contains(" 0 failed"), "{}", said.stdout);
    assert!(said.stdout.contains("the driver advertises all that is expected of it"), "{}", said.stdout);
    assert!(!said.stdout.contains("not tested"), "{}", said.stdout);
}

#[test]
fn a_socket_named_from_here_is_found_from_elsewhere() {
    let driver = Driver::start(Config::default());
    let init = ["init", "--endpoint", "csi.sock", "--mount-dir", "mounts", "--output", "files"];
    std::fs::create_dir(driver.directory().join("mounts")).unwrap();
    let said = program().args(init).current_dir(driver.directory()).output().unwrap();
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    let settings = settings(&driver.directory().join("files"));
    assert_eq!(settings.endpoint, Some(driver.endpoint.clone()));
    assert_eq!(settings.mount_dir, Some(driver.directory().join("mounts")));
}

/// The capabilities that `init` finds are expected of the driver from then on.
#[test]
fn a_capability_that_is_lost_is_missed() {
    let driver = Driver::start(Config::default());
    init(&driver, 0, &[]);
    let expected = settings(driver.directory()).expect_capabilities;
    assert!(expected.contains(&Advertised::CreateDeleteSnapshot), "{expected:?}");
    let config = driver.folder.path("csi-sanity.yaml");
    let without = vec!["CREATE_DELETE_SNAPSHOT".parse().unwrap()];
    let less = Driver::start(Config { without, ..Config::default() });
    let arguments = ["--config", &config, "--endpoint", &less.endpoint, "--filter", "identity/"];
    let said = check(&arguments, 1, &[]);
    assert!(said.stdout.contains("does not advertise CREATE_DELETE_SNAPSHOT"), "{}", said.stdout);
}

#[test]
fn what_the_driver_lacks_is_not_promised() {
    let without = ["CREATE_DELETE_SNAPSHOT", "Controller.EXPAND_VOLUME", "Node.EXPAND_VOLUME"];
    let without = without.map(|name| name.parse().unwrap()).into();
    let driver = Driver::start(Config { without, ..Config::default() });
    init(&driver, 0, &[]);
    let definition = read(driver.directory());
    for lacks in
        [Capability::SnapshotDataSource, Capability::ControllerExpansion, Capability::OnlineExpansion]
    {
        assert!(!definition.can(lacks), "{lacks}");
    }
}

#[test]
fn init_names_missing_parameters_and_writes_others() {
    let required_parameters = BTreeMap::from([("pool".to_owned(), "a: \"b\"".to_owned())]);
    let driver = Driver::start(Config { required_parameters, ..Config::default() });
    let said = init(&driver, 3, &[]);
    assert!(said.stdout.contains("parameter `pool` is missing"), "{}", said.stdout);
    let text = driver.folder.read("csi-sanity.yaml");
    assert!(text.contains("# Without parameters: CreateVolume answers INVALID_ARGUMENT"), "{text}");
    settings(driver.directory());

    let parameters = driver.folder.write("parameters.yaml", "pool: 'a: \"b\"'\n");
    init(&driver, 0, &["--force", "--parameters", &parameters]);
    assert_eq!(settings(driver.directory()).parameters["pool"], "a: \"b\"");
    let loaded = DriverDefinition::load(&driver.directory().join("driver-definition.yaml")).unwrap();
    assert_eq!(loaded.storage_class().unwrap().unwrap().parameters["pool"], "a: \"b\"");
}

#[test]
fn a_secret_is_used_and_not_written() {
    let driver = Driver::start(Config::default());
    let secrets = driver.folder.write("secrets.yaml", "CreateVolume: {token: hunter2}\n");
    let said = init(&driver, 0, &["--secrets", &secrets]);
    let flags = format!("csi-sanity.yaml --secrets {secrets}");
    assert!(said.stdout.contains(&format!("{flags} --suite sanity\n")), "{}", said.stdout);
    assert_eq!(said.stdout.matches(&flags).count(), 4, "each command has it: {}", said.stdout);
    let text = driver.folder.read("csi-sanity.yaml");
    assert!(!text.contains("hunter2") && text.contains("each run needs the flag again"), "{text}");
    settings(driver.directory());
}

#[test]
fn secrets_of_the_configuration_stay_in_it() {
    let driver = Driver::start(Config::default());
    let from = driver.folder.write("from.yaml", "secrets: {CreateVolume: {token: hunter2}}\n");
    let said = init(&driver, 0, &["--config", &from]);
    assert!(!said.stdout.contains("hunter2") && !said.stderr.contains("hunter2"), "{}", said.stdout);
    let settings = settings(driver.directory());
    assert_eq!(settings.secrets_for("CreateVolume").unwrap()["token"], "hunter2");
    let mode = fs::metadata(driver.directory().join("csi-sanity.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn a_driver_that_demands_a_file_system_type_gets_one() {
    let defects = vec![Defect::CreateVolumeDemandsFsType];
    let driver = Driver::start(Config { defects, ..Config::default() });
    let said = init(&driver, 0, &[]);
    assert!(said.stdout.contains("so ext4 is asked for"), "{}", said.stdout);
    let settings = settings(driver.directory());
    assert_eq!(settings.fs_type, "ext4");
    assert_eq!(settings.access_types, [AccessType::Mount, AccessType::Block]);
    let loaded = DriverDefinition::load(&driver.directory().join("driver-definition.yaml")).unwrap();
    let class = loaded.storage_class().unwrap().unwrap();
    assert_eq!(class.parameters["csi.storage.k8s.io/fstype"], "ext4");
}

#[test]
fn advice_is_about_what_failed() {
    let fail = [("NodePublishVolume".parse().unwrap(), "INTERNAL:100000".parse().unwrap())].into();
    let driver = Driver::start(Config { fail, ..Config::default() });
    let said = init(&driver, 3, &[]);
    assert!(said.stdout.contains("can be created, but not published"), "{}", said.stdout);
    assert!(said.stdout.contains("none could be published"), "{}", said.stdout);
    assert!(!said.stdout.contains("parameters.yaml"), "{}", said.stdout);

    let driver = Driver::start(Config { name_bytes_max: 4, ..Config::default() });
    let said = init(&driver, 3, &[]);
    assert!(said.stdout.contains("--name-prefix"), "{}", said.stdout);
}

#[test]
fn a_name_of_a_driver_breaks_no_file() {
    let driver_name = "evil\n# no: \"comment\" \u{2028}".to_owned();
    let driver = Driver::start(Config { driver_name: driver_name.clone(), ..Config::default() });
    init(&driver, 0, &[]);
    settings(driver.directory());
    let loaded = DriverDefinition::load(&driver.directory().join("driver-definition.yaml")).unwrap();
    assert_eq!(loaded.definition.driver_info.name, driver_name);
}

#[test]
fn a_name_that_is_not_told_is_to_be_filled_in() {
    let defects = vec![Defect::GetPluginInfoNameEmpty];
    let driver = Driver::start(Config { defects, ..Config::default() });
    init(&driver, 0, &[]);
    settings(driver.directory());
    let text = driver.folder.read("driver-definition.yaml");
    assert!(text.contains("# To be filled in") && text.contains("\n  Name: \"\"\n"), "{text}");
}

#[test]
fn a_gate_for_a_ci_system_takes_the_configuration() {
    let driver = Driver::start(Config::default());
    init(&driver, 0, &["--ci", "github"]);
    let workflow = driver.folder.read(".github/workflows/csi-sanity.yml");
    assert!(workflow.contains("config: csi-sanity.yaml"), "{workflow}");
    assert!(workflow.contains("known-failing: known-failing.txt"), "{workflow}");
    assert!(workflow.contains("endpoint: unix:///tmp/csi-sanity.sock"), "{workflow}");
    assert!(!workflow.contains(driver.directory().to_str().unwrap()), "{workflow}");
    // The process that serves the socket is this test.
    let this = std::env::current_exe().unwrap();
    let name = this.file_name().unwrap().to_str().unwrap();
    assert!(workflow.contains(&format!("`init` found it started with: exec ./{name}")), "{workflow}");
    let text = driver.folder.read("csi-sanity.yaml");
    assert!(text.contains(&format!("# driver-command: \"exec {}", this.display())), "{text}");
    let config = driver.folder.path("csi-sanity.yaml");
    let known = driver.folder.path("known-failing.txt");
    check(&["--config", &config, "--known-failing", &known, "--filter", "identity/*"], 0, &[]);
}

#[test]
fn nothing_is_written_over() {
    let driver = Driver::start(Config::default());
    let config = driver.folder.write("csi-sanity.yaml", "mine");
    let directory = driver.directory().to_str().unwrap();
    check(&["init", "--endpoint", &driver.endpoint, "--output", directory], 2, &[&config, "--force"]);
    assert_eq!(driver.folder.read("csi-sanity.yaml"), "mine");
}

#[test]
fn without_a_driver_there_is_nothing_to_try() {
    check(&["init"], 2, &["--endpoint"]);
}
