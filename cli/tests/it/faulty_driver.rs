//! The reference driver with a defect as a program. This test program starts itself for it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use csi_test_support::hostpath;

/// In the process that the program starts, this is the driver; in any other there is nothing to do.
#[test]
fn serves() {
    hostpath::serve_if_asked();
}

/// Puts `csi-faulty-driver` into a directory, which takes the arguments of the program of that name.
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
