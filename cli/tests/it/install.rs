//! `ci/install` installs a release, which is a local folder here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::program::Said;

/// This folder has one release, of which nothing is installed yet.
pub(crate) struct Releases(TempDir);

impl Releases {
    /// Makes a folder with one release that contains this program.
    pub(crate) fn new(program: &str) -> Releases {
        let directory = tempfile::tempdir().unwrap();
        let release = directory.path().join("releases/v0.1.0");
        let bin = directory.path().join("csi-sanity-0.1.0/bin");
        fs::create_dir_all(&release).unwrap();
        fs::create_dir_all(&bin).unwrap();
        let file = bin.join("csi-sanity");
        fs::write(&file, program).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        for arch in ["x86_64", "aarch64"] {
            let archive = format!("csi-sanity-0.1.0-linux-{arch}.tar.gz");
            let script = format!(
                "tar -czf '{archive}' -C ../.. csi-sanity-0.1.0 && sha256sum '{archive}' >'{archive}.sha256'"
            );
            assert!(
                Command::new("sh").args(["-c", &script]).current_dir(&release).status().unwrap().success()
            );
        }
        Releases(directory)
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path("releases").display())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn install(&self, version: &str) -> Said {
        let mut install = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/install"));
        install.env("CSI_SANITY_RELEASES", self.url());
        install.env("CSI_SANITY_VERSION", version).arg(self.path("installed")).output().unwrap().into()
    }
}

/// Returns true if this machine has curl, with which `ci/install` downloads. The runners of CI systems have it.
#[expect(clippy::print_stdout, reason = "a test that skips says so")]
pub(crate) fn curl() -> bool {
    let found =
        std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|path| path.join("curl").exists());
    if !found {
        println!("skipped: there is no curl");
    }
    found
}

#[test]
fn a_release_is_installed_by_its_version() {
    if !curl() {
        return;
    }
    for version in ["0.1.0", "v0.1.0"] {
        let releases = Releases::new("the program");
        let said = releases.install(version);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        assert_eq!(fs::read_to_string(releases.path("installed/csi-sanity")).unwrap(), "the program");
    }
}

#[test]
fn what_is_not_as_its_checksum_says_is_not_installed() {
    if !curl() {
        return;
    }
    let releases = Releases::new("the program");
    for entry in fs::read_dir(releases.path("releases/v0.1.0")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() == Some("gz".as_ref()) {
            let mut bytes = fs::read(&path).unwrap();
            bytes.push(0);
            fs::write(path, bytes).unwrap();
        }
    }
    let said = releases.install("0.1.0");
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(said.stderr.contains("is not what its checksum says"), "{}", said.stderr);
    assert!(!Path::exists(&releases.path("installed")));
}

#[test]
fn a_release_that_is_not_there_is_told_with_the_place() {
    if !curl() {
        return;
    }
    let said = Releases::new("the program").install("9.9.9");
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    for text in ["release v9.9.9", "file://"] {
        assert!(said.stderr.contains(text), "{}", said.stderr);
    }
}
