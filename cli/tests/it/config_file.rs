//! `csi-sanity.yaml` in the working directory names the driver if no flag does.

use std::path::Path;
use std::process::Stdio;

use csi_mock_driver::{Config, Defect};

use crate::driver::Driver;
use crate::program::{Folder, Said, program};

const BUILT_IN: &str = "testing the built-in mock driver";

/// Starts a driver, and writes a configuration file that names it.
fn with_config(config: Config) -> Driver {
    let driver = Driver::start(config);
    let text = format!("endpoint: {}\naccess-types: [mount]\n", driver.endpoint);
    driver.folder.write("csi-sanity.yaml", &text);
    driver
}

fn run_in(directory: &Path, arguments: &[&str]) -> Said {
    program().args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap().into()
}

#[test]
fn it_is_used_and_the_first_line_says_so() {
    let defects = vec![Defect::GetPluginInfoNameEmpty];
    let driver = with_config(Config { defects, ..Config::default() });
    let said = run_in(driver.directory(), &["--filter", "identity/get-plugin-info/name"]);
    assert_eq!(said.code, Some(1), "the built-in driver would conform: {} {}", said.stdout, said.stderr);
    let first = said.stderr.lines().next().unwrap_or_default();
    assert!(first.contains(&driver.endpoint) && first.contains("csi-sanity.yaml"), "{first}");
    let repeat = "csi-sanity run --config csi-sanity.yaml --filter identity/get-plugin-info/name --seed";
    assert!(said.stdout.contains(repeat), "{}", said.stdout);
}

#[test]
fn it_is_not_used_where_a_flag_names_another_driver() {
    let driver = with_config(Config::default());
    let other = Driver::start(Config { driver_name: "other.example".to_owned(), ..Config::default() });
    let few = ["--filter", "identity/get-plugin-info/*"];
    for (flags, expected, says) in [
        (&["--endpoint", &other.endpoint][..], "other.example", ""),
        (&["--no-config"][..], "mock.csi-sanity.example", BUILT_IN),
        (&["--mock-defect", "list-volumes-unimplemented"][..], "mock.csi-sanity.example", BUILT_IN),
    ] {
        let said = run_in(driver.directory(), &[flags, &few].concat());
        assert_eq!(said.code, Some(0), "{flags:?}: {} {}", said.stdout, said.stderr);
        assert!(said.stdout.contains(&format!("{expected} 0.1.0 at ")), "{flags:?}: {}", said.stdout);
        let is_of_file = said.stdout.contains(&driver.endpoint) || said.stderr.contains("csi-sanity.yaml");
        assert!(!is_of_file && said.stderr.contains(says), "{flags:?}: {} {}", said.stdout, said.stderr);
    }
    let said = run_in(driver.directory(), &["--no-config", "--config", "csi-sanity.yaml"]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
}

#[test]
fn every_command_that_needs_a_driver_uses_it() {
    let driver = with_config(Config::default());
    let said = run_in(driver.directory(), &["doctor", "--format", "json"]);
    assert!(said.stdout.contains("\"shares_files\": true"), "{} {}", said.stdout, said.stderr);
    let said = run_in(driver.directory(), &["fuzz", "--inputs", "1", "--filter", "fuzz/*list*"]);
    assert!(said.stderr.contains(&driver.endpoint) || said.code == Some(4), "{}", said.stderr);
    let said = run_in(driver.directory(), &["-ginkgo.focus=name-form"]);
    assert!(said.stdout.contains(&driver.endpoint), "Go's flags, too: {} {}", said.stdout, said.stderr);
    let said = run_in(driver.directory(), &["--cleanup"]);
    assert_eq!(said.code, Some(0), "{} {}", said.stdout, said.stderr);
    assert!(!said.stderr.contains(BUILT_IN), "{}", said.stderr);
}

#[test]
fn a_mistake_in_it_is_an_error_and_tests_nothing_else() {
    let folder = Folder::new();
    folder.write("csi-sanity.yaml", "endpont: /s\n");
    let said = run_in(folder.root(), &[]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("csi-sanity.yaml") && said.stderr.contains("endpont"), "{}", said.stderr);
}
