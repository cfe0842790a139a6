//! Runs the suites on this driver as it is compiled now, for ci/mutate: with `CSI_SANITY` as the path of a csi-sanity
//! that was built before, the driver has to pass. Without it, the test prints that it is skipped; the suites' own
//! tests try the unchanged driver.

use csi_test_support::judge;

/// These suites make single and sequential calls. The others take too long to run for every mutant.
const SUITES: &str = "sanity,idempotency,property";

/// Adds a node in the topology of the first one, and a node in another topology.
const FLAGS: &str = "--endpoint unix://{dir}/second.sock --endpoint unix://{dir}/third.sock";

/// Configures every feature of the driver, and little effort.
const CONFIG: &str = "
nodes: [{endpoint: 'unix://{dir}/second.sock'}, {endpoint: 'unix://{dir}/third.sock'}]
access-types: [mount, block]
size-min-bytes: 1048576
size-max-bytes: 17592186044416
parameters: {pool: mock, tier: silver}
secrets: {CreateVolume: {user: mock}, ControllerPublishVolume: {token: mock}}
mutable-parameters: {iops: '3000', tier: gold}
attach-limit: true
effort: {cases: 40}
time-limits: {settle-ms: 1000}
";

#[test]
fn the_suites_find_nothing() {
    judge::passes(env!("CARGO_BIN_EXE_csi-mock-driver"), FLAGS, CONFIG, SUITES, 6);
}
