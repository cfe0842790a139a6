//! Checks that a command line of Go's csi-sanity is either rejected with a message, or translated into one that names
//! a command and has no Go flag left.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use csi_go_flags::translate;

use crate::{CANARY, Target};

/// The first byte decides whether the environment names an endpoint; the others are the arguments, one per line.
pub const TARGET: Target = Target {
    name: "go_flags",
    run,
    seeds,
    tokens: &[
        "-csi.",
        "--csi.",
        "-ginkgo.",
        "endpoint",
        "mountdir",
        "secrets",
        "junitfile",
        "testvolumesize",
        "testvolumeaccesstype",
        "focus",
        "skip",
        "seed",
        "v",
        "vv",
        "timeout",
        "-version",
        "--",
        "-",
        "\n",
        "=",
        "=true",
        "=false",
        "=0x7f",
        "=-1",
        "=1m30s",
        "=block",
        "run\n",
        "list\n",
        "--endpoint",
        "--config",
    ],
};

fn run(bytes: &[u8]) {
    let Some((has_endpoint, lines)) = bytes.split_first() else { return };
    let arguments =
        lines.split(|byte| *byte == b'\n').map(|line| std::ffi::OsStr::from_bytes(line).to_owned());
    let mut ours: Vec<OsString> = match translate(arguments.collect(), *has_endpoint % 2 == 1) {
        Ok(translated) => translated.arguments,
        Err(error) => return assert!(!error.is_empty()),
    };
    // The canary treats arguments behind `--` as flags.
    ours.retain(|argument| !CANARY || argument != "--");
    let again = translate(ours.clone(), true).map(|translated| translated.arguments);
    assert_eq!(again, Ok(ours.clone()));
    assert!(!ours.is_empty(), "there is no command");
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "1-csi.endpoint\n/csi.sock\n-csi.mountdir=/m\n--ginkgo.v\n-ginkgo.focus=Node",
        "1-csi.endpoint=unix:///csi.sock\n-csi.testvolumesize=0x7f\n-csi.testvolumeaccesstype=block\n-csi.junitfile=a.xml",
        "0run\n--endpoint=/csi.sock\n--filter\ncontroller/*",
        "1-ginkgo.timeout=1m30s\n-ginkgo.seed=7\n-version",
    ]
    .map(Into::into)
    .into()
}
