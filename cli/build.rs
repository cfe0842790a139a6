//! Puts the commit that the program is built from into `csi-sanity --version`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Digits of a commit that are shown.
const DIGITS: usize = 12;

fn main() -> io::Result<()> {
    // Inputs that cargo watches.
    let mut inputs = vec!["env-changed=CSI_SANITY_COMMIT".to_owned()];
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("CSI_SANITY_COMMIT").ok().or_else(of_package).or_else(|| of_git(&mut inputs));
    let commit = commit.map(|commit| commit.trim().chars().take(DIGITS).collect::<String>());
    let text = match commit.filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    let mut cargo = io::stdout();
    inputs.iter().try_for_each(|input| writeln!(cargo, "cargo:rerun-if-{input}"))?;
    writeln!(cargo, "cargo:rustc-env=CSI_SANITY_VERSION={text}")
}

/// The commit that a package of crates.io was made from, which is in a file beside its manifest.
fn of_package() -> Option<String> {
    let text = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let digits = text.split("\"sha1\"").nth(1)?.split('"').nth(1)?;
    Some(digits.to_owned())
}

/// The commit of the repository. Builds for development have none, because otherwise each commit would rebuild the program.
fn of_git(inputs: &mut Vec<String>) -> Option<String> {
    if env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // The folder of a package may be below the repository of something else.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = fs::canonicalize(Path::new("..")).ok()?;
    if fs::canonicalize(top).ok()? != here {
        return None;
    }
    inputs.push(format!("changed={}/logs/HEAD", git(&["rev-parse", "--absolute-git-dir"])?));
    git(&["rev-parse", "HEAD"])
}
