//! After a failure, the program lists what failed, runs it again, and proposes the next command.

use crate::program::{Folder, check};

const DEFECT: &str = "get-plugin-info-name-empty";
const FAILS: &str = "identity/get-plugin-info/name";

#[test]
fn what_failed_becomes_a_list_and_is_run_again() {
    let folder = Folder::new();
    let (report, known) = (folder.path("r.json"), folder.path("known.txt"));
    let few = ["--filter", "identity/get-plugin-info/"];
    let json = format!("json={report}");
    let said = check(&[&["--mock-defect", DEFECT, "--report", &json][..], &few].concat(), 1, &[]);
    assert!(said.stdout.contains(&format!("failed\n  {FAILS}\n\n")), "{}", said.stdout);
    let last = said.stdout.lines().last().unwrap();
    let next = format!("next: csi-sanity run --mock-defect {DEFECT} --only-failed {report} ");
    assert!(last.starts_with(&next) && last.contains(&format!("csi-sanity baseline {report}")), "{last}");

    check(&["baseline", &report, "--output", &known], 0, &[]);
    let list = folder.read("known.txt");
    assert!(list.ends_with(&format!("\n{FAILS}  # the plugin has no name\n")), "{list}");
    let listed = ["--known-failing", &known, "--report", &json];
    let said = check(&[&["--mock-defect", DEFECT][..], &listed, &few].concat(), 0, &[]);
    assert!(said.stdout.contains(", but for 1 known failure\n"), "{}", said.stdout);
    folder.write("known.txt", &list.replace("the plugin has no name", "our issue"));
    check(&["baseline", &report, "--keep-reasons", &known, "--output", &known], 0, &[]);
    assert!(folder.read("known.txt").ends_with(&format!("{FAILS}  # our issue\n")));

    check(&[&["--mock-defect", DEFECT, "--report", &json][..], &few].concat(), 1, &[]);
    let shell = check(&["export", &report, FAILS], 0, &[]).stdout;
    assert!(shell.contains("\nrequest='{}'\ncall csi.v1.Identity/GetPluginInfo \"$request\"\n"), "{shell}");
    let go = check(&["export", &report, FAILS, "--format", "go"], 0, &[]).stdout;
    assert!(go.contains("csi.NewIdentityClient(driver).GetPluginInfo(ctx, request1)"), "{go}");
    check(&["export", &report, "identity/get-plugin-info/nam"], 2, &[&report, "did you mean", FAILS]);

    // The driver is right now: the list of known failures is out of date, and a new list leaves the check out.
    let said = check(&[&listed[..], &few].concat(), 5, &[]);
    assert!(said.stdout.lines().last().unwrap().contains("--keep-reasons"), "{}", said.stdout);
    let mended = check(&["baseline", &report, "--keep-reasons", &known], 0, &["is left out: it passes"]);
    assert!(!mended.stdout.contains(FAILS), "{}", mended.stdout);
}

#[test]
fn only_what_failed_is_chosen_and_the_rest_named() {
    let folder = Folder::new();
    let report = &folder.path("r.json");
    let json = format!("json={report}");
    let few = ["--filter", "identity/get-plugin-info/", "--report", &json];
    check(&[&["--mock-defect", DEFECT][..], &few].concat(), 1, &[]);
    let chosen = check(&["--dry-run", "--only-failed", report], 0, &[]);
    assert_eq!(chosen.stdout, format!("{FAILS}\n"));
    let said = check(&["--only-failed", report], 0, &[]);
    assert!(said.stdout.contains("passes the checks that --only-failed "), "{}", said.stdout);
    check(
        &["--only-failed", report, "--suite", "data"],
        4,
        &["--only-failed:", FAILS, "--suite of that run"],
    );
    check(&few, 0, &[]);
    check(&["--only-failed", report], 4, &["no check failed or was inconclusive in", report]);
    check(&["--only-failed", "/none.json"], 2, &["/none.json"]);
}

#[test]
fn the_bare_program_proposes_a_driver_of_ones_own() {
    let said = check(&["--filter", FAILS], 0, &[]);
    assert!(said.stdout.lines().last().unwrap().starts_with("next: csi-sanity init --endpoint "));
    let quiet = check(&["--filter", FAILS, "--quiet"], 0, &[]);
    assert!(!quiet.stdout.contains("next:"), "{}", quiet.stdout);
}

#[test]
fn defects_and_what_a_pattern_means_are_told() {
    let defects = check(&["list", "--defects"], 0, &[]).stdout;
    assert!(defects.lines().any(|line| line.starts_with(&format!("{DEFECT} "))), "{defects}");
    check(&["--mock-defect", "no-such"], 2, &["csi-sanity list --defects"]);
    for id in ["CreateVolume", "createvolume", "CTRL-CREATEVOL-*", "ctrl-createvol-*"] {
        let printed = check(&["explain", id], 0, &[]).stdout;
        assert!(
            printed.contains("MUST CTRL-CREATEVOL-") && printed.contains("checked by controller/"),
            "{id}: {printed}"
        );
    }
    let printed = check(&["explain", "identity/probe/*"], 0, &[]).stdout;
    assert!(printed.contains("identity/probe/ready "), "{printed}");
    let printed = check(&["explain", "fuzz/requests/list-volumes"], 0, &[]).stdout;
    assert!(printed.contains("hostile requests do no harm: ListVolumes"), "{printed}");
    check(&["explain", "fuzz/requests/list-volume"], 2, &["did you mean fuzz/requests/list-volumes"]);
    let printed = check(&["explain", "create-volume"], 0, &[]).stdout;
    assert!(printed.contains("controller/create-volume/works"), "{printed}");
    check(&["explain", "CreateVolum"], 2, &["did you mean CreateVolume"]);
    check(&["explain", "a b"], 2, &["cannot stand in a pattern"]);
    let part = check(&["coverage", "--filter", "ID-PROBE-*"], 0, &[]).stdout;
    assert!(part.lines().next().unwrap().starts_with("ID-PROBE-"), "{part}");
    check(&["coverage", "--filter", "ID-PROB-*"], 4, &["no requirement on drivers matches ID-PROB-*"]);
}

/// Clap shows the comment of a subcommand, and not the comment of the struct of its arguments.
#[test]
fn long_help_says_more_than_the_list_of_commands() {
    for (command, text) in [
        ("faults", "Durable data must survive"),
        ("fuzz", "with fields missing, doubled, huge"),
        ("e2e", "emulated against the driver's socket"),
        ("load", "Latency counts from the moment"),
        ("init", "tries each file system by name"),
        ("doctor", "Leaves nothing behind"),
        ("merge", "each shard once, none missing"),
        ("export", "the shortest sequence of calls"),
        ("verify", "Nothing is unpacked to the disk"),
    ] {
        let help = check(&[command, "--help"], 0, &[]).stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(text), "{command}: {help}");
    }
}

#[test]
fn the_help_shows_the_endpoint_and_examples() {
    let help = check(&["-h"], 0, &[]).stdout;
    assert!(help.contains("--endpoint <ENDPOINT>"), "{help}");
    assert_eq!(help.split("Examples:").nth(1).unwrap().matches("\n  csi-sanity").count(), 3, "{help}");
}
