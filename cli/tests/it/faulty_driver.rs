//! This test program starts itself as the reference driver with a defect.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use csi_test_support::hostpath;

/// A run starts this test in a process of its own, with variables that make it the driver. Without them, the test does nothing.
#[test]
fn serves() {
    hostpath::serve_if_asked();
}

/// Writes a script `csi-faulty-driver`, which takes the arguments of the program with that name.
pub(crate) fn put_into(directory: &Path) {
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\n{}=\"$*\" exec '{}' --exact faulty_driver::serves --nocapture\n",
        hostpath::ARGUMENTS,
        this.display()
    );
    let program = directory.join("csi-faulty-driver");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
}
