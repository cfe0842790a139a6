//! Runs the suites on a driver that is a program of its own.

use std::path::Path;
use std::process::Command;

/// Names the csi-sanity program that runs the suites.
const JUDGE: &str = "CSI_SANITY";
/// Runs a command in its own mount and process namespaces, so that the kernel removes all mounts and processes of the
/// driver at the end.
const ISOLATED: [&str; 6] = ["unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"];

/// Panics if the suites find a violation, a warning or too many skipped checks. `{dir}` in the flags and in the
/// configuration is a new directory, and the driver's socket is `csi.sock` in it. Skipped checks are limited because
/// a driver that lacks a capability is wrong here as well.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub fn passes(driver: &str, flags: &str, config: &str, suites: &str, skipped_max: usize) {
    let Some(judge) = std::env::var_os(JUDGE) else {
        println!("skipped: {JUDGE} names no csi-sanity to judge with; ci/mutate does");
        return;
    };
    assert!(Path::new(&judge).is_absolute(), "{JUDGE} has to be an absolute path");
    let dir = tempfile::Builder::new().prefix("judged-").tempdir().unwrap();
    let filled = |text: &str| text.replace("{dir}", &dir.path().display().to_string());
    let file = dir.path().join("config.yaml");
    std::fs::write(&file, filled(config)).unwrap();
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new(ISOLATED[0]);
            command.args(&ISOLATED[1..]).arg(&judge);
            command
        }
        false => Command::new(&judge),
    };
    let endpoint = filled("unix://{dir}/csi.sock");
    let driver = format!("exec '{driver}' --endpoint {endpoint} {}", filled(flags));
    let output = command
        .args([
            "--endpoint",
            &endpoint,
            "--driver-command",
            &driver,
            "--suite",
            suites,
            "--seed",
            "1",
            "--fail-fast",
            // A correct driver causes no warnings, so a warning fails the run.
            "--strict",
        ])
        .arg("--config")
        .arg(&file)
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(stdout.contains(" passed, 0 failed"), "nothing was judged:\n{stdout}");
    let skipped = stdout.split_once(" failed, ").and_then(|(_, rest)| rest.split_once(" skipped"));
    let skipped: usize = skipped.and_then(|(number, _)| number.parse().ok()).unwrap_or(0);
    assert!(skipped <= skipped_max, "{skipped} checks skip instead of {skipped_max} at the most:\n{stdout}");
}
