use csi_mock_driver::{Config, Defect};

use crate::driver::Driver;
use crate::program::{Folder, check};

const INFO: &str = "identity/get-plugin-info/";
/// This defect breaks one of the checks that `INFO` chooses.
const DEFECT: &str = "get-plugin-info-name-empty";

#[test]
fn success_0_on_a_driver_that_conforms() {
    let driver = Driver::start(Config::default());
    let said = check(&["--endpoint", &driver.endpoint, "--filter", INFO], 0, &[]);
    assert!(said.stdout.starts_with("seed "), "{}", said.stdout);
    assert!(said.stdout.contains("mock.csi-sanity.example"), "{}", said.stdout);
    assert!(said.stdout.lines().last().unwrap().contains(" passed, 0 failed, 0 skipped"), "{}", said.stdout);
}

#[test]
fn success_0_on_the_embedded_driver_which_is_named() {
    check(&["--filter", INFO], 0, &["built-in mock driver"]);
    check(&["run", "--filter", INFO, "--quiet"], 0, &[]);
}

#[test]
fn failed_1_on_a_driver_that_breaks_a_rule() {
    let defect: Defect = DEFECT.parse().unwrap();
    let driver = Driver::start(Config { defects: vec![defect], ..Config::default() });
    let said = check(&["--endpoint", &driver.endpoint, "--filter", INFO], 1, &[]);
    let repeat =
        format!("csi-sanity run --endpoint {} --filter identity/get-plugin-info/name ", driver.endpoint);
    for text in ["FAILED", "identity/get-plugin-info/name", "ID-INFO-004", "expected", &repeat] {
        assert!(said.stdout.contains(text), "{text:?} is missing: {}", said.stdout);
    }
}

#[test]
fn failed_1_on_a_recommendation_with_strict_only() {
    let arguments = ["--mock-defect", "get-plugin-info-name-without-host", "--filter", INFO];
    check(&arguments, 0, &[]);
    check(&[&arguments[..], &["--strict"]].concat(), 1, &[]);
}

/// Checks that need a capability are skipped without it. An expected capability that is missing is a failure, whichever checks are chosen.
#[test]
fn failed_1_without_a_capability_that_is_expected() {
    let without = vec!["CREATE_DELETE_SNAPSHOT".parse().unwrap(), "LIST_SNAPSHOTS".parse().unwrap()];
    let driver = Driver::start(Config { without, ..Config::default() });
    let folder = Folder::new();
    let expected =
        "expect-capabilities: [CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT, Node.EXPAND_VOLUME]\n";
    let config = folder.write("config.yaml", expected);
    let mut arguments = vec!["--endpoint", &driver.endpoint, "--config", &config, "--filter", INFO];
    let report = |form: &str| format!("{form}={}", folder.path(form));
    let forms = ["json", "junit", "md", "html", "github"];
    let each = forms.map(report);
    each.iter().for_each(|report| arguments.extend(["--report", report]));
    let sentence = "the driver does not advertise CREATE_DELETE_SNAPSHOT";
    let said = check(&arguments, 1, &[]);
    assert!(said.stdout.contains("FAILED expected/capabilities"), "{}", said.stdout);
    assert!(said.stdout.contains(&format!("{sentence}\n")), "{}", said.stdout);
    for form in forms {
        let text = folder.read(form);
        // The Markdown report escapes underscores.
        assert!(text.replace('\\', "").contains(sentence), "{form}: {text}");
    }
    let flag =
        ["--expect-capability", "LIST_VOLUMES,GET_CAPACITY", "--expect-capability", "Node.EXPAND_VOLUME"];
    let said = check(&[&arguments[..], &flag].concat(), 0, &[]);
    assert!(!said.stdout.contains("FAILED"), "a flag wins over the file: {}", said.stdout);

    // A capability that is there as expected is no result of a test, so that a run that skips everything else still has no verdict.
    let skipped = ["--endpoint", &driver.endpoint, "--filter", "controller/delete-snapshot/"];
    for more in [&[][..], &flag] {
        check(&[&skipped[..], more].concat(), 3, &[]);
    }
}

#[test]
fn usage_2_names_the_flag_or_file() {
    let near = "did you mean LIST_VOLUMES";
    check(&["--expect-capability", "LIST_VOLUME"], 2, &["--expect-capability", "LIST_VOLUME", near]);
    check(&["--endpont", "/csi.sock"], 2, &["--endpont", "--endpoint"]);
    check(&["--endpoint", "ftp://host"], 2, &["ftp"]);
    check(&["--endpoint", ""], 2, &["endpoint"]);
    check(&["--config", "/does/not/exist.yaml"], 2, &["/does/not/exist.yaml"]);
    check(&["--access-type", "nfs"], 2, &["--access-type", "nfs", "mount and block"]);
    check(&["--volume-size-bytes", "0"], 2, &["--volume-size-bytes"]);
    check(&["--filter", "a b(c"], 2, &["--filter", "'('"]);
    check(&["--focus", "(a"], 2, &["--focus", "(a"]);
    check(&["--suite", "insanity"], 2, &["--suite", "insanity", "sanity"]);
    check(&["--report", "pdf=a"], 2, &["--report", "pdf", "junit, json, md"]);
    check(&["--timeout", "10"], 2, &["--timeout", "10s"]);
    check(&["--mock-defect", "no-such-defect"], 2, &["no-such-defect"]);
    check(&["--csi.testvolumeaccesstype=nfs"], 2, &["--csi.testvolumeaccesstype", "mount or block"]);
    check(&["-csi.endpoit=/csi.sock"], 2, &["csi.endpoint"]);
    check(&["-csi.mountdir=/mnt"], 2, &["-csi.endpoint"]);
    check(&["explain", "identity/probe/redy"], 2, &["identity/probe/ready"]);
}

#[test]
fn usage_2_names_file_and_line() {
    let folder = Folder::new();
    let config = &folder.write("config.yaml", "endpoint: /csi.sock\nparametres: {}\n");
    check(&["--config", config], 2, &[config, "parametres", "2"]);
    let known = &folder.write("known", "identity/probe/ready\n");
    check(&["--known-failing", known], 2, &[known, ":1:", "no reason"]);
    let path = &folder.write("secrets.yaml", "CreateVolumeSecrt: {a: b}\n");
    check(&["--endpoint", "/csi.sock", "--secrets", path], 2, &["--secrets", path, "CreateVolumeSecrt"]);
    let path = &folder.write("parameters.yaml", "- a\n- b\n");
    check(&["--parameters", path], 2, &["--parameters", path]);
}

#[test]
fn an_unwritable_report_is_found_before_the_run() {
    check(
        &["--endpoint", "/does/not/exist", "--report", "json=/does/not/exist/r.json"],
        2,
        &["--report json", "/does/not/exist/r.json"],
    );
}

#[test]
fn nothing_selected_4() {
    check(&["--filter", "identity/,!identity/"], 4, &["no check is selected"]);
    check(&["--filter", "no/such/check"], 4, &["--filter: no check matches no/such/check"]);
    check(&["list", "--filter", "no/such/check"], 4, &["--filter: no check matches no/such/check"]);
}

#[test]
fn filter_terms_that_select_nothing_are_named() {
    let near = "did you mean identity/probe/ready";
    check(&["list", "--filter", "identity/probe,identity/probe/redy"], 4, &["identity/probe/redy", near]);
    check(&["list", "--filter", "req:ID-PROBE-999"], 4, &["no check tests a requirement ID-PROBE-999"]);
    check(&["list", "--filter", "needs:LIST_VOLUME"], 4, &["did you mean LIST_VOLUMES"]);
    let below = check(&["list", "--filter", "identity/probe"], 0, &[]).stdout;
    assert_eq!(below, check(&["list", "--filter", "identity/probe/"], 0, &[]).stdout);
}

#[test]
fn known_failing_5_when_it_is_out_of_date() {
    let folder = Folder::new();
    let stale = folder.write("stale", "identity/no-such-check  # was removed\n");
    check(&["--known-failing", &stale], 5, &["identity/no-such-check", ":1:"]);
    let passes = folder.write("passes", "identity/get-plugin-info/name  # was mended\n");
    check(&["--filter", INFO, "--known-failing", &passes], 5, &[]);
}

#[test]
fn success_0_when_what_fails_is_known_to() {
    let folder = Folder::new();
    let known = folder.write("known", "identity/get-plugin-info/name*  # the vendor has no name yet\n");
    check(
        &["--mock-defect", DEFECT, "--filter", "identity/get-plugin-info/name", "--known-failing", &known],
        0,
        &[],
    );
}

#[test]
fn broken_3_when_the_time_is_up() {
    let config = Config {
        delay: [("DeleteVolume".parse().unwrap(), "100ms".parse().unwrap())].into(),
        ..Config::default()
    };
    let driver = Driver::start(config);
    let arguments =
        ["--endpoint", &driver.endpoint, "--timeout", "300ms", "--jobs", "1", "--filter", "controller/"];
    check(&arguments, 3, &["--timeout"]);
    assert_eq!(driver.volumes(), Vec::<String>::new(), "what was made is undone");
}

/// One list of known failures serves runs with either access type: an entry for the other type is printed, and is no error.
#[test]
fn a_list_for_both_access_types_serves_a_run_with_one() {
    let folder = Folder::new();
    let known = format!("{INFO}name # ours\ncontroller/create-volume/required-bytes@block # ours as well\n");
    let known = folder.write("known", &known);
    let arguments =
        ["--mock-defect", DEFECT, "--filter", INFO, "--known-failing", &known, "--access-type", "mount"];
    check(&arguments, 0, &[":2: controller/create-volume/required-bytes@block is for an access type"]);
    let stale = format!("{INFO}name # ours\ncontroller/create-volume/no-such-check # gone\n");
    let stale = folder.write("stale", &stale);
    let arguments = ["--mock-defect", DEFECT, "--filter", INFO, "--known-failing", &stale];
    check(&arguments, 5, &[":2: controller/create-volume/no-such-check"]);
}

#[test]
fn an_entry_of_a_list_may_be_flaky_and_may_expire() {
    let folder = Folder::new();
    let run = |list: &str, defect: &[&str], code| {
        let known = folder.write("known", list);
        let arguments = ["--filter", INFO, "--known-failing", &known];
        check(&[&arguments[..], defect].concat(), code, &[])
    };
    let defect = ["--mock-defect", DEFECT];
    let flaky = format!("flaky: {INFO}name # now and then\n");
    run(&flaky, &[], 0);
    run(&flaky, &defect, 0);
    let said = run(&format!("{INFO}name until 2020-01-01 # late\n"), &defect, 1);
    assert!(
        said.stdout.contains(":1: identity/get-plugin-info/name expired after 2020-01-01"),
        "{}",
        said.stdout
    );
    check(&["--filter", INFO, "--flaky-result", "pass"], 2, &["--flaky-result", "fail and warn"]);
}

#[test]
fn a_run_ends_after_so_many_failures() {
    let arguments = ["--mock-defect", "get-plugin-info-unimplemented", "--filter", INFO, "--jobs", "1"];
    let said = check(&[&arguments[..], &["--maxfail", "1", "--durations", "2"]].concat(), 1, &[]);
    assert!(
        said.stdout.contains("(--fail-fast or --maxfail 1)") && said.stdout.contains("slowest checks"),
        "{}",
        said.stdout
    );
    check(&["--filter", INFO, "--maxfail", "0"], 2, &["--maxfail"]);
}

/// A check that the second run was not asked for counts as neither gone nor fixed.
#[test]
fn a_run_of_what_failed_is_compared_in_part() {
    let folder = Folder::new();
    let (old, new) = (folder.path("old.json"), folder.path("new.json"));
    let write = |path: &str| format!("json={path}");
    check(&["--mock-defect", DEFECT, "--filter", INFO, "--report", &write(&old)], 1, &[]);
    check(&["--only-failed", &old, "--report", &write(&new)], 0, &[]);
    let said = check(&["compare", &old, &new], 0, &[]);
    assert!(said.stdout.contains(" not asked for in the new one"), "{}", said.stdout);
    assert!(said.stdout.contains(" 1 fixed,") && said.stdout.contains(" 0 gone,"), "{}", said.stdout);
}
