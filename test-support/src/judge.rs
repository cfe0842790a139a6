//! Runs the suites on a program that is a driver.

use std::path::Path;
use std::process::Command;

/// Names the csi-sanity that judges.
const JUDGE: &str = "CSI_SANITY";
/// What a driver leaves behind goes with these, whatever is wrong with it.
const ALONE: [&str; 6] = ["unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"];

/// Panics if the suites find something wrong with a driver. In its flags, and in the configuration of the tests, `{dir}` is a new
/// directory; its socket is `csi.sock` in it. One that offers less than it should is wrong as well: more checks skip than of a right one.
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
            let mut command = Command::new(ALONE[0]);
            command.args(&ALONE[1..]).arg(&judge);
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
            // Of a right driver there is nothing to remark, so that a warning is as good as a failure.
            "--strict",
        ])
        .arg("--config")
        .arg(&file)
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{told}{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(told.contains(" passed, 0 failed"), "nothing was judged:\n{told}");
    let skipped = told.split_once(" failed, ").and_then(|(_, rest)| rest.split_once(" skipped"));
    let skipped: usize = skipped.and_then(|(number, _)| number.parse().ok()).unwrap_or(0);
    assert!(skipped <= skipped_max, "{skipped} checks skip instead of {skipped_max} at the most:\n{told}");
}
