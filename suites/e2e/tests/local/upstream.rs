//! Tests of Kubernetes on the reference driver.

use std::path::Path;

use crate::stage::{FLAGS, Test, upstream_on_hostpath};

pub(crate) const TESTS: &[Test] = &[("the_suite_volumes_passes", the_suite_volumes_passes)];

fn the_suite_volumes_passes() {
    let definition =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver-definitions/hostpath-image.yaml");
    let filter = "^volumes/";
    let Some(bad) = upstream_on_hostpath(&definition, &FLAGS, filter) else { return };
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
