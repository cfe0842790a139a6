//! `e2e` with several definitions of one driver.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use csi_mock_driver::Config;
use serde_json::{Value, json};

use crate::bundle;
use crate::cluster::Cluster;
use crate::driver::Driver;
use crate::program::{Folder, Said, check, read_json, run};

/// The driver in memory passes this test.
const TEST: &str = "volume-health/dynamic-pv-filesystem-volmode:return-normal-volume-health";

/// Starts a driver whose volumes need a pool, and writes definitions with two classes beside its socket, of which only the class for ext4
/// names the pool.
pub(crate) fn driver() -> Driver {
    let required_parameters = BTreeMap::from([("pool".to_owned(), "fast".to_owned())]);
    let driver = Driver::start(Config { required_parameters, ..Config::default() });
    fs::create_dir(driver.directory().join("classes")).unwrap();
    define(&driver.folder, "ext4", "{pool: fast}");
    define(&driver.folder, "xfs", "{}");
    driver
}

/// Writes a definition and the class that it names.
fn define(folder: &Folder, fs_type: &str, parameters: &str) {
    let class = format!(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {fs_type}}}\n\
         provisioner: mock.csi-sanity.example\nparameters: {parameters}\n"
    );
    let definition = format!(
        "StorageClass: {{FromExistingClassName: {fs_type}}}\nDriverInfo:\n  Name: mock.csi-sanity.example\n  \
         SupportedFsType: {{{fs_type}: {{}}}}\n  MaxFileSize: 1048576\n  Capabilities: {{block: true}}\n"
    );
    folder.write(&format!("classes/{fs_type}.yaml"), &class);
    folder.write(&format!("{fs_type}.yaml"), &definition);
}

/// Runs the command with both definitions.
fn ends(driver: &Driver, flags: &[&str]) -> Said {
    let [ext4, xfs] = ["ext4.yaml", "xfs.yaml"].map(|file| driver.folder.path(file));
    let both = ["e2e", "--driver-definition", &ext4, "--driver-definition", &xfs];
    run(&[&both[..], flags].concat())
}

/// Returns the outcomes in a report by the ids of the checks.
fn outcomes(report: &str) -> BTreeMap<String, String> {
    let report = read_json(report);
    let checks = report["checks"].as_array().unwrap().iter();
    checks.map(|check| (text(&check["id"]), text(&check["outcome"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_run_has_a_row_for_each_definition_in_one_report() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let driver = driver();
    let file = |name: &str| driver.folder.path(name);
    let (report, junit, archive) = (file("report.json"), file("junit.xml"), file("bundle.tar.gz"));
    let [json, xml] = [format!("json={report}"), format!("junit={junit}")];
    let run = |flags: &[&str]| {
        let all = ["--endpoint", &driver.endpoint, "--report", &json];
        ends(&driver, &[&all[..], flags].concat())
    };
    let (of_ext4, of_xfs) = (format!("{TEST}@ext4"), format!("{TEST}@xfs"));
    let one_failed =
        BTreeMap::from([(of_ext4.clone(), "passed".to_owned()), (of_xfs.clone(), "failed".to_owned())]);

    let said = run(&["--filter", TEST, "--report", &xml, "--bundle", &archive]);
    assert_eq!(said.code, Some(1), "{} {}", said.stdout, said.stderr);
    assert_eq!(outcomes(&report), one_failed);
    assert!(said.stdout.contains("1 passed, 1 failed"), "{}", said.stdout);
    assert!(said.stdout.contains(&format!("--filter {of_xfs} ")), "a command repeats it: {}", said.stdout);
    let junit = fs::read_to_string(junit).unwrap();
    for name in ["[Definition: ext4]", "[Definition: xfs]"] {
        let cases = junit.lines().filter(|line| line.contains("<testcase") && line.contains(name));
        assert_eq!(cases.count(), 1, "{name}: {junit}");
    }
    let files = bundle::files(Path::new(&archive));
    assert!(files["driver-definition@ext4.json"].contains("ext4"), "{files:?}");
    assert!(files["driver-definition@xfs.json"].contains("xfs"), "{files:?}");

    let known = driver.folder.write("known", &format!("{of_xfs}  # the class has no pool\n"));
    let said = run(&["--filter", TEST, "--known-failing", &known]);
    assert_eq!(said.code, Some(0), "{} {}", said.stdout, said.stderr);
    driver.folder.write("known", &format!("{TEST}@btrfs  # there is no such definition\n"));
    let said = run(&["--filter", TEST, "--known-failing", &known]);
    assert!(said.stderr.contains("out of date"), "{} {}", said.stdout, said.stderr);

    let said = run(&["--filter", &of_xfs]);
    assert_eq!(said.code, Some(1), "{} {}", said.stdout, said.stderr);
    assert_eq!(outcomes(&report), BTreeMap::from([(of_xfs.clone(), "failed".to_owned())]));
    let again = file("again.json");
    fs::rename(&report, &again).unwrap();
    run(&["--only-failed", &again]);
    assert_eq!(outcomes(&report), BTreeMap::from([(of_xfs, "failed".to_owned())]));
    let said = run(&["--focus", "return normal volume health", "--skip", "Definition: xfs"]);
    assert_eq!(said.code, Some(0), "{} {}", said.stdout, said.stderr);
    assert!(outcomes(&report).keys().all(|id| id.ends_with("@ext4")), "{:?}", outcomes(&report));
}

#[test]
fn a_plan_says_the_definition_of_each_test() {
    let driver = driver();
    let one = check(&["e2e", "--plan", "--driver-definition", &driver.folder.path("xfs.yaml")], 0, &[]);
    assert!(!one.stdout.contains("[Definition: "), "{}", one.stdout);
    let plan = |flags: &[&str]| {
        let plan = ["--plan", "--endpoint", &driver.endpoint];
        let said = ends(&driver, &[&plan[..], flags].concat());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout
    };
    let filter = ["--filter", "volumes/dynamic-pv-xfs:should-store-data"];
    let printed = plan(&filter);
    let name = |label| {
        format!(
            "External Storage [Driver: mock.csi-sanity.example] [Definition: {label}] [Testpattern: Dynamic PV (xfs)] \
             [Slow] volumes should store data"
        )
    };
    let skipped = format!("skip  {}\n      definition: SupportedFsType does not have xfs\nrun", name("ext4"));
    assert!(printed.starts_with(&skipped) && printed.contains(&name("xfs")), "{printed}");
    assert!(printed.contains("and the definition xfs leaves it out"), "{printed}");
    assert!(printed.contains("of these tests for these definitions"), "{printed}");
    let shown: Value = serde_json::from_str(&plan(&["--format", "json"])).unwrap();
    let tests = shown["tests"].as_array().unwrap();
    assert_eq!(shown["all"], tests.len());
    for (label, half) in ["ext4", "xfs"].into_iter().zip(tests.chunks(tests.len() / 2)) {
        for test in half {
            assert_eq!(test["definition"], label);
            assert!(text(&test["id"]).ends_with(&format!("@{label}")), "{test}");
        }
        let unused = shown["unused"].as_array().unwrap();
        assert!(unused.iter().any(|one| one["definition"] == label && one["add"].is_string()), "{shown}");
    }
    for word in ["id", "name"] {
        let said = check(&["explain", &text(&tests[0][word])], 0, &[]);
        let id = said.stdout.lines().next().unwrap();
        assert_eq!(text(&tests[0]["id"]), format!("{id}@ext4"));
    }
}

#[test]
fn definitions_that_do_not_fit_together_are_named() {
    let folder = Folder::new();
    fs::create_dir(folder.path("old")).unwrap();
    let write = |file: &str, name: &str, more: &str| {
        folder.write(file, &format!("DriverInfo: {{Name: {name}}}\n{more}"))
    };
    let (rwo, other) = (write("rwo.yaml", "a.example", ""), write("other.yaml", "b.example", ""));
    let lost = write("lost.yaml", "a.example", "StorageClass: {FromExistingClassName: none}\n");
    for (second, says) in [
        (&write("old/RWO.json", "a.example", ""), "give tests the same ids"),
        (&rwo, "give tests the same ids"),
        (&other, r#"have the names ["a.example", "b.example"] in DriverInfo"#),
    ] {
        let both = format!("--driver-definition: {rwo} and {second} {says}");
        check(&["e2e", "--plan", "--driver-definition", &rwo, "--driver-definition", second], 2, &[&both]);
    }
    let both = ["e2e", "--plan", "--driver-definition", &rwo, "--driver-definition", &lost];
    check(&both, 2, &[&format!("--driver-definition {lost}: ")]);
    let topology = "DriverInfo: {Name: a.example, Capabilities: {topology: true}}\n";
    let topology = folder.write("topology.yaml", topology);
    let both = ["e2e", "--plan", "--driver-definition", &rwo, "--driver-definition", &topology];
    check(&both, 0, &["topology: topology is true, but its tests are skipped"]);
}

#[test]
fn a_cluster_is_asked_for_the_classes_of_each_definition() {
    let driver = driver();
    let class =
        |name: &str| json!({ "metadata": { "name": name }, "provisioner": "mock.csi-sanity.example" });
    let cluster = Cluster::start(&[("storageclasses", class("ext4")), ("storageclasses", class("xfs"))]);
    let kube = ["--cluster", "kube", "--kubeconfig", cluster.kubeconfig()];
    let ids = |flags: &[&str]| {
        let said = ends(&driver, &[&kube[..], &["--dry-run"], flags].concat());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout
    };
    let filter = ["--filter", "volumes/dynamic-pv-*fs*:should-store-data"];
    let expected = [
        "volumes/dynamic-pv-default-fs:should-store-data@ext4\n",
        "volumes/dynamic-pv-default-fs:should-store-data@xfs\n",
        "volumes/dynamic-pv-xfs:should-store-data@xfs\n",
    ];
    assert_eq!(ids(&filter), expected.concat());
    let lost = "StorageClass: {FromExistingClassName: lost}\nDriverInfo: {Name: mock.csi-sanity.example}\n";
    driver.folder.write("xfs.yaml", lost);
    let said = ends(&driver, &[&kube[..], &["--dry-run"]].concat());
    assert_eq!(said.code, Some(2), "{} {}", said.stdout, said.stderr);
    assert!(said.stderr.contains("xfs.yaml: the cluster has no StorageClass \"lost\""), "{}", said.stderr);
}

#[test]
fn preflight_says_the_definitions_of_a_finding() {
    let driver = driver();
    let cluster = Cluster::start(&[]);
    let said = ends(&driver, &["--preflight", "--kubeconfig", cluster.kubeconfig()]);
    assert_eq!(said.code, Some(3), "{} {}", said.stdout, said.stderr);
    for says in [
        "error    ext4, xfs: no CSIDriver mock.csi-sanity.example: ",
        "error    ext4: no StorageClass \"ext4\": ",
        "error    xfs: no StorageClass \"xfs\": ",
    ] {
        let lines = said.stdout.lines().filter(|line| line.starts_with(says));
        assert_eq!(lines.count(), 1, "{says}: {}", said.stdout);
    }
    assert!(said.stdout.ends_with("errors: 4, warnings: 1\n"), "{}", said.stdout);
}
