//! The suites as the judge of this driver as it is compiled now, for ci/mutate: with `CSI_SANITY` the path of a csi-sanity that was
//! built before, it has to pass. Without, nothing is tried, and that is said; the suites' own tests try the driver as it should be.

use csi_test_support::judge;

/// What a call, or some in a row, can show. The rest takes longer than a mutant is worth.
const SUITES: &str = "sanity,idempotency,property";

/// A node beside the first one, and one in another place.
const FLAGS: &str = "--endpoint unix://{dir}/second.sock --endpoint unix://{dir}/third.sock";

/// All that can be known of the driver, and little effort.
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
