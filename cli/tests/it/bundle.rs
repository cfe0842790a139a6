//! All evidence of a run in one archive, and the check of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use sha2::{Digest as _, Sha256};

use crate::driver_command::driver_command;
use crate::program::{Folder, check};

/// Only the driver may be given this value: no file of the bundle may contain it.
const SECRET: &str = "hunter2";

/// Reads an archive, and returns the texts of its files by their names.
pub(crate) fn files(archive: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive).unwrap()));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), text)
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn a_bundle_has_everything_but_secrets() {
    let folder = Folder::new();
    let (endpoint, cases, bundle) =
        (folder.path("csi.sock"), folder.path("cases"), folder.path("bundle.tar.gz"));
    let secrets = folder.write("csi.sock.secrets", &format!("CreateVolume: {{password: {SECRET}}}"));
    fs::create_dir(&cases).unwrap();
    folder.write("cases/one.yaml", "a: case\n");
    let known = folder.write("known", "controller/create-volume/too-long-name*  # our issue 3\n");
    let command = driver_command(&endpoint);
    let driver = ["--endpoint", &endpoint, "--driver-command", &command, "--secrets", &secrets];
    let kept = ["--regressions", &cases, "--known-failing", &known, "--bundle", &bundle];
    let said = folder.run(&[&driver[..], &kept, &["--filter", "controller/create-volume/no-name"]].concat());
    let files = files(Path::new(&bundle));
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "cases/one.yaml",
        "driver.log",
        "junit.xml",
        "known-failing.txt",
        "manifest.json",
        "report.html",
        "report.json",
        "report.md",
        "settings.txt",
    ];
    assert_eq!(names, expected, "{}", said.stderr);
    for (name, text) in &files {
        assert!(!text.contains(SECRET), "{name} has a secret: {text}");
    }
    assert!(files["driver.log"].contains("started\n***stripped***\n"), "{}", files["driver.log"]);
    let manifest: serde_json::Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    let this = fs::read(std::env::current_exe().unwrap()).unwrap();
    let digest =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(manifest["programs"][0]["sha256"], digest(&this), "{manifest}");
    assert_eq!(manifest["missing"].as_array().unwrap().len(), 0, "{manifest}");

    let digest = digest(files["manifest.json"].as_bytes());
    assert!(said.stderr.contains(&digest), "{}", said.stderr);
    let verified = check(&["verify", &bundle], said.code.unwrap(), &[]);
    for text in [&digest, "mock.csi-sanity.example", "8, each as the manifest has it", "driver   /"] {
        assert!(verified.stdout.contains(text), "{text}: {}", verified.stdout);
    }
}

#[test]
fn a_verified_archive_ends_as_its_run_did() {
    let folder = Folder::new();
    let bundle = &folder.path("bundle.tar.gz");
    let run = ["--filter", "identity/", "--bundle", bundle];
    for (defect, code, verdict) in
        [(&[][..], 0, "passes"), (&["--mock-defect", "get-plugin-info-name-empty"], 1, "does not conform")]
    {
        check(&[&run[..], defect].concat(), code, &["the SHA-256 of its manifest is "]);
        let verified = check(&["verify", bundle], code, &[]);
        assert!(verified.stdout.lines().next().unwrap().contains(verdict), "{}", verified.stdout);
    }
}

#[test]
fn what_is_no_archive_or_no_place_for_one_is_refused() {
    let folder = Folder::new();
    check(&["verify", &folder.write("text", "no archive")], 2, &["not an archive of csi-sanity"]);
    check(&["verify", &folder.path("none")], 2, &["failed to read the archive", "No such file"]);
    let run = ["--filter", "identity/", "--bundle"];
    check(&[&run[..], &["/dev/full"]].concat(), 3, &["--bundle", "No space left"]);
    check(&[&run[..], &[&folder.path("none/b.tar.gz")]].concat(), 2, &["--bundle", "is missing"]);
    check(&[&run[..], &["-"]].concat(), 2, &["--bundle", "name a file"]);
    let report = format!("json={}", folder.path("both"));
    check(
        &[&run[..], &[&folder.path("both"), "--report", &report]].concat(),
        2,
        &["--bundle", "name another one"],
    );
}
